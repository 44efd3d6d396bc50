"""Fixtures that tests share: the built book, its address, one browser; Meta's own code. And the order of the tests."""

import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.book import BROWSERS, HTML, build, served

DESK, PHONE = 1280, 390  # widths of a screen, in CSS pixels
# What a browser needs to start as root in a container, and to ask nobody for anything by itself.
BROWSER_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


# Files that take long come first, so that no process is left with one at the end; while the first
# of them waits for the book to be built, those after it need no book.
LONG = [
    *("test_site", "test_tools", "test_mutations", "test_fresh", "test_train"),
    *("test_code_check", "test_contributing", "test_launch", "09_lab"),
    *("test_run_page", "test_exercise_page", "test_accessibility"),
    *("test_explorer_page", "test_themes", "test_lab"),
    "test_lighthouse",  # beside files that need no browser: a busy machine slows the pages that it measures
]


def pytest_xdist_auto_num_workers() -> int:
    """A process for each core, at most four: more would run tests that wait for each other's browser."""
    return min(os.cpu_count() or 1, 4)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    place = {name: number for number, name in enumerate(LONG)}
    items.sort(key=lambda item: place.get(item.path.stem, len(LONG)))


@pytest.fixture(scope="session")
def html() -> Path:
    """The folder of the built book."""
    build()
    return HTML


@pytest.fixture(scope="session")
def address(html):
    """Where the built book is served."""
    with served(html) as where:
        yield where


def browser_path() -> str:
    """Where this machine's Chromium or Chrome is."""
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    assert path, (
        "no browser found: `make test` installs one, or install Chromium or Google Chrome"
    )
    return path


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(
            executable_path=browser_path(), args=BROWSER_OPTIONS
        )
        yield chromium
        chromium.close()


COUNT_SHIFTS = """
    window.shift = 0;
    new PerformanceObserver((list) => { for (const entry of list.getEntries()) window.shift += entry.value; })
      .observe({ type: "layout-shift", buffered: true });
"""


@dataclass
class Visit:
    """An open page and everything that went wrong on it."""

    page: object
    elsewhere: list = field(default_factory=list)  # requests to any other host
    failed: list = field(default_factory=list)  # requests without a good answer
    weights: list = field(default_factory=list)  # bytes of each answer, as it was sent
    complaints: list = field(
        default_factory=list
    )  # console errors and warnings, uncaught exceptions

    def note(self, answer) -> None:
        if answer.status >= 400:
            self.failed.append(f"{answer.status} {answer.url}")
        self.weights.append(int(answer.headers.get("content-length", 0)))


@pytest.fixture
def visit(browser, address):
    """Open a page in a fresh browser profile that can reach the book's own server and nothing else.

    It is loaded, with its fonts; `until_quiet` waits for half a second without a request, too.
    """
    profiles = []

    def open_page(
        path: str,
        width: int = DESK,
        theme: str = "light",
        base: str = address,
        also: str = "data:",  # another server that the page may ask
        until_quiet: bool = False,
        **options,
    ) -> Visit:
        profile = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=theme, **options
        )
        profiles.append(profile)
        profile.add_init_script(COUNT_SHIFTS)
        seen = Visit(profile.new_page())

        def only_here(route):
            if route.request.url.startswith((base, also, "data:", "blob:")):
                return route.continue_()
            seen.elsewhere.append(route.request.url)
            return route.abort()

        profile.route("**/*", only_here)
        seen.page.on("requestfailed", lambda request: seen.failed.append(request.url))
        seen.page.on("response", seen.note)
        seen.page.on("pageerror", lambda error: seen.complaints.append(str(error)))
        seen.page.on(
            "console",
            lambda m: m.type in ("error", "warning") and seen.complaints.append(m.text),
        )
        seen.page.goto(base + path)
        if until_quiet:
            seen.page.wait_for_load_state("networkidle")
        elif options.get("java_script_enabled", True):
            seen.page.evaluate("document.fonts.ready.then(() => true)")
        return seen

    yield open_page
    for profile in profiles:
        profile.close()


# When the theme changes, a button goes from one colour to the other by and by; so appears what is unfolded.
SETTLED = (
    "Promise.all(document.getAnimations().map((one) => one.finished)).then(() => true)"
)


def axe(page, context=None, **options):
    """What axe finds on a page. What passes is counted and not described, which halves the time."""
    # Not at the top: tests without a browser need none of it.
    from axe_playwright_python.sync_playwright import Axe

    return Axe().run(
        page, context=context, options={"resultTypes": ["violations"], **options}
    )


def only(*rules: str) -> dict:
    """The option with which axe looks for faults of these kinds alone."""
    return {"runOnly": {"type": "rule", "values": rules}}


@pytest.fixture(scope="session")
def meta():
    """Meta's own llama_models.llama3.model."""
    # Not at the top: tests that only look at pages need none of it.
    from tools.benchmark_rotation import meta_model

    return meta_model()
