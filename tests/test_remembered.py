"""What passed is left out while nothing that it rests on has changed, and only then: seen in a copy of the project."""

import os
import re
import subprocess
import sys
from typing import NamedTuple

import nbformat
import pytest

from tests.environments import clone
from tools.notebooks import METADATA

MADE = {
    "tests/test_near.py": "from lib import used\n\ndef test_near():\n    pass\n",
    "tests/test_taker.py": "from tests.test_near import test_near\n",
    "tests/test_far.py": "from tests.book import ROOT\n\ndef test_far():\n    assert ROOT\n",
    "tests/test_marked.py": """
import pytest
from tests.book import ROOT

pytestmark = pytest.mark.rests_on("docs")

def test_marked():
    assert (ROOT / "docs" / "word").read_text() != "bad"

def test_stranger():
    assert (ROOT / "README.md").read_text()

@pytest.mark.rests_on()
def test_of_all():
    pass
""",
    "docs/word": "good",
    "docs2/word": "",
    "tests/test_starts.py": "import subprocess\n\ndef test_starts():\n    pass\n",
    "tests/test_skipped.py": "import pytest\n\ndef test_skipped():\n    pytest.skip('not today')\n",
    "lib/__init__.py": "",
    "lib/used.py": "",
    "lib/not_used.py": "",
    "tests/test_book.py": """
from urllib.request import urlopen
import pytest

pytestmark = pytest.mark.rests_on("docs")

def test_asked(address):
    assert b"one" in urlopen(address + "one.html?v=1").read()

def test_given(html):
    assert html
""",
    "pages/one.html": "one",
    "pages/two.html": "two",
    "Makefile": "site:\n\tmkdir -p _build/html && cp pages/*.html _build/html/\n",
}
NEAR, FAR, MARKED, STRANGER, OF_ALL, ASKED, GIVEN = 2, 2, 1, 1, 1, 1, 1
ALL = NEAR + FAR + MARKED + STRANGER + OF_ALL + ASKED + GIVEN
CELLS = 2  # of the chapter


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A copy of the project in which a few tests and a chapter of two cells are the only ones."""
    folder = tmp_path_factory.mktemp("remembered") / "book"
    clone(folder)
    for pattern in ("tests/test_*.py", "chapters/*.ipynb", "lib/*.*"):
        for path in folder.glob(pattern):
            path.unlink()
    for name, text in MADE.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    write_chapter(folder, "import lib.used", "print(1 + 1)")
    return folder


def write_chapter(folder, *codes):
    cells = [
        nbformat.v4.new_code_cell(code, id=f"cell-{n}", execution_count=n + 1)
        for n, code in enumerate(codes)
    ]
    cells[-1].outputs = [nbformat.v4.new_output("stream", name="stdout", text="2\n")]
    notebook = nbformat.v4.new_notebook(cells=cells, metadata=METADATA)
    nbformat.write(notebook, folder / "chapters" / "small.ipynb")


class Counts(NamedTuple):
    """How many tests passed, failed and were left out; and the exit code."""

    passed: int
    failed: int
    left_out: int
    code: int


def counts(
    folder, *options, of="tests", plugin=("-p", "tests.remembered"), **variables
) -> Counts:
    """What a run of the copy's tests, or of its chapters, comes to."""
    own = {
        name: value
        for name, value in os.environ.items()
        if name not in ("CI", "BOOK_TESTS") and not name.startswith("PYTEST_")
    }
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, "-n", "0", *options, of],
        cwd=folder,
        env={**own, "PYTHONPATH": str(folder), **variables},
        capture_output=True,
        text=True,
        timeout=300,
    )

    def count(pattern):
        found = re.search(rf"([\d,]+) {pattern}", done.stdout)
        return int(found[1]) if found else 0

    numbers = (count(word) for word in ("passed", "failed", "tests were not run"))
    return Counts(*numbers, done.returncode)


@pytest.fixture
def known(copy):
    """The copy, all of which has passed that can be remembered."""
    assert counts(copy).code == 0
    return copy


@pytest.fixture
def changed():
    """Writes another text into a file until the end of the test."""
    before = {}

    def write(path, text):
        before.setdefault(path, path.read_text())
        path.write_text(text)

    yield write
    for path, text in before.items():
        path.write_text(text)


def test_what_passed_is_left_out_but_for_what_opened_other_files(known):
    assert counts(known) == (STRANGER, 0, ALL - STRANGER, 0)
    assert counts(known, "-n", "1") == (STRANGER, 0, ALL - STRANGER, 0)
    assert counts(known, "-n", "1", of="tests/test_near.py") == (0, 0, 1, 0)


