"""The built book, as a reader's browser meets it: alone, on a phone or a desk, by day and by night."""

import re
import shutil
import sys
from functools import cache
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from bs4 import BeautifulSoup
from playwright.sync_api import expect

from tests.book import served
from tests.chapters import CHAPTERS, PAGES, ROOT
from tests.conftest import DESK, PHONE
from tools.content_policy import policy
from tools.repository import repository

pytestmark = pytest.mark.rests_on("tools")

MOST_SHIFT = 0.01
MOST_BYTES = 400_000  # of a first visit, compressed, with theme, fonts and formulas


@cache
def soup(file: Path) -> BeautifulSoup:
    return BeautifulSoup(file.read_text(encoding="utf-8"), "html.parser")


def visible_text(page: BeautifulSoup) -> str:
    """The article's words, without code: what a reader must never see as raw markup."""
    article = BeautifulSoup(str(page.article), "html.parser")
    for hidden in article.select("pre, code, script, style, annotation"):
        hidden.decompose()
    return article.get_text(" ")


def is_remote(address: str) -> bool:
    return urlsplit(address).scheme not in ("", "data") or address.startswith("//")


# In the browser


@pytest.mark.parametrize("width", [DESK, PHONE])
@pytest.mark.parametrize("path", PAGES)
def test_page_loads_alone_lightly_and_stays_where_it_is(visit, path, width):
    seen = visit(path, width, until_quiet=True)
    assert (seen.elsewhere, seen.failed, seen.complaints) == ([], [], [])
    assert 0 < sum(seen.weights) < MOST_BYTES
    assert seen.page.evaluate("window.shift") <= MOST_SHIFT
    assert seen.page.evaluate("document.documentElement.scrollWidth") <= width


PAINTED = """new Promise((painted) => new PerformanceObserver((list) => list
    .getEntriesByName("first-contentful-paint").forEach(painted)).observe({ type: "paint", buffered: true }))"""


@pytest.mark.parametrize("path", PAGES)
def test_the_page_is_drawn_without_waiting_for_scripts(browser, address, path):
    page = browser.new_page()
    page.route(re.compile(r"\.js\b"), lambda route: None)  # no answer, ever
    page.goto(address + path, wait_until="commit")
    page.evaluate(PAINTED)
    page.locator(".bd-footer-content").wait_for()  # the page's last words
    assert page.locator(":is(article, .bd-search-container) h1").inner_text()
    page.close()


@pytest.mark.parametrize("path", PAGES)
def test_the_page_can_be_read_without_any_script(visit, path):
    page = visit(path, java_script_enabled=False).page
    assert page.locator(":is(article, .bd-search-container) h1").is_visible()


def test_the_policy_allows_the_pages_own_scripts_and_no_other(visit, html):
    sent = dict(part.split(" ", 1) for part in policy(html).split("; ") if " " in part)
    assert "unsafe" not in sent["script-src"] and "'self'" in sent["script-src"]
    assert sent["default-src"] == "'none'"
    assert not re.search(r"https?:|\*", policy(html))
    seen = visit(CHAPTERS[1])
    seen.page.evaluate(
        """() => { const script = document.createElement("script");
                   script.textContent = "window.stranger = true"; document.body.append(script); }"""
    )
    assert seen.page.evaluate("window.stranger") is None
    assert any("Content Security Policy" in text for text in seen.complaints)


@pytest.mark.parametrize("path", CHAPTERS)
def test_no_script_stands_in_an_attribute(html, path):
    handlers = [
        (tag.name, name)
        for tag in soup(html / path).find_all(True)
        for name in tag.attrs
        if name.startswith("on")
    ]
    assert handlers == []


def test_the_book_works_in_a_folder_of_a_host(browser, visit, html, tmp_path):
    shutil.copytree(html, tmp_path / "courses" / "rope")
    with served(tmp_path) as host:
        seen = visit(f"courses/rope/{CHAPTERS[2]}", base=host, until_quiet=True)
        assert (seen.elsewhere, seen.failed, seen.complaints) == ([], [], [])
        page = seen.page
        sentence = page.locator("figure figcaption").first
        before = sentence.inner_text()
        page.locator("input[type=range]").first.press("ArrowRight")
        expect(sentence).not_to_have_text(before)
        page.click(".right-next")
        page.wait_for_url(f"{host}courses/rope/{CHAPTERS[3]}")
        page.goto(f"{host}courses/rope/")
        page.wait_for_url(f"{host}courses/rope/{CHAPTERS[0]}")


@pytest.mark.parametrize("word", ["rotary", "broadcasting"])
def test_search_finds_a_word_and_the_result_opens(visit, word):
    page = visit(CHAPTERS[0]).page
    page.keyboard.press("Control+k")
    page.keyboard.type(word)
    page.keyboard.press("Enter")
    result = page.locator("#search-results li a").first
    title = result.inner_text()
    result.click()
    page.wait_for_url("**/chapters/*.html*")
    assert title in page.title() or title in page.inner_text("article")
    assert word in page.inner_text("article").lower()


def test_copy_button_and_page_contents_work(visit):
    page = visit(CHAPTERS[1]).page
    assert page.locator("div.cell_input button.copybtn").count() > 0
    page.locator(".bd-toc-nav a").last.click()
    expect(page.locator(".bd-toc-nav a.active")).not_to_have_count(0)


