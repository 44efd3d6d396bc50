"""Explorers on pages without a kernel: the built site and nbconvert's, moved by key, mouse, finger and link."""

import json
import re
import subprocess
import sys
from urllib.parse import parse_qs, urlsplit

import nbformat
import pytest
from playwright.sync_api import expect

from tests.chapters import ROOT, rotated_pair_notebook
from tests.conftest import DESK, PHONE
from tests.packed import unpack

pytestmark = pytest.mark.rests_on("lib", "tools")

# Where the course has an explorer: its id, and its page.
EXPLORERS = {
    "table-lookup": "chapters/01_learned_positions.html",
    "a-rotated-pair": "chapters/02_rotary.html",
    "all-pairs-as-clock-hands": "chapters/02_rotary.html",
    "score-against-offset": "chapters/02_rotary.html",
    "the-offset-test": "chapters/03_offset_test.html",
}
# A node as [name, attributes, children], whatever the order in which its attributes were written.
PLAIN = """
  const plain = (node) => node.nodeType === Node.TEXT_NODE ? node.data : [
    node.tagName,
    [...node.attributes].map((a) => `${a.name}=${a.value}`).sort(),
    [...node.childNodes].map(plain),
  ];
"""
MOVING_PARTS = f"""(figure) => {{
  {PLAIN}
  return [...figure.querySelectorAll("svg > g")].map(plain);
}}"""
AS_PARSED = f"""(figure, pieces) => {{
  {PLAIN}
  const svg = figure.querySelector("svg").cloneNode();
  svg.innerHTML = pieces.map((piece) => `<g>${{piece}}</g>`).join("");
  return [...svg.children].map(plain);
}}"""


class OnPage:
    """An explorer on an open page, and the data that it was baked with."""

    def __init__(self, page, name):
        self.page, self.figure = page, page.locator(f"figure#{name}")
        self.inputs = self.figure.locator("input")
        self.data = json.loads(self.figure.locator("script").text_content())
        self.controls = [(control, labels) for control, labels in self.data["controls"]]

    def frame(self):
        number = 0
        for index, (_, labels) in enumerate(self.controls):
            number = number * len(labels) + int(self.inputs.nth(index).input_value())
        return number

    def drawn(self):
        """The moving parts on the page; the last ones of the picture's groups."""
        self.page.evaluate("new Promise(requestAnimationFrame)")
        parts = self.figure.evaluate(MOVING_PARTS)
        return parts[1 - len(self.data["parts"]) :]

    def expected(self, frame):
        pieces = [unpack(part, frame) for part in self.data["parts"][:-1]]
        return self.figure.evaluate(AS_PARSED, pieces)

    def sentence(self):
        return self.figure.locator("figcaption").inner_text()

    def values(self):
        return self.figure.locator("output").all_inner_texts()

    def assert_shows(self, frame):
        assert self.frame() == frame
        assert self.drawn() == self.expected(frame)
        assert self.sentence() == unpack(self.data["parts"][-1], frame)
        for index, (_, labels) in enumerate(self.controls):
            slider = self.inputs.nth(index)
            label = labels[int(slider.input_value())]
            assert (
                self.values()[index] == slider.get_attribute("aria-valuetext") == label
            )

    def address(self):
        self.page.wait_for_timeout(300)  # the address follows when the hand rests
        where, _, query = urlsplit(self.page.url).fragment.partition("?")
        return where, {name: values[0] for name, values in parse_qs(query).items()}


@pytest.fixture
def explorer(visit):
    """Opens an explorer's page; at the end of the test no page must have complained, moved or not."""
    visits = []

    def open_explorer(name, **options):
        visits.append(visit(EXPLORERS[name], **options))
        return OnPage(visits[-1].page, name)

    yield open_explorer
    assert [seen.complaints for seen in visits] == [[] for _ in visits]


@pytest.mark.parametrize("name", EXPLORERS)
def test_arrow_keys_move_picture_sentence_value_and_address(explorer, name):
    seen = explorer(name)
    before = seen.drawn()
    for index, (_, labels) in enumerate(seen.controls):
        seen.inputs.nth(index).focus()
        for _ in range(min(3, len(labels) - 1)):
            seen.page.keyboard.press("ArrowRight")
    seen.assert_shows(seen.frame())
    assert seen.frame() > 0 and seen.drawn() != before
    chosen = dict(
        zip([control for control, _ in seen.controls], seen.values(), strict=True)
    )
    assert seen.address() == (name, chosen)


def test_the_numbers_are_the_right_ones(explorer):
    seen = explorer("a-rotated-pair")
    seen.inputs.nth(0).focus()
    for _ in range(7):
        seen.page.keyboard.press("ArrowRight")
    seen.inputs.nth(1).focus()
    seen.page.keyboard.press("ArrowRight")
    seen.drawn()
    assert (
        "At position 7 pair 1 has turned by 0.700 rad, 0.111 turns." in seen.sentence()
    )
    assert "0.700 rad" in seen.figure.locator("svg").text_content()


@pytest.mark.parametrize("name", EXPLORERS)
def test_home_and_end_reach_the_first_and_last_value(explorer, name):
    seen = explorer(name)
    for index in range(len(seen.controls)):
        seen.inputs.nth(index).focus()
        seen.page.keyboard.press("End")
    seen.assert_shows(len(seen.data["parts"][0]["frames"]) - 1)
    for index in range(len(seen.controls)):
        seen.inputs.nth(index).focus()
        seen.page.keyboard.press("Home")
    seen.assert_shows(0)