def test_everything_is_run_without_being_told_to_and_in_a_ci_and_without_git(known):
    assert counts(known, plugin=()) == (ALL, 0, 0, 0)
    assert counts(known, CI="true") == (ALL, 0, 0, 0)
    (known / ".git").rename(known / ".no-git")
    try:
        assert counts(known) == (ALL, 0, 0, 0)
    finally:
        (known / ".no-git").rename(known / ".git")


def test_what_rests_on_a_file_that_has_changed_is_run_again(known, changed):
    changed(known / "lib" / "used.py", "# other")
    still = MARKED + ASKED + GIVEN
    assert counts(known) == (ALL - still, 0, still, 0)
    changed(known / "docs" / "word", "better")  # which a mark names
    again = ALL - NEAR
    assert counts(known) == (again, 0, ALL - again, 0)


def test_what_fails_is_run_until_it_passes(known, changed):
    word = known / "docs" / "word"
    changed(word, "bad")
    again = ALL - NEAR
    assert counts(known) == (again - 1, 1, ALL - again, 1)
    assert counts(known) == (STRANGER, 1, ALL - STRANGER - 1, 1)
    changed(word, "good")
    assert counts(known) == (again, 0, ALL - again, 0)


@pytest.mark.parametrize("name", ["tests/refusals.py", "pyproject.toml"])
def test_what_all_tests_share(known, changed, name):
    changed(known / name, (known / name).read_text() + "\n# other\n")
    assert counts(known) == (ALL, 0, 0, 0)


def test_a_folder_whose_name_begins_alike(known, changed):
    changed(known / "docs2" / "word", "other")
    again = FAR + STRANGER + OF_ALL
    assert counts(known) == (again, 0, ALL - again, 0)


def test_what_changes_while_the_tests_run_is_not_remembered(known, changed):
    word = known / "docs" / "word"
    changed(word, "bad")
    mends = "import pathlib\n\ndef test_mends():\n    pathlib.Path('docs/word').write_text('good')\n"
    mending = known / "tests" / "test_a.py"
    mending.write_text(mends)
    try:
        assert counts(known).failed == 0
    finally:
        mending.unlink()
    word.write_text("bad")
    assert counts(known).failed == 1


def test_a_memory_that_makes_no_sense_is_none(known, changed):
    memory = known / ".pytest_cache" / "v" / "book" / "passed"
    for stored in ("[]", '{"t": 1}', '{"t": {}}', "{bad"):
        changed(memory, stored)
        assert counts(known, of="tests/test_near.py") == (1, 0, 0, 0)


def test_a_mark_that_names_nothing_is_refused(known, changed):
    marked = known / "tests" / "test_marked.py"
    changed(marked, MADE["tests/test_marked.py"].replace("docs", "dcos", 1))
    assert counts(known).code != 0


def test_all_cells_of_a_chapter_run_when_one_has_changed_or_what_it_uses(copy, changed):
    assert counts(copy, of="chapters") == (CELLS, 0, 0, 0)
    changed(copy / "lib" / "not_used.py", "# other")
    assert counts(copy, of="chapters") == (0, 0, CELLS, 0)
    changed(copy / "lib" / "used.py", "# other")
    assert counts(copy, of="chapters") == (CELLS, 0, 0, 0)
    chapter = copy / "chapters" / "small.ipynb"
    changed(chapter, chapter.read_text().replace("1 + 1", "1 + 2"))
    for _ in range(2):
        assert counts(copy, of="chapters") == (CELLS - 1, 1, 0, 1)


def test_only_what_asked_for_a_page_that_has_changed(known, changed):
    changed(known / "pages" / "two.html", "other")
    again = FAR + STRANGER + OF_ALL + GIVEN
    assert counts(known) == (again, 0, ALL - again, 0)
    changed(known / "pages" / "one.html", "now one")
    assert counts(known) == (again + ASKED, 0, ALL - again - ASKED, 0)


def test_a_book_that_cannot_be_built_ends_it(known, changed):
    changed(known / "Makefile", "site:\n\t@echo cell 3 raised; exit 1\n")
    assert counts(known) == (0, 0, 0, 1)


def test_another_browser_runs_all_again(known, tmp_path):
    browser = tmp_path / "chromium-headless-shell"
    browser.write_text("#!/bin/sh\necho a newer one\n")
    browser.chmod(0o755)
    path = f"{tmp_path}{os.pathsep}{os.environ['PATH']}"
    assert counts(known, PATH=path) == (ALL, 0, 0, 0)


def test_a_test_from_which_another_file_takes(known, changed):
    near = known / "tests" / "test_near.py"
    changed(near, near.read_text() + "# other\n")
    again = NEAR + FAR + STRANGER + OF_ALL
    assert counts(known) == (again, 0, ALL - again, 0)
