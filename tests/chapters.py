"""The chapters as the tests see them."""

import subprocess
import sys
from pathlib import Path

import nbformat
import yaml

from tests.book import ROOT
from tools.notebooks import METADATA

PATHS = sorted((ROOT / "chapters").glob("*.ipynb"))
NAMES = [path.stem for path in PATHS]

TOC = yaml.safe_load((ROOT / "_toc.yml").read_text())
LISTED = [TOC["root"], *(entry["file"] for entry in TOC["chapters"])]
CHAPTERS = [f"{name}.html" for name in LISTED]  # pages of the built site
PAGES = [*CHAPTERS, "search.html"]


def read(name: str) -> nbformat.NotebookNode:
    return nbformat.read(ROOT / "chapters" / f"{name}.ipynb", as_version=4)


def code_cells(name: str) -> list[nbformat.NotebookNode]:
    return [cell for cell in read(name).cells if cell.cell_type == "code"]


def prose(name: str) -> list[str]:
    """The markdown cells' text."""
    return [cell.source for cell in read(name).cells if cell.cell_type == "markdown"]


def texts(cell: nbformat.NotebookNode) -> list[str]:
    """What a code cell printed or displayed as text: what nbval compares."""
    found = []
    for output in cell.outputs:
        if output.output_type == "stream":
            found.append(output.text)
        for kind, content in output.get("data", {}).items():
            if kind.startswith("text/"):
                found.append(content)
    return found


def run_nbval(path: Path) -> subprocess.CompletedProcess:
    """nbval on one notebook, in a process of its own, without this project's pytest settings."""
    options = ["--nbval", "-q", "-p", "no:cacheprovider", "-c", "/dev/null"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, path.name],
        cwd=path.parent,
        capture_output=True,
        text=True,
        timeout=600,
    )


def rotated_pair_notebook() -> nbformat.NotebookNode:
    """The cells of chapter 2 that lead to its explorer of a rotated pair, not yet run."""
    cells = code_cells("02_rotary")
    wanted = [cells[0]]
    wanted += [
        cell for cell in cells if cell.source.startswith("torch.manual_seed(201)")
    ]
    wanted += [cell for cell in cells if cell.source == "explorers.rotated_pair(q, k)"]
    assert len(wanted) == 3
    fresh = [nbformat.v4.new_code_cell(cell.source) for cell in wanted]
    return nbformat.v4.new_notebook(cells=fresh, metadata=METADATA)
