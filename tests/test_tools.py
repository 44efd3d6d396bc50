"""The project's commands: what they refuse, and that the stored measurement is the one they make."""

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil
import pytest
import torch

from lib.lengths import STORED, Measured
from tests.book import served
from tests.chapters import ROOT
from tools import measure_lengths
from tools.serve import server

pytestmark = pytest.mark.rests_on("lib", "tools", "README.md")


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
        (["--output", "README.md/x.json"], "README.md"),
        (["--output", "lib"], "lib"),
        (["--checkpoints", "README.md"], "README.md"),
    ],
)
def test_a_trial_measurement_cannot_replace_the_stored_one(
    monkeypatch, capsys, arguments, message
):
    before = STORED.read_bytes()
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "argv", ["measure_lengths", *map(str, arguments)])
    monkeypatch.delattr(measure_lengths, "Measurement")  # nothing may be measured
    with pytest.raises(SystemExit) as stopped:
        measure_lengths.main()
    assert stopped.value.code == 2 and message in capsys.readouterr().err
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


def changed(path, change):
    """The stored measurement, changed."""
    result = json.loads(STORED.read_text())
    change(result)
    path.write_text(json.dumps(result))
    return Measured(path)


def test_two_results_are_compared_by_their_means(tmp_path, capsys):
    same = run("measure_lengths", "--compare", STORED)
    assert (
        same.returncode == 0
        and "reproduced: 1.00 times outside the range" in same.stdout
    )

    def worse(result):
        result["tuned"]["YaRN"] = [
            [2 * x for x in row] for row in result["tuned"]["YaRN"]
        ]

    other = changed(tmp_path / "other.json", worse)
    assert measure_lengths.compare(Measured(), other) == 1
    assert "not reproduced" in capsys.readouterr().out


def test_fewer_seeds_on_another_machine_are_compared(tmp_path):
    def elsewhere(result):
        result["settings"] |= {"python": "3.99", "machine": "abacus", "seeds": 1}
        result["coarse"] = {name: rows[:1] for name, rows in result["coarse"].items()}

    other = changed(tmp_path / "other.json", elsewhere)
    assert measure_lengths.compare(Measured(), other) == 0


OTHERWISE_RUN = [
    (lambda r: r["settings"].update(steps=1), "steps: got 1, want 3000"),
    (lambda r: r["settings"].pop("factor"), "factor: got None, want 4"),
    (lambda r: r["fine_edges"].pop(), "fine_edges: got"),
    (lambda r: r["coarse_edges"].insert(1, 16), "coarse_edges: got"),
    (lambda r: r["tuned"].pop("YaRN"), "tuned: got"),
    (lambda r: [row.pop() for row in r["live"]["rope"]], "live: got"),
]


@pytest.mark.parametrize(("change", "message"), OTHERWISE_RUN)
def test_what_was_run_otherwise_is_not_compared(tmp_path, change, message):
    other = changed(tmp_path / "other.json", change)
    with pytest.raises(ValueError, match=re.escape(message)):
        measure_lengths.compare(Measured(), other)


def test_a_trial_is_refused_with_all_that_differs(trial):
    result = run("measure_lengths", "--compare", trial)
    assert result.returncode == 2
    for name in ("steps", "fine_tuning_steps", "live_steps", "windows"):
        assert f"{name}: got" in result.stderr


# Jobs that do not listen to Ctrl-C, and tell that they have begun.
STUBBORN = """
import os, pathlib, signal, sys, time
from tools.measure_lengths import end_now, in_parallel

def stay(folder):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    (pathlib.Path(folder) / str(os.getpid())).touch()
    time.sleep(600)

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end_now)
    list(in_parallel([(stay, sys.argv[1])] * os.cpu_count()))
"""


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_no_worker_goes_on_alone(tmp_path, sign):
    """Whatever ends the measurement; the first Ctrl-C waits for them, a second one does not."""
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    (tmp_path / "begun").mkdir()
    running = subprocess.Popen(
        [sys.executable, tmp_path / "stubborn.py", tmp_path / "begun"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    try:
        wait_until(lambda: len(alive(tmp_path / "begun")) == os.cpu_count())
        wait_until(lambda: running.send_signal(sign) or running.poll() is not None)
        wait_until(lambda: not alive(tmp_path / "begun"))
    finally:
        running.kill()
        for worker in alive(tmp_path / "begun"):
            worker.kill()


def alive(folder):
    """The processes, by the files that they touched."""
    pids = [int(name) for name in os.listdir(folder) if psutil.pid_exists(int(name))]
    workers = map(psutil.Process, pids)
    return [worker for worker in workers if worker.status() != psutil.STATUS_ZOMBIE]


def wait_until(condition, seconds=60):
    for _ in range(seconds * 5):
        if condition():
            return
        time.sleep(0.2)
    raise TimeoutError("it did not happen")


def test_a_port_that_is_taken_moves_on_to_the_next(tmp_path):
    (tmp_path / "index.html").write_text("here")
    with server(tmp_path) as first, server(tmp_path) as second:
        assert first.server_port != second.server_port
        assert first.server_address[0] == second.server_address[0] == "127.0.0.1"


def test_a_folder_that_is_not_there_is_not_served():
    result = run("serve", "nothing")
    assert result.returncode == 1 and "build the book first" in result.stderr


def fetched(address, **headers):
    """The headers and the bytes of an answer, as they were sent."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    with urlopen(Request(address, headers=names)) as answer:
        return answer.headers, answer.read()


@pytest.fixture
def folder_of_two(tmp_path):
    (tmp_path / "index.html").write_text("<p>here</p>" * 100)
    (tmp_path / "dot.png").write_bytes(b"dot" * 100)
    return tmp_path


@pytest.mark.parametrize("accepted", ["gzip, deflate, br", "br;q=1.0, gzip;q=0.5"])
def test_a_page_is_compressed_for_a_browser_that_takes_it(folder_of_two, accepted):
    with served(folder_of_two) as address:
        for content in ("here" * 100, "changed" * 100):
            (folder_of_two / "index.html").write_text(content)
            headers, body = fetched(address + "index.html", Accept_Encoding=accepted)
            assert headers["Content-Encoding"] == "gzip"
            assert headers["Content-Type"].startswith("text/html")
            assert int(headers["Content-Length"]) == len(body) < len(content)
            assert gzip.decompress(body).decode() == content
            assert headers["Vary"] == "Accept-Encoding"


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        ("index.html", "identity"),
        ("index.html", "gzip;q=0, br"),
        ("index.html", "gzip;q=0.0"),
        ("dot.png", "gzip"),
    ],
)
def test_nothing_else_is_compressed(folder_of_two, name, accepted):
    with served(folder_of_two) as address:
        headers, body = fetched(address + name, Accept_Encoding=accepted)
    assert headers["Content-Encoding"] is None
    assert headers["Vary"] == "Accept-Encoding"
    assert body == (folder_of_two / name).read_bytes()


def test_a_page_that_the_browser_has_is_not_sent_again(folder_of_two):
    with served(folder_of_two) as address:
        page = address + "index.html"
        headers, _ = fetched(page, Accept_Encoding="gzip")
        with pytest.raises(HTTPError) as answer:
            fetched(
                page, Accept_Encoding="gzip", If_Modified_Since=headers["Last-Modified"]
            )
    assert answer.value.code == 304
