"""Binder, Colab and JupyterHub: when their links appear, where they lead, and that the chapters run there."""

import json
import os
import re
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path

import nbformat
import pytest
import yaml
from book_launch import launch_links

from tests.chapters import NAMES, PATHS, ROOT, code_cells
from tests.environments import (
    PROJECT,
    WITHOUT_NETWORK,
    clone,
    environment,
    run_in,
)
from tools import colab
from tools.repository import Repository, repository, web_address
from tools.requirements import listed

GITHUB = {"GITHUB_REPOSITORY": "teacher/book", "GITHUB_REF_NAME": "main"}
GITLAB = {
    "CI_PROJECT_URL": "https://gitlab.com/teacher/book",
    "CI_DEFAULT_BRANCH": "main",
}


# Where the source is


@pytest.mark.parametrize(
    ("remote", "address"),
    [
        ("https://github.com/teacher/book.git", "https://github.com/teacher/book"),
        ("https://github.com/teacher/book/", "https://github.com/teacher/book"),
        ("git@github.com:teacher/book.git", "https://github.com/teacher/book"),
        ("git@github.com:/teacher/book.git", "https://github.com/teacher/book"),
        (
            "ssh://git@ssh.github.com:443/teacher/book",
            "https://github.com/teacher/book",
        ),
        ("https://GitHub.com/teacher/book", "https://github.com/teacher/book"),
        ("https://192.168.0.7/teacher/book", ""),
        ("https://github.com/book", ""),
        ("ssh://git@codeberg.org:22/teacher/book", "https://codeberg.org/teacher/book"),
        ("https://me:secret@gitlab.com/a/b/book.git", "https://gitlab.com/a/b/book"),
        ("/srv/git/book.git", ""),
        ("../book", ""),
        ("file:///srv/git/book", ""),
        ("http://127.0.0.1:3000/teacher/book", ""),
        ("ssh://git@localhost/teacher/book", ""),
        ("", ""),
    ],
)
def test_a_remote_becomes_an_address_for_a_browser(remote, address):
    assert web_address(remote) == address


@pytest.mark.parametrize(
    ("variables", "found"),
    [
        (GITHUB, ("https://github.com/teacher/book", "main")),
        (
            {**GITHUB, "GITHUB_HEAD_REF": "mend", "GITHUB_REF_NAME": "7/merge"},
            ("https://github.com/teacher/book", "mend"),
        ),
        (
            {**GITHUB, "GITHUB_SERVER_URL": "https://git.school.edu"},
            ("https://git.school.edu/teacher/book", "main"),
        ),
        (
            {**GITHUB, "GITHUB_SERVER_URL": "", "GITHUB_HEAD_REF": ""},
            ("https://github.com/teacher/book", "main"),
        ),
        (GITLAB, ("https://gitlab.com/teacher/book", "main")),
        (
            {**GITLAB, "CI_COMMIT_BRANCH": "lectures"},
            ("https://gitlab.com/teacher/book", "lectures"),
        ),
        (
            {**GITLAB, "CI_MERGE_REQUEST_SOURCE_BRANCH_NAME": "mend"},
            ("https://gitlab.com/teacher/book", "mend"),
        ),
    ],
)
def test_the_ci_names_the_repository(variables, found):
    assert repository(variables) == Repository(*found)


def git(folder, *arguments):
    subprocess.run(["git", *arguments], cwd=folder, check=True)


@pytest.mark.parametrize("missing", [*GITHUB, *GITLAB])
def test_half_of_a_ci_is_none(tmp_path, missing):
    """Codespaces names the repository and no ref."""
    for variables in (GITHUB, GITLAB):
        if missing in variables:
            assert repository({**variables, missing: ""}, tmp_path) is None


def test_git_names_the_repository(tmp_path, monkeypatch):
    assert repository({}, tmp_path) is None
    git(tmp_path, "init", "-q", "-b", "lectures")
    assert repository({}, tmp_path) is None
    git(tmp_path, "remote", "add", "origin", "git@github.com:teacher/book.git")
    expected = Repository("https://github.com/teacher/book", "lectures")
    assert repository({}, tmp_path) == expected
    author = ["-c", "user.name=a", "-c", "user.email=a@localhost"]
    git(tmp_path, *author, "commit", "-qm", "first", "--allow-empty")
    git(tmp_path, "checkout", "-q", "--detach")
    assert repository({}, tmp_path).branch == "HEAD"
    git(tmp_path, "remote", "set-url", "origin", "/srv/book")
    assert repository({}, tmp_path) is None
    monkeypatch.setenv("PATH", "")  # no git
    assert repository({}, tmp_path) is None


