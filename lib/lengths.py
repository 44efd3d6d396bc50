"""How good a decoder is at each position of a text, and the stored measurement that the chapters draw.

Perplexity is exp of the mean loss in nats: among how many bytes the model is in effect
choosing. 1 is perfect, 256 is knowing nothing.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from lib.checks import as_int
from lib.decoder import Decoder

STORED = Path(__file__).parent / "data" / "lengths.json"
WITHIN = 1.25  # so far outside the stored seeds' range another result may be
WINDOWS = 256  # texts read, evenly spread over what was held out


@torch.no_grad()
def loss_by_position(
    model: Decoder,
    text: Tensor,
    length: int,
    windows: int = WINDOWS,
    room: int | None = None,
) -> Tensor:
    """Mean loss, float64 [length] in nats, of the byte that follows each position.

    text [N], of which `windows` pieces are read, each from its own start, as positions
    0 .. length - 1. room: bytes that fit after each start, `length` unless given; with
    the same room a shorter reading reads the same pieces as a longer one. Raises
    ValueError when the text is shorter, and IndexError or ValueError where the model's
    table ends.
    """
    as_int("windows", windows, at_least=1)
    as_int("length", length, at_least=1)
    room = length if room is None else as_int("room", room, at_least=length)
    if len(text) <= room:
        raise ValueError(f"text: got {len(text)} bytes, want more than {room}")
    batch = evenly_spread(text, windows, length + 1, room + 1)
    losses = [
        F.cross_entropy(
            model(part[:, :-1]).transpose(1, 2), part[:, 1:], reduction="none"
        )
        for part in batch.split(8)
    ]
    return torch.cat(losses).double().mean(0)


def evenly_spread(
    text: Tensor, count: int, length: int, room: int | None = None
) -> Tensor:
    """[count, length]: pieces of text [N] from its first byte to where `room` bytes are left, else `length`."""
    starts = torch.linspace(0, len(text) - (room or length), count).long()
    return text[starts[:, None] + torch.arange(length)]


def perplexities(loss: Tensor, edges: Sequence[int]) -> list[float]:
    """exp of the mean loss in each bin edges[j] .. edges[j + 1] - 1; NaN where the losses end before it does.

    Raises ValueError when a loss is NaN itself: that model has diverged.
    """
    for position in loss.isnan().nonzero().flatten().tolist():
        raise ValueError(
            f"loss: got nan at position {position}, want numbers: the model has diverged"
        )
    return [
        loss[a:b].mean().exp().item() if b <= len(loss) else float("nan")
        for a, b in pairwise(edges)
    ]


# --- The stored measurement -----------------------------------------------------------


METHODS = {  # of it, as figures and tables call them
    "learned": "learned, 1,024 rows",
    "rope": "RoPE",
    "none": "no positions",
    "cut": "learned, 64 rows",
}


@dataclass(frozen=True)
class Runs:
    """What several seeds gave: perplexities [seeds, bins], NaN where the model cannot run."""

    by_seed: Tensor

    @property
    def mean(self) -> Tensor:
        """[bins], float64, as the two others."""
        return self.by_seed.mean(0)

    @property
    def lowest(self) -> Tensor:
        return self.by_seed.amin(0)

    @property
    def highest(self) -> Tensor:
        return self.by_seed.amax(0)

    def beyond(self, values: Tensor | Sequence[float]) -> float:
        """By what factor the farthest of these perplexities [bins] is outside the range; 1 when all are inside.

        Where one side cannot run and the other can, infinity.
        """
        values = torch.as_tensor(values, dtype=torch.float64)
        outside = torch.maximum(values / self.highest, self.lowest / values)
        missing = values.isnan(), self.mean.isnan()
        outside[missing[0] & missing[1]] = 1.0
        outside[missing[0] ^ missing[1]] = float("inf")
        return outside.clamp(min=1).max().item()


class Measured:
    """The file that `python -m tools.measure_lengths` writes.

    settings: what was run, with what. coarse_edges, fine_edges: of bins of positions.
    coarse, fine: {method: Runs} in these bins, for "learned" (a row for every position),
    "cut" (only rows that were trained), "rope" and "none". stretched, tuned:
    {scaling: Runs} in fine bins for the RoPE models with other frequencies, without and
    with fine-tuning. live: {position: Runs} of `lib.lab.experiment`, in its bins.
    Of the first seed: trained_rows, untrained_rows [length, d] of the learned table, and
    attention {position: [n_layers, T / map_step, the same]}, means over heads, for
    queries and keys in steps of settings["map_step"] positions.
    Raises FileNotFoundError, or ValueError when the file is no such measurement.
    """

    def __init__(self, path: Path = STORED) -> None:
        try:
            self._read(json.loads(path.read_text()))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{path}: no measurement of this program") from error

    def _read(self, stored: dict) -> None:
        self.settings: dict = stored["settings"]
        self.coarse_edges, self.fine_edges = (
            tuple(stored[name]) for name in ("coarse_edges", "fine_edges")
        )
        self.coarse, self.fine = _runs(stored["coarse"]), _runs(stored["fine"])
        self.stretched, self.tuned = _runs(stored["stretched"]), _runs(stored["tuned"])
        self.live = _runs(stored["live"])
        self.trained_rows, self.untrained_rows = (
            torch.tensor(stored[name], dtype=torch.float64)
            for name in ("trained_rows", "untrained_rows")
        )

        self.attention = {
            position: torch.tensor(layers, dtype=torch.float64)
            for position, layers in stored["attention"].items()
        }

    def at(self, start: int) -> dict[str, float]:
        """Each method's mean perplexity in the coarse bin that starts at that position."""
        n = self.coarse_edges.index(start)
        return {name: runs.mean[n].item() for name, runs in self.coarse.items()}

    def times(self, method: str, start: int) -> Tensor:
        """[seeds]: how many times the perplexity of the trained range's second half it has there."""
        inside = self.settings["trained_length"] // 2
        there, here = (self.coarse_edges.index(edge) for edge in (start, inside))
        runs = self.coarse[method].by_seed
        return runs[:, there] / runs[:, here]


def _runs(stored: Mapping[str, list]) -> dict[str, Runs]:
    """JSON has no NaN: null stands for it."""
    return {
        name: Runs(
            torch.tensor(
                [[float("nan") if x is None else x for x in row] for row in rows],
                dtype=torch.float64,
            )
        )
        for name, rows in stored.items()
    }
