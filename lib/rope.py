"""Rotary position embeddings (RoPE), with the public names of Llama 2.

Shapes: B batch, T tokens, h query heads, h_kv key heads, d_head (even) dimensions
of one head. Pair i of a head is its dimensions (2i, 2i + 1). Angles are in radians.

Source: Su et al., arXiv 2104.09864v5, section 3.2.2 (there i counts from 1), and
meta-llama/llama, llama/model.py, commit 689c7f261b9c5514636ecc3c5fefefcbb3e6eed7,
lines 80-161.
"""

import math
from collections.abc import Sequence
from decimal import Context, Decimal, localcontext
from numbers import Integral, Real

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from lib.checks import as_even, as_int, require_floating, require_tensor

BASE = 10_000.0  # Llama 2's base; public code often calls it theta
COMPLEX = {torch.float32: torch.complex64, torch.float64: torch.complex128}
BLOCK = 2**20  # numbers of a half type that are turned at a time, 4 MB in float32


# --- Frequencies and angles -----------------------------------------------------------


def inv_freq(d_head: int, base: float = BASE) -> Tensor:
    """theta_i = base^(-2i / d_head): how far pair i turns per token.

    Returns float64 [d_head/2], in radians per token, fastest pair first.
    Raises TypeError or ValueError for a d_head that is not a positive even int or a
    base not above 0.
    """
    return _exact_inv_freq(d_head, base)[0]


def rotation_angles(
    positions: Tensor | Sequence[float] | float, d_head: int, base: float = BASE
) -> Tensor:
    """The angle m * theta_i of every pair at every position.

    positions [...]: any finite numbers, fractional, negative and huge ones too.
    Returns float64 [..., d_head/2], in radians. Raises TypeError or ValueError as
    `inv_freq` does, and for positions that are not finite real numbers.
    """
    positions = _as_positions(positions)
    return positions[..., None] * inv_freq(d_head, base).to(positions.device)


def freqs_cis_at(
    positions: Tensor | Sequence[float] | float,
    d_head: int,
    base: float = BASE,
    dtype: torch.dtype = torch.complex64,
) -> Tensor:
    """cos(m * theta_i) + i sin(m * theta_i) at any positions: what turns the pairs.

    positions [...] -> complex [..., d_head/2], in `dtype` (complex64, or complex128
    for float64 work). Right to 1 ulp of float32 at every position up to 2^20, because
    the product m * theta_i is carried in two float64 numbers: rounded to one, an angle
    of a million radians is off by up to 6e-11.
    Raises as `rotation_angles` does, and TypeError for any other `dtype`.
    """
    if dtype not in (torch.complex64, torch.complex128):
        raise TypeError(f"dtype: got {dtype}, want torch.complex64 or torch.complex128")
    positions = _as_positions(positions)[..., None]
    high, low = (part.to(positions.device) for part in _exact_inv_freq(d_head, base))
    angle = positions * high
    missing = _rounding_error(positions, high, angle) + positions * low
    if not torch.isfinite(missing).all():
        raise ValueError(
            "positions: got one too large for float64 arithmetic, want smaller ones"
        )
    one = torch.ones_like(angle)  # e^{i (angle + missing)} = e^{i angle} e^{i missing}
    return (torch.polar(one, angle) * torch.polar(one, missing)).to(dtype)


def precompute_freqs_cis(d_head: int, max_seq_len: int, base: float = BASE) -> Tensor:
    """The rotation table: `freqs_cis_at` the positions 0 .. max_seq_len - 1.

    Returns complex64 [max_seq_len, d_head/2]. Its arguments are d_head, max_seq_len and
    base where Llama's source (lines 80-104) has dim, end and theta. The table is
    finite: a model asks for its rows by `freqs_cis[start : start + T]`. Raises
    TypeError or ValueError for a bad argument.
    """
    max_seq_len = as_int("max_seq_len", max_seq_len, at_least=1)
    return freqs_cis_at(torch.arange(max_seq_len), d_head, base)


# --- The rotation ---------------------------------------------------------------------


def rotate_pair(x: Tensor, y: Tensor, angle: Tensor) -> tuple[Tensor, Tensor]:
    """Turn the points (x, y) anticlockwise by `angle` radians; the shapes broadcast.

    x' = x cos a - y sin a,  y' = x sin a + y cos a: Su et al., section 3.2.1.
    """
    cos, sin = torch.cos(angle), torch.sin(angle)
    return x * cos - y * sin, x * sin + y * cos


