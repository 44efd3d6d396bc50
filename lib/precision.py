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
    be told from a table. What is 0 or no number is pi off. The exact angles are products in
    float64: right to 1e-10 radians at a million. Raises TypeError or ValueError that
    names the argument.
    """
    return _errors(freqs_cis, *_as_table_of(freqs_cis, positions, inv_freq))


def _errors(freqs_cis: Tensor, positions: Tensor, inv_freq: Tensor) -> Tensor:
    angles = positions[:, None] * inv_freq
    exact = torch.polar(torch.ones_like(angles), angles)
    return _angle_between(freqs_cis.to(torch.complex128), exact)


def _angle_between(a: Tensor, b: Tensor) -> Tensor:
    """In radians, from 0 to pi; pi where there is no angle."""
    between = (a * b.conj()).angle().abs()
    between[~torch.isfinite(a.abs()) | (a == 0)] = torch.pi
    return between


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
        told += f"; first by more than {self.allowed:g} rad at position {self.first:,}"
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
    or ValueError that names the argument, also for a table whose numbers do not all have
    one modulus, and turn nothing.
    """
    require_tensor("freqs_cis", freqs_cis)
    as_number("allowed", allowed, above=0)
    if positions is None:
        positions = torch.arange(len(freqs_cis) if freqs_cis.ndim else 0)
    positions, inv_freq = _as_table_of(freqs_cis, positions, inv_freq)
    _require_one_modulus(freqs_cis)
    errors = _errors(freqs_cis, positions, inv_freq)
    row, pair = divmod(int(errors.argmax()), errors.shape[1])
    off = errors.amax(1) > allowed
    return TableErrors(
        radians=errors.max().item(),
        position=_whole(positions[row].item()),
        pair=pair,
        allowed=allowed,
        first=_whole(positions[off].min().item()) if off.any() else None,
        made_by=_made_by(freqs_cis, positions, inv_freq, errors, off),
    )


def _whole(position: float) -> float:
    return int(position) if position == int(position) else position


def _require_one_modulus(freqs_cis: Tensor) -> None:
    """Within what cos and sin in a half type lose; the rows past float16's end are none."""
    moduli = freqs_cis.to(torch.complex128).abs()
    moduli = moduli[~moduli.isnan()]
    if len(moduli) == 0:
        return
    least, most = moduli.aminmax()
    if not (least > 0 and most <= 1.02 * least < torch.inf):
        raise ValueError(
            f"freqs_cis: got moduli from {least:.3g} to {most:.3g}, want one above 0, for "
            "all pairs are stretched alike"
        )


def _made_by(
    freqs_cis: Tensor,
    positions: Tensor,
    inv_freq: Tensor,
    errors: Tensor,
    off: Tensor,
) -> str | None:
    """The way that explains nine tenths of a table's errors, if some rows are off.

    Compared are rows that are off, some of the others, and no more than 2,048 of a table.
    """
    if not off.any():
        return None
    chosen = [_spread(rows.nonzero()[:, 0]) for rows in (off, ~off)]
    rows = torch.cat(chosen)
    given = freqs_cis[rows].to(torch.complex128)
    left: dict[str, float] = {}
    for name, way in WAYS.items():
        made = way(positions[rows], inv_freq)
        apart = _angle_between(given, made)
        apart[given.isnan() & made.isnan()] = 0
        left[name] = apart.mean().item()
    closest = min(left, key=left.__getitem__)
    if left[closest] <= 0.1 * errors[rows].mean():
        return closest
    # Code that takes the power in float32 too has other digits, of the same size.
    steps = 4 * (positions[:, None] * inv_freq).abs() + 4
    return "all in float32" if (errors <= steps * 2.0**-24).all() else None


def _spread(rows: Tensor) -> Tensor:
    """The first and the last 512 of these rows."""
    return rows if len(rows) <= 1024 else torch.cat((rows[:512], rows[-512:]))


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
    half = positions.is_floating_point() and positions.dtype.itemsize < 4
    if half or positions.dtype == torch.bool or positions.is_complex():
        raise TypeError(
            f"positions: got dtype {positions.dtype}, want integers, or numbers that are "
            "not rounded to a half type"
        )
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
    return positions.double().to(freqs_cis.device), inv_freq.double().to(
        freqs_cis.device
    )
