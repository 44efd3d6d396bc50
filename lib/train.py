"""Train a small decoder on text, on a CPU, so that it can be stopped and taken up again.

    python -m lib.train rope                     3000 steps on the standard library's source
    python -m lib.train learned --text *.txt     on text of your own
    python -m lib.train rope                     again: goes on where it was stopped

Without --text the text is the source of the running Python's standard library, which
every machine has. Files are split, not positions: every tenth file is held out.
A checkpoint is written every 200 steps, at the end, and on Ctrl-C; a run that was
stopped, or killed between two checkpoints, ends with the same weights as one that was
not.
"""

import argparse
import copy
import hashlib
import io
import math
import signal
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm import tqdm

from lib.checks import as_int, as_number
from lib.decoder import POSITIONS, Decoder, DecoderConfig
from lib.files import require_writable, write_atomically

CHECKPOINTS = Path("_build/checkpoints")
NO_CHECKPOINT = "no checkpoint of this program"
EVERY_TENTH = 10  # file is held out, or the last tenth of a single file


# --- Text -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Text:
    """Bytes to learn from and bytes held out, as int64 [N], and a hash that names them."""

    train: Tensor
    held_out: Tensor
    name: str


@cache
def standard_library() -> Text:
    """The modules of the running Python's standard library, read once."""
    return text_of(sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")))


def text_of(files: Sequence[Path | str]) -> Text:
    """The files' bytes, every tenth file held out; of fewer than ten files, the last tenth of all bytes.

    Raises FileNotFoundError or IsADirectoryError for what is no file, and ValueError
    when there is no text in them.
    """
    if isinstance(files, str | Path):
        raise TypeError(f"files: got {str(files)!r}, want a list of files")
    contents = [Path(file).read_bytes() for file in files]
    if len(contents) >= EVERY_TENTH:
        train = b"".join(c for n, c in enumerate(contents) if n % EVERY_TENTH)
        held_out = b"".join(contents[::EVERY_TENTH])
    else:
        joined = b"".join(contents)
        cut = len(joined) - len(joined) // EVERY_TENTH
        train, held_out = joined[:cut], joined[cut:]
    if not train or not held_out:
        raise ValueError(
            f"text: got {len(train)} bytes to learn from and {len(held_out)} to hold out, want some of each"
        )
    name = hashlib.sha256(train + b"\0" + held_out).hexdigest()[:16]
    return Text(as_ids(train), as_ids(held_out), name)


def as_ids(text: bytes) -> Tensor:
    """One token id for each byte, int64 [N]."""
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).long()


# --- Training -------------------------------------------------------------------------


