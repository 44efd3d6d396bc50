"""What lib/rope.py promises: rotation, relative scores, attention, dtypes, views, gradients and errors.

test_rope_reference.py holds it against mpmath and public implementations; here the reference is the
definition itself, written out in float64. No test stands at positions 0, 1, 2, ..., and no two sizes are
equal: a rotation along the wrong axis would pass there.

Bounds are stated in the unit roundoff u = eps / 2 of the type that does the work, times the length of the
longest pair, which no rotation changes: a table within 1 ulp is sqrt(2) u off, a complex product sqrt(5) u.
"""

import math

import numpy as np
import pytest
import torch

from lib import rope
from lib.rope import (
    apply_rotary_emb,
    dot_product_vs_offset,
    freqs_cis_at,
    inv_freq,
    precompute_freqs_cis,
    rotary_attention,
    rotate_pair,
    rotation_angles,
)
from tests.refusals import NO_POSITIVE_INT, assert_refused

B, T, H, H_KV, D_HEAD, PAIRS = 2, 5, 6, 3, 8, 4
U32, U64 = 2.0**-24, 2.0**-53
ANGLE_ERROR = (
    1000 * 3 * U64
)  # of a plain float64 angle below 1000: power, product and their like, u each


def random_heads(heads=H, dtype=torch.float64, seed=0, tokens=T):
    x = torch.randn(
        B,
        tokens,
        heads,
        D_HEAD,
        generator=torch.Generator().manual_seed(seed),
        dtype=torch.float64,
    )
    return x.to(dtype)


def random_positions(*shape, seed=0):
    return torch.randint(1, 1000, shape, generator=torch.Generator().manual_seed(seed))


def table_at(positions):
    return freqs_cis_at(positions, D_HEAD, dtype=torch.complex128)


def rotated_by_hand(x, positions, base=10_000.0):
    """x [B, T, h, d_head] at positions [T] or [B, T], in float64: x cos a - y sin a, x sin a + y cos a."""
    x, d_head = x.detach().double(), x.shape[-1]
    inverse_frequency = base ** (
        -torch.arange(0, d_head, 2, dtype=torch.float64) / d_head
    )
    angles = (positions[..., None] * inverse_frequency)[..., None, :]
    x, y = x[..., 0::2], x[..., 1::2]
    turned = (x * angles.cos() - y * angles.sin(), x * angles.sin() + y * angles.cos())
    return torch.stack(turned, dim=-1).flatten(-2)


def longest_pair(x):
    return x.detach().double().unflatten(-1, (-1, 2)).norm(dim=-1).max().item()


def assert_within(actual, expected, bound):
    torch.testing.assert_close(actual.double(), expected.double(), rtol=0, atol=bound)


def assert_rotated(rotated, x, positions):
    """In float64 13 u (table 9, product 3, here 1) or in float32 4 u; a half type rounds once more, by u."""
    work = 13 * U64 if x.dtype == torch.float64 else 4 * U32
    last = torch.finfo(x.dtype).eps / 2 if x.dtype.itemsize == 2 else 0
    assert rotated.dtype == x.dtype
    bound = (work + last + ANGLE_ERROR) * longest_pair(x)
    assert_within(rotated.detach(), rotated_by_hand(x, positions), bound)


# --- Frequencies, angles and the table ------------------------------------------------------------


def test_d_head_8_turns_by_1_and_tenths_of_it_per_token():
    assert inv_freq(8).tolist() == [1.0, 0.1, 0.01, 0.001]
    assert inv_freq(8).dtype == torch.float64


@pytest.mark.parametrize(
    "m, angles",
    [(3, [3, 0.3, 0.03, 0.003]), (50, [50, 5, 0.5, 0.05]), (100, [100, 10, 1, 0.1])],
)
def test_an_angle_is_position_times_frequency(m, angles):
    assert rotation_angles(m, 8).tolist() == pytest.approx(angles, rel=3 * U64, abs=0)


@pytest.mark.parametrize("compute", [rotation_angles, freqs_cis_at])
@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 5), (2, 1, 3)])
def test_positions_of_any_shape_gain_one_axis_of_pairs(compute, shape):
    positions = random_positions(*shape)
    answer = compute(positions, D_HEAD)
    assert answer.shape == (*shape, PAIRS)
    for index in np.ndindex(
        shape
    ):  # one at a time; two tables within 1 ulp are 2 sqrt(2) u apart
        alone = compute(positions[index].item(), D_HEAD)
        torch.testing.assert_close(answer[index], alone, rtol=0, atol=3 * U32)


POSITIONS = [7, 3, 11]


