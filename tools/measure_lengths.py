"""Train small decoders at 64 tokens, measure them at lengths up to 1024, and store what the chapters draw.

    python -m tools.measure_lengths

writes lib/data/lengths.json. For each of three seeds: the byte perplexity by position
of a decoder with a learned table of 1024 rows, of which 64 are trained, of the same one
with its table cut to those 64, of one with RoPE and of one without positions; and of the
RoPE model with other frequencies, without and with a short fine-tuning. Of the first seed
also the table's rows and the attention weights. And the range of the lab's live
experiment over eight seeds.

The text is the source of the running Python's standard library, split by file. Same data
and budget for all. An hour on two cores; stopped, its trainings go on where they were,
from _build/lengths, and what follows them is done again. One core for each training, so
that the number of cores changes nothing. Digits vary with the Python version's text and
the machine's arithmetic: `--compare FILE` says how far another result is from the stored
one.
"""

import argparse
import copy
import json
import math
import os
import platform
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

from lib import scaling
from lib.decoder import POSITIONS, Decoder, DecoderConfig, Position
from lib.files import require_writable, write_atomically
from lib.lab import experiment
from lib.lengths import (
    STORED,
    WINDOWS,
    WITHIN,
    Measured,
    evenly_spread,
    loss_by_position,
    perplexities,
)
from lib.rope import inv_freq
from lib.train import (
    Training,
    TrainingConfig,
    resume,
    save,
    seeded,
    standard_library,
)
from tools.repository import ROOT

CHECKPOINTS = ROOT / "_build" / "lengths"
TRAINED, LONGEST = 64, 1024
COARSE = (0, 32, 64, 80, 96, 128, 256, 512, 1024)  # positions, each bin [start, next)
FINE: tuple[int, ...] = (1, 2, 4, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128)
FINE += (160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024)
FACTOR = 4  # texts of the stretched models are so many times the training's length
FINE_TUNING = TrainingConfig(
    length=FACTOR * TRAINED, steps=200, batch=8, learning_rate=3e-4, warm_up=20
)
STRETCHES: dict[str, Callable[[int], Tensor]] = {
    "unchanged": inv_freq,
    "interpolation": lambda d_head: scaling.position_interpolation(d_head, FACTOR),
    "NTK-aware": lambda d_head: scaling.ntk_aware(d_head, FACTOR),
    "YaRN": lambda d_head: scaling.yarn(d_head, FACTOR, TRAINED),
}
SECTIONS = ("coarse", "fine", "stretched", "tuned", "live")
MAP_LENGTH, MAP_STEP = 128, 4  # of the attention maps


@dataclass(frozen=True)
class Scope:
    """How much is measured.

    Seeds and steps of the long trainings, steps of the fine-tuning after them, seeds and
    steps of the lab's live experiment, and texts read for each measurement.
    """

    seeds: int = 3
    steps: int = 3000
    fine_tuning_steps: int = 200
    live_seeds: int = 8
    live_steps: int = 600
    windows: int = WINDOWS


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Train small decoders and measure them past their length."
    )
    for name, default in asdict(Scope()).items():
        parser.add_argument(
            _option(name), type=int, default=default, metavar="N", help=f"({default})"
        )
    parser.add_argument(
        "--output", type=Path, metavar="FILE", help=f"({STORED.relative_to(ROOT)})"
    )
    parser.add_argument(
        "--checkpoints",
        type=Path,
        metavar="FOLDER",
        default=CHECKPOINTS,
        help=f"of the trainings ({CHECKPOINTS.relative_to(ROOT)})",
    )
    parser.add_argument(
        "--compare",
        type=Path,
        metavar="FILE",
        help="run nothing; say how far this result is from the stored one",
    )
    given = parser.parse_args()
    if given.compare:
        try:
            return compare(Measured(), Measured(given.compare))
        except (OSError, ValueError) as error:
            parser.error(str(error))
    scope = Scope(**{name: getattr(given, name) for name in asdict(Scope())})
    for name, value in asdict(scope).items():
        if value < 1:
            parser.error(f"{_option(name)}: got {value}, want at least 1")
    if scope != Scope() and given.output is None:
        parser.error(
            "a trial of other size needs --output: the chapters read the full run"
        )
    output = given.output or STORED
    try:
        for file in (output, given.checkpoints / "checkpoint"):
            require_writable(file)
    except OSError as error:
        parser.error(str(error))
    signal.signal(signal.SIGTERM, end_now)
    try:
        result = Measurement(scope, given.checkpoints).all()
    except KeyboardInterrupt:
        print("\nstopped; the same command goes on with the trainings", file=sys.stderr)
        return 130
    write_atomically(output, json.dumps(result) + "\n")
    return 0


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


# --- All of it ------------------------------------------------------------------------


Found = dict[tuple[str, str], list]  # (section, method): perplexities of one seed


