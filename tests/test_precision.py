"""lib/precision.py: each way against written-out values or the public code it stands for, and the check."""

import math

import pytest
import torch

from lib.precision import (
    WAYS,
    all_float16,
    all_float32,
    all_float64,
    angle_errors,
    autocast_bfloat16,
    check_table,
    inv_freq_bfloat16,
    positions_bfloat16,
    table_bfloat16,
)
from lib.rope import freqs_cis_at, inv_freq, precompute_freqs_cis
from lib.scaling import precompute_scaled, yarn
from tests.refusals import assert_refused

POSITIONS = torch.tensor([0, 1, 7, 256, 257, 4_095, 131_071, 1_000_000])


def error(way, position, d_head=128):
    there = torch.tensor([position])
    return angle_errors(way(there, inv_freq(d_head)), there)[0]


# --- The ways -------------------------------------------------------------------------


def test_the_books_table_is_right_to_the_rounding_of_float32():
    made = freqs_cis_at(POSITIONS, 128)
    assert angle_errors(made, POSITIONS).max() < 2.0**-24
    way = all_float64(POSITIONS, inv_freq(128)).to(torch.complex64)
    assert (way == made).float().mean() > 0.99  # ours carries the product further
    assert (way - made).abs().max() < 2.0**-23


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
@pytest.mark.parametrize("d_head", [64, 128])
def test_metas_code_makes_its_table_in_float32(meta, d_head, base):
    theirs = meta.precompute_freqs_cis(d_head, 5_000, base)
    ours = all_float32(torch.arange(5_000), inv_freq(d_head, base))
    assert (theirs - ours).abs().le(float32_steps(torch.arange(5_000))).all()


def float32_steps(positions):
    """What a power in float32 and another cos can differ by: three roundings of an angle, and two of the table."""
    return (3 * positions[:, None] + 2) * 2.0**-24


@pytest.mark.parametrize(
    ("dtype", "way"), [(torch.float32, all_float32), (torch.bfloat16, table_bfloat16)]
)
def test_transformers_llama_makes_its_table_so(dtype, way):
    transformers = pytest.importorskip("transformers")
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    config = transformers.LlamaConfig(
        hidden_size=256,
        num_attention_heads=2,
        rope_parameters={"rope_type": "default", "rope_theta": 10_000.0},
    )
    x = torch.zeros(1, dtype=dtype)
    cos, sin = LlamaRotaryEmbedding(config)(x, POSITIONS[None])
    assert cos.dtype == dtype
    theirs = torch.complex(cos[0, :, :64].double(), sin[0, :, :64].double())
    allowed = float32_steps(POSITIONS)
    if dtype == torch.bfloat16:
        allowed = (
            allowed + 2.0**-8
        )  # where a float32 step crosses the middle of two numbers
    assert (theirs - way(POSITIONS, inv_freq(128))).abs().le(allowed).all()
    assert (theirs.real.to(dtype).double() == theirs.real).all()


def test_frequencies_in_bfloat16_drift_as_far_as_was_reported():
    assert error(inv_freq_bfloat16, 511)[1].item() == pytest.approx(0.625, abs=1e-3)
    # 5.0089 radians at 4,095, of which a table shows what is left of a turn.
    assert error(inv_freq_bfloat16, 4_095)[1].item() == pytest.approx(
        math.tau - 5.0089, abs=2e-3
    )


def test_positions_in_bfloat16_are_exact_up_to_256():
    assert error(positions_bfloat16, 256).max() < 1e-4
    assert error(positions_bfloat16, 257)[0].item() == pytest.approx(1, abs=1e-4)


def test_a_product_under_autocast_is_rounded_twice():
    made = autocast_bfloat16(torch.arange(1_000, 1_004), inv_freq(2))
    rounded = torch.tensor([1000.0, 1000.0, 1000.0, 1004.0])
    assert torch.allclose(made.real[:, 0], rounded.cos().double(), atol=1e-6)


