"""The built book by day, by night and on paper: what can be read, and the switch between them."""

import pytest
from playwright.sync_api import expect

from tests.chapters import CHAPTERS
from tests.conftest import SETTLED

pytestmark = pytest.mark.rests_on("tools")

LEAST_CONTRAST = 4.5  # WCAG 2.2, level AA, text of normal size

# The contrast of every visible text with what is painted behind it: [ratio, text], worst first.
CONTRASTS = """(selector) => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = (top, below) => top.map((c, i) => i === 3 ? 1 : c * top[3] + below[i] * (1 - top[3]));
  const behind = (node) => node ? over(rgba(getComputedStyle(node).backgroundColor), behind(node.parentElement))
                                : [255, 255, 255, 1];
  const light = (colour) => colour.slice(0, 3).map((c) => c / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const found = [];
  for (const root of document.querySelectorAll(selector)) {
    const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const node = texts.currentNode.parentElement;
      const words = texts.currentNode.data.trim();
      if (!words || node.closest("svg, script, style, .headerlink, .copybtn") || !node.checkVisibility()) continue;
      const back = behind(node), front = over(rgba(getComputedStyle(node).color), back);
      const [a, b] = [light(front), light(back)].sort((x, y) => y - x);
      found.push([(a + 0.05) / (b + 0.05), words.slice(0, 60)]);
    }
  }
  return found.sort((x, y) => x[0] - y[0]);
}"""


@pytest.mark.parametrize("path", CHAPTERS)
def test_words_have_contrast_by_day_by_night_and_on_paper(visit, path):
    page = visit(path).page

    def assert_readable(theme: str, places: str = ".bd-article") -> None:
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        page.evaluate(SETTLED)
        texts = page.evaluate(CONTRASTS, places)
        assert len(texts) > 20
        assert [text for text in texts if text[0] < LEAST_CONTRAST] == []

    everywhere = ".bd-article, .bd-sidebar, .bd-footer-content, .prev-next-footer"
    assert_readable("light", everywhere)
    page.emulate_media(color_scheme="dark")
    assert_readable("dark", everywhere)
    page.emulate_media(color_scheme="dark", media="print")
    assert_readable("light")
    page.emulate_media(color_scheme="dark", media="screen")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_theme_switch_changes_the_theme_and_the_choice_stays(visit):
    page = visit(CHAPTERS[0]).page
    themes = []
    for _ in range(3):
        page.click(".theme-switch-button")
        themes.append(page.evaluate("document.documentElement.dataset.theme"))
    assert {"light", "dark"} <= set(themes)
    while page.evaluate("document.documentElement.dataset.theme") != "dark":
        page.click(".theme-switch-button")
    page.goto(page.url.replace(CHAPTERS[0], CHAPTERS[1]))
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_contrast_check_sees_a_bad_colour(visit):
    page = visit(CHAPTERS[0]).page
    page.add_style_tag(
        content=".bd-article p { color: #999 !important; background: #fff }"
    )
    assert page.evaluate(CONTRASTS, ".bd-article")[0][0] < LEAST_CONTRAST
