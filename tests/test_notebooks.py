"""Each chapter is executed, clean, and has enough that nbval compares; nbval itself turns red when it should.

The comparison of every stored output with what the code says today is nbval's: `pytest` runs it on chapters/.
"""

import ast
import queue
import re
import subprocess
import sys
import time

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel

from tests.chapters import (
    LISTED,
    NAMES,
    PATHS,
    ROOT,
    code_cells,
    prose,
    read,
    run_nbval,
    texts,
)
from tools.notebooks import METADATA, report_stale, stale_cells, store

FEWEST_COMPARED_OUTPUTS = 3
MACHINE_PATH = re.compile(
    r"(?<![\w.<])/(root|home|tmp|usr|opt|var|mnt|srv|nix|data|work|Users|private)/"
    r"|\b[A-Z]:\\\w|file://|~/|site-packages"
)
WARNING = re.compile(r"\b\w*Warning\b")


def test_the_contents_list_every_chapter():
    assert [f"chapters/{name}" for name in NAMES] == LISTED
    assert len(NAMES) >= 14


def test_the_build_of_the_book_gets_the_stored_outputs(html, capsys):
    executed = html.parent / "jupyter_execute" / "chapters"
    assert report_stale(PATHS, executed) == 0, capsys.readouterr().err


def test_a_kernel_answers_every_request():
    """Some versions of ipykernel lose one that comes while they answer another: a cell then runs for good."""
    manager, client = start_new_kernel()
    try:
        for pair in range(200):
            asked = {client.execute("", silent=True)}
            time.sleep(pair % 10 * 0.0004)
            asked.add(client.execute("", silent=True))
            while asked:
                try:
                    reply = client.get_shell_msg(timeout=30)
                except queue.Empty:
                    pytest.fail(f"pair {pair} of requests: one was not answered")
                asked.discard(reply["parent_header"]["msg_id"])
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("name", NAMES)
def test_every_code_cell_was_executed_in_order(name):
    # nbval does not compare a cell whose execution count is null, so such a cell would pass unread.
    assert [cell.execution_count for cell in code_cells(name)] == list(
        range(1, len(code_cells(name)) + 1)
    )


@pytest.mark.parametrize("name", NAMES)
def test_enough_text_is_compared(name):
    assert (
        sum(bool(texts(cell)) for cell in code_cells(name)) >= FEWEST_COMPARED_OUTPUTS
    )


@pytest.mark.parametrize("name", NAMES)
def test_outputs_hold_no_path_warning_or_unexpected_traceback(name):
    for cell in code_cells(name):
        text = "\n".join(texts(cell))
        assert not MACHINE_PATH.search(text), cell.source
        assert not WARNING.search(text), cell.source
        assert all(output.get("name") != "stderr" for output in cell.outputs), (
            cell.source
        )
        if "raises-exception" not in cell.metadata.get("tags", []):
            assert "Traceback" not in text and all(
                o.output_type != "error" for o in cell.outputs
            ), cell.source


@pytest.mark.parametrize("name", NAMES)
def test_no_printed_text_ends_in_an_empty_line(name):
    # The build trims it, so that `make book` would call the stored output stale.
    for cell in code_cells(name):
        streams = [output for output in cell.outputs if output.output_type == "stream"]
        assert not any(output.text.endswith("\n\n") for output in streams), cell.source


@pytest.mark.parametrize("name", NAMES)
def test_every_output_is_one_that_nbval_compares(name):
    skipped = {
        "image/png",
        "image/jpeg",
        "text/latex",
        "application/vnd.jupyter.widget-view+json",
    }
    for cell in code_cells(name):
        for output in cell.outputs:
            kinds = set(output.get("data", {}))
            assert not kinds or kinds - skipped, cell.source


@pytest.mark.parametrize("name", NAMES)
def test_the_notebook_holds_no_trait_of_a_machine_or_a_session(name):
    notebook = read(name)
    assert notebook.metadata == METADATA
    kept = {"tags", "jp-MarkdownHeadingCollapsed"}  # JupyterLab folds solutions away
    assert all(set(cell.metadata) <= kept for cell in notebook.cells)


@pytest.mark.parametrize("name", NAMES)
def test_every_code_cell_is_python_and_finds_lib_by_itself(name):
    for cell in code_cells(name):
        ast.parse(cell.source)
        assert "sys.path" not in cell.source


@pytest.mark.parametrize("name", NAMES)
def test_no_cell_is_kept_from_being_compared(name):
    for cell in code_cells(name):
        assert set(cell.metadata.get("tags", [])) <= {"hide-cell", "remove-input"}
        assert "NBVAL" not in cell.source


@pytest.mark.parametrize("name", NAMES)
def test_displayed_equations_are_written_in_the_one_form_that_is_checked(name):
    for text in prose(name):
        assert not re.search(
            r"\{math\}|\\\[|^\\begin\{(align|equation|gather)\*?\}", text, re.MULTILINE
        ), text


