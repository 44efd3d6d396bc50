"""How exact a rotation table is: the ways in which code makes one, and what each loses.

A way is a function of positions [N] and the exact frequencies, float64 [d_head/2], that
gives the table of such code, complex128 [N, d_head/2]: the numbers it holds, exactly,
whatever their type. Errors are of the angle, in radians, from 0 to pi.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from lib.checks import as_number, require_floating, require_tensor
from lib.rope import inv_freq as plain_inv_freq

Way = Callable[[Tensor, Tensor], Tensor]


# --- Ways to make a table -------------------------------------------------------------


def all_float64(positions: Tensor, inv_freq: Tensor) -> Tensor:
    """Angles, and the table in float32: this book's way."""
    return _table(positions.double()[:, None] * inv_freq)


def all_float32(positions: Tensor, inv_freq: Tensor) -> Tensor:
    """Frequencies, positions and angles, as in Llama 2's code."""
    # Llama 2 also takes the power in float32, which can cost a frequency one step more.
    return _table(positions.float()[:, None] * inv_freq.float())


def table_bfloat16(positions: Tensor, inv_freq: Tensor) -> Tensor:
    """At the end, as transformers does in such a model."""
    return _table(positions.float()[:, None] * inv_freq.float(), torch.bfloat16)


def positions_bfloat16(positions: Tensor, inv_freq: Tensor) -> Tensor:
    """`arange(T, dtype=x.dtype)`; the rest is float32."""
    return _table(positions.bfloat16().float()[:, None] * inv_freq.float())


def inv_freq_bfloat16(positions: Tensor, inv_freq: Tensor) -> Tensor:
    """A buffer cast with the model; the rest is float32."""
    return _table(positions.float()[:, None] * inv_freq.bfloat16().float())


def autocast_bfloat16(positions: Tensor, inv_freq: Tensor) -> Tensor:
    """Angles by `@` under autocast, so they and both factors are rounded."""
    with torch.autocast("cpu", torch.bfloat16):
        angles = positions.float()[:, None] @ inv_freq.float()[None]
    return _table(angles.float())


def all_float16(positions: Tensor, inv_freq: Tensor) -> Tensor:
    """From the positions on, of which 65,504 is the last."""
    angles = positions.half()[:, None] * inv_freq.half()
    return _table(angles.float(), torch.float16)