def test_formulas_are_set_in_the_book_s_own_font(visit):
    page = visit(CHAPTERS[2]).page
    assert page.evaluate(
        """getComputedStyle(document.querySelector("math")).fontFamily"""
    ).startswith('"Book Math"')
    assert page.evaluate("""document.fonts.check('1em "Book Math"')""")


def test_page_opened_from_the_disk_is_whole(visit, html):
    seen = visit(CHAPTERS[2], base=html.as_uri() + "/", until_quiet=True)
    assert (seen.elsewhere, seen.failed, seen.complaints) == ([], [], [])
    assert seen.page.evaluate("""document.fonts.check('1em "Book Math"')""")
    seen.page.click(".theme-switch-button")
    assert seen.page.evaluate("document.documentElement.dataset.theme") == "dark"
    seen.page.click(".right-next")
    seen.page.wait_for_url(f"**/{CHAPTERS[3]}")


# In the files


@pytest.mark.parametrize("path", PAGES)
def test_page_names_and_describes_itself(html, path):
    head = soup(html / path).head
    title = head.title.get_text()
    assert title.endswith("Where a Token Stands") or title.startswith(
        "Where a Token Stands"
    )
    for name in ("description", "og:title", "og:description", "og:type"):
        tag = head.find("meta", attrs={"name": name}) or head.find(
            "meta", attrs={"property": name}
        )
        assert tag["content"].strip(), name
    assert (html / path).parent.joinpath(head.find("link", rel="icon")["href"]).exists()


def test_descriptions_differ(html):
    found = [
        soup(html / path).find("meta", attrs={"name": "description"})["content"]
        for path in CHAPTERS
    ]
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("path", PAGES)
def test_page_embeds_nothing_remote(html, path):
    embedded = soup(html / path).select(
        "link[rel=stylesheet], link[rel=preload], script[src], img[src], iframe[src]"
    )
    addresses = [tag.get("href") or tag.get("src") for tag in embedded]
    assert addresses
    assert [address for address in addresses if is_remote(address)] == []


@pytest.mark.parametrize("path", CHAPTERS)
def test_pictures_have_words(html, path):
    page = soup(html / path)
    assert [
        str(image)[:200]
        for image in page.select("img")
        if not (image.get("alt") or "").strip()
    ] == []
    for drawing in page.select('svg[role="img"]'):
        labels = [
            page.find(id=name) for name in drawing.get("aria-labelledby", "").split()
        ]
        words = drawing.get("aria-label") or " ".join(
            label.get_text() for label in labels if label
        )
        words = words or (drawing.title.get_text() if drawing.title else "")
        assert words.strip(), str(drawing)[:200]


@pytest.mark.parametrize("path", CHAPTERS)
def test_no_markup_is_left_for_the_reader_to_parse(html, path):
    text = visible_text(soup(html / path))
    raw = r"\$\$|\\\(|\\\[|\\(?:frac|theta|begin|mathbb)\b|(?<!\w)\$[^\s\d$]|\{(?:math|cite|ref|numref|eq|doc)[}:]|:::"
    assert re.findall(rf".{{0,30}}(?:{raw}).{{0,30}}", text) == []


def test_formulas_are_mathml(html):
    pages = [soup(html / path) for path in CHAPTERS]
    assert sum(len(page.select("math")) for page in pages) > 20
    assert [
        str(box)[:200]
        for page in pages
        for box in page.select(".math")
        if not box.find("math")
    ] == []


def test_every_link_inside_the_book_leads_somewhere(html):
    dead = []
    for path in PAGES:
        for link in soup(html / path).select("a[href]"):
            parts = urlsplit(link["href"])
            if parts.scheme or parts.netloc:
                continue
            target = (
                (html / path).parent / unquote(parts.path)
                if parts.path
                else html / path
            )
            fragment = unquote(parts.fragment)
            if not target.is_file() or (
                fragment
                and target.suffix == ".html"
                and not soup(target.resolve()).find(id=fragment)
            ):
                dead.append(f"{path}: {link['href']}")
    assert dead == []


def test_the_style_sheet_finds_what_it_names(html):
    (link,) = soup(html / PAGES[0]).select("link[rel=stylesheet]")
    sheet = (html / PAGES[0]).parent / urlsplit(link["href"]).path
    named = re.findall(r"url\(['\"]?([^)'\"]+)", sheet.read_text("utf-8"))
    files = [name for name in named if not is_remote(name) and name[:5] != "data:"]
    assert files and all((sheet.parent / name).is_file() for name in files)
    assert not any(is_remote(name) for name in named)


def test_front_door_leads_to_the_first_chapter(html):
    door = soup(html / "index.html")
    assert door.title and door.find("a")["href"] == CHAPTERS[0]


def test_no_page_names_a_folder_of_the_machine_that_built_it(html):
    folder = rf"(?:{re.escape(str(ROOT))}|{re.escape(sys.prefix)}|/root|/home|/tmp|/Users|site-packages)/\S{{0,40}}"
    named = [
        f"{file.name}: {match}"
        for file in [*html.rglob("*.html"), html / "searchindex.js"]
        for match in re.findall(folder, file.read_text("utf-8"))
    ]
    assert named == []


def test_pages_offer_to_run_elsewhere_when_the_repository_has_an_address(html):
    pages = "".join((html / path).read_text("utf-8") for path in CHAPTERS)
    known = repository()
    assert ("mybinder.org/v2" in pages) == bool(known)
    assert ("run-elsewhere" in pages) == bool(known)
