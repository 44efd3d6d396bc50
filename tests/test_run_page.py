"""A page whose cells run: what `make live` serves, in a browser, with a real kernel; and what it keeps out."""

import os
import re
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from urllib.parse import parse_qs

import psutil
import pytest
from playwright.sync_api import expect

from tests.book import Quiet
from tests.chapters import CHAPTERS, LISTED, ROOT, code_cells
from tests.conftest import PHONE, SETTLED, axe
from tools.live import JupyterError, first_page, jupyter_server, live_book

pytestmark = pytest.mark.rests_on("lib", "tools")

RUN = 60_000  # milliseconds that a cell may take on a busy machine
CHAPTER = "chapters/02_rotary.html"


@pytest.fixture(scope="module")
def book(html):
    """The live book's address, and the fragment that opens it to the browser."""
    with live_book(str(html), ports=[0], handler=Quiet) as addresses:
        yield addresses


@pytest.fixture
def live(visit, book):
    """Open a chapter of the live book and press its button."""

    def open_page(path=CHAPTER, before=lambda page: None, **options):
        base, key, _ = book
        seen = visit(path + key, base=base, also=jupyter_of(key), **options)
        before(seen.page)
        seen.page.click(".run-page")
        expect(seen.page.locator(".live-bar")).to_contain_text("ready", timeout=RUN)
        return seen

    return open_page


def jupyter_of(key: str) -> str:
    return f"http://127.0.0.1:{parse_qs(key.removeprefix('#'))['jupyter'][0]}"


def token_of(key: str) -> str:
    return parse_qs(key.removeprefix("#"))["token"][0]


def cell(page, text: str):
    """The first cell whose code now holds this text, found again when the code has changed."""
    places = page.locator("div.cell")
    held = places.evaluate_all(
        """(cells, text) => cells.findIndex(
             (cell) => cell.querySelector(".cell_input")?.textContent.includes(text))""",
        text,
    )
    assert held >= 0, text
    return places.nth(held)


def state(place, wanted: str) -> None:
    expect(place).to_have_attribute("data-state", wanted, timeout=RUN)


def run(place, code: str = "") -> None:
    """Press the cell's button, with other code in it when some is given."""
    if code:
        place.get_by_role("textbox").fill(code)
    place.get_by_role("button", name="Run cell").click()


# The reader's path


def test_a_cell_is_changed_and_run_and_shows_the_new_output(live):
    seen = live()
    page, place = seen.page, cell(seen.page, "positions = [0, 3, 50, 100]")
    place.get_by_role("textbox").click()
    page.keyboard.press("Control+End")
    page.keyboard.press("Enter")
    page.keyboard.type("for m in positions[:2]:")
    page.keyboard.press("Enter")  # indents as the line before asks
    page.keyboard.type("print('seen at', m + 40)")
    page.keyboard.press("Shift+Enter")
    state(place, "done")
    expect(place.locator(".cell_output")).to_contain_text("seen at 40\nseen at 43")
    expect(place.locator(".cell_output")).to_contain_text("holds: the angles are")
    # What it needs was run before it, what stands below it was not.
    state(cell(page, "import math"), "done")
    state(cell(page, "def turn(x, y, a)"), "new")
    assert (seen.elsewhere, seen.failed, seen.complaints) == ([], [], [])


def test_the_changed_code_gets_its_colours_back(live):
    page = live().page
    place = cell(page, "def turn(x, y, a)")
    box = place.get_by_role("textbox")
    box.fill("for i in range(3):\n    print('again', i)")
    expect(box.locator("span.k")).to_have_count(0)
    run(place)
    state(place, "done")
    expect(place.locator(".cell_output")).to_have_text(re.compile("again 2"))
    expect(box.locator("span.k").first).to_have_text("for")
    assert box.inner_text() == "for i in range(3):\n    print('again', i)"