# The links


@pytest.fixture(scope="module")
def launched(tmp_path_factory):
    """The dialog of chapter 2 in books built with other environments, without running their chapters."""
    folder = tmp_path_factory.mktemp("launched") / "book"
    clone(folder)
    for path in folder.glob("chapters/*.ipynb"):
        if path.stem not in ("00_opening", "02_rotary"):
            path.unlink()
    (folder / "_toc.yml").write_text(
        "format: jb-book\nroot: chapters/00_opening\nchapters:\n"
        "  - file: chapters/02_rotary\n"
    )
    settings = (folder / "_config.yml").read_text()
    settings = settings.replace("execute_notebooks: cache", "execute_notebooks: 'off'")
    (folder / "_config.yml").write_text(settings)

    def build(**variables: str) -> str:
        inherited = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("GITHUB_", "CI_", "JUPYTERHUB_"))
        }
        command = [Path(sys.executable).with_name("jupyter-book"), "build", ".", "-q"]
        done = subprocess.run(
            command,
            cwd=folder,
            env={**inherited, **variables},
            capture_output=True,
            text=True,
        )
        page = folder / "_build" / "html" / "chapters" / "02_rotary.html"
        assert page.exists(), done.stderr[-3000:]
        return re.search(r"(?s)<dialog.*?</dialog>", page.read_text())[0]

    return build


def links(dialog: str) -> dict[str, str]:
    found = re.findall(r'<a href="(.*?)">(.*?)</a>', dialog)
    return {name: address.replace("&amp;", "&") for address, name in found}


def test_the_links_follow_the_repository(launched):
    on_github = launched(**GITHUB, JUPYTERHUB_URL="https://hub.school.edu")
    assert "git clone https://github.com/teacher/book</code>" in on_github
    assert links(on_github) == {
        "Binder": "https://mybinder.org/v2/gh/teacher/book/main"
        "?urlpath=lab/tree/chapters/02_rotary.ipynb",
        "Colab": "https://colab.research.google.com/github/teacher/book/blob/colab"
        "/chapters/02_rotary.ipynb",
        "JupyterHub": "https://hub.school.edu/hub/user-redirect/git-pull"
        "?repo=https%3A//github.com/teacher/book&branch=main"
        "&urlpath=lab/tree/book/chapters/02_rotary.ipynb",
    }
    elsewhere = launched(**{**GITHUB, "GITHUB_SERVER_URL": "https://git.school.edu"})
    assert set(links(elsewhere)) == {"Binder"}
    assert links(launched()) == {}  # and the pages of the book before keep none


@pytest.mark.parametrize(
    ("address", "binder"),
    [
        ("https://github.com/teacher/book", "gh/teacher/book"),
        ("https://gitlab.com/school/a/book", "gl/school%2Fa%2Fbook"),
        (
            "https://git.school.edu/a/book",
            "git/https%3A%2F%2Fgit.school.edu%2Fa%2Fbook",
        ),
    ],
)
def test_binder_knows_every_host(address, binder):
    found = dict(launch_links(Repository(address, "feature/x#1"), "", "chapters/a"))
    assert found["Binder"] == (
        f"https://mybinder.org/v2/{binder}/feature%2Fx%231"
        "?urlpath=lab/tree/chapters/a.ipynb"
    )
    assert ("Colab" in found) == ("github.com" in address)


def test_a_branch_brings_no_markup():
    source = Repository("https://github.com/a/b", '"><script>&%41')
    found = launch_links(source, "https://hub.school.edu/", "chapters/a")
    assert len(found) == 3
    assert not re.search(r"[<>\"]|%41", "".join(address for _, address in found))


# That the chapters run there