def apply_rotary_emb(
    xq: Tensor, xk: Tensor, freqs_cis: Tensor
) -> tuple[Tensor, Tensor]:
    """Rotate queries and keys; values are no argument, because RoPE never touches them.

    xq [B, T, h, d_head] and xk [B, T, h_kv, d_head], floating point; freqs_cis complex
    [T, d_head/2], or [B, T, d_head/2] when the rows of the batch stand at different
    positions.
    Returns two new tensors with the shapes and dtypes of xq and xk; half types are
    rotated in float32.
    Raises TypeError or ValueError that names the argument when a type, rank, shape or
    device is wrong, also for a table with fewer or more than T rows: one row is never
    broadcast over all tokens.
    Source: Llama 2, lines 107-161.
    """
    _require_heads("xq", xq)
    _require_heads("xk", xk)
    if xk.device != xq.device:
        raise ValueError(
            f"xk: got a tensor on {xk.device}, want it on {xq.device}, where xq is"
        )
    if xk.shape[:2] != xq.shape[:2] or xk.shape[-1] != xq.shape[-1]:
        raise ValueError(
            f"xk: got shape {list(xk.shape)}, want xq's B, T, d_head: {list(xq.shape)}"
        )
    freqs_cis = _per_head(freqs_cis, xq)
    return _rotate(xq, freqs_cis), _rotate(xk, freqs_cis)


