"""Other frequencies for longer texts: what is done to the angles of a trained RoPE model.

Each method gives the frequencies, float64 [d_head/2] in radians per token, that take
the place of `lib.rope.inv_freq`. Most take the factor by which texts are to be longer
than those of the training. YaRN and LongRoPE also multiply queries and keys, by
`yarn_attention_factor` and `longrope_attention_factor`. Where only a part of each head
turns, d_head is the size of that part. `lib.rope_config` chooses a method as a model's
config.json says.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from lib import rope
from lib.checks import as_even, as_int, as_number, require_floating

# --- All pairs alike, or all in one curve ---------------------------------------------


def position_interpolation(
    d_head: int, factor: float, base: float = rope.BASE
) -> Tensor:
    """Every pair slower by the factor, as if all positions were divided by it.

    Source: Chen et al., arXiv 2306.15595, section 2.3, equation 4.
    """
    return rope.inv_freq(d_head, base) / _as_factor(factor)


def ntk_base(d_head: int, factor: float, base: float = rope.BASE) -> float:
    """The larger base with which the slowest pair turns slower by just the factor.

    Source: Peng et al., arXiv 2309.00071, section 3.1: base * s^(d / (d - 2)). Raises
    ValueError for a head of one pair, which is fastest and slowest in one.
    """
    if as_even("d_head", d_head) == 2:
        raise ValueError("d_head: got 2, want at least 4: two pairs or more")
    base = as_number("base", base, above=0)
    return base * _as_factor(factor) ** (d_head / (d_head - 2))


def ntk_aware(d_head: int, factor: float, base: float = rope.BASE) -> Tensor:
    """The frequencies of `ntk_base`: the slowest pair interpolated in full, the fastest not at all."""
    return rope.inv_freq(d_head, ntk_base(d_head, factor, base))


def dynamic_ntk(
    d_head: int,
    factor: float,
    trained_length: int,
    seq_len: int,
    base: float = rope.BASE,
) -> Tensor:
    """`ntk_aware` for the present length: unchanged up to `trained_length`.

    Past it the slowest pair is slower by 1 + factor * (seq_len / trained_length - 1).
    All angles change with the length, so rotated keys in a cache go stale.
    Source: Peng et al., arXiv 2309.00071, section 3.3, for the idea; transformers,
    modeling_rope_utils.py, `_compute_dynamic_ntk_parameters`, for the formula.
    """
    trained_length = as_int("trained_length", trained_length, at_least=1)
    longer = max(as_int("seq_len", seq_len, at_least=1) / trained_length - 1, 0)
    return ntk_aware(d_head, 1 + _as_factor(factor) * longer, base)


# --- Each pair by how often it turned in training -------------------------------------


def yarn(
    d_head: int,
    factor: float,
    trained_length: int,
    base: float = rope.BASE,
    turns: tuple[float, float] = (1.0, 32.0),
) -> Tensor:
    """Each pair interpolated by how often it turned in `trained_length` tokens.

    Below turns[0] turns in full, above turns[1] not at all, in between in part, in
    proportion to the turns. This is the paper's definition. Its authors' code, which
    models use, takes another way between the same ends: `yarn_along_pairs`.
    Source: Peng et al., arXiv 2309.00071, section 3.2, with the alpha and beta that they
    found good for Llama.
    """
    inv_freq = rope.inv_freq(d_head, base)
    made = as_int("trained_length", trained_length, at_least=1) * inv_freq / math.tau
    fewest, most = _as_turns(turns)
    if fewest == most:
        raise ValueError(f"turns: got {turns}, want a smaller and a larger number")
    kept = ((made - fewest) / (most - fewest)).clamp(0, 1)
    return _blend(inv_freq, factor, kept)


def yarn_along_pairs(
    d_head: int,
    factor: float,
    trained_length: int,
    base: float = rope.BASE,
    turns: tuple[float, float] = (1.0, 32.0),
    truncate: bool = True,
) -> Tensor:
    """YaRN as its authors' code and transformers compute it: in equal steps per pair.

    The paper's definition is `yarn`. Both begin and end at the pairs that made turns[1]
    and turns[0] turns, here widened to whole pairs if `truncate`. Between, each pair
    makes a fixed fraction of the turns before it, so `yarn` falls steeply at first.
    Source: jquesnelle/yarn, scaled_rope/LlamaYaRNScaledRotaryEmbedding.py;
    transformers, modeling_rope_utils.py, `_compute_yarn_parameters`.
    Raises ValueError for a base of 1 or less: then no pair is slower than another.
    """
    inv_freq = rope.inv_freq(d_head, base)
    as_number("base", base, above=1)
    trained_length = as_int("trained_length", trained_length, at_least=1)
    fewest, most = _as_turns(turns)
    as_number("turns", fewest, above=0)

    def pair_with(turns: float) -> float:
        """Solves trained_length * base^(-2i / d_head) / tau = turns for i."""
        steps = math.log(trained_length / (turns * math.tau))
        return d_head * steps / (2 * math.log(base))

    first, last = pair_with(most), pair_with(fewest)
    if truncate:
        first, last = math.floor(first), math.ceil(last)
    # Both sources have d_head - 1 here, though the last pair is d_head / 2 - 1.
    first, last = max(first, 0), min(last, d_head - 1)
    if first == last:
        last += 0.001  # as there: a range without length is a step
    pairs = torch.arange(d_head // 2, dtype=torch.float64)
    return _blend(inv_freq, factor, 1 - ((pairs - first) / (last - first)).clamp(0, 1))


def yarn_attention_factor(factor: float, mscale: float = 1.0) -> float:
    """What YaRN multiplies queries and keys by, so that scores grow by its square.

    Source: Peng et al., arXiv 2309.00071, section 3.4: 0.1 ln(s) + 1. DeepSeek's models
    weight the logarithm: 0.1 mscale ln(s) + 1.
    """
    weight = as_number("mscale", mscale, at_least=0)
    return 0.1 * weight * math.log(_as_factor(factor)) + 1


def llama3(
    d_head: int,
    factor: float,
    trained_length: int,
    base: float = rope.BASE,
    turns: tuple[float, float] = (1.0, 4.0),
) -> Tensor:
    """Llama 3.1's bands: the paper's `yarn`, with fewer turns and no attention factor.

    Source: meta-llama/llama-models 0.3.0, models/llama3/model.py, `apply_scaling`. It
    compares wavelengths; trained_length / wavelength is turns.
    """
    return yarn(d_head, factor, trained_length, base, turns)


# --- Each pair by a number of its own -------------------------------------------------


def longrope(d_head: int, factors: Sequence[float], base: float = rope.BASE) -> Tensor:
    """Pair i slower by factors[i], numbers that a search found for one model.

    A model has two lists: for texts up to its trained length, and for longer ones.
    Source: Ding et al., arXiv 2402.13753, section 3; transformers,
    modeling_rope_utils.py, `_compute_longrope_parameters`.
    """
    inv_freq = rope.inv_freq(d_head, base)
    if len(factors) != len(inv_freq):
        raise ValueError(
            f"factors: got {len(factors)}, want {len(inv_freq)}: one for each pair"
        )
    factors = [as_number("factors", factor, above=0) for factor in factors]
    return inv_freq / torch.tensor(factors, dtype=torch.float64)


def longrope_attention_factor(factor: float, trained_length: int) -> float:
    """What LongRoPE multiplies queries and keys by: sqrt(1 + ln(s) / ln(trained)).

    Source: microsoft/Phi-3-mini-128k-instruct, modeling_phi3.py; transformers as above.
    """
    trained_length = as_int("trained_length", trained_length, at_least=2)
    return math.sqrt(1 + math.log(_as_factor(factor)) / math.log(trained_length))


def proportional(
    d_head: int, share: float, factor: float = 1.0, base: float = rope.BASE
) -> Tensor:
    """The fastest pairs, a `share` of all, turn as ever; the rest have frequency 0.

    Where a part of a head turns by itself, the part's size is in the exponent, and its
    slowest pair is as slow as the head's would be. Here d_head stays in the exponent.
    Source: transformers, modeling_rope_utils.py,
    `_compute_proportional_rope_parameters`, which Gemma 4 uses.
    """
    inv_freq = position_interpolation(d_head, factor, base)
    if as_number("share", share, at_least=0) > 1:
        raise ValueError(f"share: got {share}, want at most 1")
    inv_freq[int(share * d_head // 2) :] = 0
    return inv_freq


# --- The table ------------------------------------------------------------------------


def precompute_scaled(
    inv_freq: Tensor, max_seq_len: int, attention_factor: float = 1.0
) -> Tensor:
    """The rotation table, complex64 [max_seq_len, d_head/2], of other frequencies [d_head/2].

    Turning by it also stretches, by the attention factor. Angles are float64 products.
    Raises TypeError or ValueError that names the argument.
    """
    as_number("attention_factor", attention_factor, above=0)
    require_floating("inv_freq", inv_freq)
    if inv_freq.ndim != 1 or not torch.isfinite(inv_freq).all():
        raise ValueError(
            f"inv_freq: got shape {list(inv_freq.shape)}, want finite numbers [d_head/2]"
        )
    last = as_int("max_seq_len", max_seq_len, at_least=1)
    positions = torch.arange(last, device=inv_freq.device)
    angles = positions[:, None] * inv_freq.double()
    stretched = torch.full_like(angles, attention_factor)
    return torch.polar(stretched, angles).to(torch.complex64)


def _blend(inv_freq: Tensor, factor: float, kept: Tensor) -> Tensor:
    """The frequencies where kept is 1, interpolated ones where it is 0."""
    return inv_freq * kept + inv_freq / _as_factor(factor) * (1 - kept)


def _as_factor(factor: float) -> float:
    return as_number("factor", factor, at_least=1)


def _as_turns(turns: tuple[float, float]) -> tuple[float, float]:
    fewest, most = (as_number("turns", number) for number in turns)
    if fewest > most:
        raise ValueError(f"turns: got {turns}, want a smaller and a larger number")
    return fewest, most
