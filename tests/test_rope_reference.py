"""lib/rope.py against references that share no code with it: mpmath and three public implementations.

Every bound is derived beside its test. u is the unit roundoff of a type, half its eps: 2^-24 for float32,
2^-53 for float64. A complex product errs by at most sqrt(5) u of its modulus (Brent, Percival, Zimmermann
2007), and a pair keeps its length r under rotation, so bounds are stated as multiples of u r.
"""

import sys
from functools import cache

import mpmath
import numpy as np
import pytest
import torch

from lib.rope import apply_rotary_emb, freqs_cis_at, inv_freq, precompute_freqs_cis

LAST = 1_048_576  # 2^20, the last position of the promise of 1 ulp
U32, U64 = 2.0**-24, 2.0**-53
B, T, H, H_KV, D_HEAD = (
    3,
    7,
    4,
    2,
    16,
)  # all different; a power of two, see `public_bound`


def exact_inv_freq(pair, d_head, base=10_000.0):
    return mpmath.power(mpmath.mpf(base), mpmath.mpf(-2 * pair) / d_head)


# --- The table at every position ------------------------------------------------------------------


@cache
def exact_cos_sin(pair, d_head):
    """cos and sin of m * theta_pair at m = 0 .. LAST, as float64 [LAST + 1] (rounded once, at the end).

    m = 1024 a + b. mpmath gives the angles of a and of b, 2049 in all, at 160 bits; the addition theorem
    joins them in integers of scale 2^120, which stay exact, so what is lost is below 2^-117.
    """
    with mpmath.workprec(160):
        theta = exact_inv_freq(pair, d_head)
        coarse = [mpmath.expj(1024 * a * theta) for a in range(LAST // 1024 + 1)]
        fine = [mpmath.expj(b * theta) for b in range(1024)]
        (cos_a, sin_a), (cos_b, sin_b) = (
            [
                np.array(
                    [int(mpmath.nint(mpmath.ldexp(x, 120))) for x in part], dtype=object
                )
                for part in parts
            ]
            for parts in (
                zip(*((z.real, z.imag) for z in anchors), strict=True)
                for anchors in (coarse, fine)
            )
        )
    cos = np.outer(cos_a, cos_b) - np.outer(sin_a, sin_b)
    sin = np.outer(sin_a, cos_b) + np.outer(cos_a, sin_b)
    return tuple(
        np.ldexp(x.ravel()[: LAST + 1].astype(np.float64), -240) for x in (cos, sin)
    )


def worst_ulp(values, exact):
    """The largest error of float32 `values`, in units of the last place of the exact value itself."""
    return np.max(
        np.abs(values.astype(np.float64) - exact)
        / np.spacing(np.abs(exact).astype(np.float32))
    )


@pytest.fixture(scope="module")
def table_of_8():
    return precompute_freqs_cis(8, LAST + 1).numpy()


@pytest.fixture(scope="module")
def columns_of_128():
    """A few columns of the table for d_head = 128, in blocks: all 64 pairs at once would take gigabytes."""
    blocks = torch.arange(LAST + 1).split(2**15)
    pairs = [1, 22, 47, 63]
    columns = np.concatenate(
        [freqs_cis_at(block, 128)[:, pairs].numpy() for block in blocks]
    )
    return dict(zip(pairs, columns.T, strict=True))


@pytest.mark.parametrize("pair", range(4))
def test_table_of_d_head_8_is_within_1_ulp_at_every_position(table_of_8, pair):
    cos, sin = exact_cos_sin(pair, 8)
    assert worst_ulp(table_of_8[:, pair].real, cos) <= 1
    assert worst_ulp(table_of_8[:, pair].imag, sin) <= 1


@pytest.mark.parametrize("pair", [1, 22, 47, 63])
def test_table_of_d_head_128_is_within_1_ulp_at_every_position(columns_of_128, pair):
    cos, sin = exact_cos_sin(pair, 128)
    assert worst_ulp(columns_of_128[pair].real, cos) <= 1
    assert worst_ulp(columns_of_128[pair].imag, sin) <= 1


@pytest.mark.parametrize("angle_type", [np.float32, np.float64])
def test_a_table_from_rounded_angles_would_miss_1_ulp(angle_type):
    angles = np.arange(LAST + 1, dtype=angle_type) * angle_type(
        0.1
    )  # pair 1 of d_head 8
    cos, sin = exact_cos_sin(1, 8)
    assert worst_ulp(np.cos(angles).astype(np.float32), cos) > 1
    assert worst_ulp(np.sin(angles).astype(np.float32), sin) > 1


def test_the_fixed_point_reference_agrees_with_mpmath_itself():
    cos, sin = exact_cos_sin(1, 8)
    for m in np.random.default_rng(0).integers(0, LAST, 200, endpoint=True):
        with mpmath.workprec(160):
            turn = mpmath.expj(int(m) * exact_inv_freq(1, 8))
        # float() may round either way, np.ldexp rounds to nearest: one unit of the last place apart at most
        assert abs(float(turn.real) - cos[m]) <= np.spacing(abs(cos[m]))
        assert abs(float(turn.imag) - sin[m]) <= np.spacing(abs(sin[m]))


# --- Frequencies, and positions that no table has -------------------------------------------------


@pytest.mark.parametrize("base", [10_000.0, 500_000, 2.5, 0.5])
@pytest.mark.parametrize("d_head", [2, 8, 12, 128])
def test_inv_freq_is_the_float64_nearest_to_the_exact_value(d_head, base):
    with mpmath.workprec(160):
        exact = [exact_inv_freq(pair, d_head, base) for pair in range(d_head // 2)]
    with mpmath.workprec(53):
        assert inv_freq(d_head, base).tolist() == [float(+theta) for theta in exact]


def unusual_positions():
    draw = np.random.default_rng(1)
    return {
        "fractional": draw.uniform(0, 1000, 20),
        "negative": -draw.uniform(0, 1e6, 20),
        "tiny": np.array([1e-3, -1e-9, 1e-30]),
        "1e12": 1e12 + draw.integers(-1000, 1000, 20),
        "2^53": 2.0**53 - np.arange(20),
    }


def exact_turns(positions, d_head, base):
    with mpmath.workprec(250):
        thetas = [exact_inv_freq(pair, d_head, base) for pair in range(d_head // 2)]
        return [
            [mpmath.expj(mpmath.mpf(float(m)) * theta) for theta in thetas]
            for m in positions
        ]


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
@pytest.mark.parametrize("kind", unusual_positions())
def test_freqs_cis_at_any_position_is_within_1_ulp(kind, base):
    positions = unusual_positions()[kind]
    turns = freqs_cis_at(positions, 24, base).numpy()
    exact = exact_turns(positions, 24, base)
    assert (
        worst_ulp(turns.real, np.array([[float(z.real) for z in row] for row in exact]))
        <= 1
    )
    assert (
        worst_ulp(turns.imag, np.array([[float(z.imag) for z in row] for row in exact]))
        <= 1
    )


@pytest.mark.parametrize("kind", unusual_positions())
def test_freqs_cis_at_in_complex128_errs_by_at_most_9_units_of_roundoff(kind):
    # Two complex exponentials within 1 ulp of each part, at most u: 2 sqrt(2) u. Their product: sqrt(5) u.
    # The part of the angle that float64 misses is a product and a sum of numbers below 1 up to position 2^53,
    # and the product's factor is rounded too: 3 u.
    positions = unusual_positions()[kind]
    turns = freqs_cis_at(positions, 24, dtype=torch.complex128).numpy()
    exact = np.array(exact_turns(positions, 24, 10_000.0))
    assert np.max(np.abs(exact - turns)) <= 9 * U64


# --- The rotation ---------------------------------------------------------------------------------


def random_heads(heads, dtype=torch.float32, seed=0):
    x = torch.randn(B, T, heads, D_HEAD, generator=torch.Generator().manual_seed(seed))
    return x.to(dtype)


def random_positions(*shape, high=4096):
    return torch.randint(high, shape, generator=torch.Generator().manual_seed(2))


def longest_pair(x):
    return x.double().unflatten(-1, (-1, 2)).norm(dim=-1).max().item()


def assert_within(actual, expected, bound):
    torch.testing.assert_close(actual.double(), expected.double(), rtol=0, atol=bound)


@pytest.mark.parametrize(
    "dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64]
)
def test_rotation_in_every_dtype_is_as_near_the_exact_one_as_its_rounding_allows(dtype):
    # float32 work: a table within 1 ulp, at most u in each part, is sqrt(2) u off; the product, sqrt(5) u.
    # float64 work: a table within 9 u, the product sqrt(5) u, and here the reference's own 4 u.
    # A half type then rounds each number once more, by half its eps (below its smallest normal number, by
    # half its eps of that one). Pair by pair, so that work in the half type itself would be seen.
    x, positions = random_heads(H, dtype), random_positions(T)
    table_dtype = torch.complex128 if dtype == torch.float64 else torch.complex64
    rotated, _ = apply_rotary_emb(
        x, x, freqs_cis_at(positions, D_HEAD, dtype=table_dtype)
    )

    exact = [
        [complex(z) for z in row] for row in exact_turns(positions, D_HEAD, 10_000.0)
    ]
    turns = torch.tensor(exact, dtype=torch.complex128)[:, None, :]
    pairs = torch.view_as_complex(x.double().unflatten(-1, (-1, 2))) * turns
    expected = torch.view_as_real(pairs)

    kind = torch.finfo(dtype)
    work = 16 * U64 if dtype == torch.float64 else 4 * U32
    last = kind.eps / 2 if kind.bits == 16 else 0
    bound = work * pairs.abs()[..., None]
    bound = bound + last * (expected.abs() + bound).clamp(min=kind.smallest_normal)
    assert rotated.dtype == dtype
    assert ((rotated.double().unflatten(-1, (-1, 2)) - expected).abs() <= bound).all()


# --- Public implementations -----------------------------------------------------------------------


def public_bound(x, largest_angle):
    """How far a public float32 implementation, with a float32 table of its own, may be from ours.

    Their angle: a power (1 ulp, 2 u), a reciprocal (u) and a product with the position (u) put it 4 u times
    the angle off; the exponent 2i / d_head is exact because d_head is a power of two. Then the two tables,
    sqrt(2) u each, and the two rotations, sqrt(5) u and (as two real products and a sum) sqrt(8) u: 8 u.
    """
    return (4 * largest_angle + 8) * U32 * longest_pair(x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_rotation_agrees_with_metas_given_the_same_table(meta, dtype):
    # Both multiply in float32, sqrt(5) u each, and round to the dtype, half its eps each.
    xq, xk = random_heads(H, dtype), random_heads(H_KV, dtype, seed=1)
    freqs_cis = freqs_cis_at(random_positions(T), D_HEAD)
    ours, theirs = (
        apply_rotary_emb(xq, xk, freqs_cis),
        meta.apply_rotary_emb(xq, xk, freqs_cis),
    )
    for x, our, their in zip((xq, xk), ours, theirs, strict=True):
        assert our.dtype == their.dtype
        assert_within(our, their, (5 * U32 + torch.finfo(dtype).eps) * longest_pair(x))


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_table_and_rotation_agree_with_metas(meta, base):
    xq, xk, positions = random_heads(H), random_heads(H_KV, seed=1), random_positions(T)
    ours = apply_rotary_emb(xq, xk, precompute_freqs_cis(D_HEAD, 4096, base)[positions])
    theirs = meta.apply_rotary_emb(
        xq, xk, meta.precompute_freqs_cis(D_HEAD, 4096, base)[positions]
    )
    for x, our, their in zip((xq, xk), ours, theirs, strict=True):
        assert_within(our, their, public_bound(x, positions.max().item()))


@pytest.fixture(scope="module")
def hf():
    """transformers; its pinned release does not install on Python 3.10."""
    if sys.version_info < (3, 11):
        pytest.skip("this release of transformers needs Python 3.11")
    import transformers
    import transformers.models.llama.modeling_llama
    import transformers.models.llama4.modeling_llama4

    return transformers


def half_split(x):
    """Every head's pairs (2i, 2i + 1) moved to (i, i + d_head / 2), where transformers' Llama has them."""
    return torch.cat((x[..., 0::2], x[..., 1::2]), dim=-1)


def heads_positions_and_rope(base):
    """xq, xk, a position for each token of each row, and transformers' word for plain RoPE."""
    rope = {"rope_type": "default", "rope_theta": base}
    return random_heads(H), random_heads(H_KV, seed=1), random_positions(B, T), rope


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_rotation_agrees_with_transformers_llama_at_positions_of_each_row(hf, base):
    xq, xk, positions, rope = heads_positions_and_rope(base)
    config = hf.LlamaConfig(
        hidden_size=H * D_HEAD, num_attention_heads=H, rope_parameters=rope
    )
    llama = hf.models.llama.modeling_llama
    cos, sin = llama.LlamaRotaryEmbedding(config)(xq, positions)
    theirs = llama.apply_rotary_pos_emb(
        half_split(xq), half_split(xk), cos, sin, unsqueeze_dim=2
    )
    ours = apply_rotary_emb(xq, xk, freqs_cis_at(positions, D_HEAD, base))
    for x, our, their in zip((xq, xk), ours, theirs, strict=True):
        assert_within(half_split(our), their, public_bound(x, positions.max().item()))


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_rotation_agrees_with_transformers_llama4_at_positions_of_each_row(hf, base):
    xq, xk, positions, rope = heads_positions_and_rope(base)
    config = hf.Llama4TextConfig(
        hidden_size=H * D_HEAD,
        num_attention_heads=H,
        head_dim=D_HEAD,
        rope_parameters=rope,
    )
    llama4 = hf.models.llama4.modeling_llama4
    table = llama4.Llama4TextRotaryEmbedding(config)(xq, positions)
    theirs = llama4.apply_rotary_emb(xq, xk, table)
    ours = apply_rotary_emb(xq, xk, freqs_cis_at(positions, D_HEAD, base))
    for x, our, their in zip((xq, xk), ours, theirs, strict=True):
        assert_within(our, their, public_bound(x, positions.max().item()))
