"""A fault put into lib/rope.py makes a chapter's own claims fail, not only its stored outputs."""

import os
import shutil
import subprocess
import sys

import nbformat
import pytest

from tests.chapters import ROOT, read

pytestmark = pytest.mark.rests_on("lib", "chapters/02_rotary.ipynb")

CHAPTER = "02_rotary"
MUTATIONS = {
    "sign of the angle": [("torch.polar(one, angle)", "torch.polar(one, -angle)")],
    "sign of the pair": [
        ("x * cos - y * sin, x * sin + y * cos", "x * cos + y * sin, y * cos - x * sin")
    ],
    "missing minus in the exponent": [("Decimal(-2 * i)", "Decimal(2 * i)")],
    "base": [("BASE = 10_000.0", "BASE = 1_000.0")],
    "pairing": [
        ("unflatten(-1, (-1, 2))", "unflatten(-1, (2, -1)).transpose(-1, -2)"),
        (
            "torch.view_as_real(rotated).flatten(-2)",
            "torch.view_as_real(rotated).transpose(-1, -2).flatten(-2)",
        ),
    ],
    "V rotated": [
        ("in (xq, xk, xv))", "in (xq, xk, _rotate(xv, _per_head(freqs_cis, xv))))")
    ],
    "angles in degrees": [
        ("torch.polar(one, angle)", "torch.polar(one, torch.rad2deg(angle))")
    ],
}


def run_chapter(folder, replacements):
    """IPython runs the chapter with a mutated copy of lib, which comes before the installed one.

    Without its pictures, which claim nothing and take half the time.
    """
    shutil.copytree(ROOT / "lib", folder / "lib")
    rope = folder / "lib" / "rope.py"
    source = rope.read_text()
    for old, new in replacements:
        assert source.count(old) == 1, (
            f"{old!r} stands {source.count(old)} times in lib/rope.py"
        )
        source = source.replace(old, new)
    rope.write_text(source)
    notebook = read(CHAPTER)
    notebook.cells = [
        cell
        for cell in notebook.cells
        if not cell.source.startswith(("explorers.", "plots."))
    ]
    nbformat.write(notebook, folder / f"{CHAPTER}.ipynb")
    command = [sys.executable, "-m", "IPython", f"{CHAPTER}.ipynb"]
    own = {"PYTHONPATH": str(folder), "IPYTHONDIR": str(folder / "ipython")}
    return subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=600,
    )


def test_the_copied_chapter_is_green_without_a_fault(tmp_path):
    result = run_chapter(tmp_path, [])
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    assert "holds: " in result.stdout


@pytest.mark.parametrize("fault", MUTATIONS)
def test_a_fault_turns_a_claim_red(tmp_path, fault):
    result = run_chapter(tmp_path, MUTATIONS[fault])
    assert result.returncode == 1, f"the chapter did not notice: {fault}"
    assert "does not hold:" in result.stdout + result.stderr