@pytest.mark.rests_on("lib", "tools", "chapters/02_rotary.ipynb")
def test_all_cells_run_and_give_what_the_book_shows(live):
    seen = live()
    page = seen.page
    page.get_by_role("button", name="Run all").click()
    places = page.locator("div.cell")
    expect(page.locator('div.cell[data-state="done"]')).to_have_count(
        places.count(), timeout=2 * RUN
    )
    page.evaluate(
        "document.querySelectorAll('details').forEach((d) => (d.open = true))"
    )
    for i, stored in enumerate(code_cells("02_rotary")):
        for output in stored.outputs:
            if output.output_type == "stream":
                places.nth(i).scroll_into_view_if_needed()
                expect(places.nth(i)).to_contain_text(output.text.strip())
    assert (seen.elsewhere, seen.failed, seen.complaints) == ([], [], [])


def test_an_explorer_answers_from_the_kernel(live):
    page = live().page
    place = cell(page, "explorers.rotated_pair(q, k)")
    run(place)
    state(place, "done")
    handle = place.locator(".cell_output [role=slider], .cell_output .noUi-handle")
    sentence = place.locator(".cell_output p[aria-live]")
    before = sentence.inner_text()
    handle.first.press("ArrowRight")
    expect(sentence).not_to_have_text(before)
    expect(sentence).to_contain_text("At position 1 ")


def test_an_exercise_answers_from_the_kernel(live):
    seen = live("chapters/07_exercises.html")
    page = seen.page
    page.get_by_role("button", name="Run all").click()
    first = page.locator("div.exercise").first
    box = first.locator(".answers-part input").first
    expect(box).to_be_visible(timeout=2 * RUN)
    box.fill("65,536")
    first.get_by_role("button", name="Check").click()
    verdict = first.locator(".says").first
    expect(verdict).to_have_attribute("data-outcome", "right", timeout=RUN)


def test_an_error_is_shown_and_ends_the_line(live):
    page = live().page
    first, place = cell(page, "import math"), cell(page, "def turn(x, y, a)")
    first.get_by_role("textbox").fill("nothing_of_this_name")
    run(place)
    state(first, "failed")
    expect(first.locator(".cell_output")).to_contain_text("NameError")
    state(place, "new")
    expect(page.locator(".live-bar [role=status]")).to_contain_text("raised an error")


def test_an_error_that_the_chapter_expects_ends_nothing(live):
    def tagged(route):
        notebook = route.fetch().json()
        code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
        code[0]["metadata"]["tags"] = ["raises-exception"]
        route.fulfill(json=notebook)

    page = live(before=lambda page: page.route("**/_sources/**", tagged)).page
    first, below = page.locator("div.cell").nth(0), page.locator("div.cell").nth(1)
    first.get_by_role("textbox").fill("1 / 0")
    run(below, "print('still here')")
    state(below, "done")
    expect(first.locator(".cell_output")).to_contain_text("ZeroDivisionError")
    expect(below.locator(".cell_output")).to_contain_text("still here")


def test_python_is_interrupted_and_started_again(live):
    page = live().page
    place, below = cell(page, "import math"), cell(page, "def turn(x, y, a)")
    run(place, "import time\ntime.sleep(600)")
    run(below)
    state(place, "running")
    page.wait_for_timeout(500)  # an interrupt before the cell has begun is lost
    page.get_by_role("button", name="Interrupt").click()
    state(place, "failed")
    expect(place.locator(".cell_output")).to_contain_text("KeyboardInterrupt")

    run(place, "kept = 1; import time; time.sleep(600)")
    state(place, "running")
    page.get_by_role("button", name="Restart").click()
    words = page.locator(".live-bar [role=status]")
    expect(words).to_contain_text("started again", timeout=RUN)
    state(place, "new")
    run(place, "print('kept' in globals())")
    state(place, "done")
    expect(place.locator(".cell_output")).to_contain_text("False")


def test_what_is_run_while_python_starts_again_waits_for_it(live):
    page = live().page
    place = cell(page, "import math")
    place.get_by_role("textbox").fill("print('answered')")
    for button in ("Restart", "Restart", "Run cell 1"):
        page.get_by_role("button", name=button, exact=True).click()
    state(place, "done")
    expect(place.locator(".cell_output")).to_contain_text("answered")


def test_an_error_ends_all_that_waits(live):
    page = live().page
    first, place = cell(page, "import math"), cell(page, "def turn(x, y, a)")
    first.get_by_role("textbox").fill("import time; time.sleep(2); 1 / 0")
    place.get_by_role("textbox").fill("print('never')")
    run(first)
    run(place)
    state(place, "waiting")
    state(first, "failed")
    state(place, "new")
    expect(place.locator(".cell_output")).not_to_contain_text("never")


