"""The built book, its address on this machine, and one browser: shared by every test that looks at pages."""

import functools
import http.server
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HTML = ROOT / "_build" / "html"
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


@pytest.fixture(scope="session")
def html() -> Path:
    """The folder of the built book, built by the Makefile's own recipe with the Python that runs the tests."""
    command = [
        "make",
        "--no-print-directory",
        "site",
        "READY=",
        f"BIN={Path(sys.executable).parent}",
    ]
    build = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
    assert build.returncode == 0, (
        f"the book was not built:\n{build.stdout[-3000:]}\n{build.stderr[-6000:]}"
    )
    return HTML


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@pytest.fixture(scope="session")
def address(html):
    """Where the built book is served: http://127.0.0.1:PORT/"""
    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=html)
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="session")
def browser():
    playwright = pytest.importorskip("playwright.sync_api")
    path = next(
        filter(
            None, map(shutil.which, ["chromium", "chromium-browser", "google-chrome"])
        ),
        None,
    )
    assert path, (
        "no browser found: `make test` installs one, or install Chromium or Google Chrome"
    )
    with playwright.sync_playwright() as driver:
        chromium = driver.chromium.launch(executable_path=path, args=BROWSER_OPTIONS)
        yield chromium
        chromium.close()
