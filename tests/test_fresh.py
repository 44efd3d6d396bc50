"""A chapter runs again when what it uses of lib/ has changed, and no other does."""

import os
import re
import subprocess
import sys

import book_fresh
import nbformat
import pytest
from book_fresh import Library

from tests.chapters import NAMES, ROOT, code_cells
from tools.notebooks import METADATA

LIB = {
    "__init__.py": "",
    "base.py": "ONE = 1",
    "middle.py": "from lib.base import ONE",
    "top.py": "def use():\n    from . import middle",
    "drawn.py": 'PARTS = [Path(__file__).with_name(f"drawn.{k}") for k in ("js", "css")]',
    "stored.py": '"""Of the data."""\nfrom .base import ONE\nPATH = "data/numbers.json"',
    "any.py": 'FILES = list(Path(__file__).parent.glob("*"))',
    "dynamic.py": "import importlib",
    "alone.py": '"""What drawn.js and the data/numbers.json are is said elsewhere."""',
    "drawn.js": "let a;",
    "drawn.css": "p {}",
    "data/numbers.json": "[1]",
    "__pycache__/base.pyc": "",
    ".draft.json": "",
}
FILES = {name for name in LIB if not name.startswith(("_", "."))} | {"__init__.py"}
BASE = {"__init__.py", "base.py"}
DATA = {"drawn.js", "drawn.css", "data/numbers.json"}


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


@pytest.fixture
def folder(tmp_path):
    return write(tmp_path / "lib", LIB)


def used(folder, code):
    library = Library(folder)
    return {path.relative_to(folder).as_posix() for path in library.used_by(code)}


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("import torch", set()),
        ("from lib.base import ONE", BASE),
        ("from lib.base import *", BASE),
        ("import lib.base as b", BASE),
        ("import torch, lib.base", BASE),
        ("from lib import base", BASE),
        ("if True:\n    from lib import (\n        base as b,\n    )", BASE),
        ("from library import base", set()),
        ("from lib.middle import ONE", {*BASE, "middle.py"}),
        ("from lib import top", {*BASE, "middle.py", "top.py"}),
        ("from lib import alone", {"__init__.py", "alone.py"}),
        ("from lib import drawn", {"__init__.py", "drawn.py", "drawn.js", "drawn.css"}),
        ("from lib.stored import PATH", {*BASE, "stored.py", "data/numbers.json"}),
        ("from lib import any", {"__init__.py", "any.py", *DATA}),
        ("open('../lib/data/numbers.json')", {"data/numbers.json"}),
        ("list(Path('../lib/data').iterdir())", DATA),
    ],
)
def test_what_code_uses_is_found(folder, code, wanted):
    assert used(folder, code) == wanted


@pytest.mark.parametrize(
    "code",
    [
        "import lib",
        "from lib import *",
        "%matplotlib inline",
        "import torch\n!python -m lib.base",
        "import importlib.util",
        "from importlib import import_module",
        "__import__('lib.base')",
        "exec('from lib import base')",
        "from . import base",
        "import os\nos.system('python -m lib.base')",
        "import os\nos.popen('python -m lib.base').read()",
        "get_ipython().run_line_magic('run', '../lib/base.py')",
        "from lib import dynamic",
    ],
)
def test_in_doubt_everything_is_used(folder, code):
    assert used(folder, code) == FILES


def test_a_file_that_no_module_names_is_used_by_every_chapter(folder):
    for reader in ("any.py", "dynamic.py"):
        (folder / reader).unlink()
    write(folder, {"data/other.json": "[]"})
    assert used(folder, "import torch") == {"data/other.json"}


def test_a_module_that_is_no_python_uses_everything(folder):
    write(folder, {"base.py": "ONE ="})
    assert used(folder, "from lib import middle") == FILES


@pytest.mark.parametrize("name", ["base.py", "middle.py"])
def test_the_digest_follows_the_content_of_what_is_used(folder, name):
    before = Library(folder).digest("from lib import middle")
    write(folder, {"alone.py": "TWO = 2"})
    assert Library(folder).digest("from lib import middle") == before
    write(folder, {name: LIB[name] + "\nTWO = 2"})
    assert Library(folder).digest("from lib import middle") != before


def test_the_digest_follows_the_installed_packages(folder, monkeypatch):
    assert re.search(r"^torch \d", book_fresh._packages(), re.MULTILINE)
    # `make test` installs it after `make book`.
    assert "pytest" not in book_fresh._packages()
    before = Library(folder).digest("import torch")
    monkeypatch.setattr(book_fresh, "_packages", lambda: "torch 99.0")
    assert Library(folder).digest("import torch") != before


# --- the course's own library and chapters --------------------------------------------------------


@pytest.fixture(scope="module")
def chapters():
    """What each chapter uses of the course's lib/, by names."""
    library = Library(ROOT / "lib")
    codes = {name: "\n".join(c.source for c in code_cells(name)) for name in NAMES}
    return {
        name: {
            path.relative_to(ROOT / "lib").as_posix() for path in library.used_by(code)
        }
        for name, code in codes.items()
    }


