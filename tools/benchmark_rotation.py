"""Measure the rotation: python -m tools.benchmark_rotation (`make benchmark` installs what it needs)

Times `lib.rope.apply_rotary_emb` beside the rotations of Meta's llama-models, of Hugging
Face's transformers (its Llama), of torchtune, rotary-embedding-torch and x-transformers,
each from its own package, and stores the result in lib/data/rotation.json.

Queries and keys [1, 2048, 32, 128], float32 and bfloat16; forward, and forward with
backward; eager and through torch.compile; two threads. Who wants heads before tokens gets
transposed views, as transformers' model makes them, and who pairs dimensions half-split
gets them so. What can be made once for a text is made before: tables, cos and sin, angles.
rotary-embedding-torch and x-transformers take angles, and get those of float32 positions:
left to itself the first counts positions in the dtype of q, and in bfloat16 257 is 256.

Every result is compared with the exact rotation in float64 before it is timed; one that
is something else ends the measurement. How far angles are off at the end of longer texts
is measured beside. pytest-benchmark times the rounds. Just before
each of them clone() of q and k is timed too (in a run with backward also what autograd
then does, which is to copy their gradients): no function that returns new tensors costs
less. The ratio is the median over the rounds of the time to that of this clone(), so that
a noisy machine is as noisy for one as for the other.

Freed memory is kept for the next round, as PyTorch keeps it on a GPU. By itself glibc
returns large pieces to the system at each call, and to fetch them again takes longer than
the rotation. Where other work wants the cores too, OMP_WAIT_POLICY=PASSIVE helps.
"""

import ctypes
import importlib
import itertools
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

import pytest
import torch
from torch import Tensor

from lib.files import write_atomically
from lib.layouts import to_half_split, to_interleaved
from lib.rope import apply_rotary_emb, freqs_cis_at
from lib.rotation_times import HEADER, STORED, far_rows, rows, stored
from lib.show import table

Pair = tuple[Tensor, Tensor]  # q and k, both [B, T, h, d_head]
Rotation = Callable[[Tensor, Tensor], Pair]

SIZES = {"B": 1, "T": 2048, "h": 32, "d_head": 128}
DTYPES = ("float32", "bfloat16")
RUNS = ("forward", "forward + backward")
MODES = ("eager", "compiled")
THREADS = 2
ROUNDS, WARM_UP = 41, 2
FAR, LAST = (2_048, 131_072, 1_048_576), 1_024  # tokens of texts, and of their ends
# Of an error relative to the length of a pair. An angle of 2047 radians in float32 is
# 1e-4 off, cos and sin in bfloat16 are 4e-3 off; a wrong rotation is about 1 off.
ALLOWED = {"float32": 1e-3, "bfloat16": 2e-2}


# --- The contenders -------------------------------------------------------------------


def of_this_course(positions: Tensor, d_head: int, q: Tensor) -> Rotation:
    freqs_cis = freqs_cis_at(positions, d_head)
    return lambda q, k: apply_rotary_emb(q, k, freqs_cis)


def of_llama_models(positions: Tensor, d_head: int, q: Tensor) -> Rotation:
    model = meta_model()
    freqs_cis = model.precompute_freqs_cis(d_head, _length(positions))[positions]
    return lambda q, k: model.apply_rotary_emb(q, k, freqs_cis)


def of_transformers(positions: Tensor, d_head: int, q: Tensor) -> Rotation:
    from transformers import LlamaConfig
    from transformers.models.llama import modeling_llama as llama

    config = LlamaConfig(head_dim=d_head, max_position_embeddings=_length(positions))
    cos, sin = llama.LlamaRotaryEmbedding(config)(q, positions[None])
    return heads_first(lambda q, k: llama.apply_rotary_pos_emb(q, k, cos, sin))


def of_torchtune(positions: Tensor, d_head: int, q: Tensor) -> Rotation:
    from torchtune.modules import RotaryPositionalEmbeddings

    rotate = RotaryPositionalEmbeddings(d_head, _length(positions))
    if len(positions) == _length(positions):  # its own way to say: from the start
        return lambda q, k: (rotate(q), rotate(k))
    rows = positions[None]
    return lambda q, k: (rotate(q, input_pos=rows), rotate(k, input_pos=rows))


def of_rotary_embedding_torch(positions: Tensor, d_head: int, q: Tensor) -> Rotation:
    from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb

    angles = RotaryEmbedding(d_head)(positions.float()).detach()
    return heads_first(
        lambda q, k: (apply_rotary_emb(angles, q), apply_rotary_emb(angles, k))
    )


def of_x_transformers(positions: Tensor, d_head: int, q: Tensor) -> Rotation:
    from x_transformers.x_transformers import RotaryEmbedding, apply_rotary_pos_emb

    angles, _ = RotaryEmbedding(d_head)(positions)
    return heads_first(
        lambda q, k: (apply_rotary_pos_emb(q, angles), apply_rotary_pos_emb(k, angles))
    )


def clones(positions: Tensor, d_head: int, q: Tensor) -> Rotation:
    return lambda q, k: (q.clone(), k.clone())


