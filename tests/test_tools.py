"""The project's commands: what they refuse, and that the stored measurement is the one they make."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import asdict

import psutil
import pytest
import torch

from lib.lengths import STORED
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
        (["--compare", "nothing.json"], "No such file or directory: 'nothing.json'"),
        (["--compare", "README.md"], "README.md: no measurement of this program"),
    ],
)
def test_a_trial_measurement_cannot_replace_the_stored_one(arguments, message):
    before = STORED.read_bytes()
    result = run("measure_lengths", *arguments)
    assert result.returncode == 2 and message in result.stderr
    assert STORED.read_bytes() == before


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
    stored, short = (json.loads(path.read_text()) for path in (STORED, trial))
    assert stored.keys() == short.keys()
    assert stored["settings"].keys() == short["settings"].keys()
    assert (
        stored["coarse_edges"] == short["coarse_edges"] == list(measure_lengths.COARSE)
    )
    assert stored["fine_edges"] == short["fine_edges"] == list(measure_lengths.FINE)
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


def test_the_stored_settings_are_those_of_the_code():
    here = measure_lengths.Measurement(measure_lengths.Scope(), None).settings()
    stored = json.loads(STORED.read_text())["settings"]
    machine = {"python", "torch", "machine", "held_out_bytes"}
    assert {name: value for name, value in stored.items() if name not in machine} == {
        name: value for name, value in here.items() if name not in machine
    }


def test_ctrl_c_keeps_what_was_trained_and_leaves_nothing_running(tmp_path):
    command = [sys.executable, "-m", "tools.measure_lengths"]
    command += ["--checkpoints", tmp_path, "--output", tmp_path / "trial.json"]
    running = subprocess.Popen(
        [*map(str, command), "--seeds", "4"],
        cwd=ROOT,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        workers = wait_for_work(running)
        os.killpg(running.pid, signal.SIGINT)
        _, said = running.communicate(timeout=120)
    finally:
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
    assert running.returncode == 130 and "goes on with the trainings" in said
    assert not any(worker.is_running() for worker in workers)
    kept = [torch.load(path, weights_only=True) for path in tmp_path.glob("*.pt")]
    assert len(kept) == len(workers) and all(state["steps_done"] for state in kept)
    assert not (tmp_path / "trial.json").exists()


def wait_for_work(running, seconds=120):
    """The workers of a measurement, once each of them has trained for a while."""
    for _ in range(seconds * 5):
        assert running.poll() is None
        children = psutil.Process(running.pid).children(recursive=True)
        workers = [child for child in children if child.cpu_times().user > 7]
        if len(workers) == os.cpu_count():
            return workers
        time.sleep(0.2)
    raise TimeoutError("the workers did not begin")


def test_two_results_are_compared_by_their_means(trial):
    same = run("measure_lengths", "--compare", STORED)
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