def test_the_book_runs_in_an_environment_of_its_requirements_alone(tmp_path):
    """What Binder and a hub's image hold: a clone, and requirements.txt with the project in editable mode."""
    book = tmp_path / "book"
    clone(book)
    needed = listed(book / "requirements.txt") + requires(PROJECT)
    python = environment(tmp_path / "env", needed)
    (site,) = (tmp_path / "env").glob("lib/python*/site-packages")
    (site / "project.pth").write_text(str(book))
    absent = "import importlib.util as u; print(u.find_spec('pytest'), u.find_spec('nbval'))"  # fmt: skip
    told = subprocess.run([python, "-c", absent], capture_output=True, text=True)
    assert told.stdout == "None None\n"
    for name in ("01_learned_positions", "12_precision"):
        notebook = run_in(python, book / "chapters" / f"{name}.ipynb")
        assert printed(notebook.cells) == printed(nbformat.from_dict(code_cells(name)))


def test_a_chapter_runs_in_a_folder_of_its_own_as_in_colab(tmp_path):
    repository_folder, alone = tmp_path / "repository", tmp_path / "alone"
    commit = clone(repository_folder)
    colab.write_notebooks(tmp_path / "out", f"file://{repository_folder}", commit)
    alone.mkdir()
    name = "02_rotary"
    lonely = alone / f"{name}.ipynb"
    lonely.write_bytes((tmp_path / "out" / "chapters" / lonely.name).read_bytes())
    here = ["ipykernel", "pip", "hatchling"]  # what Colab has, with the packages below
    python = environment(tmp_path / "env", [*here, *requires(PROJECT)])
    notebook = run_in(python, lonely, **WITHOUT_NETWORK)
    assert notebook.cells[0].source.startswith("# Colab has this notebook alone.")
    assert printed(notebook.cells[1:]) == printed(code_cells(name))


def printed(cells) -> list[str]:
    """What the cells printed, cell by cell."""
    texts = [
        "".join(
            output.text
            for output in cell.get("outputs", [])
            if output.output_type == "stream"
        )
        for cell in cells
    ]
    return list(filter(None, texts))


def test_every_chapter_has_a_notebook_for_colab_that_names_the_commit(tmp_path):
    colab.write_notebooks(tmp_path, "https://github.com/teacher/book", "0123abc")
    written = sorted((tmp_path / "chapters").glob("*.ipynb"))
    assert [path.name for path in written] == [path.name for path in PATHS]
    for path, stored in zip(written, PATHS, strict=True):
        notebook = json.loads(path.read_text())
        nbformat.validate(notebook)
        first, *rest = notebook["cells"]
        assert "git+https://github.com/teacher/book@0123abc" in first["source"]
        assert rest == json.loads(stored.read_text())["cells"]


def test_the_workflow_puts_them_on_the_branch_that_the_links_name(tmp_path):
    book, host = tmp_path / "book", tmp_path / "host.git"
    clone(book)
    git(tmp_path, "init", "-q", "--bare", str(host))
    git(book, "remote", "add", "origin", str(host))
    workflow = yaml.safe_load((book / ".github/workflows/publish.yml").read_text())
    make, push = (s["run"] for s in workflow["jobs"]["colab"]["steps"] if "run" in s)
    for script in (make.replace("python", sys.executable, 1), push):
        subprocess.run(
            ["bash", "-ec", script],
            cwd=book,
            env={**os.environ, **GITHUB},
            check=True,
            capture_output=True,
        )
    listed = ["git", "ls-tree", "-r", "--name-only", "colab"]
    done = subprocess.run(listed, cwd=host, check=True, capture_output=True, text=True)
    assert done.stdout.split() == [f"chapters/{name}.ipynb" for name in NAMES]
    status = ["git", "status", "--porcelain", "--untracked-files=no"]
    assert subprocess.run(status, cwd=book, capture_output=True).returncode == 0


def test_the_package_names_all_that_lib_imports():
    named = {re.split(r"[^\w-]", text)[0].lower() for text in requires(PROJECT)}
    modules = {"IPython": "ipython", "markdown_it": "markdown-it-py"}
    modules |= {"mdit_py_plugins": "mdit-py-plugins", "math_core": "math-core"}
    line = re.compile(r"^\s*(?:from|import) (\w+)[\w.]*(?: import|$| as|,)", re.M)
    sources = [path.read_text() for path in (ROOT / "lib").glob("*.py")]
    imported = {name for source in sources for name in line.findall(source)}
    foreign = imported - set(sys.stdlib_module_names) - {"lib"}
    assert {modules.get(name, name) for name in foreign} == named
