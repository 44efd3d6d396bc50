"""Absolute positions: GPT-2's learned table and the fixed sinusoids of Vaswani et al.

Shapes: B batch, T tokens, d width of a token's vector.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from lib.checks import as_int, require_floating
from lib.rope import BASE, rotation_angles


class LearnedPositions(nn.Module):
    """A table P of one learned row for each position, added to the token vectors.

    Source: openai/gpt-2, src/model.py, commit 9b63575ef42771a015060c964af2c3da4cf7c8ab,
    lines 152-157 (`wpe`, normal with standard deviation 0.01). GPT-2 gathers [B, T, d];
    the rows are the same for every b, so this adds [T, d] by broadcasting.

    A position outside the table is refused with one IndexError whatever the way in. A
    bare tensor is not so strict: past the end a slice of it is silently short, and -1
    silently means the last row.
    """

    def __init__(self, max_position: int, d: int, std: float = 0.01):
        super().__init__()
        shape = (
            as_int("max_position", max_position, at_least=1),
            as_int("d", d, at_least=1),
        )
        self.weight = nn.Parameter(torch.randn(shape) * std)

    def __len__(self) -> int:
        """How many positions have a row."""
        return self.weight.shape[0]

    def __getitem__(self, index: int | slice | list[int] | Tensor) -> Tensor:
        """The rows at an int [d], a slice or a list [n, d], an integer tensor [...] [..., d].

        Raises IndexError for any position outside the table, TypeError for what is not
        a position.
        """
        return self.weight[self._positions_at(index)]

    def forward(self, x: Tensor, start_pos: int = 0) -> Tensor:
        """x [B, T, d] + P[start_pos : start_pos + T] [T, d] -> [B, T, d].

        Raises IndexError when a token stands outside the table, TypeError when x is no
        tensor of floats and ValueError when it is not [B, T, d].
        """
        require_floating("x", x)
        if x.ndim != 3 or x.shape[-1] != self.weight.shape[-1]:
            raise ValueError(
                f"x: got shape {list(x.shape)}, want [B, T, {self.weight.shape[-1]}]"
            )
        start_pos = as_int("start_pos", start_pos)
        return x + self[start_pos : start_pos + x.shape[1]]

    def _positions_at(self, index: int | slice | range | list[int] | Tensor) -> Tensor:
        """The positions that an index names, all inside the table, as int64."""
        if isinstance(index, slice):
            index = self._positions_in(index)
        if isinstance(index, range | list):
            positions = [self._inside(as_int("index", position)) for position in index]
            return torch.tensor(positions, dtype=torch.int64, device=self.weight.device)
        if not isinstance(index, Tensor):
            return torch.tensor(
                self._inside(as_int("index", index)), device=self.weight.device
            )
        if index.dtype == torch.bool or index.is_floating_point() or index.is_complex():
            raise TypeError(f"index: got dtype {index.dtype}, want integer positions")
        index = index.to(self.weight.device, torch.int64)
        for position in index[(index < 0) | (index >= len(self))][:1].tolist():
            self._inside(position)
        return index

    def _positions_in(self, index: slice) -> range:
        """The positions a slice names, with none clipped or counted from the end."""
        start = 0 if index.start is None else as_int("slice start", index.start)
        stop = len(self) if index.stop is None else as_int("slice stop", index.stop)
        step = 1 if index.step is None else as_int("slice step", index.step, at_least=1)
        if start != len(self):  # there only an empty slice may begin
            self._inside(start)
        if stop < 0:
            self._inside(stop)
        return range(start, stop, step)

    def _inside(self, position: int) -> int:
        """`position` itself if the table has a row for it, else the IndexError."""
        rows = len(self)
        if not 0 <= position < rows:
            raise IndexError(
                f"position {position} is outside the table, which has {rows} rows: 0 to {rows - 1}"
            )
        return position


def sinusoids(
    positions: Tensor | Sequence[float] | float, d: int, base: float = BASE
) -> Tensor:
    """Fixed position vectors, sin(m * theta_i) and cos(m * theta_i) by turns.

    positions [...] -> float32 [..., d]. Source: Vaswani et al., arXiv 1706.03762,
    section 3.5.
    Raises TypeError or ValueError as `lib.rope.rotation_angles` does.
    """
    if as_int("d", d, at_least=2) % 2:
        raise ValueError(f"d: got {d}, want an even number, a sine and a cosine each")
    angles = rotation_angles(positions, d, base)
    return (
        torch.stack((torch.sin(angles), torch.cos(angles)), dim=-1).flatten(-2).float()
    )