def test_an_edited_cell_is_copied_line_by_line(live):
    page = live().page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    place = cell(page, "import math")
    place.get_by_role("textbox").fill("q = 1")
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.keyboard.type("r = 2")
    place.hover()
    place.locator(".cell_input .copybtn").click()
    assert page.evaluate("navigator.clipboard.readText()") == "q = 1\nr = 2"


def test_a_server_that_goes_is_told(html, visit):
    with live_book(str(html), ports=[0], handler=Quiet) as (base, key, jupyter):
        seen = visit(CHAPTER + key, base=base, also=jupyter_of(key))
        seen.page.click(".run-page")
        words = seen.page.locator(".live-bar [role=status]")
        expect(words).to_contain_text("ready", timeout=RUN)
        jupyter.terminate()
        expect(words).to_contain_text("does not answer", timeout=RUN)
        place = cell(seen.page, "import math")
        run(place)
        state(place, "new")
        seen.page.get_by_role("button", name="Restart").click()
        expect(words).to_contain_text("does not answer", timeout=RUN)


def test_escape_closes_the_help(visit):
    page = visit(CHAPTERS[2]).page
    page.click(".run-page")
    page.get_by_role("dialog").locator("pre").click()  # the focus leaves the button
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_two_visits_do_not_share_a_kernel(live):
    for _ in range(2):
        page = live().page
        place = cell(page, "import math")
        run(place, "print('mine' in globals())\nmine = 1")
        state(place, "done")
        expect(place.locator(".cell_output")).to_contain_text("False")


def test_a_live_page_has_no_barrier_by_day_or_night(live):
    page = live("chapters/03_offset_test.html").page
    place = cell(page, "explorers.offset_test(P, d_head)")
    run(place)
    state(place, "done")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        page.evaluate(SETTLED)
        # The names of ipywidgets' own sliders are not this book's to give.
        results = axe(page, context={"exclude": [".jupyter-widgets"]})
        assert results.violations_count == 0, results.generate_report()


def test_a_live_page_fits_a_phone(live):
    page = live(width=PHONE).page
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE
    place = cell(page, "import math")
    run(place)
    state(place, "done")
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE


# Without a server


def test_without_a_server_the_button_says_how_to_start_one(visit):
    seen = visit(CHAPTERS[3])
    loaded = []
    seen.page.on("request", lambda request: loaded.append(request.url))
    seen.page.click(".run-page")
    dialog = seen.page.get_by_role("dialog", name="Run this page")
    expect(dialog).to_contain_text("make live")
    expect(dialog).not_to_contain_text("does not answer")
    assert axe(seen.page).violations_count == 0
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()
    assert [url for url in loaded if "favicon" not in url] == seen.complaints == []


def test_a_server_that_has_ended_is_found_out(visit, book):
    base, key, _ = book
    gone = re.sub(r"token=.*", "token=of-another-run", key)
    page = visit(CHAPTER + gone, base=base, also=jupyter_of(key)).page
    page.click(".run-page")
    expect(page.get_by_role("dialog")).to_contain_text("does not answer")


@pytest.mark.rests_on("lib", "tools", "chapters")
@pytest.mark.parametrize("name", LISTED)
def test_page_and_notebook_have_the_same_cells(html, name):
    shown = (html / f"{name}.html").read_text("utf-8")
    stem = name.removeprefix("chapters/")
    assert len(re.findall(r'<div class="cell[ "]', shown)) == len(code_cells(stem))


# What is kept out


@pytest.mark.parametrize(
    "made_up",
    [
        "#jupyter=1@evil.test&token=x",
        "#jupyter=evil.test/&token=x",
        "#server=http://evil.test&token=x",
        "#jupyter=&token=%22%3E",
    ],
)
def test_a_link_brings_no_server_of_its_own(visit, book, made_up):
    base, *_ = book
    seen = visit(CHAPTER + made_up, base=base)
    asked_for = []
    seen.page.on("request", lambda request: asked_for.append(request.url))
    seen.page.click(".run-page")
    expect(seen.page.get_by_role("dialog")).to_contain_text("make live")
    assert [url for url in asked_for if "favicon" not in url] == seen.elsewhere == []


