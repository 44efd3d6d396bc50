"""The project's commands: what they refuse, and that the stored measurement is the one they make."""

import json
import subprocess
import sys
from dataclasses import asdict

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
        (["--live-seeds", 0], "--live-seeds: got 0, want at least 1"),
        (["--steps", 5], "needs --output"),
        (["--compare", "nothing.json"], "nothing.json: no such file"),
    ],
)
def test_a_trial_measurement_cannot_replace_the_stored_one(arguments, message):
    before = measure_lengths.RESULT.read_bytes()
    result = run("measure_lengths", *arguments)
    assert result.returncode == 2 and message in result.stderr
    assert measure_lengths.RESULT.read_bytes() == before


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """A measurement of one step each: the form of the stored one, and worthless numbers."""
    folder = tmp_path_factory.mktemp("trial")
    small = ["--seeds", 1, "--steps", 1, "--live-seeds", 1, "--live-steps", 1]
    small += ["--fine-tuning-steps", 1, "--windows", 2]
    checkpoints = ["--checkpoints", folder / "checkpoints"]
    result = run(
        "measure_lengths", *small, *checkpoints, "--output", folder / "trial.json"
    )
    assert result.returncode == 0, result.stderr
    return folder / "trial.json"


def test_a_short_measurement_has_the_form_of_the_stored_one(trial):
    stored, short = (
        json.loads(path.read_text()) for path in (measure_lengths.RESULT, trial)
    )
    assert stored.keys() == short.keys()
    assert stored["settings"].keys() == short["settings"].keys()
    assert stored["bins"] == short["bins"] == list(measure_lengths.BINS)
    assert stored["fine"] == short["fine"] == list(measure_lengths.FINE)
    for section in (*measure_lengths.SECTIONS, "attention"):
        assert stored[section].keys() == short[section].keys()
    full = asdict(measure_lengths.Scope())
    assert (
        full.items()
        >= {
            name: stored["settings"][name] for name in ("seeds", "steps", "live_seeds")
        }.items()
    )
    assert {path.name for path in trial.parent.iterdir()} == {
        "trial.json",
        "checkpoints",
    }


def test_two_results_are_compared_by_their_means(trial):
    same = run("measure_lengths", "--compare", measure_lengths.RESULT)
    assert (
        same.returncode == 0
        and "reproduced: 1.00 times outside the range" in same.stdout
    )
    other = run("measure_lengths", "--compare", trial)  # nothing was learned in a step
    assert other.returncode == 1 and "not reproduced" in other.stdout


def test_a_port_that_is_taken_moves_on_to_the_next(tmp_path):
    (tmp_path / "index.html").write_text("here")
    with server(tmp_path) as first, server(tmp_path) as second:
        assert first.server_port != second.server_port
        assert first.server_address[0] == second.server_address[0] == "127.0.0.1"


def test_a_folder_that_is_not_there_is_not_served():
    result = run("serve", "nothing")
    assert result.returncode == 1 and "build the book first" in result.stderr