def _length(positions: Tensor) -> int:
    """Of a table that ends at the last of them."""
    return int(positions[-1]) + 1


@cache
def meta_model() -> ModuleType:
    """Llama 3's model.py of llama-models.

    Its rotation uses nothing of fairscale, a large dependency: stand-ins take its place.
    """
    with pytest.MonkeyPatch.context() as patch:
        for name in ("", ".nn.model_parallel.initialize", ".nn.model_parallel.layers"):
            patch.setitem(sys.modules, f"fairscale{name}", MagicMock())
        return importlib.import_module("llama_models.llama3.model")


def heads_first(rotate: Rotation) -> Rotation:
    """A rotation of [B, h, T, d_head] as one of [B, T, h, d_head]; no tensor is copied."""

    def of_views(q: Tensor, k: Tensor) -> Pair:
        q, k = rotate(q.transpose(1, 2), k.transpose(1, 2))
        return q.transpose(1, 2), k.transpose(1, 2)

    return of_views


@dataclass(frozen=True)
class Contender:
    """A rotation: `make(positions, d_head, q)` prepares one for positions that rise, and q's dtype.

    package: the distribution it is from; None for this course and for clone().
    """

    make: Callable[[Tensor, int, Tensor], Rotation]
    package: str | None = None
    half_split: bool = False

    @property
    def installed(self) -> bool:
        return self.package is None or bool(find_spec(self.package.replace("-", "_")))


FLOOR = "clone()"
CONTENDERS = {
    FLOOR: Contender(clones),
    "lib.rope": Contender(of_this_course),
    "llama-models": Contender(of_llama_models, "llama-models"),
    "transformers": Contender(of_transformers, "transformers", half_split=True),
    "torchtune": Contender(of_torchtune, "torchtune"),
    "rotary-embedding-torch": Contender(
        of_rotary_embedding_torch, "rotary-embedding-torch"
    ),
    "x-transformers": Contender(of_x_transformers, "x-transformers"),
}


# --- One measurement ------------------------------------------------------------------


class Task:
    """Random q and k of a dtype, gradients of the same shape, and what a run makes of them.

    run: "forward" gives q and k rotated, "forward + backward" their gradients, which are
    the given ones rotated back.
    """

    def __init__(
        self, dtype: str, run: str, B: int, T: int, h: int, d_head: int
    ) -> None:
        self.dtype, self.run, self.d_head = dtype, run, d_head
        self.positions = torch.arange(T)
        generator = torch.Generator().manual_seed(0)
        self.given = [
            torch.randn(B, T, h, d_head, generator=generator).to(getattr(torch, dtype))
            for _ in ("q", "k", "gradient of q", "gradient of k")
        ]

    def call(self, contender: Contender, compiled: bool = False) -> Callable[[], Pair]:
        """What is timed: a call that does the run with the contender's rotation."""
        order = to_half_split if contender.half_split else torch.clone
        q, k, *gradients = map(order, self.given)
        rotate = contender.make(self.positions, self.d_head, q)
        if compiled:
            torch.compiler.reset()  # or the eighth falls back to eager, silently
            rotate = torch.compile(rotate)
        if self.run == "forward":
            return lambda: rotate(q, k)
        q.requires_grad_(), k.requires_grad_()

        def forward_and_backward() -> Pair:
            q.grad = k.grad = None
            torch.autograd.backward(rotate(q, k), gradients)
            return q.grad, k.grad  # type: ignore[return-value]  # backward has set both

        return forward_and_backward

    def error(self, result: Pair, half_split: bool = False) -> float:
        """The largest error of a pair of dimensions, relative to the pair's length."""
        turned = map(to_interleaved, result) if half_split else result
        far = (
            _pair_lengths(x.double() - exact) / _pair_lengths(exact)
            for x, exact in zip(turned, self.exact, strict=True)
        )
        return max(x.max().item() for x in far)

    @cached_property
    def exact(self) -> Pair:
        q, k, grad_q, grad_k = (x.double() for x in self.given)
        turns = freqs_cis_at(self.positions, self.d_head, dtype=torch.complex128)
        if self.run == "forward":
            return apply_rotary_emb(q, k, turns)
        return apply_rotary_emb(grad_q, grad_k, turns.conj())


def _pair_lengths(x: Tensor) -> Tensor:
    return x.unflatten(-1, (-1, 2)).norm(dim=-1)


def measure(task: Task, name: str, mode: str, benchmark: Any) -> dict:
    """A row of the stored times: `lib.rotation_times.stored` says what it holds.

    benchmark: pytest-benchmark's fixture. Raises ValueError for a contender whose result
    is not the rotation of q and k.
    """
    contender = CONTENDERS[name]
    row = {"dtype": task.dtype, "run": task.run, "mode": mode, "rotation": name}
    call = task.call(contender, compiled=mode == "compiled")
    try:
        result = call()
    except Exception:  # of many kinds: no C++ compiler, code that cannot be compiled
        if mode == "eager":
            raise
        return row | {"ms": None, "ratio": None, "error": None}
    error = None if name == FLOOR else checked(task, name, result)
    del result
    return row | timed(benchmark, call, task.call(CONTENDERS[FLOOR])) | {"error": error}