def test_the_mouse_drags(explorer):
    seen = explorer("a-rotated-pair")
    slider = seen.inputs.nth(0)
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    seen.page.mouse.move(box["x"] + 8, box["y"] + box["height"] / 2)
    seen.page.mouse.down()
    passed = set()
    for step in range(1, 9):
        seen.page.mouse.move(
            box["x"] + box["width"] * step / 10, box["y"] + box["height"] / 2
        )
        passed.add(int(slider.input_value()))
    seen.page.mouse.up()
    assert len(passed) == 8
    seen.assert_shows(seen.frame())


def test_a_finger_moves_it(explorer):
    seen = explorer("a-rotated-pair", width=PHONE, has_touch=True, is_mobile=True)
    slider = seen.inputs.nth(0)
    slider.scroll_into_view_if_needed()
    box = slider.bounding_box()
    seen.page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert 50 < int(slider.input_value()) < 80
    seen.assert_shows(seen.frame())


def test_a_link_reopens_the_setting(visit, explorer):
    path = EXPLORERS["score-against-offset"]
    page = visit(f"{path}#score-against-offset?shift=25&part=whole+head").page
    seen = OnPage(page, "score-against-offset")
    assert seen.values() == ["25", "whole head"]
    seen.assert_shows(seen.frame())
    assert OnPage(page, "a-rotated-pair").values() == ["0", "0"]
    box = seen.figure.bounding_box()
    assert 0 <= box["y"] + box["height"] / 2 <= 900, "the explorer is in view"


@pytest.mark.parametrize(
    "fragment",
    [
        "%",
        "%E0%A4%A",
        "a-rotated-pair?position=999&pair=x",
        "a-rotated-pair?",
        "a-rotated-pair?position=%3Cscript%3E",
    ],
)
def test_an_odd_address_is_no_error(visit, fragment):
    seen = visit(f"{EXPLORERS['a-rotated-pair']}#{fragment}")
    assert seen.complaints == []
    assert OnPage(seen.page, "a-rotated-pair").values() == ["0", "0"]


def test_play_moves_the_first_control_and_pause_stops_it(explorer):
    seen = explorer("all-pairs-as-clock-hands")
    button = seen.figure.get_by_role("button")
    button.click()
    expect(seen.inputs.nth(0)).to_have_value(re.compile(r"[5-9]|\d\d+"))
    assert button.get_attribute("aria-label") == "Pause"
    button.click()
    stopped = seen.frame()
    seen.page.wait_for_timeout(400)
    assert button.get_attribute("aria-label") == "Play"
    seen.assert_shows(stopped)


def test_play_takes_its_time_where_motion_is_unwelcome(explorer):
    seen = explorer("all-pairs-as-clock-hands", reduced_motion="reduce")
    seen.figure.get_by_role("button").click()
    seen.page.wait_for_timeout(700)
    assert seen.frame() == 1


@pytest.mark.parametrize("width", [DESK, PHONE])
@pytest.mark.parametrize("name", EXPLORERS)
def test_nothing_around_it_moves(explorer, name, width):
    seen = explorer(name, width=width)
    heights = seen.figure.evaluate(
        """async (figure) => {
          const heights = new Set([figure.offsetHeight]);
          const inputs = [...figure.querySelectorAll("input")];
          for (const input of inputs) for (let i = 0; i <= +input.max; i += 1 + Math.floor(input.max / 20)) {
            input.value = i;
            input.dispatchEvent(new Event("input"));
            await new Promise(requestAnimationFrame);
            heights.add(figure.offsetHeight);
          }
          return [...heights];
        }"""
    )
    assert len(heights) == 1


def test_its_colours_are_the_theme_s(explorer):
    colour = "(text) => getComputedStyle(text).fill"
    found = []
    for theme in ("light", "dark"):
        labels = explorer("a-rotated-pair", theme=theme).figure.locator("svg text")
        found.append(labels.get_by_text("query q").evaluate(colour))
    assert found == ["rgb(0, 104, 168)", "rgb(86, 180, 233)"]


def test_without_javascript_the_first_frame_and_its_sentence_stand(visit):
    page = visit(EXPLORERS["a-rotated-pair"], java_script_enabled=False).page
    figure = page.locator("figure#a-rotated-pair")
    assert figure.locator("svg").is_visible()
    assert figure.locator("figcaption").inner_text().startswith("At position 0 pair 0")
    assert not figure.locator("input").first.is_visible(), (
        "a slider that does nothing is not shown"
    )


def test_on_paper_the_picture_and_its_sentence_stay(explorer):
    seen = explorer("a-rotated-pair", theme="dark")
    seen.page.emulate_media(media="print")
    assert (
        seen.figure.locator("svg").is_visible()
        and seen.figure.locator("figcaption").is_visible()
    )
    assert not seen.inputs.first.is_visible()
    ink = seen.figure.locator("svg text").first.evaluate(
        "(text) => getComputedStyle(text).fill"
    )
    assert ink == "rgb(89, 101, 113)", "the light palette"


@pytest.mark.rests_on("lib", "tools", "chapters/02_rotary.ipynb")
@pytest.mark.parametrize(
    "options",
    [
        [ROOT / "chapters" / "02_rotary.ipynb"],
        [
            "explorer.ipynb",
            "--execute",
            "--NbConvertBase.display_data_priority=['text/html', 'text/plain']",
        ],
    ],
    ids=["a stored chapter", "run by nbconvert"],
)
def test_nbconvert_s_page_moves_too(visit, tmp_path, options):
    nbformat.write(rotated_pair_notebook(), tmp_path / "explorer.ipynb")
    command = [sys.executable, "-m", "nbconvert", *options, "--to", "html"]
    command += ["--output-dir", tmp_path, "--output", "page"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    page = visit("page.html", base=tmp_path.as_uri() + "/").page
    seen = OnPage(page, "a-rotated-pair")
    seen.inputs.nth(0).focus()
    seen.page.keyboard.press("ArrowRight")
    seen.assert_shows(len(seen.controls[1][1]))