@pytest.mark.parametrize(
    "positions",
    [
        POSITIONS,
        tuple(POSITIONS),
        [7.0, 3, 11],
        np.array(POSITIONS),
        np.array(POSITIONS, dtype=np.float32),
        [np.int64(7), np.float64(3), 11],
        range(7, 14, 2),
        *(
            torch.tensor(POSITIONS, dtype=dtype)
            for dtype in (torch.uint8, torch.int16, torch.int32)
        ),
        *(
            torch.tensor(POSITIONS, dtype=dtype)
            for dtype in (torch.float16, torch.float32, torch.float64)
        ),
    ],
    ids=lambda positions: (
        f"{type(positions).__name__}-{getattr(positions, 'dtype', '')}"
    ),
)
def test_positions_may_be_any_kind_of_numbers(positions):
    integers = torch.tensor([int(position) for position in positions])
    assert torch.equal(freqs_cis_at(positions, D_HEAD), freqs_cis_at(integers, D_HEAD))
    assert torch.equal(
        rotation_angles(positions, D_HEAD), rotation_angles(integers, D_HEAD)
    )


@pytest.mark.parametrize(
    "position", [7, 7.0, np.int64(7), np.float32(7), torch.tensor(7)]
)
def test_one_position_gives_one_row(position):
    row = precompute_freqs_cis(D_HEAD, 9)[7]
    torch.testing.assert_close(
        freqs_cis_at(position, D_HEAD), row, rtol=0, atol=3 * U32
    )


def test_positions_are_not_written():
    positions = random_positions(T).double()
    before = positions.clone()
    freqs_cis_at(positions, D_HEAD)
    assert torch.equal(positions, before)


