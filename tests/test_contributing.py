"""The contributing notes, done as they say, and the files by which the book is published and cited."""

import os
import re
import subprocess
import sys

import pytest
import yaml

from tests.chapters import ROOT
from tests.environments import clone

NOTES = (ROOT / "CONTRIBUTING.md").read_text()
EXAMPLES = re.findall(r"(?s)```python\n(.*?)```", NOTES)
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def run(*command, folder):
    """A command in that folder, with its `lib` and `tools`; what it printed."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The project in another folder, where a chapter can be added."""
    folder = tmp_path_factory.mktemp("copy") / "book"
    clone(folder)
    return folder


def test_a_chapter_can_be_added_as_the_notes_say(copy):
    (source,) = (code for code in EXAMPLES if "new_notebook" in code)
    (line,) = re.findall(r"add the line `(.*?)` to `_toc.yml`", NOTES)
    (copy / "add.py").write_text(source)
    run("add.py", folder=copy)
    with (copy / "_toc.yml").open("a") as contents:
        contents.write(line + "\n")
    run("-m", "tools.notebooks", "chapters/14_turning_back.ipynb", folder=copy)
    checks = ["tests/test_notebooks.py", "tests/test_prose.py"]
    options = [
        "-q",
        "-o",
        "addopts=",
        "-p",
        "no:cacheprovider",
        "-k",
        "14_ or contents",
    ]
    assert " passed" in run("-m", "pytest", *options, *checks, folder=copy)
    compared = ["-q", "--nbval", "-o", "addopts=", "chapters/14_turning_back.ipynb"]
    assert "3 passed" in run("-m", "pytest", *compared, folder=copy)


def test_every_example_is_run_by_a_test():
    # The explorer's is in test_explorer.py, the exercise's in test_exercises.py.
    kinds = [
        next(
            word for word in ("new_notebook", "Exercise(", "Explorer(") if word in code
        )
        for code in EXAMPLES
    ]
    assert sorted(kinds) == ["Exercise(", "Explorer(", "new_notebook"]


def test_the_notes_name_only_commands_and_files_that_there_are():
    targets = set(
        re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    )
    assert set(re.findall(r"`make ([a-z]+)`", NOTES)) <= targets
    files = re.findall(r"`((?:lib|tools|tests|\.github)/[\w./-]+)`", NOTES)
    assert files and all((ROOT / file).exists() for file in files)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_a_workflow_runs_make_and_pins_its_actions(path):
    workflow = yaml.safe_load(path.read_text())
    steps = [step for job in workflow["jobs"].values() for step in job["steps"]]
    for step in steps:
        if "uses" in step:
            assert re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", step["uses"])
        else:
            # Nothing is installed but what these install. The rest of `colab` is run by test_launch.
            assert re.match(r"make (book|test)$|python -m tools\.|git add", step["run"])
    assert workflow["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())


def test_the_published_folder_is_the_one_that_is_built():
    publish = yaml.safe_load((ROOT / ".github/workflows/publish.yml").read_text())
    (path,) = (
        step["with"]["path"]
        for step in publish["jobs"]["build"]["steps"]
        if "path" in step.get("with", {})
    )
    assert f"HTML   := {path}" in (ROOT / "Makefile").read_text()


def test_the_citation_is_of_this_version_and_licence():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{citation["version"]}"' in project
    assert f'license = "{" AND ".join(citation["license"])}"' in project
    assert citation["cff-version"] == "1.2.0"
    assert (
        citation["title"] == yaml.safe_load((ROOT / "_config.yml").read_text())["title"]
    )