def users(chapters, file):
    return [name[:2] for name, files in chapters.items() if file in files]


def test_the_course_is_read_exactly(chapters):
    # A chapter or module that is in doubt would use them all.
    assert users(chapters, "decoding.py") == ["11", "13"]
    assert users(chapters, "data/rotation.json") == ["12"]
    assert users(chapters, "train.py") == ["09"]
    assert users(chapters, "rope.py") == [name[:2] for name in NAMES]
    assert {"explorer.js", "explorer.css"} <= chapters["00_opening"]
    assert "data/lengths.json" in chapters["08_sources"]


def test_what_the_extensions_use_makes_every_page_anew():
    named = set(re.findall(r"\w+/\w+\.py", (ROOT / "Makefile").read_text()))
    for path in (ROOT / "_ext").glob("*.py"):
        code = path.read_text()
        files = used(ROOT / "lib", code) if path.stem != "book_fresh" else []
        assert {f"lib/{name}" for name in files} - {"lib/__init__.py"} <= named
        tools = re.findall(r"^from tools\.(\w+) import", code, re.M)
        assert {f"tools/{name}.py" for name in tools} <= named


# --- a small book, really built -------------------------------------------------------------------

CONF = """
import sys
sys.path.insert(0, {ext!r})
extensions = ["myst_nb", "book_fresh"]
root_doc = "one"
exclude_patterns = ["_build"]
nb_execution_mode = "cache"
nb_execution_raise_on_error = True
"""
COUNT = "from pathlib import Path\nwith Path('{name}.runs').open('a') as runs:\n    runs.write('.')\n"


class Book:
    """Chapter `one` uses lib/base by way of lib/middle; chapter `two` uses lib/alone."""

    def __init__(self, folder):
        self.folder = write(
            folder,
            {
                "conf.py": CONF.format(ext=str(ROOT / "_ext")),
                "lib/__init__.py": "",
                "lib/base.py": "WORD = 'first'",
                "lib/middle.py": "from lib.base import WORD",
                "lib/alone.py": "WORD = 'lonely'",
            },
        )
        self.write_chapter("one", "from lib.middle import WORD\nprint(WORD)", "two")
        self.write_chapter("two", "from lib.alone import WORD\nprint(WORD)")

    def write_chapter(self, name, code, next_one=""):
        contents = f"# {name}\n\n```{{toctree}}\n{next_one}\n```"
        cells = [
            nbformat.v4.new_markdown_cell(contents, id="title"),
            nbformat.v4.new_code_cell(COUNT.format(name=name) + code, id="code"),
        ]
        notebook = nbformat.v4.new_notebook(cells=cells, metadata=METADATA)
        nbformat.write(notebook, self.folder / f"{name}.ipynb")

    def build(self):
        """The build's exit code, and how often each chapter ran in it."""
        command = [
            sys.executable,
            "-m",
            "sphinx",
            "-q",
            "-b",
            "html",
            ".",
            "_build/html",
        ]
        before = self.runs()
        done = subprocess.run(
            command,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=300,
        )
        ran = [after - was for was, after in zip(before, self.runs(), strict=True)]
        return done.returncode, *ran

    def runs(self):
        counts = [self.folder / f"{name}.runs" for name in ("one", "two")]
        return [len(path.read_text()) if path.exists() else 0 for path in counts]

    def page(self, name):
        return self.page_file(name).read_text()

    def when_written(self, name):
        return self.page_file(name).stat().st_mtime_ns

    def page_file(self, name):
        return self.folder / "_build" / "html" / f"{name}.html"


@pytest.mark.rests_on("_ext", "tools")
def test_a_chapter_runs_when_what_it_uses_has_changed_and_until_it_succeeds(tmp_path):
    book = Book(tmp_path)
    assert book.build() == (0, 1, 1)
    written = book.when_written("one")
    assert book.build() == (0, 0, 0)
    assert book.when_written("one") == written  # its page was not even read again

    write(tmp_path, {"lib/base.py": "WORD = 'second'"})
    assert book.build() == (0, 1, 0)
    assert "second" in book.page("one") and "first" not in book.page("one")

    # What was once run is kept, and not only until the next change.
    write(tmp_path, {"lib/base.py": "WORD = 'first'"})
    assert book.build() == (0, 0, 0)
    assert "first" in book.page("one") and "second" not in book.page("one")

    # What failed is not taken for done.
    write(tmp_path, {"lib/alone.py": "WORD = 1 / 0"})
    assert [book.build() for _ in range(2)] == [(2, 0, 1)] * 2
    write(tmp_path, {"lib/alone.py": "WORD = 'mended'"})
    assert book.build() == (0, 0, 1)
    assert "mended" in book.page("two")

    book.write_chapter("two", "print('not of lib')")
    assert book.build() == (0, 0, 1)