@dataclass(frozen=True)
class TrainingConfig:
    """A budget: windows of `length` bytes, `batch` of them a step; warm-up, then a cosine to 0."""

    length: int = 64
    steps: int = 3000
    batch: int = 32
    learning_rate: float = 1e-3
    warm_up: int = 100
    weight_decay: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("length", "steps", "batch"):
            as_int(name, getattr(self, name), at_least=1)
        as_int("warm_up", self.warm_up, at_least=0)
        for name in ("learning_rate", "weight_decay"):
            as_number(name, getattr(self, name), at_least=0)
        as_int("seed", self.seed)

    def learning_rate_at(self, step: int) -> float:
        rising = (step + 1) / (min(self.warm_up, self.steps // 2) + 1)
        falling = 0.5 * (1 + math.cos(math.pi * step / self.steps))
        return self.learning_rate * min(rising, falling)


class Training:
    """A model on its way: `step` takes one, `state` and `load` stop it and take it up again.

    The model's first weights and all windows follow from the seed alone.
    Raises ValueError when the text is shorter than a window.
    """

    def __init__(
        self,
        model: Decoder | DecoderConfig,
        text: Text,
        config: TrainingConfig = TrainingConfig(),
    ) -> None:
        for part, name in ((text.train, "train"), (text.held_out, "held_out")):
            if len(part) <= config.length:
                raise ValueError(
                    f"text.{name}: got {len(part)} bytes, want more than a window of {config.length}"
                )
        if isinstance(model, DecoderConfig):
            model = seeded(model, config.seed)
        self.model, self.text, self.config = model, text, config
        self.steps_done = 0
        self.losses: list[float] = []
        self._windows = torch.Generator().manual_seed(config.seed)
        self._optimizer = torch.optim.AdamW(
            parameter_groups(model, config.weight_decay),
            lr=config.learning_rate,
            betas=(0.9, 0.95),
            fused=True,
        )

    @property
    def finished(self) -> bool:
        return self.steps_done >= self.config.steps

    def step(self) -> float:
        """One step of the budget; the loss of its windows, in nats a byte.

        Raises FloatingPointError when the training has diverged, and goes no further.
        """
        for group in self._optimizer.param_groups:
            group["lr"] = self.config.learning_rate_at(self.steps_done)
        windows = random_windows(
            self.text.train, self.config.batch, self.config.length, self._windows
        )
        loss = F.cross_entropy(
            self.model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten()
        )
        self._require_finite(loss.item())
        self._optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self._optimizer.step()
        self.steps_done += 1
        self.losses.append(loss.item())
        return self.losses[-1]

    def _require_finite(self, loss: float) -> None:
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"learning_rate: got {self.config.learning_rate}, with which the training diverged: "
                f"after {self.steps_done} steps its loss is {loss}; want a smaller one"
            )

    def run(
        self,
        save: Callable[[], None] = lambda: None,
        save_every: int = 200,
        label: str = "training",
        bar: Callable = tqdm,
    ) -> None:
        """All steps that are left, with a progress bar; `save` is called on the way, at the end, and on Ctrl-C.

        bar: makes the progress bar, which is used as tqdm's are. Raises as `step`.
        """
        progress = bar(
            total=self.config.steps,
            initial=self.steps_done,
            desc=label,
            unit="step",
            mininterval=1,
            disable=None,  # none where nobody looks: a file, a test
        )
        begun, before = time.monotonic(), self.steps_done
        with progress, _stop_asked() as stop:
            while not self.finished and not stop:
                loss = self.step()
                progress.update()
                if self.steps_done % 20 == 0:
                    tokens = (self.steps_done - before) * self.config.batch
                    tokens *= self.config.length
                    speed = tokens / (time.monotonic() - begun)
                    progress.set_postfix_str(f"loss {loss:.3f}, {speed:,.0f} tokens/s")
                if self.steps_done % save_every == 0 and not self.finished:
                    save()
        save()
        if stop:
            raise KeyboardInterrupt

    # ---- Stopping and going on ----

    def state(self) -> dict:
        """All that is needed to go on: weights, optimizer, windows, and what they belong to."""
        return self._identity() | {
            "steps_done": self.steps_done,
            "losses": self.losses,
            "windows": self._windows.get_state(),
            "model": self.model.state_dict(),
            "optimizer": self._optimizer.state_dict(),
        }

    def _identity(self) -> dict:
        """What tells this run from others."""
        return {
            "decoder": asdict(self.model.config),
            "training": asdict(self.config),
            "text": self.text.name,
        }

    def load(self, state: dict) -> None:
        """Go on from a state. Raises ValueError when it is none, or that of another run, and changes nothing."""
        before = copy.deepcopy(self.state())
        if not isinstance(state, dict) or state.keys() != before.keys():
            raise ValueError(NO_CHECKPOINT)
        for name, theirs, mine in _differences(state, self._identity()):
            raise ValueError(
                f"{name}: the checkpoint has {theirs}, this run has {mine}"
            )
        try:
            self._take(state)
        except Exception as error:
            self._take(before)
            raise ValueError(NO_CHECKPOINT) from error

    def _take(self, state: dict) -> None:
        self.model.load_state_dict(state["model"])
        self._optimizer.load_state_dict(state["optimizer"])
        self._windows.set_state(state["windows"])
        self.steps_done, self.losses = state["steps_done"], list(state["losses"])
        if not len(self.losses) == self.steps_done <= self.config.steps:
            raise ValueError(f"{self.steps_done} steps, {len(self.losses)} losses")
        for parameter, moments in self._optimizer.state.items():
            for moment in moments.values():  # the optimizer itself does not look
                if moment.shape not in (parameter.shape, ()):
                    raise ValueError(f"{moment.shape} for {parameter.shape}")


def _differences(theirs: dict, mine: dict) -> Iterator[tuple]:
    """(name, theirs, mine) of all that differs in `mine`, the names of a dict's own with its name before them."""
    for name, value in mine.items():
        other = theirs.get(name)
        if isinstance(value, dict) and isinstance(other, dict):
            for inner, *values in _differences(other, value):
                yield f"{name}.{inner}", *values
        elif other != value:
            yield name, other, value


@contextmanager
def _stop_asked() -> Iterator[list]:
    """A list that Ctrl-C fills: a step is not torn apart. A second Ctrl-C does not wait."""
    asked: list[bool] = []

    def ask(*_: object) -> None:
        if asked:
            raise KeyboardInterrupt
        asked.append(True)

    if threading.current_thread() is not threading.main_thread():
        yield asked  # only the main thread is told of Ctrl-C
        return
    before = signal.signal(signal.SIGINT, ask)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before)


