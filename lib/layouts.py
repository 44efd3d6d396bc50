"""Two layouts of a head's pairs: from one to the other, and which of them a function uses.

RoPE turns pairs of dimensions. Which two form pair i is a convention, and there are two:

interleaved  (2i, 2i + 1)             Su et al., arXiv 2104.09864v5, equation 34; Meta's
                                      Llama, mistral-inference, GPT-J, `lib.rope`
half-split   (i, i + rotary_dim / 2)  GPT-NeoX; Llama, Mistral and Qwen2 in transformers

Neither is a mistake: one is the other with the dimensions in another order. Weights
that were trained under one are wrong under the other until they are converted.

Shapes: B batch, T tokens, h heads, d_head (even) dimensions of one head. rotary_dim:
the leading dimensions that are turned at all; None is d_head.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NoReturn

import torch
from torch import Tensor

from lib.checks import as_even, as_int, require_floating, require_tensor
from lib.rope import BASE, apply_rotary_emb, freqs_cis_at

Layout = Literal["interleaved", "half-split"]
Found = Literal["interleaved", "half-split", "either", "unknown"]
LAYOUTS: tuple[Layout, ...] = ("interleaved", "half-split")


# --- Which dimensions form a pair -----------------------------------------------------


def pairs_of(d_head: int, layout: Layout, rotary_dim: int | None = None) -> Tensor:
    """The two dimensions of every pair: int64 [rotary_dim/2, 2], fastest pair first.

    Raises TypeError or ValueError for sizes that are not positive even ints, a
    rotary_dim above d_head and another layout.
    """
    _, rotary_dim = _as_sizes(d_head, rotary_dim)
    dimensions = torch.arange(rotary_dim)
    if _as_layout("layout", layout) == "interleaved":
        return dimensions.view(-1, 2)
    return dimensions.view(2, -1).T.contiguous()


def permutation(d_head: int, rotary_dim: int | None = None) -> Tensor:
    """P, int64 [d_head]: x[..., P] is x, which was interleaved, in the half-split layout.

    half-split rotation of x[..., P] = (interleaved rotation of x)[..., P]. For d_head 8
    it is [0, 2, 4, 6, 1, 3, 5, 7]. Dimensions from rotary_dim on stay where they are.
    `P.argsort()` leads back.
    """
    d_head, rotary_dim = _as_sizes(d_head, rotary_dim)
    first, second = pairs_of(d_head, "interleaved", rotary_dim).T
    return torch.cat((first, second, torch.arange(rotary_dim, d_head)))


def to_half_split(x: Tensor, rotary_dim: int | None = None) -> Tensor:
    """x [..., d_head], which is interleaved, as a new tensor in the half-split layout."""
    return _reordered(x, "half-split", rotary_dim)


def to_interleaved(x: Tensor, rotary_dim: int | None = None) -> Tensor:
    """x [..., d_head], which is half-split, as a new tensor in the interleaved layout."""
    return _reordered(x, "interleaved", rotary_dim)


def convert_weight(
    weight: Tensor, heads: int, to: Layout, rotary_dim: int | None = None
) -> Tensor:
    """The weight or bias that makes queries or keys, for the other layout: `to`.

    weight [heads * d_head, d], as nn.Linear has it, or a bias [heads * d_head]. Returns
    a new tensor of the same shape: the rows of each head in another order.

    Only for wq and wk. What makes values and what reads them (wv, wo) must stay: no
    value is ever turned. With grouped-query attention wk has fewer heads than wq, and
    its own number belongs here; a wrong one that divides the rows cannot be noticed. A
    joint weight for q, k and v is split first. A norm over d_head between wk and the
    rotation (Qwen3's) is converted too, with heads = 1.

    Raises TypeError or ValueError that names the argument.
    Source: the `permute` of transformers' convert_llama_weights_to_hf.py, which is
    `to="half-split"` here.
    """
    require_tensor("weight", weight)
    heads = as_int("heads", heads, at_least=1)
    if weight.ndim not in (1, 2):
        raise ValueError(
            f"weight: got shape {list(weight.shape)}, want [heads * d_head, d] or [heads * d_head]"
        )
    if len(weight) == 0 or len(weight) % (2 * heads):
        raise ValueError(
            f"weight: got {len(weight)} rows, want an even number for each of the {heads} heads"
        )
    rows = weight.unflatten(0, (heads, -1)).movedim(1, -1)  # a head's rows at the end
    return _reordered(rows, to, rotary_dim).movedim(-1, 1).flatten(0, 1)


def _reordered(x: Tensor, to: Layout, rotary_dim: int | None) -> Tensor:
    require_tensor("x", x)
    if x.ndim == 0:
        raise ValueError("x: got shape [], want [..., d_head]")
    order = permutation(x.shape[-1], rotary_dim)
    if _as_layout("to", to) == "interleaved":
        order = order.argsort()
    return x[..., order.to(x.device)]


# --- The rotation in either layout ----------------------------------------------------


def rotate(
    x: Tensor,
    positions: Tensor | Sequence[float],
    layout: Layout,
    base: float = BASE,
    rotary_dim: int | None = None,
) -> Tensor:
    """Queries or keys, rotated in their own layout: x [B, T, h, d_head] -> a new tensor.

    positions [T], or [B, T] when the rows of the batch stand at different positions.
    Dimensions from rotary_dim on pass by unchanged, and the frequencies are
    base^(-2i / rotary_dim): a head that is turned in part has those of a smaller head
    (GPT-NeoX-20B: 24 of 96 dimensions).

    It is `lib.rope.apply_rotary_emb` between two changes of order. Raises TypeError or
    ValueError that names the argument.
    """
    require_floating("x", x)
    if x.ndim != 4:
        raise ValueError(f"x: got shape {list(x.shape)}, want [B, T, h, d_head]")
    d_head, rotary_dim = _as_sizes(x.shape[-1], rotary_dim)
    layout = _as_layout("layout", layout)
    exact = torch.complex128 if x.dtype == torch.float64 else torch.complex64
    freqs_cis = freqs_cis_at(positions, rotary_dim, base, exact).to(x.device)
    if freqs_cis.shape[:-1] not in (x.shape[1:2], x.shape[:2]):
        raise ValueError(
            f"positions: got shape {list(freqs_cis.shape[:-1])}, want [T] or [B, T]: "
            f"{list(x.shape[1:2])} or {list(x.shape[:2])}"
        )
    turned, kept = x.split((rotary_dim, d_head - rotary_dim), dim=-1)
    if layout == "half-split":
        turned = to_interleaved(turned)
    no_keys = turned[:, :, :0]  # keys of no heads: there is one tensor to turn
    turned, _ = apply_rotary_emb(turned, no_keys, freqs_cis)
    if layout == "half-split":
        turned = to_half_split(turned)
    return torch.cat((turned, kept), dim=-1)


# --- Which layout a function uses -----------------------------------------------------


@dataclass(frozen=True)
class Diagnosis:
    """What a rotation is, read off its outputs by `diagnose`.

    layout: "interleaved" or "half-split"; "either" for a single pair (0, 1), where the
    two are the same; "unknown" for a rotation of other pairs.
    sign: 1 anticlockwise, as Llama, -1 clockwise; None when the pairs disagree.
    base: None when the frequencies are not base^(-2i / rotary_dim), and for a single
    pair, which turns by 1 whatever the base is.
    rotary_dim: how many dimensions are turned, of d_head: a leading part of the head, or
    its fastest pairs.
    pairs, inv_freq: the dimensions of each pair and its angle per token in radians,
    negative if clockwise; in the layout's order, fastest first if it is unknown.
    scale: what the rotated dimensions are multiplied by, as YaRN does; else 1.
    """

    layout: Found
    sign: Literal[1, -1] | None
    base: float | None
    rotary_dim: int
    d_head: int
    pairs: tuple[tuple[int, int], ...]
    inv_freq: tuple[float, ...]
    scale: float

    def __str__(self) -> str:
        told = [self._pairs_told(), self._turn_told(), self._frequencies_told()]
        told.append(f"{self.rotary_dim} of {self.d_head} dimensions turned")
        if self.scale != 1:
            told.append(f"all of them times {self.scale:.6g}")
        return "; ".join(told)

    def _pairs_told(self) -> str:
        rule = {
            "interleaved": "interleaved pairs (2i, 2i + 1)",
            "half-split": f"half-split pairs (i, i + {self.pairs[0][1]})",
            "either": "one pair (0, 1), the same in both layouts",
            "unknown": f"pairs of neither layout: {_listed(self.pairs)}",
        }
        return rule[self.layout]

    def _turn_told(self) -> str:
        turn = {1: "anticlockwise", -1: "clockwise", None: "some each way round"}
        return turn[self.sign]

    def _frequencies_told(self) -> str:
        if self.base is None:
            turns = [f"{angle:.6g}" for angle in self.inv_freq]
            return f"no base to be told: {_listed(turns)} radians per token"
        told = f"base {_rounded(self.base)}"
        if self.rotary_dim < self.d_head:  # nothing tells the two apart
            other = self.base ** (self.d_head / self.rotary_dim)
            told += f" (or {_rounded(other)} if d_head divides the exponent)"
        return told


def diagnose(
    rotate_function: Callable[[Tensor, Tensor], Tensor],
    d_head: int,
    max_position: int = 4095,
) -> Diagnosis:
    """Find out what a rotation does, from what it makes of vectors that we choose.

    rotate_function takes x [B, T, h, d_head], float32, and positions [T], int64, and
    returns x rotated, as a new tensor. It may be called with any B, T and h and any
    positions from 0 to max_position, in any order. One that turns q and k together, or
    wants heads before tokens, is wrapped, here those of transformers' Llama:

        def mine(x, positions):
            cos, sin = rotary_emb(x, positions[None])
            return apply_rotary_pos_emb(x, x, cos, sin, unsqueeze_dim=2)[0]

        print(diagnose(mine, d_head=64))

    A function that is no rotation by position raises ValueError (TypeError if what it
    returns is no tensor) that says what it does instead. What is returned was compared
    with the function at every position up to max_position (4096 of them, if there are
    more), to what float32 arithmetic loses. What is beyond is not known: positions in
    bfloat16 are right up to 256. A pair that turns by less than 1e-7 radians in all
    counts as not turned.
    """
    if not callable(rotate_function):
        raise TypeError(
            f"rotate_function: got {type(rotate_function).__name__}, want a function"
        )
    d_head, _ = _as_sizes(d_head, None)
    max_position = as_int("max_position", max_position, at_least=16)
    probe = _Probe(rotate_function, d_head)
    first = _first_result(probe)
    _require_each_for_itself(probe)
    _require_positions_read(probe)
    _require_no_company(probe, max_position)
    _require_linear(probe)
    found = _read_off(probe, max_position)
    _require_at_every_position(probe, found, max_position)
    # The call before was the longest: tables that grow with it must not have changed.
    if not _close(probe(probe.x, SHORT), first):
        _reject("another result after a longer call", "the same for the same arguments")
    return found


# Positions and sizes that no mistake can hide behind: not 0, where nothing turns; not in
# order; B, T and h all different; and vectors that are random.
SHORT = torch.tensor([5, 2, 11, 3, 7])
BATCH, HEADS = 2, 3
UNIT_ROUNDOFF = 2.0**-24  # of float32
TOLERANCE = 1e-5  # relative; float32 loses less by far, a half type more
FAINT = 1e-7  # what is below was not turned
MIXED = "the angle table of one layout under the rotation of the other"


class _Probe:
    """The function under test, and what every one of its calls must keep to."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor], d_head: int):
        self.function, self.d_head = function, d_head
        self._generator = torch.Generator().manual_seed(0)
        self.x, self.other = (self.random(len(SHORT)) for _ in range(2))

    def random(self, tokens: int) -> Tensor:
        """Random heads [BATCH, tokens, HEADS, d_head]."""
        shape = (BATCH, tokens, HEADS, self.d_head)
        return torch.randn(shape, generator=self._generator, dtype=torch.float32)

    def __call__(self, x: Tensor, positions: Tensor) -> Tensor:
        """What the function returns, as float64; ValueError if it is no answer at all."""
        given, asked = x.clone(), positions.clone()
        try:
            with torch.no_grad():
                turned = self.function(given, asked)
        except Exception as error:
            raise ValueError(
                f"rotate_function: got {type(error).__name__} ({error}) for x {list(x.shape)} and positions "
                f"[{len(positions)}] up to {positions.max()}, want x rotated. Where its table ends earlier, "
                "say so by max_position"
            ) from error
        if not torch.equal(given, x) or not torch.equal(asked, positions):
            _reject("its input written to", "a new tensor, and x and positions kept")
        if not isinstance(turned, Tensor):
            raise TypeError(
                f"rotate_function: got {type(turned).__name__} back, want one torch.Tensor"
            )
        if turned.shape != x.shape or turned.dtype != x.dtype:
            _reject(
                f"{list(turned.shape)} in {turned.dtype} back",
                f"x's {list(x.shape)} in {x.dtype}",
            )
        if not torch.isfinite(turned).all():
            _reject("a nan or an infinity back", "finite numbers")
        return turned.detach().double()


def _reject(got: str, want: str) -> NoReturn:
    raise ValueError(f"rotate_function: got {got}, want {want}")


def _close(a: Tensor, b: Tensor) -> bool:
    return bool((a - b).abs().max() <= TOLERANCE * b.abs().max())


# --- Mistakes that need no angles -----------------------------------------------------


def _first_result(probe: _Probe) -> Tensor:
    """A function that fails until T = h, or T = B, takes positions along another axis."""
    try:
        return probe(probe.x, SHORT)
    except ValueError as error:
        if error.__cause__ is None:  # the function itself did not fail
            raise
        for size, axis in ((HEADS, "heads"), (BATCH, "batch")):
            try:
                probe(probe.x[:, :size], SHORT[:size])
            except (TypeError, ValueError):
                continue
            raise ValueError(
                f"rotate_function: got an answer only where T is the size of the {axis} axis, want positions "
                "along axis 1, T, of x [B, T, h, d_head]"
            ) from error
        raise


def _require_each_for_itself(probe: _Probe) -> None:
    """No row, token or head of the output may depend on another one of the input."""
    before = probe(probe.x, SHORT)
    if not _close(probe(probe.x, SHORT), before):
        _reject("two results for the same arguments", "one")
    for axis, name in enumerate(("row of the batch", "token", "head")):
        for n in range(probe.x.shape[axis]):
            changed = probe.x.clone()
            changed.select(axis, n).copy_(probe.other.select(axis, n))
            others = torch.arange(probe.x.shape[axis]) != n
            now = probe(changed, SHORT).movedim(axis, 0)[others]
            kept = before.movedim(axis, 0)[others]
            if not _close(now, kept):
                _reject(
                    f"an output that depends on another {name}",
                    "each one turned for itself",
                )


def _require_positions_read(probe: _Probe) -> None:
    """The same vector in every token and head: what differs is only where it stands."""
    same = probe.x[:, :1, :1].expand_as(probe.x)
    turned = probe(same, SHORT)
    by_token, by_head = (
        not _close(turned, turned.narrow(axis, 0, 1).expand_as(turned))
        for axis in (1, 2)
    )
    if by_head:
        what = "turned differently" if by_token else "turned, and not the tokens"
        _reject(
            f"the heads of a token {what}: positions run along the heads axis or across it",
            "one angle for all heads of a token, positions along axis 1 of x [B, T, h, d_head]",
        )
    if not by_token and _close(turned, same.double()):
        _reject("x back as it was, at every position", "x rotated")
    if not by_token:
        _reject(
            "all tokens turned alike, as by one row of the table that is broadcast",
            "a row for each token",
        )
    if _close(probe(same, SHORT.flip(0)), turned):
        _reject("the same for other positions", "x rotated by its positions")
    if _close(probe(same, SHORT[0] + torch.arange(len(SHORT))), turned):
        _reject(
            "only the first position read, the others counted on from it",
            "each token turned by its own",
        )


def _require_no_company(probe: _Probe, max_position: int) -> None:
    """A token's turn may not depend on how many others there are, and at which positions."""
    turned = probe(probe.x, SHORT)
    alone = [
        probe(x, m) for x, m in zip(probe.x.split(1, 1), SHORT.split(1), strict=True)
    ]
    far = torch.full_like(SHORT, max_position)
    longer = probe(torch.cat((probe.other, probe.x), 1), torch.cat((far, SHORT)))
    for now in (torch.cat(alone, 1), longer[:, len(SHORT) :]):
        if not _close(now, turned):
            _reject(
                "a token turned by another angle in other company (the length of the call, or the positions "
                "of other tokens, count)",
                "an angle that depends on its own position alone",
            )


def _require_linear(probe: _Probe) -> None:
    mixed = probe(probe.x - 2 * probe.other, SHORT)
    if not _close(mixed, probe(probe.x, SHORT) - 2 * probe(probe.other, SHORT)):
        _reject(
            "something that is not linear in x, as a norm is, or that rounds to a half type",
            "a rotation in float32",
        )


# --- Pairs and angles -----------------------------------------------------------------


def _read_off(probe: _Probe, max_position: int) -> Diagnosis:
    """The diagnosis, from what becomes of the unit vectors at some positions."""
    positions = _telling_positions(max_position)
    matrices = _matrices(probe, positions)
    pairs = _pairs_in(matrices)
    turns = _turns_in(matrices, pairs, positions)
    inv_freq = _inv_freq_of(turns.angle(), positions)
    pair_list = [tuple(pair) for pair in pairs.tolist()]
    layout = _layout_of(pair_list, probe.d_head)
    if layout == "unknown":
        order = inv_freq.abs().argsort(descending=True, stable=True).tolist()
        pair_list, inv_freq = [pair_list[n] for n in order], inv_freq[order]
    signs = set(inv_freq.sign().int().tolist())
    scale = turns[0, 0].real.item()
    return Diagnosis(
        layout=layout,
        sign=signs.pop() if len(signs) == 1 else None,
        base=_base_of(inv_freq),
        rotary_dim=2 * len(pairs),
        d_head=probe.d_head,
        pairs=tuple(pair_list),
        inv_freq=tuple(inv_freq.tolist()),
        scale=1.0 if abs(scale - 1) < 1e-6 else scale,  # a few roundings of float32
    )


def _telling_positions(max_position: int) -> Tensor:
    """0, the powers of 2, and where half types first skip a whole number: 257 and 2049."""
    powers = {2**n for n in range(max_position.bit_length())}
    chosen = {0, 257, 2049, max_position} | powers
    return torch.tensor(sorted(m for m in chosen if m <= max_position))


def _matrices(probe: _Probe, positions: Tensor) -> Tensor:
    """[positions, d_head, d_head]: column j is what becomes of unit vector j."""
    units = torch.eye(probe.d_head, dtype=torch.float32)[:, None, None]
    x = units.expand(-1, len(positions), HEADS, -1)
    return probe(x.contiguous(), positions)[:, :, 0].permute(1, 2, 0)


def _pairs_in(matrices: Tensor) -> Tensor:
    """int64 [n, 2]: the dimensions that some position mixes, two and two."""
    mixed = (matrices.abs() > FAINT).any(0)
    mixed = (mixed | mixed.T).fill_diagonal_(False)
    crowded = mixed.sum(1) > 1
    if crowded.any():
        one = int(crowded.nonzero()[0])
        _reject(
            f"dimension {one} mixed with {_listed(mixed[one].nonzero()[:, 0].tolist())}",
            "each dimension mixed with one other at most",
        )
    alone = ~mixed.any(1)
    stretch = matrices.diagonal(dim1=1, dim2=2) - 1
    stretched = alone & (stretch.abs() > TOLERANCE).any(0)
    if stretched.any():
        _reject(
            f"dimension {stretched.nonzero()[0].item()} changed but mixed with no other",
            "each dimension turned in a pair or kept",
        )
    return mixed.triu().nonzero()


def _turns_in(matrices: Tensor, pairs: Tensor, positions: Tensor) -> Tensor:
    """scale * e^{i angle} for every position and pair: complex128 [positions, pairs].

    A pair (a, b) is turned if a' = s (cos x_a - sin x_b) and b' = s (sin x_a + cos x_b).
    Each line has an angle of its own to be read; in a rotation the two are the same.
    """
    a, b = pairs.T
    of_a = torch.complex(matrices[:, a, a], -matrices[:, a, b])
    of_b = torch.complex(matrices[:, b, b], matrices[:, b, a])
    scale = of_a[0, 0].abs()
    for turn in (of_a, of_b):
        for _, n in _where((turn[:1] - scale).abs() > TOLERANCE * scale):
            _reject(
                f"pair {pairs[n].tolist()} turned by {turn[0, n].angle():.6g} radians and multiplied by "
                f"{turn[0, n].abs():.6g} at position 0",
                "no turn there, and one factor for all pairs",
            )
        for m, n in _where((turn.abs() - scale).abs() > TOLERANCE * scale):
            _reject(
                f"the norm of pair {pairs[n].tolist()} multiplied by {turn[m, n].abs() / scale:.6g} at "
                f"position {positions[m]}",
                "it kept, as a rotation in float32 does",
            )
    for m, n in _where((of_a - of_b).abs() > TOLERANCE * scale):
        opposite = (of_a[m, n] - of_b[m, n].conj()).abs() < TOLERANCE * scale
        cause = "the minus lost" if opposite else MIXED
        _reject(
            f"a norm that is not kept: at position {positions[m]} the two dimensions of pair "
            f"{pairs[n].tolist()} turn by {of_a[m, n].angle():.6g} and {of_b[m, n].angle():.6g} radians, as "
            f"with {cause}",
            "one angle for both",
        )
    return of_a


def _where(wrong: Tensor) -> list[list[int]]:
    """The index of every True; a loop that rejects ends at the first."""
    return wrong.nonzero().tolist()


def _inv_freq_of(angles: Tensor, positions: Tensor) -> Tensor:
    """Radians per token, float64 [pairs], from angles [positions, pairs] less full turns.

    Position 1 gives them roughly; each later position, more exactly, since by then it is
    known how many full turns were made.
    """
    per_token = angles[1]
    for m, angle in zip(positions[1:].tolist(), angles[1:], strict=True):
        missed = torch.remainder(angle - m * per_token + math.pi, math.tau) - math.pi
        if (missed.abs() > _rounding(m, per_token)).any():
            _reject_position(m)
        per_token = per_token + missed / m
    return per_token


def _rounding(m: Tensor | int, inv_freq: Tensor) -> Tensor:
    """What float32 may lose of the angle m * inv_freq: 32 roundings, and never half a radian."""
    return (32 * UNIT_ROUNDOFF * (m * inv_freq.abs() + 1)).clamp(max=0.5)


def _reject_position(m: int) -> NoReturn:
    _reject(
        f"position {m} turned by another angle than {m} times that of one token",
        "angles that grow with the position. Positions in bfloat16 are rounded from 257 on, in float16 "
        "from 2049 on; a table may end",
    )


def _layout_of(pairs: list[tuple[int, int]], d_head: int) -> Found:
    if pairs == [(0, 1)]:
        return "either"
    found = [list(pair) for pair in pairs]
    for layout in LAYOUTS:
        of_a_part = pairs_of(d_head, layout, 2 * len(pairs)).tolist()
        fastest_of_all = pairs_of(d_head, layout)[: len(pairs)].tolist()
        if found in (of_a_part, fastest_of_all):
            return layout
    return "unknown"


def _base_of(inv_freq: Tensor) -> float | None:
    """The base of which the frequencies are base^(-2i / rotary_dim), if there is one."""
    n = len(inv_freq)
    if n == 1 or inv_freq.sign().abs().sum() != inv_freq.sign().sum().abs():
        return None
    exponents = -torch.arange(n, dtype=torch.float64) / n  # -2i / rotary_dim
    base = inv_freq[-1].abs() ** (1 / exponents[-1])
    fits = torch.isclose(inv_freq.abs(), base**exponents, rtol=TOLERANCE, atol=0)
    return base.item() if fits.all() else None


def _require_at_every_position(
    probe: _Probe, found: Diagnosis, max_position: int
) -> None:
    """Random vectors at all positions, in no order, against the rotation that was found."""
    order = torch.randperm(max_position + 1, generator=torch.Generator().manual_seed(1))
    positions = order[:4096]
    x = probe.random(len(positions))
    turned = probe(x, positions)
    a, b = torch.tensor(found.pairs).T
    inv_freq = torch.tensor(found.inv_freq, dtype=torch.float64)
    angle = positions[:, None, None] * inv_freq  # [T, 1, pairs]
    before, after = (torch.complex(y[..., a], y[..., b]) for y in (x.double(), turned))
    wanted = before * torch.polar(torch.full_like(angle, found.scale), angle)
    missed = (after - wanted).abs()
    allowed = _rounding(positions[:, None, None], inv_freq) * before.abs() * found.scale
    kept = torch.ones(probe.d_head, dtype=torch.bool)
    kept[torch.cat((a, b))] = False
    if not torch.allclose(turned[..., kept], x.double()[..., kept], TOLERANCE, 0):
        _reject("dimensions outside the pairs changed", "them kept")
    wrong = (missed > allowed).any(-1).any(-1).any(0)
    if wrong.any():
        _reject_position(int(positions[wrong].min()))


# --- Words and bad input --------------------------------------------------------------


def _listed(things: list | tuple, most: int = 6) -> str:
    told = [str(thing) for thing in things[:most]]
    return ", ".join(told + ["..."] * (len(things) > most))


def _rounded(number: float) -> str:
    """Five digits, those that float32 gives: 10,000 for 10000.003."""
    return f"{float(f'{number:.5g}'):,.10g}"


def _as_layout(name: str, layout: object) -> Layout:
    for known in LAYOUTS:
        if layout == known:
            return known
    raise ValueError(f"{name}: got {layout!r}, want {' or '.join(map(repr, LAYOUTS))}")


def _as_sizes(d_head: int, rotary_dim: int | None) -> tuple[int, int]:
    """Both as ints, if they are positive, even, and rotary_dim not above d_head."""
    d_head = as_even("d_head", d_head)
    rotary_dim = d_head if rotary_dim is None else as_even("rotary_dim", rotary_dim)
    if rotary_dim > d_head:
        raise ValueError(
            f"rotary_dim: got {rotary_dim}, want at most d_head = {d_head}"
        )
    return d_head, rotary_dim
