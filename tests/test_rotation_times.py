"""The benchmark of the rotation: what is stored, and that nobody is timed who does something else.

No test times anything: a round is one call, and pytest-benchmark, which only `make benchmark` installs, has a
stand-in here.
"""

import json
from types import SimpleNamespace

import pytest
import torch

from lib.rope import apply_rotary_emb, freqs_cis_at, precompute_freqs_cis
from lib.rotation_times import HEADER, STORED, TIME, far_rows, rows, stored
from tests.chapters import ROOT
from tools import benchmark_rotation
from tools.benchmark_rotation import (
    ALLOWED,
    CONTENDERS,
    DTYPES,
    FLOOR,
    MODES,
    RUNS,
    Contender,
    Task,
    angle_error,
    measure,
)

SMALL = {"B": 2, "T": 5, "h": 3, "d_head": 16}
ROTATIONS = [
    name
    for name, contender in CONTENDERS.items()
    if contender.installed and name != FLOOR
]
COMBINATIONS = [
    (dtype, run, mode) for dtype in DTYPES for run in RUNS for mode in MODES
]


# --- The stored measurement -----------------------------------------------------------------------


def test_the_stored_measurement_is_the_one_that_the_code_makes():
    measured = stored()
    for name in ("sizes", "threads", "rounds"):
        assert measured[name] == getattr(benchmark_rotation, name.upper())
    packages = {x.package for x in CONTENDERS.values() if x.package}
    assert measured["versions"].keys() == packages | {"torch"}


def test_the_stored_versions_are_the_pinned_ones():
    lines = [
        line.split("#")[0].split(";")[0].strip()
        for path in ROOT.glob("requirements*.txt")
        for line in path.read_text().splitlines()
    ]
    for package, version in stored()["versions"].items():
        assert f"{package}=={version.partition('+')[0]}" in lines


@pytest.mark.parametrize("combination", COMBINATIONS, ids=" ".join)
def test_every_contender_stands_once_in_every_table_fastest_first(combination):
    found = rows(stored(), *combination)
    assert sorted(row[0] for row in found) == sorted(CONTENDERS)
    assert all(len(row) == len(HEADER) for row in found)
    ratios = [float(row[2]) for row in found if row[2]]
    assert ratios == sorted(ratios)
    assert all((row[3] == "") == (row[0] == FLOOR or row[2] == "") for row in found)


def test_nobody_is_more_exact_than_this_course():
    for dtype, run, mode in COMBINATIONS:
        error = {
            row[0]: float(row[3]) for row in rows(stored(), dtype, run, mode) if row[3]
        }
        assert error["lib.rope"] == min(error.values())


def test_what_could_not_be_compiled_is_said_so_and_stands_last():
    time = dict.fromkeys(TIME) | {
        "dtype": "float32",
        "run": "forward",
        "mode": "compiled",
    }
    failed = time | {"rotation": "a"}
    slow = time | {"rotation": "b", "ms": 1234.56, "ratio": 9.876, "error": 1.23e-4}
    assert rows({"times": [failed, slow]}, "float32", "forward", "compiled") == [
        ("b", "1234.6", "9.88", "1.2e-04"),
        ("a", "does not compile", "", ""),
    ]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "{}",
        "null",
        json.dumps({"times": []}),
        json.dumps(json.loads(STORED.read_text()) | {"times": []}),
        json.dumps(json.loads(STORED.read_text()) | {"times": [{"ms": 1}]}),
        json.dumps(json.loads(STORED.read_text()) | {"times": 3}),
        json.dumps(json.loads(STORED.read_text()) | {"far": []}),
        json.dumps(json.loads(STORED.read_text()) | {"far": [{"tokens": 3}]}),
    ],
)
def test_a_broken_file_is_refused_by_its_name(tmp_path, content):
    path = tmp_path / "broken.json"
    path.write_text(content)
    with pytest.raises(ValueError) as caught:
        stored(path)
    assert str(caught.value) == f"{path}: no measurement of this program"


def test_a_file_that_is_not_there_is_not_found(tmp_path):
    with pytest.raises(FileNotFoundError):
        stored(tmp_path / "nothing.json")


def test_what_was_not_measured_is_refused():
    with pytest.raises(
        ValueError, match="got float16, forward, eager, want three that"
    ):
        rows(stored(), "float16", "forward", "eager")


# --- The measuring --------------------------------------------------------------------------------


class Stopped:
    """As much of pytest-benchmark's fixture as is used; its clock gives 3 s for every round."""

    def pedantic(self, target, setup, rounds, warmup_rounds):
        for _ in range(warmup_rounds + rounds):
            setup()
            assert target() is None
        self.stats = SimpleNamespace(stats=SimpleNamespace(data=[3.0] * rounds))


