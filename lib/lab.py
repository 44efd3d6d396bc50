"""The lab's experiments: a decoder small enough to be trained while one waits, and read past its training length.

trained = experiment("rope")
trained.perplexities            # in the bins of trained.edges
experiment("rope", base=500, length=64)
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lib.checks import as_int
from lib.decoder import Decoder, DecoderConfig, Position
from lib.lengths import WINDOWS, loss_by_position, perplexities
from lib.live import ProgressBar
from lib.rope import BASE
from lib.train import Text, Training, TrainingConfig, standard_library

FAR = 8  # times the training length, to which an experiment is read


@dataclass(frozen=True)
class Trained:
    """A trained decoder and how well it predicts. loss: by position, float64 [FAR * length], in nats."""

    model: Decoder
    length: int
    loss: Tensor

    @property
    def edges(self) -> tuple[int, ...]:
        return edges(self.length)

    @property
    def perplexities(self) -> list[float]:
        """In the bins between the edges."""
        return perplexities(self.loss, self.edges)

    @property
    def ratios(self) -> dict[str, float]:
        """Perplexity just past the trained length, and far past it, over that of the trained range's second half."""
        inside, just_past, *_, far = self.perplexities
        return {"just past": just_past / inside, "far past": far / inside}


def edges(length: int) -> tuple[int, ...]:
    """The second half of the trained range, a quarter more, and then in doubling steps."""
    T = length
    return (T // 2, T, T + T // 4, 2 * T, 4 * T, FAR * T)


def experiment(
    position: Position,
    *,
    base: float = BASE,
    d_head: int = 16,
    h: int = 4,
    n_layers: int = 2,
    length: int = 32,
    steps: int = 600,
    batch: int = 16,
    learning_rate: float = 4e-3,
    seed: int = 0,
    text: Text | None = None,
    windows: int = WINDOWS,
    bar: Callable | None = None,
) -> Trained:
    """Train a decoder on windows of `length` bytes, then read held-out text of FAR times that length.

    position: "learned" (a row for every position that will be read, of which only the
    first `length` are trained), "rope" or "none". text: the standard library's source
    unless given. windows: pieces of held-out text that are read. bar: makes the progress
    bar, as `Training.run` takes it; a widget's unless given. Ten seconds at the defaults
    on one core. Raises as DecoderConfig, TrainingConfig and Training do, and
    FloatingPointError when the training diverges.
    """
    longest = FAR * as_int("length", length, at_least=4)
    for name, value in (("d_head", d_head), ("h", h), ("windows", windows)):
        as_int(name, value, at_least=1)
    text = standard_library() if text is None else text
    if not isinstance(text, Text):
        raise TypeError(
            f"text: got {type(text).__name__}, want a Text, as lib.train.text_of makes it"
        )
    if len(text.held_out) <= longest:
        raise ValueError(
            f"text.held_out: got {len(text.held_out)} bytes, a tenth of the text, want more "
            f"than {FAR} * length = {longest}"
        )
    config = DecoderConfig(
        position, longest, d=h * d_head, h=h, n_layers=n_layers, base=base
    )
    budget = TrainingConfig(length, steps, batch, learning_rate, seed=seed)
    training = Training(config, text, budget)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # so small a model waits for threads more than it works
    try:
        training.run(label=position, bar=bar or ProgressBar)
        loss = loss_by_position(training.model.eval(), text.held_out, longest, windows)
    finally:
        torch.set_num_threads(threads)
    return Trained(training.model, length, loss)