@pytest.mark.parametrize("name", NAMES)
def test_every_displayed_equation_is_followed_by_the_cell_that_computes_it(name):
    cells = read(name).cells
    for cell, following in zip(cells, [*cells[1:], None], strict=True):
        if cell.cell_type == "markdown" and "$$" in cell.source:
            assert cell.source.count("$$") == 2, "one displayed equation to a cell"
            assert following is not None and following.cell_type == "code", cell.source


@pytest.mark.parametrize("name", NAMES)
def test_the_head_says_what_to_expect_and_a_prediction_is_asked(name):
    text = "\n".join(prose(name))
    head = text[: text.index(":::\n")]
    for phrase in ("minutes", "**You will**", "**You will learn**", "**You need**"):
        assert phrase in head
    assert ":class: predict" in text or "Write your answer down" in text


# --- nbval turns red when it should ---------------------------------------------------------------


def run_tool(path):
    command = [sys.executable, "-m", "tools.notebooks", path]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300
    )


def notebook_printing(source, stored):
    cell = nbformat.v4.new_code_cell(source, execution_count=1)
    cell.outputs = [nbformat.v4.new_output("stream", name="stdout", text=stored)]
    return nbformat.v4.new_notebook(cells=[cell], metadata=METADATA)


@pytest.mark.parametrize(
    ("source", "stored", "passes"),
    [("print(3)", "3\n", True), ("print(3)", "4\n", False), ("1 / 0", "3\n", False)],
    ids=["current", "stale", "raises"],
)
def test_nbval_passes_only_current_outputs(tmp_path, source, stored, passes):
    path = tmp_path / "one.ipynb"
    nbformat.write(notebook_printing(source, stored), path)
    result = run_nbval(path)
    assert (result.returncode == 0) == passes, result.stdout


# --- the project's own notebook tool --------------------------------------------------------------


def test_a_stale_cell_is_named_after_a_build(tmp_path):
    stored, built = tmp_path / "stored.ipynb", tmp_path / "built.ipynb"
    nbformat.write(notebook_printing("print(3)", "4\n"), stored)
    nbformat.write(notebook_printing("print(3)", "3\n"), built)
    assert stale_cells(stored, built) == [1]
    assert stale_cells(built, built) == []


def test_a_stream_that_came_in_pieces_is_not_stale(tmp_path):
    # So does myst-nb leave it in its copy: the first piece made whole, the others still there.
    stored, built = tmp_path / "stored.ipynb", tmp_path / "built.ipynb"
    nbformat.write(notebook_printing("print(3)", "3\n4\n5\n"), stored)
    in_pieces = notebook_printing("print(3)", "3\n4\n5\n")
    for piece in ("4\n", "5\n"):
        output = nbformat.v4.new_output("stream", name="stdout", text=piece)
        in_pieces.cells[0].outputs.append(output)
    nbformat.write(in_pieces, built)
    assert stale_cells(stored, built) == []
    in_pieces.cells[0].outputs[0].text = "3\n4\n6\n"
    nbformat.write(in_pieces, built)
    assert stale_cells(stored, built) == [1]


def test_the_book_s_build_joins_what_a_kernel_sends_in_pieces(tmp_path):
    # Cut in the middle of a line, as a busy kernel does.
    source = "import sys\nfor part in 'one line':\n    print(part, end='', flush=True)"
    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(source)], metadata=METADATA
    )
    nbformat.write(notebook, tmp_path / "pieces.ipynb")
    code = (
        "import sys, nbformat, nbclient; sys.path.insert(0, '_ext');"
        "import book_streams; book_streams.setup(None);"
        f"notebook = nbformat.read({str(tmp_path / 'pieces.ipynb')!r}, 4);"
        "nbclient.execute(notebook);"
        "print([output.text for output in notebook.cells[0].outputs])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True
    )
    assert result.stdout == "['one line']\n", result.stderr


def test_a_result_that_cannot_be_shown_is_no_success(tmp_path):
    # The kernel reports a cell as done when only showing its result raised.
    source = "class Broken:\n    def _repr_html_(self):\n        raise ValueError\n\nBroken()"
    path = tmp_path / "broken.ipynb"
    nbformat.write(notebook_printing(source, "3\n"), path)
    assert run_tool(path).returncode == 1


def test_the_tool_says_which_notebook_there_is_not():
    result = run_tool("nothing.ipynb")
    assert result.returncode == 2 and "nothing.ipynb: no such notebook" in result.stderr


def test_storing_leaves_no_draft_behind(tmp_path):
    store(tmp_path / "one.ipynb", notebook_printing("print(3)", "3\n"))
    assert [path.name for path in tmp_path.iterdir()] == ["one.ipynb"]


def test_the_tool_leaves_a_notebook_that_raises_as_it_was(tmp_path):
    path = tmp_path / "raises.ipynb"
    nbformat.write(notebook_printing("1 / 0", "3\n"), path)
    before = path.read_bytes()
    result = run_tool(path)
    assert result.returncode == 1 and "left as it was" in result.stderr
    assert path.read_bytes() == before


def test_paths_are_found():
    assert PATHS, "no chapters"