def test_a_table_in_float16_is_off_by_as_much_as_was_reported():
    positions = torch.arange(2_048)
    exact = freqs_cis_at(positions, 32, dtype=torch.complex128)
    off = (all_float16(positions, inv_freq(32)).real - exact.real).abs().max().item()
    assert off == pytest.approx(0.78, abs=0.005)
    assert all_float16(torch.tensor([70_000]), inv_freq(32)).isnan().all()


def test_float32_loses_up_to_a_twentieth_of_a_radian_at_a_million():
    far = torch.arange(1_000_000, 1_000_100)
    lost = angle_errors(all_float32(far, inv_freq(128)), far).max().item()
    assert 0.04 < lost < 0.07


# --- Errors of a table ----------------------------------------------------------------


def test_errors_are_what_the_angles_were_turned_by():
    positions = torch.tensor([5, 0, 300])
    turn = torch.tensor([[0.25, -0.5], [0.0, 3.0], [1e-6, 7.0]], dtype=torch.float64)
    table = freqs_cis_at(positions, 4, dtype=torch.complex128)
    table = 1.3 * table * torch.polar(torch.ones_like(turn), turn)
    left = torch.tensor([[0.25, 0.5], [0.0, 3.0], [1e-6, 7.0 - math.tau]])
    assert torch.allclose(
        angle_errors(table, positions), left.double(), rtol=0, atol=1e-7
    )


@pytest.mark.parametrize("entry", [math.nan, 0, math.inf])
def test_what_has_no_angle_is_half_a_turn_off(entry):
    table = freqs_cis_at([0, 1], 4) * torch.tensor([1, entry])
    assert angle_errors(table, torch.arange(2))[:, 1].tolist() == [math.pi] * 2


def test_rows_in_any_order_and_far_out_are_compared_with_their_own_angles():
    positions = torch.tensor([1_000_000, 3, 40])
    table = freqs_cis_at(positions, 128)
    assert check_table(table, positions).right
    table[0] *= torch.polar(torch.ones(()), torch.tensor(0.01))
    table[2, 5] *= -1
    found = check_table(table, positions)
    assert (found.position, found.pair, found.first) == (40, 5, 40)


# --- Which way made it ----------------------------------------------------------------


@pytest.mark.parametrize("d_head", [32, 128])
@pytest.mark.parametrize("name", list(WAYS)[2:])
def test_a_wrong_table_is_known_again(name, d_head):
    for length in (300, 2_048, 5_000):
        table = WAYS[name](torch.arange(length), inv_freq(d_head))
        found = check_table(table)
        assert not found.right and found.made_by == name
        assert str(found).endswith(f"as with {name}")


def test_positions_of_any_type_are_read():
    table = positions_bfloat16(torch.arange(300), inv_freq(8))
    for dtype in (torch.uint16, torch.int32, torch.float32):
        found = check_table(table, torch.arange(300).to(dtype))
        assert found.first == 257
        assert str(found).endswith("at position 257; as with positions in bfloat16")


def test_float32_is_right_until_its_angles_are_not():
    assert check_table(all_float32(torch.arange(4_096), inv_freq(128))).right
    far = torch.arange(1_000_000, 1_000_100)
    found = check_table(all_float32(far, inv_freq(128)), far)
    assert found.made_by == "all in float32" and found.first == 1_000_000


def test_a_half_table_past_its_last_number_is_known_too():
    far = torch.arange(66_000, 66_010)
    assert check_table(all_float16(far, inv_freq(32)), far).made_by == "all in float16"


def test_metas_own_table_is_known_where_it_is_off(meta):
    for d_head, length in ((128, 20_000), (64, 40_000)):
        found = check_table(meta.precompute_freqs_cis(d_head, length, 10_000.0))
        assert not found.right and found.made_by == "all in float32"


