"""The project's commands: what they refuse, and that the stored measurement is the one they make."""

import json
import subprocess
import sys

import pytest

from tests.chapters import ROOT
from tools import measure_lengths
from tools.serve import server


def run(module, *arguments):
    command = [sys.executable, "-m", f"tools.{module}", *map(str, arguments)]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=300
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", 0], "--steps: got 0, want at least 1"),
        (["--steps", 5], "needs --output"),
    ],
)
def test_a_trial_measurement_cannot_replace_the_stored_one(arguments, message):
    before = measure_lengths.RESULT.read_bytes()
    result = run("measure_lengths", *arguments)
    assert result.returncode == 2 and message in result.stderr
    assert measure_lengths.RESULT.read_bytes() == before


def test_a_short_measurement_has_the_form_of_the_stored_one(tmp_path):
    result = run("measure_lengths", "--steps", 1, "--output", tmp_path / "trial.json")
    assert result.returncode == 0, result.stderr
    stored, trial = (
        json.loads(p.read_text())
        for p in (measure_lengths.RESULT, tmp_path / "trial.json")
    )
    assert (
        stored.keys() == trial.keys()
        and stored["settings"].keys() == trial["settings"].keys()
    )
    assert stored["bins"] == trial["bins"] == measure_lengths.BINS
    assert stored["settings"]["steps"] == measure_lengths.STEPS
    assert {name: len(values) for name, values in stored["perplexity"].items()} == {
        name: len(measure_lengths.BINS) - 1 for name in ("learned", "rope", "none")
    }
    assert [file.name for file in tmp_path.iterdir()] == ["trial.json"]


def test_a_port_that_is_taken_moves_on_to_the_next(tmp_path):
    (tmp_path / "index.html").write_text("here")
    with server(tmp_path) as first, server(tmp_path) as second:
        assert first.server_port != second.server_port
        assert first.server_address[0] == second.server_address[0] == "127.0.0.1"


def test_a_folder_that_is_not_there_is_not_served():
    result = run("serve", "nothing")
    assert result.returncode == 1 and "build the book first" in result.stderr