def _table(angles: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """cos and sin of these angles, held in `dtype`; rounded once, so alike everywhere."""
    cos, sin = angles.double().cos(), angles.double().sin()
    return torch.complex(cos.to(dtype).double(), sin.to(dtype).double())


WAYS: dict[str, Way] = {
    "angles in float64": all_float64,
    "all in float32": all_float32,
    "cos and sin in bfloat16": table_bfloat16,
    "positions in bfloat16": positions_bfloat16,
    "inv_freq in bfloat16": inv_freq_bfloat16,
    "autocast to bfloat16": autocast_bfloat16,
    "all in float16": all_float16,
}


# --- How far a table is off -----------------------------------------------------------


def angle_errors(
    freqs_cis: Tensor, positions: Tensor, inv_freq: Tensor | None = None
) -> Tensor:
    """How far a table's angles are from the exact ones: float64 [N, d_head/2], in radians.

    freqs_cis complex [N, d_head/2], in any scale; positions [N]; inv_freq [d_head/2], those
    of `lib.rope.inv_freq` with base 10,000 if None. From 0 to pi, for whole turns cannot
    be told from a table. What is no number is pi off. The exact angles are products in
    float64: right to 1e-10 radians at a million. Raises TypeError or ValueError that
    names the argument.
    """
    positions, inv_freq = _as_table_of(freqs_cis, positions, inv_freq)
    angles = positions.double()[:, None] * inv_freq
    exact = torch.polar(torch.ones_like(angles), angles)
    return _angle_between(freqs_cis.to(torch.complex128), exact)


def _angle_between(a: Tensor, b: Tensor) -> Tensor:
    """In radians, from 0 to pi; pi where there is no number."""
    return (a * b.conj()).angle().abs().nan_to_num(nan=torch.pi)


@dataclass(frozen=True)
class TableErrors:
    """What `check_table` found.

    radians: the largest error, at `position` in `pair`. first: the first position that
    is off by more than `allowed`, None if there is none. made_by: the name of the way
    in `WAYS` that makes these errors; None if the table is right or none does.
    """

    radians: float
    position: float
    pair: int
    allowed: float
    first: float | None
    made_by: str | None

    @property
    def right(self) -> bool:
        return self.first is None

    def __str__(self) -> str:
        told = f"off by up to {self.radians:.2g} rad, at position {self.position:,} in pair {self.pair}"
        if self.right:
            return told
        told += f"; by more than {self.allowed:g} rad from position {self.first:,} on"
        return told if self.made_by is None else f"{told}; as with {self.made_by}"


def check_table(
    freqs_cis: Tensor,
    positions: Tensor | None = None,
    inv_freq: Tensor | None = None,
    allowed: float = 0.001,
) -> TableErrors:
    """How far a rotation table is from the exact one, and which way of making it does that.

    freqs_cis complex [N, d_head/2]: row n is for positions[n], or n if that is None.
    inv_freq: the exact frequencies, for another base or scaled ones, as in
    `angle_errors`. Of a model with cos and sin [N, d_head] for half-split pairs:

        half = cos.shape[-1] // 2
        check_table(torch.complex(cos[:, :half].float(), sin[:, :half].float()))

    allowed: the error, in radians, up to which a row counts as right. Raises TypeError
    or ValueError that names the argument.
    """
    require_tensor("freqs_cis", freqs_cis)
    as_number("allowed", allowed, above=0)
    if positions is None:
        positions = torch.arange(len(freqs_cis) if freqs_cis.ndim else 0)
    errors = angle_errors(freqs_cis, positions, inv_freq)
    positions, inv_freq = _as_table_of(freqs_cis, positions, inv_freq)
    row, pair = divmod(errors.argmax().item(), errors.shape[1])
    off = positions[errors.amax(1) > allowed]
    first = off.min().item() if len(off) else None
    made_by = (
        None if first is None else _made_by(freqs_cis, positions, inv_freq, errors)
    )
    return TableErrors(
        radians=errors.max().item(),
        position=positions[row].item(),
        pair=pair,
        allowed=allowed,
        first=first,
        made_by=made_by,
    )


def _made_by(
    freqs_cis: Tensor, positions: Tensor, inv_freq: Tensor, errors: Tensor
) -> str | None:
    """The way that comes closest to a table, if it explains nine tenths of its errors.

    Looks at the first and the last rows of a long table.
    """
    every = range(len(positions))
    rows = torch.tensor(sorted({*every[:1024], *every[-1024:]}))
    given, left = freqs_cis[rows].to(torch.complex128), {}
    for name, way in WAYS.items():
        made = way(positions[rows], inv_freq)
        apart = _angle_between(given, made)
        apart[given.isnan() & made.isnan()] = 0
        left[name] = apart.mean()
    closest = min(left, key=left.get)
    return closest if left[closest] <= 0.1 * errors[rows].mean() else None


def _as_table_of(
    freqs_cis: Tensor, positions: Tensor, inv_freq: Tensor | None
) -> tuple[Tensor, Tensor]:
    """positions and inv_freq, if they and the table fit together, on the table's device."""
    for name, value in (("freqs_cis", freqs_cis), ("positions", positions)):
        require_tensor(name, value)
    if not freqs_cis.is_complex():
        raise TypeError(
            f"freqs_cis: got dtype {freqs_cis.dtype}, want a complex table, "
            "torch.complex(cos, sin) with one column for each pair"
        )
    if freqs_cis.ndim != 2 or 0 in freqs_cis.shape:
        raise ValueError(
            f"freqs_cis: got shape {list(freqs_cis.shape)}, want [N, d_head/2]"
        )
    if positions.dtype == torch.bool or positions.is_complex():
        raise TypeError(f"positions: got dtype {positions.dtype}, want real numbers")
    if positions.shape != freqs_cis.shape[:1]:
        raise ValueError(
            f"positions: got shape {list(positions.shape)}, want one for each row: "
            f"[{len(freqs_cis)}]"
        )
    if inv_freq is None:
        inv_freq = plain_inv_freq(2 * freqs_cis.shape[1])
    require_floating("inv_freq", inv_freq)
    if inv_freq.shape != freqs_cis.shape[1:]:
        raise ValueError(
            f"inv_freq: got shape {list(inv_freq.shape)}, want one for each pair: "
            f"[{freqs_cis.shape[1]}]"
        )
    return positions.to(freqs_cis.device), inv_freq.double().to(freqs_cis.device)