@pytest.mark.parametrize(
    "d_head, rows, base",
    [(8, 10, 10_000.0), (np.int64(2), np.int32(1), 7), (12, 33, 500_000.0)],
)
def test_the_table_is_the_turns_at_0_1_2_and_so_on(d_head, rows, base):
    table = precompute_freqs_cis(d_head, rows, base)
    assert table.dtype == torch.complex64 and table.shape == (rows, d_head // 2)
    assert torch.equal(table, freqs_cis_at(torch.arange(rows), d_head, base))
    assert torch.equal(table[0], torch.ones(d_head // 2, dtype=torch.complex64))


def test_a_position_past_the_table_is_an_index_error_but_has_an_angle():
    with pytest.raises(IndexError):
        precompute_freqs_cis(8, 10)[100]
    assert freqs_cis_at(100, 8)[0].item() == pytest.approx(
        complex(math.cos(100), math.sin(100)), rel=2 * U32
    )


# --- The rotation ---------------------------------------------------------------------------------


def test_rotate_pair_turns_anticlockwise():
    x, y = rotate_pair(
        torch.tensor([1.0, 0.0, 3.0]),
        torch.tensor([0.0, 1.0, 4.0]),
        torch.tensor(math.pi / 2),
    )
    # cos and sin of float32's pi / 2 are within 4.4e-8 < u of 0 and 1, and 2 products and a sum err by 2 u
    assert_within(
        torch.stack((x, y)),
        torch.tensor([[0.0, -1.0, -4.0], [1.0, 0.0, 3.0]]),
        3 * U32 * 5,
    )


def test_rotate_pair_broadcasts_and_agrees_with_the_complex_rotation():
    x, positions = random_heads(), random_positions(T)
    angles = rotation_angles(positions, D_HEAD)[:, None, :]
    turned = torch.stack(
        rotate_pair(x[..., 0::2], x[..., 1::2], angles), dim=-1
    ).flatten(-2)
    assert_within(
        turned, rotated_by_hand(x, positions), (ANGLE_ERROR + 8 * U64) * longest_pair(x)
    )


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
def test_queries_and_fewer_keys_turn_at_the_positions_of_their_tokens(dtype):
    xq, xk, positions = (
        random_heads(H, dtype),
        random_heads(H_KV, dtype, seed=1),
        random_positions(T),
    )
    rotated_q, rotated_k = apply_rotary_emb(xq, xk, table_at(positions))
    assert_rotated(rotated_q, xq, positions)
    assert_rotated(rotated_k, xk, positions)


def test_each_row_of_the_batch_may_stand_at_positions_of_its_own():
    xq, xk, positions = (
        random_heads(),
        random_heads(H_KV, seed=1),
        random_positions(B, T),
    )
    rotated_q, rotated_k = apply_rotary_emb(xq, xk, table_at(positions))
    assert_rotated(rotated_q, xq, positions)
    assert_rotated(rotated_k, xk, positions)


def test_a_base_other_than_10_000_is_used():
    x, positions = random_heads(), random_positions(T)
    rotated, _ = apply_rotary_emb(
        x, x, freqs_cis_at(positions, D_HEAD, 500_000.0, torch.complex128)
    )
    assert_within(
        rotated,
        rotated_by_hand(x, positions, 500_000.0),
        (13 * U64 + ANGLE_ERROR) * longest_pair(x),
    )


def test_neighbouring_dimensions_form_a_pair():
    x = torch.tensor([1.0, 2.0, 3.0, 4.0]).view(1, 1, 1, 4)
    rotated, _ = apply_rotary_emb(x, x, freqs_cis_at([1], 4))
    half_split = [
        -1.98411,
        1.95990,
        2.46238,
        4.01980,
    ]  # what dimensions (i, i + 2) as pairs would give
    assert_within(
        rotated.flatten(),
        torch.tensor([-1.14264, 1.92208, 2.95985, 4.02980]),
        0.5e-5 + 4 * U32 * 5,
    )
    assert not torch.allclose(rotated.flatten(), torch.tensor(half_split), atol=0.1)


def test_the_turn_follows_the_token_axis_and_not_the_head_axis():
    x = torch.ones(1, 3, 3, 4)
    rotated, _ = apply_rotary_emb(x, x, precompute_freqs_cis(4, 3))
    expected = torch.tensor([1, -0.30117, -1.32544])[:, None].expand(
        3, 3
    )  # alike for every head
    assert_within(rotated[0, :, :, 0], expected, 0.5e-5 + 4 * U32 * 2**0.5)


def test_position_0_changes_nothing():
    xq, xk = random_heads(), random_heads(H_KV, seed=1)
    rotated_q, rotated_k = apply_rotary_emb(
        xq, xk, freqs_cis_at(torch.zeros(T), D_HEAD)
    )
    assert torch.equal(rotated_q, xq) and torch.equal(rotated_k, xk)


def test_every_pair_keeps_its_length():
    x = random_heads()
    rotated, _ = apply_rotary_emb(x, x, table_at(random_positions(T)))
    lengths, before = (y.unflatten(-1, (-1, 2)).norm(dim=-1) for y in (rotated, x))
    # rotation 12 u, and the two lengths, each a sum of squares and a root, 2 u each
    torch.testing.assert_close(lengths, before, rtol=16 * U64, atol=0)


def test_decoding_token_by_token_from_a_start_equals_the_full_pass():
    x, start, table = (
        random_heads(dtype=torch.float32),
        37,
        precompute_freqs_cis(D_HEAD, 64),
    )
    full, _ = apply_rotary_emb(x, x, table[start : start + T])
    steps = [
        apply_rotary_emb(x[:, t : t + 1], x[:, t : t + 1], table[start + t][None])[0]
        for t in range(T)
    ]
    assert_within(
        torch.cat(steps, dim=1), full, 5 * U32 * longest_pair(x)
    )  # two products, sqrt(5) u each

    from_0, _ = apply_rotary_emb(x, x, table[:T])
    assert (from_0 - full).abs().max() > 1  # a start that is ignored would be seen


# --- Relative scores ------------------------------------------------------------------------------

# A score of two rotated vectors: 12 u each, and the sum of d_head products, d_head u: 32 u |q| |k|.
SCORE_ERROR = 32 * U64


def vectors(seed=0):
    return torch.randn(
        2, D_HEAD, generator=torch.Generator().manual_seed(seed), dtype=torch.float64
    )


def rotated_vectors(q, k, m, n):
    rotated_q, _ = apply_rotary_emb(
        q.view(1, 1, 1, -1), q.view(1, 1, 1, -1), table_at([m])
    )
    _, rotated_k = apply_rotary_emb(
        k.view(1, 1, 1, -1), k.view(1, 1, 1, -1), table_at([n])
    )
    return rotated_q.flatten(), rotated_k.flatten()


@pytest.mark.parametrize("m, n", [(5, 12), (12, 5), (700, 3), (31, 31)])
@pytest.mark.parametrize("shift", [1, 250, 100_000])
def test_a_score_depends_only_on_the_offset(m, n, shift):
    q, k = vectors()
    score = torch.dot(*rotated_vectors(q, k, m, n))
    shifted = torch.dot(*rotated_vectors(q, k, m + shift, n + shift))
    assert abs(score - shifted) <= 2 * SCORE_ERROR * q.norm() * k.norm()


def test_a_score_is_not_symmetric_in_the_offset():
    q, k = vectors()
    ahead, behind = dot_product_vs_offset(q, k, [7, -7]).tolist()
    assert abs(ahead - behind) > 0.1
    assert torch.dot(*rotated_vectors(q, k, 20, 13)).item() == pytest.approx(ahead)
    assert torch.dot(*rotated_vectors(q, k, 13, 20)).item() == pytest.approx(behind)


@pytest.mark.parametrize("pair", [None, *range(PAIRS)])
def test_dot_product_vs_offset_is_the_score_of_really_rotated_vectors(pair):
    q, k = vectors(seed=1)
    kept = slice(None) if pair is None else slice(2 * pair, 2 * pair + 2)
    positions = random_positions(20, 2).tolist()
    curve = dot_product_vs_offset(q, k, [m - n for m, n in positions], pair=pair)
    scores = [
        torch.dot(*(x[kept] for x in rotated_vectors(q, k, m, n))) for m, n in positions
    ]
    assert curve.dtype == torch.float64 and curve.shape == (20,)
    assert_within(
        curve, torch.stack(scores), 2 * SCORE_ERROR * (q.norm() * k.norm()).item()
    )


def test_dot_product_vs_offset_uses_its_base_and_takes_vectors_of_any_float_type_and_stride():
    q, k = vectors(seed=2).float().repeat_interleave(2, dim=1)[:, ::2]
    (m, n), base = (9, 2), 50.0
    turned = [
        rotated_by_hand(x.view(1, 1, 1, -1), torch.tensor([p]), base)
        for x, p in ((q, m), (k, n))
    ]
    score = dot_product_vs_offset(q, k, [m - n], base)
    error = (2 * SCORE_ERROR + 2 * ANGLE_ERROR) * (q.norm() * k.norm()).item()
    assert_within(score, (turned[0] * turned[1]).sum()[None], error)


# --- Dtypes, memory, gradients --------------------------------------------------------------------


def test_queries_and_keys_keep_each_their_own_dtype():
    xq, xk = random_heads(H, torch.bfloat16), random_heads(H_KV, torch.float64)
    rotated_q, rotated_k = apply_rotary_emb(xq, xk, precompute_freqs_cis(D_HEAD, T))
    assert (rotated_q.dtype, rotated_k.dtype) == (torch.bfloat16, torch.float64)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
def test_inputs_and_table_are_never_written_nor_shared_with_the_outputs(dtype):
    table = freqs_cis_at(random_positions(T), D_HEAD)
    given = random_heads(H, dtype), random_heads(H_KV, dtype, seed=1), table
    before = [x.clone() for x in given]
    for rotated in apply_rotary_emb(*given):
        rotated.zero_()
    assert all(torch.equal(x, y) for x, y in zip(given, before, strict=True))


def test_leaves_that_require_a_gradient_are_rotated_and_get_one():
    xq, xk = (
        random_heads().requires_grad_(),
        random_heads(H_KV, seed=1).requires_grad_(),
    )
    positions = random_positions(T)
    rotated_q, rotated_k = apply_rotary_emb(xq, xk, table_at(positions))
    (rotated_q.sum() + rotated_k.sum()).backward()
    # A rotation's gradient is the rotation back.
    for x in (xq, xk):
        assert_rotated(x.grad, torch.ones_like(x), -positions)


def test_gradients_of_the_rotation_are_right():
    inputs = random_heads(2).requires_grad_(), random_heads(1, seed=1).requires_grad_()
    table = table_at(random_positions(B, T))
    assert torch.autograd.gradcheck(
        lambda xq, xk: apply_rotary_emb(xq, xk, table), inputs
    )


def test_gradients_of_the_rotation_are_right_through_a_view_that_is_not_contiguous():
    x = random_heads(2).transpose(1, 2).contiguous().requires_grad_()
    table = table_at(random_positions(T))
    assert torch.autograd.gradcheck(
        lambda x: apply_rotary_emb(x.transpose(1, 2), x.transpose(1, 2), table), x
    )


VIEWS = {
    "heads before tokens": lambda x: x.transpose(1, 2).contiguous().transpose(1, 2),
    "dimensions before heads": lambda x: x.mT.contiguous().mT,
    "batch innermost": lambda x: x.permute(1, 2, 3, 0).contiguous().permute(3, 0, 1, 2),
    "every second dimension": lambda x: x.repeat_interleave(2, dim=-1)[..., ::2],
    "every second token": lambda x: x.repeat_interleave(2, dim=1)[:, ::2],
    "storage offset 1": lambda x: torch.cat((x.new_zeros(1), x.flatten()))[1:].view(
        x.shape
    ),
    "odd strides": lambda x: torch.nn.functional.pad(x, (0, 1))[..., :-1],
    "odd strides and offset": lambda x: torch.nn.functional.pad(x, (1, 0))[..., 1:],
    "expanded heads": lambda x: x[:, :, :1].expand(-1, -1, H, -1),
    "expanded dimensions": lambda x: x[..., :1].expand(-1, -1, -1, D_HEAD),
    "slice of a fused projection": lambda x: torch.cat((x, x, x), dim=-1)[
        ..., D_HEAD : 2 * D_HEAD
    ],
}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_views_of_any_stride_and_offset_are_rotated_like_copies(view, dtype):
    x, positions = view(random_heads(H, dtype)), random_positions(T)
    assert not (x.is_contiguous() and x.storage_offset() == 0)
    before = x.clone()
    rotated_q, rotated_k = apply_rotary_emb(x, x, table_at(positions))
    assert_rotated(rotated_q, x, positions)
    assert_rotated(rotated_k, x, positions)
    assert torch.equal(x, before)


def test_a_table_may_be_a_view_with_strides():
    x, positions = random_heads(), random_positions(T)
    table = table_at(positions).repeat_interleave(2, dim=0).T.contiguous().T[::2]
    assert not table.is_contiguous()
    assert_rotated(apply_rotary_emb(x, x, table)[0], x, positions)


@pytest.mark.parametrize("batch, tokens", [(0, T), (B, 0), (0, 0)])
def test_an_empty_batch_or_no_tokens_gives_empty_tensors(batch, tokens):
    xq, xk = (
        torch.zeros(batch, tokens, H, D_HEAD),
        torch.zeros(batch, tokens, H_KV, D_HEAD),
    )
    for table in (
        torch.ones(tokens, PAIRS) + 0j,
        torch.ones(batch, tokens, PAIRS) + 0j,
    ):
        rotated_q, rotated_k = apply_rotary_emb(xq, xk, table)
        assert rotated_q.shape == xq.shape and rotated_k.shape == xk.shape
        assert rotary_attention(xq, xk, xk, table).shape == xq.shape


# --- Half types, turned in blocks -----------------------------------------------------------------

half_types = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
AWKWARD = {"as made": lambda x: x, **VIEWS}


@pytest.fixture(params=[1, 2 * B * H * D_HEAD, 10**9], ids=["token", "two", "all"])
def block(request, monkeypatch):
    """Blocks of one token, of two (the last of T = 5 is shorter) and of all tokens."""
    monkeypatch.setattr(rope, "BLOCK", request.param)


@half_types
@pytest.mark.parametrize("shape", [(T,), (B, T)], ids=["T", "B x T"])
@pytest.mark.parametrize("view", AWKWARD.values(), ids=AWKWARD)
def test_blocks_are_rotated_like_one_piece_and_write_no_input(
    block, view, shape, dtype
):
    x, positions = view(random_heads(H, dtype)), random_positions(*shape)
    before, table = x.clone(), table_at(positions)
    for rotated in apply_rotary_emb(x, x, table):
        assert_rotated(rotated, x, positions)
        rotated.zero_()
    assert torch.equal(x, before) and torch.equal(table, table_at(positions))


@half_types
def test_gradients_in_a_half_type_are_the_rotation_back(block, dtype):
    xq, xk = random_heads(H, dtype), random_heads(H_KV, dtype, seed=1)
    before, positions = (xq.clone(), xk.clone()), random_positions(B, T)
    given = random_heads(H, dtype, seed=2), random_heads(H_KV, dtype, seed=3)
    kept = [gradient.clone() for gradient in given]
    leaves = xq.requires_grad_(), xk.requires_grad_()
    rotated = apply_rotary_emb(*leaves, table_at(positions))
    torch.autograd.backward(rotated, given)
    for x, turned, gradient in zip(leaves, rotated, given, strict=True):
        assert_rotated(turned, x, positions)
        assert_rotated(x.grad, gradient, -positions)
    for x, same in zip((*leaves, *given), (*before, *kept), strict=True):
        assert torch.equal(x, same)


@half_types
def test_a_table_that_is_learned_gets_its_gradient(block, dtype):
    x, positions = random_heads(H, dtype), random_positions(T)
    table = freqs_cis_at(positions, D_HEAD).requires_grad_()
    rotated, _ = apply_rotary_emb(x, x, table)
    rotated.backward(rotated.detach())
    rotated, given = (
        torch.view_as_complex(y.detach().double().unflatten(-1, (-1, 2)))
        for y in (rotated, x)
    )
    # B * H products of two pairs, sqrt(5) u each, and their sum in float32
    bound = B * H * (B * H + 3) * U32 * longest_pair(x) ** 2
    expected = (rotated * given.conj()).sum((0, 2))
    assert (torch.view_as_real(table.grad - expected)).abs().max() < bound


@half_types
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients_nothing_of_them_is_kept(block, mode, dtype):
    x, positions = random_heads(H, dtype).requires_grad_(), random_positions(T)
    with mode():
        rotated, _ = apply_rotary_emb(x, x, table_at(positions))
        assert_rotated(rotated, x, positions)
    assert not rotated.requires_grad


def test_a_real_size_in_a_half_type_takes_more_than_one_block():
    x = torch.ones(1, 1 + rope.BLOCK // (2 * D_HEAD), 2, D_HEAD, dtype=torch.bfloat16)
    positions = torch.arange(x.shape[1])
    assert x.numel() > rope.BLOCK
    rotated, _ = apply_rotary_emb(x, x[:, :, :1], table_at(positions))
    # An angle below 2^16 is 3 * 2^16 * U64 off, which is far below what is rounded.
    assert_rotated(rotated, x, positions)


# --- Attention ------------------------------------------------------------------------------------

# Scores below differ by rounding alone, at most 2 * 32 u |q| |k| / sqrt(d_head). With |q| |k| < 30 that is
# 8e-14, which moves a softmax-weighted mean of values below 4 by at most 2 * 8e-14 * 4 = 6e-13.
ATTENTION_ERROR = 1e-12


def attention_by_hand(q, k, v, is_causal):
    """Softmax attention of q [B, T, h, d_head] with k, v [B, T, h_kv, d_head], one head and token a time."""
    out, per_group = torch.empty_like(q), q.shape[2] // k.shape[2]
    for b, t, head in np.ndindex(q.shape[:3]):
        seen = slice(0, t + 1 if is_causal else None)
        keys, values = (x[b, seen, head // per_group] for x in (k, v))
        out[b, t, head] = (
            torch.softmax(keys @ q[b, t, head] / math.sqrt(q.shape[-1]), dim=0) @ values
        )
    return out


def queries_keys_values(h_kv=H_KV):
    q, k, v = random_heads(H), random_heads(h_kv, seed=1), random_heads(h_kv, seed=2)
    assert q.norm(dim=-1).max() * k.norm(dim=-1).max() < 30 and v.abs().max() < 4
    return q, k, v


@pytest.mark.parametrize("is_causal", [True, False])
@pytest.mark.parametrize("h_kv", [6, 3, 2, 1])
def test_rotary_attention_is_softmax_attention_over_rotated_queries_and_keys(
    h_kv, is_causal
):
    q, k, v = queries_keys_values(h_kv)
    positions = random_positions(B, T)
    by_hand = attention_by_hand(
        rotated_by_hand(q, positions), rotated_by_hand(k, positions), v, is_causal
    )
    # A plain float64 angle below 1000 adds ANGLE_ERROR to each side of each score.
    bound = ATTENTION_ERROR + 2 * 4 * 2 * ANGLE_ERROR * 30 / math.sqrt(D_HEAD)
    assert_within(
        rotary_attention(q, k, v, table_at(positions), is_causal=is_causal),
        by_hand,
        bound,
    )


def test_attention_is_causal_unless_told_otherwise():
    (q, k, v), table = queries_keys_values(), table_at(random_positions(T))
    assert torch.equal(
        rotary_attention(q, k, v, table),
        rotary_attention(q, k, v, table, is_causal=True),
    )
    assert not torch.allclose(
        rotary_attention(q, k, v, table),
        rotary_attention(q, k, v, table, is_causal=False),
    )


def test_values_pass_by_unchanged():
    # With one token the only weight is 1, so the output is the value itself.
    q, k, v = (x[:, :1] for x in queries_keys_values(H))
    assert_within(
        rotary_attention(q, k, v, table_at([123])), v, 2 * U64 * longest_pair(v)
    )


def test_a_shift_of_all_positions_changes_nothing_unless_values_are_rotated_too():
    q, k, v = queries_keys_values()
    here, there = table_at(random_positions(T)), table_at(random_positions(T) + 50)
    attended = rotary_attention(q, k, v, here)
    assert_within(rotary_attention(q, k, v, there), attended, ATTENTION_ERROR)

    v_here, v_there = (apply_rotary_emb(v, v, table)[0] for table in (here, there))
    changed = rotary_attention(q, k, v_there, there) - rotary_attention(
        q, k, v_here, here
    )
    assert changed.abs().max() > 0.1


def test_attention_writes_no_input_and_keeps_the_dtype():
    given = (
        *(x.bfloat16() for x in queries_keys_values()),
        precompute_freqs_cis(D_HEAD, T),
    )
    before = [x.clone() for x in given]
    attended = rotary_attention(*given)
    assert attended.dtype == torch.bfloat16 and attended.shape == given[0].shape
    assert all(torch.equal(x, y) for x, y in zip(given, before, strict=True))


def test_gradients_of_attention_are_right():
    q, k, v = (
        x[:1, :3, :heads].requires_grad_()
        for x, heads in zip(queries_keys_values(), (2, 1, 1), strict=True)
    )
    table = table_at(random_positions(3))
    assert torch.autograd.gradcheck(
        lambda *qkv: rotary_attention(*qkv, table), (q, k, v)
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_the_compiler_takes_the_rotation_in_one_piece(dtype):
    xq, xk = random_heads(H, dtype), random_heads(H_KV, dtype, seed=1)
    table = table_at(random_positions(T))
    compiled = torch.compile(apply_rotary_emb, fullgraph=True, backend="eager")
    for ours, theirs in zip(
        compiled(xq, xk, table), apply_rotary_emb(xq, xk, table), strict=True
    ):
        assert torch.equal(ours, theirs)


# --- Bad input ------------------------------------------------------------------------------------


TAKES_D_HEAD = {
    "inv_freq": lambda d_head, base=10_000.0: inv_freq(d_head, base),
    "rotation_angles": lambda d_head, base=10_000.0: rotation_angles(3, d_head, base),
    "freqs_cis_at": lambda d_head, base=10_000.0: freqs_cis_at(3, d_head, base),
    "precompute_freqs_cis": lambda d_head, base=10_000.0: precompute_freqs_cis(
        d_head, 3, base
    ),
}
takes_d_head = pytest.mark.parametrize("call", TAKES_D_HEAD.values(), ids=TAKES_D_HEAD)


@takes_d_head
@pytest.mark.parametrize(
    "d_head, error, came",
    [
        (7, ValueError, "7"),
        (1, ValueError, "1"),
        (0, ValueError, "0"),
        (-2, ValueError, "-2"),
        (8.0, TypeError, "8.0 (float)"),
        (True, TypeError, "True (bool)"),
        ("8", TypeError, "'8' (str)"),
        (None, TypeError, "None (NoneType)"),
    ],
)
def test_d_head_must_be_a_positive_even_int(call, d_head, error, came):
    assert_refused(lambda: call(d_head), error, "d_head", came)


@takes_d_head
@pytest.mark.parametrize(
    "base, error, came",
    [
        (0, ValueError, "0"),
        (-10_000.0, ValueError, "-10000.0"),
        (math.nan, ValueError, "nan"),
        (math.inf, ValueError, "inf"),
        (-math.inf, ValueError, "-inf"),
        ("10000", TypeError, "str"),
        (None, TypeError, "NoneType"),
        (True, TypeError, "bool"),
        (1j, TypeError, "complex"),
    ],
)
def test_base_must_be_a_finite_number_above_0(call, base, error, came):
    assert_refused(lambda: call(8, base), error, "base", came)


@pytest.mark.parametrize("base", [np.int64(10_000), np.float32(10_000), 10_000])
def test_numpys_and_pythons_numbers_are_bases(base):
    assert torch.equal(inv_freq(8, base), inv_freq(8))


def test_a_base_too_large_for_a_float_is_still_a_number():
    assert inv_freq(8, 10**400).tolist() == [1.0, 1e-100, 1e-200, 1e-300]


q_of_8, k_of_8 = vectors()
TAKES_POSITIONS = {
    "rotation_angles": ("positions", lambda positions: rotation_angles(positions, 8)),
    "freqs_cis_at": ("positions", lambda positions: freqs_cis_at(positions, 8)),
    "dot_product_vs_offset": (
        "offsets",
        lambda offsets: dot_product_vs_offset(q_of_8, k_of_8, offsets),
    ),
}


@pytest.mark.parametrize(
    "argument, call", TAKES_POSITIONS.values(), ids=TAKES_POSITIONS
)
@pytest.mark.parametrize(
    "positions, error, came",
    [
        ("abc", TypeError, "'abc'"),
        (["1", "2"], TypeError, "['1', '2']"),
        (None, TypeError, "None"),
        ([1, None], TypeError, "[1, None]"),
        ({3: 4}, TypeError, "{3: 4}"),
        ([[1, 2], [3]], TypeError, "[[1, 2], [3]]"),
        (np.array(["1"]), TypeError, "['1']"),
        (True, TypeError, "torch.bool"),
        (torch.tensor([True, False]), TypeError, "torch.bool"),
        (1j, TypeError, "torch.complex64"),
        (torch.ones(2, dtype=torch.complex128), TypeError, "torch.complex128"),
        (math.nan, ValueError, "nan"),
        ([1.0, math.inf], ValueError, "infinity"),
        (torch.tensor([-math.inf, 0]), ValueError, "infinity"),
    ],
    ids=str,
)
def test_positions_must_be_finite_real_numbers(argument, call, positions, error, came):
    assert_refused(lambda: call(positions), error, argument, came)


def test_a_position_whose_angle_overflows_float64_is_refused():
    assert_refused(
        lambda: freqs_cis_at([3.0, 1e308], 8), ValueError, "positions", "too large"
    )


@pytest.mark.parametrize("rows, error, came", NO_POSITIVE_INT)
def test_max_seq_len_must_be_a_positive_int(rows, error, came):
    assert_refused(lambda: precompute_freqs_cis(8, rows), error, "max_seq_len", came)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex32, "complex64", None])
def test_a_table_has_one_of_two_dtypes(dtype):
    assert_refused(
        lambda: freqs_cis_at(3, 8, dtype=dtype), TypeError, "dtype", str(dtype)
    )


XQ, XK, TABLE = (
    torch.ones(B, T, H, D_HEAD),
    torch.ones(B, T, H_KV, D_HEAD),
    precompute_freqs_cis(D_HEAD, 12),
)

NOT_HEADS = {
    "a list": ([[1.0]], TypeError, "list"),
    "an array": (np.ones((B, T, H, D_HEAD)), TypeError, "ndarray"),
    "nothing": (None, TypeError, "NoneType"),
    "integers": (XQ.int(), TypeError, "torch.int32"),
    "booleans": (XQ.bool(), TypeError, "torch.bool"),
    "complex numbers": (XQ + 0j, TypeError, "torch.complex64"),
    "no batch axis": (XQ[0], ValueError, "[5, 6, 8]"),
    "an axis too many": (XQ[None], ValueError, "[1, 2, 5, 6, 8]"),
    "odd d_head": (XQ[..., :7], ValueError, "d_head 7"),
    "d_head 0": (XQ[..., :0], ValueError, "d_head 0"),
}


@pytest.mark.parametrize("x, error, came", NOT_HEADS.values(), ids=NOT_HEADS)
def test_queries_keys_and_values_must_be_floating_point_heads(x, error, came):
    table = TABLE[:T]
    assert_refused(lambda: apply_rotary_emb(x, XK, table), error, "xq", came)
    assert_refused(lambda: apply_rotary_emb(XQ, x, table), error, "xk", came)
    assert_refused(lambda: rotary_attention(x, XK, XK, table), error, "xq", came)
    assert_refused(lambda: rotary_attention(XQ, x, XK, table), error, "xk", came)
    assert_refused(lambda: rotary_attention(XQ, XK, x, table), error, "xv", came)


@pytest.mark.parametrize(
    "xk, came",
    [
        (XK[:, : T - 1], "[2, 4, 3, 8]"),
        (XK[:, :1], "[2, 1, 3, 8]"),
        (XK[:1], "[1, 5, 3, 8]"),
        (XK[..., :6], "[2, 5, 3, 6]"),
        (XK.to("meta"), "meta"),
    ],
)
def test_keys_must_stand_where_the_queries_stand(xk, came):
    assert_refused(lambda: apply_rotary_emb(XQ, xk, TABLE[:T]), ValueError, "xk", came)
    assert_refused(
        lambda: rotary_attention(XQ, xk, xk, TABLE[:T]), ValueError, "xk", came
    )


BAD_TABLES = {
    "a list": ([[1j]], TypeError, "list"),
    "real": (TABLE[:T].real, TypeError, "torch.float32"),
    "cos and sin stacked": (torch.view_as_real(TABLE[:T]), TypeError, "torch.float32"),
    "on another device": (TABLE[:T].to("meta"), ValueError, "meta"),
    "shorter than T": (TABLE[10:15], ValueError, "[2, 4]"),
    "one row left": (TABLE[11:16], ValueError, "[1, 4]"),
    "no row left": (TABLE[12:17], ValueError, "[0, 4]"),
    "longer than T": (TABLE, ValueError, "[12, 4]"),
    "one row too long": (TABLE[: T + 1], ValueError, "[6, 4]"),
    "a single row without its axis": (TABLE[0], ValueError, "[4]"),
    "too few pairs": (TABLE[:T, :3], ValueError, "[5, 3]"),
    "one pair": (TABLE[:T, :1], ValueError, "[5, 1]"),
    "as many columns as d_head": (TABLE[:T].repeat(1, 2), ValueError, "[5, 8]"),
    "transposed": (TABLE[:T].T, ValueError, "[4, 5]"),
    "one row of a batch of two": (
        TABLE[:T].expand(1, T, PAIRS),
        ValueError,
        "[1, 5, 4]",
    ),
    "another batch": (TABLE[:T].expand(3, T, PAIRS), ValueError, "[3, 5, 4]"),
    "per row, one token": (TABLE[:1].expand(B, 1, PAIRS), ValueError, "[2, 1, 4]"),
    "per head": (TABLE[:T].expand(B, H, T, PAIRS), ValueError, "[2, 6, 5, 4]"),
}


@pytest.mark.parametrize("table, error, came", BAD_TABLES.values(), ids=BAD_TABLES)
def test_the_table_must_have_one_complex_row_for_each_token(table, error, came):
    assert_refused(lambda: apply_rotary_emb(XQ, XK, table), error, "freqs_cis", came)
    assert_refused(
        lambda: rotary_attention(XQ, XK, XK, table), error, "freqs_cis", came
    )


@pytest.mark.parametrize(
    "xk, xv, argument, came",
    [
        (XK, XK[:, :, :1], "xv", "[2, 5, 1, 8]"),
        (XK, XK[..., :6], "xv", "[2, 5, 3, 6]"),
        (XK, XQ, "xv", "[2, 5, 6, 8]"),
        (XQ[:, :, :4], XQ[:, :, :4], "xk", "4 heads"),
        (XQ[:, :, :0], XQ[:, :, :0], "xk", "0 heads"),
    ],
)
def test_attention_needs_values_like_keys_and_heads_that_divide(xk, xv, argument, came):
    assert_refused(
        lambda: rotary_attention(XQ, xk, xv, TABLE[:T]), ValueError, argument, came
    )


@pytest.mark.parametrize(
    "q, k, error, argument, came",
    [
        ([1.0, 2.0], k_of_8, TypeError, "q", "list"),
        (q_of_8, [1.0, 2.0], TypeError, "k", "list"),
        (q_of_8.int(), k_of_8, TypeError, "q", "torch.int32"),
        (q_of_8, k_of_8 + 0j, TypeError, "k", "torch.complex128"),
        (q_of_8[None], k_of_8, ValueError, "q", "[1, 8]"),
        (q_of_8, k_of_8[None], ValueError, "k", "[1, 8]"),
        (q_of_8, k_of_8[:6], ValueError, "k", "[6]"),
        (q_of_8[:7], k_of_8[:7], ValueError, "d_head", "7"),
        (q_of_8[:0], k_of_8[:0], ValueError, "d_head", "0"),
    ],
)
def test_dot_product_vs_offset_wants_two_vectors_of_one_even_length(
    q, k, error, argument, came
):
    assert_refused(lambda: dot_product_vs_offset(q, k, [3]), error, argument, came)


@pytest.mark.parametrize(
    "pair, error, came",
    [
        (4, IndexError, "4"),
        (-1, IndexError, "-1"),
        (1.0, TypeError, "1.0 (float)"),
        (True, TypeError, "True (bool)"),
    ],
)
def test_dot_product_vs_offset_wants_a_pair_that_exists(pair, error, came):
    assert_refused(
        lambda: dot_product_vs_offset(q_of_8, k_of_8, [3], pair=pair),
        error,
        "pair",
        came,
    )