def _rotate(x: Tensor, freqs_cis: Tensor) -> Tensor:
    """x [B, T, h, d_head], its pairs times freqs_cis [B or 1, T, 1, d_head/2].

    A CPU turns half types in blocks of tokens: the float32 copy of a block stays in the
    cache, where that of all tokens would go through memory. Autograd and the compiler
    want one product: they record no writing into parts of a tensor.
    """
    recorded = torch.is_grad_enabled() and (x.requires_grad or freqs_cis.requires_grad)
    whole = recorded or torch.compiler.is_compiling() or x.numel() <= BLOCK
    if whole or x.dtype.itemsize > 2 or not x.is_cpu:
        return _times(x, freqs_cis).to(x.dtype)
    rotated = torch.empty_like(x)
    tokens = max(1, BLOCK // x[:, :1].numel())
    parts = (y.split(tokens, dim=1) for y in (rotated, x, freqs_cis))
    for part, *block in zip(*parts, strict=True):
        part.copy_(_times(*block))
    return rotated


def _times(x: Tensor, freqs_cis: Tensor) -> Tensor:
    """The product, in float64 if x is, else in float32."""
    work = torch.promote_types(x.dtype, torch.float32)
    pairs = x.to(work).unflatten(-1, (-1, 2))
    # The compiler cannot ask where a tensor lies in memory; a copy that it can fuse away.
    if torch.compiler.is_compiling() or not _viewable_as_complex(pairs):
        pairs = pairs.clone(memory_format=torch.contiguous_format)
    rotated = torch.view_as_complex(pairs) * freqs_cis.to(COMPLEX[work])
    return torch.view_as_real(rotated).flatten(-2)


# --- What follows from the rotation ---------------------------------------------------


def dot_product_vs_offset(
    q: Tensor,
    k: Tensor,
    offsets: Tensor | Sequence[float],
    base: float = BASE,
    pair: int | None = None,
) -> Tensor:
    """The score <R_m q, R_n k> for offsets m - n, the query's position less the key's.

    It is Re sum_i q_i conj(k_i) e^{i (m - n) theta_i} with q_i, k_i the pairs as
    complex numbers.
    q, k [d_head]; offsets [N], in tokens. `pair` keeps a single term of the sum; None
    is the whole head.
    Returns float64 [N]. Raises TypeError or ValueError for wrong shapes and IndexError
    for a missing pair.
    """
    for name, vector in (("q", q), ("k", k)):
        require_floating(name, vector)
        if vector.ndim != 1 or vector.shape != q.shape:
            raise ValueError(
                f"{name}: got shape {list(vector.shape)}, want one vector [d_head], q's like k's"
            )
    turns = freqs_cis_at(
        _as_positions(offsets, "offsets"), q.shape[0], base, dtype=torch.complex128
    )
    q_pairs, k_pairs = (
        torch.complex(x[::2], x[1::2]) for x in (q.double(), k.double())
    )
    terms = (q_pairs * k_pairs.conj() * turns).real
    if pair is None:
        return terms.sum(-1)
    if not 0 <= as_int("pair", pair) < terms.shape[-1]:
        raise IndexError(f"pair: got {pair}, want 0 to {terms.shape[-1] - 1}")
    return terms[..., pair]


def rotary_attention(
    xq: Tensor, xk: Tensor, xv: Tensor, freqs_cis: Tensor, is_causal: bool = True
) -> Tensor:
    """Attention with RoPE: queries and keys are rotated, values pass by unchanged.

    xq [B, T, h, d_head]; xk and xv [B, T, h_kv, d_head] with h a multiple of h_kv;
    freqs_cis as in `apply_rotary_emb`, whose errors it raises. Returns xq's shape.
    """
    xq, xk = apply_rotary_emb(xq, xk, freqs_cis)
    _require_heads("xv", xv)
    if xv.shape != xk.shape:
        raise ValueError(
            f"xv: got shape {list(xv.shape)}, want the shape of xk, {list(xk.shape)}"
        )
    if xk.shape[2] == 0 or xq.shape[2] % xk.shape[2]:
        raise ValueError(
            f"xk: got {xk.shape[2]} heads, want a divisor of xq's {xq.shape[2]}"
        )
    q, k, v = (x.transpose(1, 2) for x in (xq, xk, xv))  # heads before tokens
    attended = scaled_dot_product_attention(
        q, k, v, is_causal=is_causal, enable_gqa=True
    )
    return attended.transpose(1, 2)


# --- Exact products -------------------------------------------------------------------


def _exact_inv_freq(d_head: int, base: float) -> tuple[Tensor, Tensor]:
    """theta_i as two float64 tensors [d_head/2]: the nearest numbers, and what they miss."""
    d_head = as_even("d_head", d_head)
    if isinstance(base, bool) or not isinstance(base, Real):
        raise TypeError(f"base: got {type(base).__name__}, want a number")
    if not 0 < base < math.inf:
        raise ValueError(f"base: got {base}, want a finite number above 0")
    exact_base = Decimal(int(base) if isinstance(base, Integral) else float(base))
    with localcontext(Context(prec=40)):
        pairs = range(d_head // 2)
        exact = [exact_base ** (Decimal(-2 * i) / Decimal(d_head)) for i in pairs]
        missed = [float(theta - Decimal(float(theta))) for theta in exact]
    nearest = torch.tensor([float(theta) for theta in exact], dtype=torch.float64)
    return nearest, torch.tensor(missed, dtype=torch.float64)


def _rounding_error(a: Tensor, b: Tensor, product: Tensor) -> Tensor:
    """a * b - product, exactly, where product is a * b in float64 (Dekker 1971)."""
    a_high, b_high = _upper_half(a), _upper_half(b)
    a_low, b_low = a - a_high, b - b_high
    rest = product - a_high * b_high - a_low * b_high - a_high * b_low
    return a_low * b_low - rest


def _upper_half(x: Tensor) -> Tensor:
    """The leading 26 of x's 53 bits: products of halves are exact (Veltkamp's split)."""
    scaled = x * (2**27 + 1)
    return scaled - (scaled - x)


# --- Bad input ------------------------------------------------------------------------


def _as_positions(
    positions: Tensor | Sequence[float] | float, name: str = "positions"
) -> Tensor:
    """positions as float64, or an error that says what they are instead."""
    try:
        dtype = torch.as_tensor(positions).dtype
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        raise TypeError(
            f"{name}: got {str(positions)[:60]!r}, want numbers or a tensor of them"
        ) from error
    if dtype == torch.bool or dtype.is_complex:
        raise TypeError(f"{name}: got dtype {dtype}, want integers or real numbers")
    positions = torch.as_tensor(positions, dtype=torch.float64)
    if not torch.isfinite(positions).all():
        raise ValueError(f"{name}: got a nan or an infinity, want finite numbers")
    return positions


def _require_heads(name: str, x: Tensor) -> None:
    require_floating(name, x)
    if x.ndim != 4:
        raise ValueError(
            f"{name}: got shape {list(x.shape)}, want [B, T, heads, d_head]"
        )
    if x.shape[-1] == 0 or x.shape[-1] % 2:
        raise ValueError(
            f"{name}: got d_head {x.shape[-1]} as last axis, want a positive even number"
        )


def _per_head(freqs_cis: Tensor, xq: Tensor) -> Tensor:
    """freqs_cis, held against xq [B, T, h, d_head], as [1 or B, T, 1, d_head/2]."""
    require_tensor("freqs_cis", freqs_cis)
    if not freqs_cis.is_complex():
        raise TypeError(
            f"freqs_cis: got dtype {freqs_cis.dtype}, want a complex table, cos + i sin"
        )
    if freqs_cis.device != xq.device:
        raise ValueError(
            f"freqs_cis: got a table on {freqs_cis.device}, want it on {xq.device}, where xq is"
        )
    batch, tokens, _, d_head = xq.shape
    per_token, per_row = [tokens, d_head // 2], [batch, tokens, d_head // 2]
    if list(freqs_cis.shape) not in (per_token, per_row):
        raise ValueError(
            f"freqs_cis: got shape {list(freqs_cis.shape)}, want {per_token} or {per_row}: one row for each "
            f"of the T = {tokens} tokens, one column for each of the {d_head // 2} pairs. A slice that runs "
            "past the table's end is shorter than T"
        )
    return freqs_cis.unsqueeze(-2) if freqs_cis.ndim == 3 else freqs_cis[None, :, None]


def _viewable_as_complex(pairs: Tensor) -> bool:
    """Whether view_as_complex takes this [..., 2] view without a copy."""
    even = all(stride % 2 == 0 for stride in pairs.stride()[:-1])
    return pairs.stride(-1) == 1 and even and pairs.storage_offset() % 2 == 0
