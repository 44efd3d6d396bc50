"""Explorers, exercises and trainings in a real JupyterLab: they are ipywidgets there, and the kernel answers."""

import json
import os
import subprocess
import sys
import textwrap
import time

import nbformat
import pytest

from tests.chapters import read, rotated_pair_notebook
from tools.notebooks import METADATA

START = 60  # seconds for a slow machine to start the server, the page or the kernel

RUN_ALL = "void window.jupyterapp.commands.execute('notebook:run-all-cells')"
KERNEL_IS_READY = """
  window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === "idle"
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """A JupyterLab on this machine, with a folder and settings of its own: the folder, and the server's address."""
    folder = tmp_path_factory.mktemp("lab")
    runtime = folder / "runtime"
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *("--ServerApp.ip=127.0.0.1", "--ServerApp.port=0"),
        *(f"--ServerApp.root_dir={folder}", "--IdentityProvider.token=lab"),
        *("--LabApp.expose_app_in_browser=True", "--LabApp.news_url=None"),
    ]
    own = {"JUPYTER_RUNTIME_DIR": runtime, "JUPYTER_CONFIG_DIR": folder / "config"}
    server = subprocess.Popen(
        command,
        env={**os.environ, **{name: str(place) for name, place in own.items()}},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield folder, wait_for_url(runtime, server)
    finally:
        server.terminate()
        server.wait(START)


@pytest.fixture
def run_notebook(lab, browser):
    """Opens a notebook in JupyterLab and runs all its cells: the page."""
    folder, url = lab
    pages = []

    def open_and_run(notebook):
        nbformat.write(notebook, folder / "notebook.ipynb")
        page = browser.new_page(viewport={"width": 1280, "height": 2400})
        pages.append(page)
        page.set_default_timeout(START * 1000)
        page.goto(f"{url}lab/tree/notebook.ipynb?token=lab&reset", wait_until="commit")
        page.wait_for_selector(".jp-Notebook")
        page.wait_for_function(KERNEL_IS_READY)
        page.evaluate(RUN_ALL)
        return page

    yield open_and_run
    for page in pages:
        page.close()


def wait_for_url(runtime, server):
    for _ in range(START * 10):
        for file in runtime.glob("jpserver-*.json"):
            return json.loads(file.read_text())["url"]
        assert server.poll() is None, "JupyterLab did not start"
        time.sleep(0.1)
    raise TimeoutError("JupyterLab did not say where it listens")


def test_the_sliders_of_a_chapter_move_in_jupyterlab(run_notebook):
    page = run_notebook(rotated_pair_notebook())
    explorer = page.locator(".jp-OutputArea-output", has=page.locator(".widget-slider"))
    explorer.first.wait_for(state="attached")
    explorer.first.scroll_into_view_if_needed()
    explorer.get_by_text("At position 0 pair 0 has turned by 0.000 rad").wait_for()
    before = explorer.locator("svg").inner_html()
    explorer.locator(".noUi-handle").first.focus()
    page.keyboard.press("ArrowRight")
    explorer.get_by_text(
        "At position 1 pair 0 has turned by 1.000 rad, 0.159 turns"
    ).wait_for()
    assert explorer.locator("svg").inner_html() != before
    explorer.locator(".noUi-handle").nth(1).focus()
    page.keyboard.press("ArrowRight")
    explorer.get_by_text("At position 1 pair 1 has turned by 0.100 rad").wait_for()


def test_the_exercises_of_a_chapter_answer_in_jupyterlab(run_notebook):
    page = run_notebook(fresh("07_exercises"))
    cost = output(page, "Parameters of the learned table")
    cost.get_by_role("textbox", name="Parameters of the learned table").fill("2048*8")
    cost.get_by_role("textbox", name="Parameters of RoPE").fill("0")
    page.keyboard.press("Enter")
    cost.get_by_text("That is as wide as one head").wait_for()
    cost.get_by_text("The angles follow from a formula").wait_for()
    assert not cost.get_by_text("There is one row for each position").is_visible()
    cost.get_by_text("Hint 1 of 2").click()
    assert cost.get_by_text("There is one row for each position").is_visible()

    shapes = output(page, "Does V change?")
    shapes.get_by_role("textbox", name="Shape of Q").fill("2x5x32")
    shapes.get_by_text("Yes, it is turned as K is").click()
    shapes.get_by_role("button", name="Check").click()
    shapes.get_by_text("Heads and their dimensions are flattened there").wait_for()
    shapes.get_by_text("V is not rotated").wait_for()

    twice = output(page, "The learned table: can it compute?")
    # A long option takes two lines; every button must be in reach all the same.
    for n in range(3):
        twice.get_by_role("radio").nth(n).click()
    twice.get_by_role("radio").nth(1).click()
    twice.get_by_role("button", name="Check").click()
    twice.get_by_text("An error, if you are lucky").wait_for()

    page.get_by_text("rotate_pair: not attempted.").first.wait_for()
    computed = page.get_by_text("2,048 rows of 32 numbers: 65,536 parameters")
    folded = page.get_by_text("cells hidden").first
    folded.scroll_into_view_if_needed()
    assert not computed.is_visible(), "solutions stay folded away when all cells run"
    folded.click()
    computed.wait_for()


def test_a_training_shows_how_far_it_is_and_its_own_figure_in_jupyterlab(run_notebook):
    sources = [
        """
        from lib import plots
        from lib.lab import edges, experiment
        from lib.live import Live

        trained = experiment("rope", steps=40, batch=2, windows=8)
        """,
        """
        stored = {"RoPE": [[7.0, 7.5, 13.0, 18.0, 20.0]]}

        def figure(yours):
            return plots.perplexity_by_position(edges(32), stored, 32, yours=yours)

        Live(figure({"RoPE": trained.perplexities}), stored=figure({}))
        """,
    ]
    cells = [nbformat.v4.new_code_cell(textwrap.dedent(source)) for source in sources]
    page = run_notebook(nbformat.v4.new_notebook(cells=cells, metadata=METADATA))
    bar = page.locator(".jp-OutputArea-output", has=page.locator(".widget-hprogress"))
    bar.get_by_text("tokens/s").wait_for()
    page.locator(".progress-bar-success").wait_for()
    own = page.locator(".widget-html").filter(has_text="Your RoPE")
    own.locator("svg").wait_for()


def fresh(chapter):
    """A chapter that was not run."""
    notebook = read(chapter)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def output(page, text):
    """The output with ipywidgets in which a text stands, in view."""
    found = page.locator(".jp-OutputArea-output", has=page.locator(".widget-button"))
    found = found.filter(has_text=text).first
    found.wait_for(state="attached")
    found.scroll_into_view_if_needed()
    return found