def seeded(config: DecoderConfig, seed: int) -> Decoder:
    """A new decoder whose weights follow from the seed; the global random state stays as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Decoder(config)


def parameter_groups(model: Decoder, weight_decay: float) -> list[dict]:
    """Matrices decay, as in nanoGPT; position rows do not, so that one that is never read stays as it was."""
    decays = {
        name: parameter.ndim > 1 and not name.startswith("positions.")
        for name, parameter in model.named_parameters()
    }
    chosen = {
        kind: [p for name, p in model.named_parameters() if decays[name] == kind]
        for kind in (True, False)
    }
    return [
        {"params": chosen[True], "weight_decay": weight_decay},
        {"params": chosen[False], "weight_decay": 0.0},
    ]


def random_windows(
    text: Tensor, batch: int, length: int, generator: torch.Generator
) -> Tensor:
    """[batch, length + 1] bytes: what is read, and one further on what is predicted."""
    starts = torch.randint(len(text) - length, (batch, 1), generator=generator)
    return text[starts + torch.arange(length + 1)]


# --- Checkpoints ----------------------------------------------------------------------


def save(training: Training, path: Path) -> None:
    """Write the training's state; whatever happens, the file is the old one or the new one."""
    buffer = io.BytesIO()
    torch.save(training.state(), buffer)
    write_atomically(path, buffer.getvalue())


def resume(training: Training, path: Path) -> None:
    """Go on from a checkpoint.

    Raises OSError when the file cannot be read and ValueError when it is no checkpoint,
    or that of another run; the training then stays as it was.
    """
    content = io.BytesIO(path.read_bytes())
    try:
        state = torch.load(content, weights_only=True)
    except Exception as error:  # of many kinds
        raise ValueError(f"{path}: {NO_CHECKPOINT}") from error
    try:
        training.load(state)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


# --- The command ----------------------------------------------------------------------


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m lib.train",
        description="Train a small decoder on text. A second call goes on where the first was stopped.",
    )
    defaults = TrainingConfig()
    parser.add_argument("position", choices=POSITIONS)
    parser.add_argument(
        "--text",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="text to learn from (default: the standard library's source)",
    )
    for name, value, meaning in (
        ("steps", defaults.steps, "of the whole run"),
        ("length", defaults.length, "bytes in a window"),
        ("batch", defaults.batch, "windows in a step"),
        ("seed", defaults.seed, "of the first weights and of the windows"),
        ("rows", 1024, "of the learned or the rotation table"),
    ):
        parser.add_argument(
            f"--{name}",
            type=int,
            default=value,
            metavar="N",
            help=f"{meaning} (default: {value})",
        )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="(default: _build/checkpoints/POSITION-SEED.pt)",
    )
    given = parser.parse_args(arguments)
    if given.position != "none" and given.length > given.rows:
        parser.error(
            f"--length: got {given.length}, want at most --rows = {given.rows}"
        )
    path = given.checkpoint or CHECKPOINTS / f"{given.position}-{given.seed}.pt"
    try:
        text = text_of(given.text) if given.text else standard_library()
        config = TrainingConfig(
            length=given.length, steps=given.steps, batch=given.batch, seed=given.seed
        )
        training = Training(DecoderConfig(given.position, given.rows), text, config)
        if path.exists():
            resume(training, path)
            print(f"{path}: going on after step {training.steps_done}")
        require_writable(path)
    except (OSError, ValueError, TypeError) as error:
        parser.error(str(error))
    try:
        training.run(save=lambda: save(training, path), label=given.position)
    except FloatingPointError as error:
        print(f"\n{error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(
            f"\nstopped after step {training.steps_done}; the same command goes on from {path}",
            file=sys.stderr,
        )
        return 130
    print(f"{path}: {training.steps_done} steps, last loss {training.losses[-1]:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
