"""The chapters for Colab, which opens a notebook without its repository: python -m tools.colab FOLDER

Each gets a first cell that installs what the chapters share from the repository, at the commit that is checked out.
"""

import json
import subprocess
import sys
from pathlib import Path

from lib.files import write_atomically
from tools.repository import CHAPTERS, ROOT, repository

SET_UP = """# Colab has this notebook alone. This fetches what it shares with the book's other chapters.
%pip install --quiet "git+{address}@{commit}\""""


def set_up_cell(address: str, commit: str) -> dict:
    return {
        "cell_type": "code",
        "execution_count": None,
        "id": "set-up",
        "metadata": {},
        "outputs": [],
        "source": SET_UP.format(address=address, commit=commit),
    }


def write_notebooks(folder: Path, address: str, commit: str) -> None:
    """All chapters, with the set-up cell, in `folder`/chapters."""
    (folder / "chapters").mkdir(parents=True, exist_ok=True)
    for path in sorted(CHAPTERS.glob("*.ipynb")):
        notebook = json.loads(path.read_text("utf-8"))
        notebook["cells"].insert(0, set_up_cell(address, commit))
        text = json.dumps(notebook, ensure_ascii=False, indent=1)
        write_atomically(folder / "chapters" / path.name, text + "\n")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tools.colab FOLDER")
    found = repository()
    if not found:
        sys.exit("The repository's address is not known: give git a remote `origin`.")
    commit = subprocess.check_output(["git", "rev-parse", "HEAD"], cwd=ROOT, text=True)
    write_notebooks(Path(sys.argv[1]), found.address, commit.strip())
    print(
        f"{sys.argv[1]}/chapters installs lib from {found.address} at {commit.strip()}: push that commit."
    )