@pytest.fixture
def clock(monkeypatch):
    """Each look at the clock is 2 s after the one before: so long a clone() takes."""
    looks = iter(range(0, 10_000, 2))
    clock = SimpleNamespace(perf_counter=lambda: next(looks))
    monkeypatch.setattr(benchmark_rotation, "time", clock)


@pytest.fixture
def not_compiled(monkeypatch):
    monkeypatch.setattr(torch, "compile", lambda function: function)


@pytest.mark.parametrize("name", [FLOOR, *ROTATIONS])
@pytest.mark.parametrize("combination", COMBINATIONS, ids=" ".join)
def test_installed_contenders_are_measured(clock, not_compiled, combination, name):
    dtype, run, mode = combination
    row = measure(Task(dtype, run, **SMALL), name, mode, Stopped())
    error = row.pop("error")
    assert row == {
        "dtype": dtype, "run": run, "mode": mode, "rotation": name, "ms": 3000.0, "ratio": 1.5
    }  # fmt: skip
    assert error is None if name == FLOOR else 0 < error <= ALLOWED[dtype]


def test_a_contender_of_the_tests_requirements_is_there():
    assert {"lib.rope", "llama-models"} <= set(ROTATIONS)


def unrotated(positions, d_head, q):
    return lambda q, k: (q.clone(), k.clone())


def turned(change):
    """A contender with another table than that of positions 0 .. T - 1."""

    def make(positions, d_head, q):
        table = change(precompute_freqs_cis(d_head, len(positions) + 1))
        return lambda q, k: apply_rotary_emb(q, k, table[: len(q[0])])

    return make


def swapped(positions, d_head, q):
    rotate = turned(lambda table: table)(positions, d_head, q)
    return lambda q, k: rotate(k, q)


def nothing(positions, d_head, q):
    return lambda q, k: (q * float("nan"), k * float("nan"))


WRONG = {
    "no rotation": Contender(unrotated),
    "clockwise": Contender(turned(torch.conj)),
    "a position late": Contender(turned(lambda table: table[1:])),
    "the other layout": Contender(turned(lambda table: table), half_split=True),
    "keys for queries": Contender(swapped),
    "nan": Contender(nothing),
}


@pytest.mark.parametrize("contender", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_who_computes_something_else_is_not_timed(monkeypatch, dtype, run, contender):
    monkeypatch.setitem(CONTENDERS, "impostor", contender)
    with pytest.raises(ValueError, match=r"^impostor: got a result that is .*, want "):
        measure(Task(dtype, run, **SMALL), "impostor", "eager", None)


def test_what_fails_to_compile_has_no_time_and_what_fails_by_itself_ends_the_measurement(
    monkeypatch,
):
    def fail(*_):
        raise RuntimeError("no compiler")

    monkeypatch.setattr(torch, "compile", lambda function: fail)
    task = Task("float32", "forward", **SMALL)
    row = measure(task, "lib.rope", "compiled", None)
    assert [row[name] for name in ("ms", "ratio", "error")] == [None] * 3
    monkeypatch.setitem(CONTENDERS, "failing", Contender(lambda *_: fail))
    with pytest.raises(RuntimeError, match="no compiler"):
        measure(task, "failing", "eager", None)


@pytest.mark.parametrize("run", RUNS)
def test_a_measured_call_writes_none_of_its_inputs(run):
    task = Task("bfloat16", run, **SMALL)
    before = [x.clone() for x in task.given]
    for name in ROTATIONS:
        task.call(CONTENDERS[name])()
    assert all(torch.equal(x, y) for x, y in zip(task.given, before, strict=True))


# --- How exact, far out ---------------------------------------------------------------------------


def test_the_stored_errors_are_those_of_every_contender_at_every_length():
    errors, header = far_rows(stored())
    assert errors[0][0] == "lib.rope"
    assert {row[0] for row in errors} == CONTENDERS.keys() - {FLOOR}
    assert len(header) == 1 + len(benchmark_rotation.FAR)
    assert all(len(row) == len(header) for row in errors)


@pytest.mark.parametrize("name", ROTATIONS)
def test_an_angle_s_error_far_out_is_that_of_float32_or_of_rounding(name):
    near, far = (
        angle_error(CONTENDERS[name], tokens, 16) for tokens in (1_024, 131_072)
    )
    assert near < 1e-3
    assert far < 1e-6 if name == "lib.rope" else 1e-4 < far < 0.1


def test_an_angle_that_is_off_is_measured():
    def late(positions, d_head, q):
        table = freqs_cis_at(positions + 0.25, d_head)
        return lambda q, k: apply_rotary_emb(q, k, table)

    assert angle_error(Contender(late), 2_048, 16) == 0.25
