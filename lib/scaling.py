"""Other frequencies for longer texts: what is done to the angles of a trained RoPE model.

Each method takes the factor by which texts are to be longer than those of the training,
and gives the frequencies, float64 [d_head/2] in radians per token, that take the place
of `lib.rope.inv_freq`. YaRN also multiplies queries and keys: `yarn_attention_factor`.
"""

import math
from numbers import Real

import torch
from torch import Tensor

from lib import rope
from lib.checks import as_int


def position_interpolation(
    d_head: int, factor: float, base: float = rope.BASE
) -> Tensor:
    """Every pair slower by the factor, as if all positions were divided by it.

    Source: Chen et al., arXiv 2306.15595, section 3.2.
    """
    return rope.inv_freq(d_head, base) / _as_factor(factor)


def ntk_base(d_head: int, factor: float, base: float = rope.BASE) -> float:
    """The larger base with which the slowest pair turns slower by just the factor.

    Source: Peng et al., arXiv 2309.00071, section 3.1: base * s^(d / (d - 2)). Raises
    ValueError for a head of one pair, which is fastest and slowest in one.
    """
    rope.inv_freq(d_head, base)  # refuses what is no head or no base
    if as_int("d_head", d_head) == 2:
        raise ValueError("d_head: got 2, want at least 4: two pairs or more")
    return base * _as_factor(factor) ** (d_head / (d_head - 2))


def ntk_aware(d_head: int, factor: float, base: float = rope.BASE) -> Tensor:
    """The frequencies of `ntk_base`: the slowest pair interpolated in full, the fastest not at all."""
    return rope.inv_freq(d_head, ntk_base(d_head, factor, base))


def yarn(
    d_head: int,
    factor: float,
    trained_length: int,
    base: float = rope.BASE,
    turns: tuple[float, float] = (1.0, 32.0),
) -> Tensor:
    """Each pair interpolated by how often it turned in `trained_length` tokens.

    Below turns[0] turns in full, above turns[1] not at all, in between in part.
    Source: Peng et al., arXiv 2309.00071, section 3.2, with the alpha and beta that they
    found good for Llama.
    """
    inv_freq = rope.inv_freq(d_head, base)
    made = as_int("trained_length", trained_length, at_least=1) * inv_freq / math.tau
    fewest, most = turns
    if not fewest < most:
        raise ValueError(f"turns: got {turns}, want a smaller and a larger number")
    kept = ((made - fewest) / (most - fewest)).clamp(0, 1)
    return inv_freq * kept + inv_freq / _as_factor(factor) * (1 - kept)


def yarn_attention_factor(factor: float) -> float:
    """What YaRN multiplies queries and keys by, so that scores grow by its square.

    Source: Peng et al., arXiv 2309.00071, section 3.4: 0.1 ln(s) + 1.
    """
    return 0.1 * math.log(_as_factor(factor)) + 1


def precompute_scaled(
    inv_freq: Tensor, max_seq_len: int, attention_factor: float = 1.0
) -> Tensor:
    """The rotation table, complex64 [max_seq_len, d_head/2], of other frequencies [d_head/2].

    Turning by it also stretches, by the attention factor.
    """
    positions = torch.arange(as_int("max_seq_len", max_seq_len, at_least=1))
    angles = positions[:, None] * inv_freq
    stretched = torch.full_like(angles, attention_factor)
    return torch.polar(stretched, angles).to(torch.complex64)


def _as_factor(factor: float) -> float:
    if isinstance(factor, bool) or not isinstance(factor, Real):
        raise TypeError(f"factor: got {type(factor).__name__}, want a number")
    if not 1 <= factor < math.inf:
        raise ValueError(f"factor: got {factor}, want a finite number of at least 1")
    return float(factor)
