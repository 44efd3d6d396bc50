"""What passed is left out until something that it rests on has changed: `python -m pytest -p tests.remembered`.

Everything rests on Python, the installed packages and the browsers, on its own file and the tests' helpers. A chapter's
cells rest on what they use of lib/, too; a test on lib/ and tools/. But one whose file starts processes or knows where
the project lies rests on all of it, unless a mark names the files and folders that are enough; a mark without names
is the whole project, too:

    pytestmark = pytest.mark.rests_on("lib", "tools/serve.py")

Of the built book a test rests on those files that were asked for while it ran, and on all when it is given their
folder (`html`). A test that opens another file of the project than these is not remembered. That is seen in its own
process alone: what its mark says of the processes that it starts has to be right.

In a CI nothing is remembered, nor where git cannot say which files belong to the project.
"""

import inspect
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
from functools import cache
from hashlib import sha256
from pathlib import Path

import pytest

from tests.book import (
    BROWSERS,
    HTML,
    ROOT,
    BuildError,
    asked,
    build,
    digest,
    project_files,
)

# In pytest's own cache: {test: {"rests_on": digest, "pages": {file of the book: digest}, "places": [name]}}
KEY = "book/passed"
RESTS_ON, WAS_RUN = pytest.StashKey[str](), pytest.StashKey[bool]()
# What all tests share: their helpers, and what is read by whoever collects or runs them.
SHARED = re.compile(
    r"tests/(?!test_)\w+\.py|(?:.*/)?conftest\.py|[^/]+\.(?:toml|ini|cfg)|requirements[^/]*|_toc\.yml"
)
ALL_PAGES = "*"
WHOLE = ("",)
# What in a test's file says that it may look at any file of the project.
FAR_SIGHTED = re.compile(
    r"\b(?:subprocess|__file__|cwd|book_\w+)\b|\btests\.(?:book|chapters|conftest|environments)\b"
    r"|from tests import"
)
OTHER_TESTS = re.compile(r"^\s*from tests\.(test_\w+) import", re.M)

# The files that this process has opened since this was last emptied.
opened: set[str] = set()


def note_opened(event: str, arguments: tuple) -> None:
    if event == "open" and isinstance(arguments[0], str):
        opened.add(arguments[0])


def pytest_configure(config: pytest.Config) -> None:
    if os.environ.get("CI") or not hasattr(config, "cache"):
        return
    try:
        files = contents()
    except (FileNotFoundError, subprocess.CalledProcessError):
        return
    sys.addaudithook(note_opened)
    config.pluginmanager.register(Memory(config, files), "memory of what passed")


class Memory:
    """Leaves out what would pass again, and notes what passes."""

    def __init__(self, config: pytest.Config, files: dict[str, str]):
        self.config, self.files = config, files
        self.in_worker = hasattr(config, "workerinput")
        self.passed = well_formed(config.cache.get(KEY, {}))
        self.noted: set[str] = set()  # in this run
        self.not_passed: set[str] = set()
        self.left_out = 0
        # Thousands of tests ask for what is the same for most of a file.
        self.names, self.state = cache(self.names), cache(self.state)

    # What a test rests on

    def names(self, path: Path, places: tuple[str, ...]) -> frozenset[str]:
        """The project's files that a test in the file `path` rests on."""
        for place in places:
            if not any(is_in(name, (place,)) for name in self.files):
                raise pytest.UsageError(
                    f"rests_on in {name_of(path)}: got {place!r}, want a file or folder of the project"
                )
        named = {name for name in self.files if is_in(name, places)}
        shared = {name for name in self.files if SHARED.fullmatch(name)}
        return frozenset(named | shared | imported_tests(path) | {name_of(path)})

    def state(self, path: Path, places: tuple[str, ...]) -> str:
        """Another text when anything of that has changed, but for the pages."""
        names, used = self.names(path, places), ""
        if is_chapter(path):  # not all of lib/
            names = {name for name in names if not is_in(name, ("lib",))}
            used = used_of_lib(path)
        parts = [f"{name} {self.files.get(name)}" for name in sorted(names)]
        return sha256("\n".join([*parts, used, machine()]).encode()).hexdigest()

    def would_pass(self, item: pytest.Item) -> bool:
        known = self.passed.get(item.nodeid)
        return bool(
            known
            and known["rests_on"] == item.stash[RESTS_ON]
            and all(page(name) == was for name, was in known["pages"].items())
        )

    # In the process that runs the tests

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        for item in items:
            item.stash[RESTS_ON] = self.state(item.path, places_of(item))
        again = {item for item in items if not self.would_pass(item)}
        # A cell needs those before it.
        chapters = {item.path for item in again if is_chapter(item.path)}
        kept = [item for item in items if item in again or item.path in chapters]
        self.left_out = len(items) - len(kept)
        items[:] = kept

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> None:
        asked.clear()
        opened.clear()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo
    ) -> None:
        if call.when == "call":
            item.stash[WAS_RUN] = True
        if call.when == "teardown" and self.can_be_remembered(item):
            pages = dict(asked)
            if is_given_the_book(item):
                pages[ALL_PAGES] = page(ALL_PAGES)
            found = {"rests_on": item.stash[RESTS_ON], "pages": pages}
            found["places"] = list(places_of(item))
            item.user_properties.append((KEY, found))

    def can_be_remembered(self, item: pytest.Item) -> bool:
        was_run = item.stash.get(WAS_RUN, False)
        return was_run and name_of(item.path) in self.files and not self.strangers(item)

    def strangers(self, item: pytest.Item) -> set[str]:
        """The project's files that it opened and that nobody said it would."""
        here = str(ROOT) + os.sep
        paths = {os.path.abspath(path) for path in opened.copy()}
        names = {path.removeprefix(here) for path in paths if path.startswith(here)}
        return (names & self.files.keys()) - self.names(item.path, places_of(item))

    # In the process that began the run

    def pytest_sessionstart(self) -> None:
        """Without today's pages nobody knows which of them have changed."""
        asked_before = any(known["pages"] for known in self.passed.values())
        if asked_before and not self.in_worker:
            try:
                build()
            except BuildError as error:
                pytest.exit(str(error), 1)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.outcome != "passed":
            self.not_passed.add(report.nodeid)
        found = dict(report.user_properties).get(KEY)
        if report.nodeid in self.not_passed or report.when == "teardown":
            self.passed.pop(report.nodeid, None)
        if found and report.nodeid not in self.not_passed:
            self.passed[report.nodeid] = found
            self.noted.add(report.nodeid)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node) -> None:
        """Of xdist: every process has left out the same tests."""
        told = getattr(node, "workeroutput", {}).get(KEY, 0)
        self.left_out = max(self.left_out, told)  # one that died tells nothing

    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self.in_worker:
            self.config.workeroutput[KEY] = self.left_out
            return
        self.forget_what_changed_meanwhile()
        there = {test: found for test, found in self.passed.items() if is_there(test)}
        self.config.cache.set(KEY, there)
        if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and self.left_out:
            session.exitstatus = pytest.ExitCode.OK

    def forget_what_changed_meanwhile(self) -> None:
        """A test that began with one file and passed with another tells nothing about either."""
        now = contents()
        changed = {name for name, _ in self.files.items() ^ now.items()}
        if not changed:
            return
        self.files |= now
        for test in self.noted:
            path, places = ROOT / test.split("::")[0], self.passed[test]["places"]
            if changed & Memory.names(self, path, tuple(places)):
                del self.passed[test]

    def pytest_terminal_summary(self, terminalreporter) -> None:
        if self.left_out:
            terminalreporter.write_line(
                f"{self.left_out:,} tests were not run: they have passed, and nothing that they rest on has changed "
                "(`make test REMEMBER=` runs all)"
            )


