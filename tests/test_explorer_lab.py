"""An explorer of the course in a real JupyterLab: the sliders are ipywidgets, and the kernel redraws."""

import json
import os
import subprocess
import sys
import time

import nbformat
import pytest

from tests.chapters import rotated_pair_notebook

START = 60  # seconds for a slow machine to start the server, the page or the kernel

KERNEL_IS_READY = """
  window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel?.status === "idle"
"""


@pytest.fixture
def lab(tmp_path):
    """The address of a JupyterLab on this machine, with a folder and settings of its own."""
    runtime = tmp_path / "runtime"
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root"),
        *(
            "--ServerApp.ip=127.0.0.1",
            "--ServerApp.port=0",
            f"--ServerApp.root_dir={tmp_path}",
        ),
        *("--IdentityProvider.token=lab", "--LabApp.expose_app_in_browser=True"),
        "--LabApp.news_url=None",
    ]
    own = {"JUPYTER_RUNTIME_DIR": runtime, "JUPYTER_CONFIG_DIR": tmp_path / "config"}
    server = subprocess.Popen(
        command,
        env={**os.environ, **{name: str(folder) for name, folder in own.items()}},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield (
            tmp_path,
            f"{wait_for_url(runtime, server)}lab/tree/explorer.ipynb?token=lab&reset",
        )
    finally:
        server.terminate()
        server.wait(START)


def wait_for_url(runtime, server):
    for _ in range(START * 10):
        for file in runtime.glob("jpserver-*.json"):
            return json.loads(file.read_text())["url"]
        assert server.poll() is None, "JupyterLab did not start"
        time.sleep(0.1)
    raise TimeoutError("JupyterLab did not say where it listens")


def test_the_sliders_of_a_chapter_move_in_jupyterlab(lab, browser):
    folder, address = lab
    nbformat.write(rotated_pair_notebook(), folder / "explorer.ipynb")

    page = browser.new_page(viewport={"width": 1280, "height": 1600})
    page.set_default_timeout(START * 1000)
    page.goto(address, wait_until="commit")
    page.wait_for_selector(".jp-Notebook")
    page.wait_for_function(KERNEL_IS_READY)
    page.evaluate("void window.jupyterapp.commands.execute('notebook:run-all-cells')")

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
    page.close()
