"""Run the chapters and store their outputs, or compare a built book with them.

python -m tools.notebooks                    run every chapter top to bottom, store clean outputs in place
python -m tools.notebooks chapters/02*.ipynb     the same for some
python -m tools.notebooks --built DIRECTORY      say which stored outputs differ from the executed copies there
"""

import argparse
import itertools
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError

from lib.files import write_atomically
from lib.outputs import WIDGET_VIEW
from tools.repository import CHAPTERS

METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


class DisplayError(Exception):
    """A cell ran, and showing its result raised: the kernel reports that as success."""


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Run the chapters and store their outputs in place."
    )
    parser.add_argument(
        "notebooks",
        nargs="*",
        type=Path,
        help="notebooks to run (default: all chapters)",
    )
    parser.add_argument(
        "--built",
        type=Path,
        metavar="DIRECTORY",
        help="compare with executed copies instead",
    )
    arguments = parser.parse_args()
    paths = arguments.notebooks or sorted(CHAPTERS.glob("*.ipynb"))
    for path in paths:
        if path.suffix != ".ipynb" or not path.is_file():
            parser.error(f"{path}: no such notebook")
    if arguments.built:
        return report_stale(paths, arguments.built)
    for path in paths:
        print(f"running {path.name}", flush=True)
        try:
            store(path, executed(nbformat.read(path, as_version=4), cwd=path.parent))
        except (CellExecutionError, DisplayError) as error:
            print(
                f"{path.name} was left as it was, for a cell of it raised:\n{error}",
                file=sys.stderr,
            )
            return 1
    return 0


def executed(notebook: nbformat.NotebookNode, cwd: Path) -> nbformat.NotebookNode:
    """The notebook run from top to bottom in a fresh kernel, without timings, widget state or a machine's traits."""
    client = NotebookClient(
        notebook,
        timeout=600,
        kernel_name="python3",
        record_timing=False,
        coalesce_streams=True,
        resources={"metadata": {"path": str(cwd)}},
    )
    notebook = client.execute()
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(WIDGET_VIEW, None)  # of no use once stored
            expected = "raises-exception" in cell.metadata.get("tags", [])
            if output.output_type == "error" and not expected:
                raise DisplayError(f"{cell.source}\n{output.ename}: {output.evalue}")
    return notebook


def store(path: Path, notebook: nbformat.NotebookNode) -> None:
    """Write the notebook in place of the stored one."""
    write_atomically(path, nbformat.writes(notebook) + "\n")


def report_stale(paths: list[Path], built: Path) -> int:
    """Print each cell whose stored output is not what the build got; 1 when there is one, else 0."""
    stale = []
    for path in paths:
        copy = built / path.name
        if not copy.exists():
            print(
                f"{path.name}: no executed copy in {built}; build the book first",
                file=sys.stderr,
            )
            return 1
        stale += [f"{path.name}, code cell {n}" for n in stale_cells(path, copy)]
    for cell in stale:
        print(
            f"{cell}: its stored output is not what the code gives today",
            file=sys.stderr,
        )
    return 1 if stale else 0


def stale_cells(stored: Path, built: Path) -> list[int]:
    """The numbers, from 1, of the code cells whose outputs differ; a cell that one side lacks is one."""
    ours, theirs = (
        [
            cell
            for cell in nbformat.read(path, as_version=4).cells
            if cell.cell_type == "code"
        ]
        for path in (stored, built)
    )
    shared = [
        n
        for n, (a, b) in enumerate(zip(ours, theirs, strict=False), 1)
        if outputs(a) != outputs(b)
    ]
    return shared + list(
        range(min(len(ours), len(theirs)) + 1, max(len(ours), len(theirs)) + 1)
    )


def outputs(cell: nbformat.NotebookNode) -> list[tuple]:
    """What a cell printed and displayed, with neighbouring pieces of one stream joined.

    myst-nb joins them too when it renders, and writes a copy in which the first piece
    holds all and the others are still there: such a rest is not counted again.
    """
    found = []
    for stream, group in itertools.groupby(
        cell.outputs, lambda output: output.get("name", "")
    ):
        pieces = list(group)
        if stream:
            first, rest = pieces[0].text, "".join(piece.text for piece in pieces[1:])
            found.append((stream, first if first.endswith(rest) else first + rest))
        else:
            found += map(_shown, pieces)
    return found


def _shown(output: nbformat.NotebookNode) -> tuple:
    if output.output_type == "error":
        return output.ename, output.evalue
    data = {kind: text for kind, text in output.data.items() if kind != WIDGET_VIEW}
    return output.output_type, data


if __name__ == "__main__":
    sys.exit(main())