def contents() -> dict[str, str]:
    """What each of the project's files holds now. Raises what `project_files` does."""
    return {name: digest(ROOT / name) for name in project_files()}


def well_formed(passed: object) -> dict[str, dict]:
    """What was stored, and nothing of it when somebody else has written there."""
    entries = passed.values() if isinstance(passed, dict) else [None]
    good = all(
        isinstance(entry, dict)
        and entry.keys() == {"rests_on", "pages", "places"}
        and isinstance(entry["pages"], dict)
        for entry in entries
    )
    return passed if good else {}


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def is_chapter(path: Path) -> bool:
    return path.suffix == ".ipynb"


def is_in(name: str, places: tuple[str, ...]) -> bool:
    """Is it one of these files, or in one of these folders? The empty name is the whole project's."""
    return any(
        not place or name == place or name.startswith(f"{place}/") for place in places
    )


def places_of(item: pytest.Item) -> tuple[str, ...]:
    """The files and folders of the project on which it may rest."""
    mark = item.get_closest_marker("rests_on")
    return enough_for(item.path) if mark is None else mark.args or WHOLE


def is_given_the_book(item: pytest.Item) -> bool:
    function = getattr(item, "function", None)
    return bool(function) and "html" in inspect.signature(function).parameters


def is_there(test: str) -> bool:
    return (ROOT / test.split("::")[0]).exists()


@cache
def page(name: str) -> str:
    """What a file of the built book holds, or all of them do."""
    if name != ALL_PAGES:
        return digest(HTML / name)
    files = sorted(path for path in HTML.rglob("*") if path.is_file())
    listed = "\n".join(f"{path.relative_to(HTML)} {digest(path)}" for path in files)
    return sha256(listed.encode()).hexdigest()


@cache
def enough_for(path: Path) -> tuple[str, ...]:
    """What a file without a mark rests on."""
    if is_chapter(path):
        return ("lib",)
    files = [path, *(ROOT / name for name in imported_tests(path))]
    texts = "".join(file.read_text("utf-8") for file in files)
    return WHOLE if FAR_SIGHTED.search(texts) else ("lib", "tools")


@cache
def imported_tests(path: Path) -> frozenset[str]:
    """Other files of tests from which one of them takes something."""
    found, waiting = set(), {path}
    while waiting:
        names = OTHER_TESTS.findall(waiting.pop().read_text("utf-8"))
        files = {ROOT / "tests" / f"{name}.py" for name in names}
        new = set(filter(Path.is_file, files)) - found
        found |= new
        waiting |= new
    return frozenset(map(name_of, found))


@cache
def used_of_lib(chapter: Path) -> str:
    # Not at the top: pytest knows the way to _ext/ only when it has read its settings.
    from book_fresh import code_of, library

    return library(ROOT / "lib").digest(code_of(json.loads(chapter.read_text("utf-8"))))


@cache
def machine() -> str:
    """Python, every installed package, the browsers."""
    installed = Path(sysconfig.get_path("purelib")).glob("*.dist-info")
    packages = sorted(path.name for path in installed)  # with their versions
    there = filter(None, map(shutil.which, [*BROWSERS, "node"]))
    versions = [
        subprocess.run([path, "--version"], capture_output=True, text=True).stdout
        for path in there
    ]
    python = [sys.version, str(sys.flags), platform.platform()]
    return "\n".join([*python, *packages, *versions])