@dataclass(frozen=True)
class Measurement:
    """What is run, one job for each seed and each kind of position."""

    scope: Scope
    checkpoints: Path

    def all(self) -> dict:
        """All that the chapters read."""
        jobs = [
            (job, position, seed)
            for job, seeds in (
                (self.measure, self.scope.seeds),
                (self.measure_live, self.scope.live_seeds),
            )
            for seed in range(seeds)
            for position in POSITIONS
        ]
        sections: dict[str, dict[str, list]] = {name: {} for name in SECTIONS}
        for found in in_parallel(jobs):
            for (section, method), row in found.items():
                sections[section].setdefault(method, []).append(row)
        return {
            "settings": self.settings(),
            "coarse_edges": COARSE,
            "fine_edges": FINE,
            **sections,
            **self.looked_into(),
        }

    def settings(self) -> dict:
        """What was run, and with what."""
        config = DecoderConfig("rope", LONGEST)
        return {
            "trained_length": TRAINED,
            "table_rows": LONGEST,
            "batch": TrainingConfig.batch,
            "learning_rate": TrainingConfig.learning_rate,
            **asdict(self.scope),
            "fine_tuning_length": FINE_TUNING.length,
            "fine_tuning_batch": FINE_TUNING.batch,
            "fine_tuning_learning_rate": FINE_TUNING.learning_rate,
            **{f"live_{name}": value for name, value in live_defaults().items()},
            "n_layers": config.n_layers,
            "d": config.d,
            "h": config.h,
            "factor": FACTOR,
            "map_step": MAP_STEP,
            "held_out_bytes": len(standard_library().held_out),
            "python": platform.python_version(),
            "torch": torch.__version__.split("+")[0],
            "machine": f"{platform.machine()} CPU",
        }

    def measure(self, position: Position, seed: int) -> Found:
        """Perplexities for each method that one long training gives."""
        model = self.trained(position, seed)
        found = in_bins(position, self.loss(model, LONGEST))
        if position == "learned":
            found |= in_bins("cut", self.as_far_as_it_runs(cut(model, TRAINED)))
        if position == "rope":
            found |= self.stretched(model, seed)
        return found

    def measure_live(self, position: Position, seed: int) -> Found:
        """Perplexities of the lab's live experiment."""
        run = experiment(
            position,
            seed=seed,
            steps=self.scope.live_steps,
            windows=self.scope.windows,
            bar=tqdm,
        )
        return {("live", position): significant(run.perplexities)}

    def looked_into(self) -> dict:
        """Of the first seed: the learned table before and after training, and attention weights."""
        models = {position: self.trained(position, 0) for position in POSITIONS}
        return {
            "untrained_rows": table_rows(seeded(models["learned"].config, 0)),
            "trained_rows": table_rows(models["learned"]),
            "attention": {name: attention(model) for name, model in models.items()},
        }

    def trained(self, position: Position, seed: int) -> Decoder:
        """A decoder trained on windows of TRAINED bytes; its checkpoint is kept."""
        steps = self.scope.steps
        config = TrainingConfig(length=TRAINED, steps=steps, seed=seed)
        training = Training(
            DecoderConfig(position, LONGEST), standard_library(), config
        )
        path = self.checkpoints / f"{position}-{steps}-{seed}.pt"
        if path.exists():
            resume(training, path)
        if not training.finished:
            label = f"{position}, seed {seed}"
            training.run(save=lambda: save(training, path), label=label)
        return training.model.eval()

    def stretched(self, model: Decoder, seed: int) -> Found:
        """The RoPE model with other frequencies, without and with a short fine-tuning on longer texts."""
        found = {}
        budget = replace(FINE_TUNING, steps=self.scope.fine_tuning_steps, seed=seed)
        for name, frequencies in STRETCHES.items():
            other = copy.deepcopy(model)
            other.freqs_cis = scaling.precompute_scaled(
                frequencies(model.config.d_head),
                LONGEST,
                scaling.yarn_attention_factor(FACTOR) if name == "YaRN" else 1.0,
            )
            loss = self.loss(other, LONGEST)
            found["stretched", name] = significant(perplexities(loss, FINE))
            tuning = Training(other.train(), standard_library(), budget)
            tuning.run(label=f"{name}, seed {seed}")
            loss = self.loss(other.eval(), LONGEST)
            found["tuned", name] = significant(perplexities(loss, FINE))
        return found

    def as_far_as_it_runs(self, model: Decoder) -> Tensor:
        """Its loss by position up to the last one that it has a row for: one more must be refused."""
        rows = model.config.max_position
        try:
            self.loss(model, rows + 1)
        except IndexError:
            return self.loss(model, rows)
        raise AssertionError(f"a table of {rows} rows had one more")

    def loss(self, model: Decoder, length: int) -> Tensor:
        """By position, always on the same pieces of text."""
        held_out = standard_library().held_out
        return loss_by_position(model, held_out, length, self.scope.windows, LONGEST)


def live_defaults() -> dict:
    """What `lib.lab.experiment` does when it is asked for nothing else."""
    defaults = experiment.__kwdefaults__ or {}
    return {
        name: defaults[name]
        for name in ("d_head", "h", "n_layers", "length", "batch", "learning_rate")
    }