def test_a_published_page_talks_to_no_server(browser, html, book):
    """A page of another host keeps no token, not even one that is right."""
    page = browser.new_page()

    def answer(route):
        path = html / route.request.url.split("/", 3)[3].split("?")[0]
        route.fulfill(path=path) if path.is_file() else route.abort()

    page.route("http://book.test/**", answer)
    page.goto("http://book.test/" + CHAPTER + book[1])
    page.click(".run-page")
    expect(page.get_by_role("dialog")).to_contain_text("make live")
    assert page.evaluate("localStorage.getItem('book:jupyter')") is None
    assert page.url == "http://book.test/" + CHAPTER
    page.close()


def asked(address: str, **headers: str):
    """The answer's status and headers."""
    with urllib.request.urlopen(
        urllib.request.Request(address, headers=headers)
    ) as answer:
        answer.read()
        return answer


def test_the_token_leaves_the_address(visit, book):
    base, key, _ = book
    page = visit(CHAPTER + key, base=base, also=jupyter_of(key)).page
    assert page.url == base + CHAPTER


def test_without_the_token_nothing_runs(book):
    jupyter = jupyter_of(book[1])
    for path in ("/api/kernels", "/api/sessions", "/api/contents"):
        with pytest.raises(urllib.error.HTTPError) as refusal:
            asked(jupyter + path)
        assert refusal.value.code == 403


def test_a_page_of_another_origin_gets_no_answer(book):
    base, key, _ = book
    address = f"{jupyter_of(key)}/api/status?token={token_of(key)}"
    named = "Access-Control-Allow-Origin"
    assert asked(address, Origin=base.rstrip("/")).headers[named] == base.rstrip("/")
    assert asked(address, Origin="http://127.0.0.1:1").headers[named] in (
        None,
        base.rstrip("/"),
    )


def test_the_server_listens_on_this_machine_alone(book):
    port = int(jupyter_of(book[1]).rsplit(":", 1)[1])
    listening = [
        c.laddr
        for c in psutil.net_connections("tcp")
        if c.status == "LISTEN" and c.laddr.port == port
    ]
    assert [address.ip for address in listening] == ["127.0.0.1"]


def test_the_token_is_in_no_command_line(book):
    token = token_of(book[1])
    lines = [
        process.info["cmdline"] or [] for process in psutil.process_iter(["cmdline"])
    ]
    assert not any(token in part for line in lines for part in line)


def test_a_server_that_cannot_start_says_why():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with (
            pytest.raises(JupyterError, match="in use"),
            jupyter_server(port, "token", "http://127.0.0.1:1"),
        ):
            pass


@pytest.mark.parametrize("reason", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_the_command_serves_until_it_is_ended(html, reason):
    command = [sys.executable, "-m", "tools.live", str(html)]
    process = subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, stderr=subprocess.STDOUT
    )
    try:
        line = process.stdout.readline()
        page, key = re.search(
            r"(http://127\.0\.0\.1:\d+/\S*)(#jupyter=\S+)", line
        ).groups()
        assert page.endswith(CHAPTERS[0]) and asked(page).status == 200
        assert (
            asked(f"{jupyter_of(key)}/api/status?token={token_of(key)}").status == 200
        )
        inside = psutil.Process(process.pid).children(recursive=True)
        assert inside
    finally:
        process.send_signal(reason)
        rest = process.communicate(timeout=60)[0]
    assert process.returncode == 0 and "Traceback" not in rest
    assert not any(child.is_running() for child in inside)


def test_the_command_wants_a_book(tmp_path):
    for folder in (tmp_path, tmp_path / "nothing"):
        result = subprocess.run(
            [sys.executable, "-m", "tools.live", str(folder)],
            cwd=ROOT,
            env=os.environ,
            capture_output=True,
            text=True,
        )
        assert result.returncode == 1 and "build the book" in result.stderr


def test_the_first_page_is_the_front_door_s(html):
    assert first_page(html) == CHAPTERS[0]