def test_a_few_wrong_rows_of_a_right_table_have_no_way():
    for length, rows in ((6_000, slice(2_500, 3_000)), (6_000, slice(1_034, 1_035))):
        table = precompute_freqs_cis(64, length)
        table[rows] = table[rows.start - 1]
        assert check_table(table).made_by is None
    table = all_float32(torch.arange(6_000), inv_freq(64))
    table[2_500:2_600] = 1
    assert check_table(table).made_by is None
    half = positions_bfloat16(torch.arange(600), inv_freq(64))
    half[:256] = freqs_cis_at(torch.arange(256) + 0.5, 64)
    assert check_table(half).made_by is None


def test_the_report_says_where_the_error_is_largest_and_where_it_begins():
    table = precompute_freqs_cis(8, 50)
    table[30:, 2] *= torch.polar(torch.ones(()), torch.tensor(0.01))
    table[41, 1] *= -1
    found = check_table(table)
    assert (found.position, found.pair, found.first) == (41, 1, 30)
    assert found.radians == pytest.approx(math.pi) and found.made_by is None
    assert str(found) == (
        "off by up to 3.1 rad, at position 41 in pair 1; first by more than 0.001 rad at position 30"
    )
    assert check_table(table, allowed=0.1).first == 41


def test_a_right_table_says_how_right_it_is():
    found = check_table(precompute_freqs_cis(8, 50))
    assert found.right and found.made_by is None and found.first is None
    assert "first" not in str(found)
    other = precompute_freqs_cis(8, 50, 5e5)
    assert check_table(other, inv_freq=inv_freq(8, 5e5)).right
    assert not check_table(other).right


def test_scaled_frequencies_and_an_attention_factor_are_told_from_errors():
    scaled = yarn(64, 4, 2_048)
    table = precompute_scaled(scaled, 3_000, 1.14)
    assert check_table(table, inv_freq=scaled).right
    assert check_table(table).made_by is None
    rounded = precompute_scaled(scaled.bfloat16().double(), 3_000, 1.14)
    assert check_table(rounded, inv_freq=scaled).made_by == "inv_freq in bfloat16"


TABLE = precompute_freqs_cis(8, 3)


@pytest.mark.parametrize(
    ("arguments", "error", "argument", "came"),
    [
        ({"freqs_cis": [1]}, TypeError, "freqs_cis", "list"),
        ({"freqs_cis": TABLE.real}, TypeError, "freqs_cis", "float32"),
        ({"freqs_cis": TABLE[0]}, ValueError, "freqs_cis", "[4]"),
        ({"freqs_cis": TABLE[:0]}, ValueError, "freqs_cis", "[0, 4]"),
        ({"freqs_cis": TABLE.sum()}, ValueError, "freqs_cis", "[]"),
        ({"positions": [0, 1, 2]}, TypeError, "positions", "list"),
        ({"positions": torch.arange(4)}, ValueError, "positions", "[4]"),
        ({"positions": torch.tensor(0)}, ValueError, "positions", "[]"),
        ({"positions": torch.ones(3) > 0}, TypeError, "positions", "bool"),
        ({"positions": torch.arange(3).half()}, TypeError, "positions", "float16"),
        ({"freqs_cis": 0 * TABLE}, ValueError, "freqs_cis", "0 to 0"),
        ({"freqs_cis": TABLE.cumsum(0)}, ValueError, "freqs_cis", "moduli from"),
        ({"allowed": 0}, ValueError, "allowed", "0"),
        ({"inv_freq": [1.0]}, TypeError, "inv_freq", "list"),
        ({"inv_freq": torch.ones(3)}, ValueError, "inv_freq", "[3]"),
        ({"inv_freq": torch.ones(4).int()}, TypeError, "inv_freq", "int32"),
    ],
)
def test_bad_arguments_are_refused(arguments, error, argument, came):
    arguments = {"freqs_cis": TABLE, **arguments}
    assert_refused(lambda: check_table(**arguments), error, argument, came)
