"""The project's files; the book as the tests have it built and served, and which of its files they were sent.

What fixtures and helpers share, for nothing here needs pytest.
"""

import fcntl
import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

from tools.repository import ROOT
from tools.serve import Handler, server

HTML = ROOT / "_build" / "html"

# Chromium without windows comes first: a fresh profile and its page cost a third of what they cost in the whole one.
BROWSERS = [
    *("chromium-headless-shell", "chrome-headless-shell"),
    *("chromium", "chromium-browser", "google-chrome"),
]
# The same in all the processes of a run of the tests, which begins in one of them.
THIS_RUN = os.environ.setdefault("BOOK_TESTS", str(uuid.uuid4()))
# The files of the built book that were asked for since this was last emptied, by their names, and what they held.
asked: dict[str, str] = {}


def project_files() -> list[str]:
    """The names of the files that belong to the project: those that git has or would take.

    Raises CalledProcessError where git has no repository, FileNotFoundError where there is no git.
    """
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    names = filter(None, os.fsdecode(listed).split("\0"))
    return [name for name in names if (ROOT / name).is_file()]


class BuildError(Exception):
    """The book was not built."""


def build() -> None:
    """Build the book by the Makefile's own recipe, with the Python that runs the tests.

    Tests run in several processes: the first to come builds, the others wait and find it done, or try again what
    failed. Raises BuildError with what the build said.
    """
    command = ["make", "--no-print-directory", "site", "READY="]
    command += [f"BIN={Path(sys.executable).parent}"]
    HTML.parent.mkdir(exist_ok=True)
    with (HTML.parent / ".built-for").open("a+") as built_for:
        fcntl.flock(built_for, fcntl.LOCK_EX)
        built_for.seek(0)
        if built_for.read() == THIS_RUN:
            return
        built_for.truncate(0)
        done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True)
        if done.returncode == 0:
            built_for.write(THIS_RUN)
            return
    said = f"{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    raise BuildError(f"the book was not built:\n{said}")


def digest(file: Path) -> str:
    """Of its contents; empty for a file that is not there."""
    return sha256(file.read_bytes()).hexdigest() if file.is_file() else ""


class Quiet(Handler):
    """Notes what it is asked for, and prints nothing."""

    def send_head(self):
        file = Path(self.translate_path(self.path))
        file = file / "index.html" if file.is_dir() else file
        if file.is_relative_to(HTML):
            asked[str(file.relative_to(HTML))] = digest(file)
        return super().send_head()

    def log_message(self, *_):
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a server of this folder, as `make serve` would have it: http://127.0.0.1:PORT/"""
    with server(folder, ports=[0], handler=Quiet) as book:
        often = {"poll_interval": 0.02}  # seconds until it sees that it shall end
        threading.Thread(target=book.serve_forever, kwargs=often, daemon=True).start()
        yield f"http://127.0.0.1:{book.server_port}/"
        book.shutdown()