def in_parallel(jobs: list[tuple]) -> Iterator[Found]:
    """What each job gives, in the order of the jobs; as many run at once as there are cores."""
    pool = ProcessPoolExecutor(
        os.cpu_count(),
        mp_context=get_context("spawn"),
        initializer=_begin,
    )
    try:
        waiting = [pool.submit(_unless_stopped, *job) for job in jobs]
        finished = as_completed(waiting)
        for done in tqdm(finished, total=len(jobs), unit="run", disable=None):
            done.result()  # raises at once what went wrong
        yield from (job.result() for job in waiting)
    except KeyboardInterrupt:  # all workers were told, and save; a second one ends them
        signal.signal(signal.SIGINT, end_now)
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def end_now(number: int, _: object) -> None:
    """What a signal does that does not wait for the workers."""
    for worker in active_children():
        worker.terminate()
    sys.exit(128 + number)


def _begin() -> None:
    """A worker has one core, and ends when the measurement that it works for was killed."""
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := parent_process():
        parent.join()
    os._exit(1)


_stopped = False  # this worker was told of a Ctrl-C


def _unless_stopped(job: Callable[..., Found], *arguments: Any) -> Found:
    """The job, but none after a Ctrl-C: the pool hands out a few more that it had ready."""
    global _stopped
    if _stopped:
        raise KeyboardInterrupt
    try:
        return job(*arguments)
    except KeyboardInterrupt:
        _stopped = True
        raise


# --- One decoder ----------------------------------------------------------------------


def cut(model: Decoder, rows: int) -> Decoder:
    """The same decoder with no more than its table's first rows."""
    short = Decoder(replace(model.config, max_position=rows))
    weights = model.state_dict()
    weights["positions.weight"] = weights["positions.weight"][:rows]
    short.load_state_dict(weights)
    return short.eval()


def attention(model: Decoder) -> list:
    """Mean over heads and texts: [n_layers, MAP_LENGTH / MAP_STEP, the same].

    The queries of a step are averaged, the weights on the keys of a step added.
    """
    ids = evenly_spread(standard_library().held_out, 64, MAP_LENGTH)
    maps = model.attention_maps(ids).mean(dim=(1, 2))
    steps = maps.unflatten(-1, (-1, MAP_STEP)).sum(-1)
    steps = steps.unflatten(-2, (-1, MAP_STEP)).mean(-2)
    return [[rounded(row, 3) for row in layer] for layer in steps.tolist()]


def table_rows(model: Decoder) -> list[list[float]]:
    """The first TRAINED rows of a learned table."""
    table = model.get_parameter("positions.weight")
    return [rounded(row, 4) for row in table[:TRAINED].tolist()]


# --- Numbers for the file -------------------------------------------------------------


def in_bins(method: str, loss: Tensor) -> Found:
    """The perplexities in coarse and in fine bins."""
    return {
        ("coarse", method): significant(perplexities(loss, COARSE)),
        ("fine", method): significant(perplexities(loss, FINE)),
    }


def significant(values: list[float], digits: int = 4) -> list[float | None]:
    """Rounded; null for NaN, which JSON has not."""
    return [None if math.isnan(x) else float(f"{x:.{digits}g}") for x in values]


def rounded(values: list[float], places: int = 4) -> list[float]:
    return [round(value, places) for value in values]


# --- Two results ----------------------------------------------------------------------


MAY_DIFFER = {"seeds", "live_seeds", "python", "torch", "machine", "held_out_bytes"}


def compare(stored: Measured, other: Measured) -> int:
    """Print how far the other's means are outside the stored seeds' range; 1 when one is farther than WITHIN.

    Raises ValueError when the other was run in another way.
    """
    wanted, got = _how_it_was_run(stored), _how_it_was_run(other)
    different = [
        f"{name}: got {got.get(name)}, want {value}"
        for name, value in wanted.items()
        if got.get(name) != value
    ]
    if different:
        raise ValueError("another measurement. " + "; ".join(different))
    farthest = 1.0
    for section in SECTIONS:
        for method, runs in getattr(stored, section).items():
            off = runs.beyond(getattr(other, section)[method].mean)
            farthest = max(farthest, off)
            where = "inside" if off == 1 else f"outside by a factor of {off:.2f}"
            print(f"{section:<10}  {method:<13}  {where}")
    verdict = "reproduced" if farthest <= WITHIN else "not reproduced"
    print(f"{verdict}: {farthest:.2f} times outside the range, {WITHIN} is allowed")
    return int(farthest > WITHIN)


def _how_it_was_run(measured: Measured) -> dict:
    """What must agree: settings, bins, and each section's methods with the number of their bins."""
    settings = measured.settings.items()
    return {
        **{name: value for name, value in settings if name not in MAY_DIFFER},
        "coarse_edges": measured.coarse_edges,
        "fine_edges": measured.fine_edges,
        **{
            section: {
                method: runs.mean.numel()
                for method, runs in getattr(measured, section).items()
            }
            for section in SECTIONS
        },
    }


if __name__ == "__main__":
    sys.exit(main())