def checked(task: Task, name: str, result: Pair) -> float:
    """The error of the contender's result, in two digits, if it is a rotation's."""
    error = task.error(result, CONTENDERS[name].half_split)
    if not error <= ALLOWED[task.dtype]:
        raise ValueError(
            f"{name}: got a result that is {error:.1e} from the exact rotation, "
            f"want at most {ALLOWED[task.dtype]} in {task.dtype}"
        )
    return float(f"{error:.1e}")


def timed(benchmark: Any, call: Callable[[], Pair], floor: Callable[[], Pair]) -> dict:
    """The median in ms, and the median ratio of a round to the floor just before it."""
    floors = []

    def time_the_floor() -> None:
        start = time.perf_counter()
        floor()
        floors.append(time.perf_counter() - start)

    def without_result() -> None:  # what is returned would be kept for the next round
        call()

    benchmark.pedantic(
        without_result, setup=time_the_floor, rounds=ROUNDS, warmup_rounds=WARM_UP
    )
    times, floors = benchmark.stats.stats.data, floors[WARM_UP : WARM_UP + ROUNDS]
    ratios = [x / floor for x, floor in zip(times, floors, strict=True)]
    return {
        "ms": round(1000 * statistics.median(times), 2),
        "ratio": round(statistics.median(ratios), 3),
    }


# --- How exact, far out ---------------------------------------------------------------


def angle_error(contender: Contender, tokens: int, d_head: int) -> float:
    """The largest error of an angle, in radians and two digits, at the end of a text of so many tokens.

    In float32, over the last `LAST` positions and all pairs.
    """
    positions = torch.arange(tokens - LAST, tokens)
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 1, LAST, 1, d_head, generator=generator)
    if contender.half_split:
        rotated, _ = contender.make(positions, d_head, q)(*map(to_half_split, (q, k)))
        rotated = to_interleaved(rotated)
    else:
        rotated, _ = contender.make(positions, d_head, q)(q, k)
    turns = freqs_cis_at(positions, d_head, dtype=torch.complex128)
    exact, _ = apply_rotary_emb(q.double(), k.double(), turns)
    a, b = (
        torch.view_as_complex(x.double().unflatten(-1, (-1, 2)))
        for x in (rotated, exact)
    )
    return float(f"{(a * b.conj()).angle().abs().max():.1e}")


def far_errors() -> list[dict]:
    """`lib.rotation_times.stored` says what a row holds."""
    return [
        {
            "rotation": name,
            "tokens": tokens,
            "error": angle_error(contender, tokens, SIZES["d_head"]),
        }
        for name, contender in CONTENDERS.items()
        if contender.installed and name != FLOOR
        for tokens in FAR
    ]


# --- All of them ----------------------------------------------------------------------


@pytest.fixture(scope="module", params=itertools.product(DTYPES, RUNS))
def task(request: pytest.FixtureRequest) -> Task:
    dtype, run = request.param
    return Task(dtype, run, **SIZES)


@pytest.mark.parametrize(
    "name", [name for name in CONTENDERS if CONTENDERS[name].installed]
)
@pytest.mark.parametrize("mode", MODES)
def test_rotation(
    task: Task, mode: str, name: str, benchmark: Any, record_property: Callable
) -> None:
    record_property("time", measure(task, name, mode, benchmark))


class Times(list):
    """A pytest plugin: what the benchmarks recorded."""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            self += [value for name, value in report.user_properties if name == "time"]


def settings() -> dict:
    packages = [x.package for x in CONTENDERS.values() if x.package and x.installed]
    return {
        "sizes": SIZES,
        "threads": THREADS,
        "rounds": ROUNDS,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
        "versions": {name: version(name) for name in ("torch", *packages)},
    }


def show(measured: dict) -> None:
    table(*far_rows(measured))
    for dtype, run, mode in itertools.product(DTYPES, RUNS, MODES):
        print(f"\n{dtype}, {run}, {mode}")
        table(rows(measured, dtype, run, mode), header=HEADER)


def keep_freed_memory() -> None:
    """Where malloc is glibc's; elsewhere nothing."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt:
        mallopt(-4, 0)  # M_MMAP_MAX: large pieces too come from the heap
        mallopt(-1, 2**31 - 1)  # M_TRIM_THRESHOLD: which does not shrink


def main() -> None:
    keep_freed_memory()
    torch.set_num_threads(THREADS)
    times = Times()
    options = ["-q", "-o", "addopts=", "-p", "no:cacheprovider", "--benchmark-quiet"]
    options += ["--disable-warnings"]  # of packages, about what they import
    failed = pytest.main([__file__, *options], plugins=[times])
    if failed:
        sys.exit(f"Not measured; {STORED.name} is as it was.")
    measured = settings() | {"far": far_errors(), "times": times}
    write_atomically(STORED, json.dumps(measured, indent=1) + "\n")
    show(stored())


if __name__ == "__main__":
    main()
