"""lib/scaling.py against the papers' equations and against Hugging Face's code."""

import math

import pytest
import torch

from lib.rope import apply_rotary_emb, freqs_cis_at, inv_freq, precompute_freqs_cis
from lib.scaling import (
    dynamic_ntk,
    llama3,
    longrope,
    longrope_attention_factor,
    ntk_aware,
    ntk_base,
    position_interpolation,
    precompute_scaled,
    proportional,
    yarn,
    yarn_along_pairs,
    yarn_attention_factor,
)
from tests.refusals import assert_refused

METHODS = {
    "interpolation": position_interpolation,
    "NTK-aware": ntk_aware,
    "YaRN": lambda d_head, factor: yarn(d_head, factor, trained_length=64),
    "YaRN along pairs": lambda d_head, factor: yarn_along_pairs(d_head, factor, 64),
    "Llama 3.1": lambda d_head, factor: llama3(d_head, factor, trained_length=64),
    "proportional": lambda d_head, factor: proportional(d_head, 1.0, factor),
}
EACH = pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)


@EACH
def test_a_factor_of_one_changes_nothing(method):
    torch.testing.assert_close(method(32, 1), inv_freq(32), rtol=1e-15, atol=0)


@EACH
def test_no_pair_turns_faster_or_slower_than_asked(method):
    ratio = inv_freq(32) / method(32, 4)
    assert (ratio >= 1 - 1e-12).all() and (ratio <= 4 + 1e-12).all()
    assert (ratio.diff() >= -1e-12).all()  # the slower a pair, the more it is slowed


def test_interpolated_by_4_position_8_is_position_2():
    table = precompute_scaled(position_interpolation(64, 4), 9)
    assert torch.equal(table[8], freqs_cis_at(2, 64))


def test_the_ntk_base_slows_the_slowest_pair_by_the_factor_and_the_fastest_not():
    ratio = inv_freq(64) / ntk_aware(64, 2)
    assert ratio[0] == 1
    assert ratio[-1].item() == pytest.approx(2, rel=1e-12)
    # d = 64, 2048 trained, factor 2, as dynamic NTK computes it at 4096 and 8192 tokens
    assert ntk_base(64, 3) == pytest.approx(31_082.24, abs=0.005)
    assert ntk_base(64, 7) == pytest.approx(74_534.83, abs=0.005)


def test_dynamic_ntk_changes_nothing_up_to_the_trained_length_and_remembers_nothing():
    last = [dynamic_ntk(64, 2, 2048, n)[-1].item() for n in (1, 2048, 4096, 2048)]
    assert last[0] == last[1] == last[3] == inv_freq(64)[-1]
    assert last[1:3] == pytest.approx([1.33352e-4, 4.44507e-5], rel=5e-6)
    assert torch.equal(dynamic_ntk(64, 2, 2048, 8192), ntk_aware(64, 7))


def test_rotated_keys_of_a_shorter_text_are_stale_under_dynamic_ntk():
    def score(key_made_at):
        """Of ones at positions 11 and 3, the key rotated when the text had that length."""
        ones = torch.ones(1, 1, 1, 8)
        tables = (
            precompute_scaled(dynamic_ntk(8, 2, 4, n), 12) for n in (12, key_made_at)
        )
        q, k = (
            apply_rotary_emb(ones, ones, table[m : m + 1])[0]
            for table, m in zip(tables, (11, 3), strict=True)
        )
        return (q * k).sum().item()

    assert score(12) == pytest.approx(5.49334, abs=1e-5)
    assert score(4) == pytest.approx(5.59225, abs=1e-5)


def test_llama_3_1_is_yarn_of_the_paper_between_1_and_4_turns():
    ratio = (inv_freq(64, 500_000) / llama3(64, 32, 8192, 500_000)).tolist()
    assert ratio[:15] == [1.0] * 15
    assert [1 / r for r in ratio[15:18]] == pytest.approx(
        [0.605573, 0.303743, 0.103448], abs=5e-7
    )
    assert ratio[18:] == pytest.approx([32.0] * 14, rel=1e-12)
    assert torch.equal(llama3(64, 32, 8192), yarn(64, 32, 8192, turns=(1.0, 4.0)))


def test_yarn_along_pairs_goes_down_in_equal_steps():
    # 4096 trained: pair 20.95 of 64 makes 32 turns and pair 45.03 a single one
    kept = kept_of(yarn_along_pairs(128, 8, 4096), 8, 128)
    steps = [1 - min(max((i - 20) / (46 - 20), 0), 1) for i in range(64)]
    assert kept == pytest.approx(steps, abs=1e-12)
    exact = kept_of(yarn_along_pairs(128, 8, 4096, truncate=False), 8, 128)
    assert exact[20:22] == pytest.approx([1, 1 - 0.05 / 24.08], abs=1e-3)
    assert exact[45] == pytest.approx(0.03 / 24.08, abs=1e-3) and exact[46] == 0


def test_yarn_of_the_paper_falls_faster_than_yarn_of_the_code():
    paper, code = (kept_of(f(128, 8, 4096), 8, 128) for f in (yarn, yarn_along_pairs))
    assert all(p <= c + 1e-12 for p, c in zip(paper[22:], code[22:], strict=True))
    assert code[33] == pytest.approx(0.5) and paper[33] < 0.2


def kept_of(scaled, factor, d_head):
    """How much of each pair's own frequency is left, from 1, all, to 0, interpolated."""
    ratio = scaled / inv_freq(d_head)
    return ((ratio - 1 / factor) / (1 - 1 / factor)).tolist()


def test_a_yarn_range_without_length_is_a_step():
    kept = kept_of(
        yarn_along_pairs(64, 4, 4096, turns=(1.7, 1.7), truncate=False), 4, 64
    )
    made = (4096 * inv_freq(64) / math.tau).tolist()
    assert kept == pytest.approx([float(turns > 1.7) for turns in made], abs=1e-12)


def test_longrope_divides_each_pair_by_its_own_factor():
    torch.testing.assert_close(
        longrope(4, [1.0, 0.5]), inv_freq(4) * torch.tensor([1, 2])
    )
    # 32 = 2^5 and 4096 = 2^12
    assert longrope_attention_factor(32, 4096) == pytest.approx(math.sqrt(1 + 5 / 12))
    assert longrope_attention_factor(1, 4096) == 1


def test_proportional_stops_the_slow_pairs_and_leaves_the_others():
    expected = [*(inv_freq(64)[:8] / 2).tolist(), *[0.0] * 24]
    assert proportional(64, 0.25, factor=2).tolist() == expected
    assert proportional(64, 0).tolist() == [0.0] * 32


def test_yarn_keeps_what_turned_often_and_interpolates_what_did_not():
    trained, d_head, factor = 4096, 128, 8
    ratio = (inv_freq(d_head) / yarn(d_head, factor, trained)).tolist()
    for made, slowed in zip(
        (trained * inv_freq(d_head) / math.tau).tolist(), ratio, strict=True
    ):
        if made >= 32:
            assert slowed == pytest.approx(1, rel=1e-12)
        elif made <= 1:
            assert slowed == pytest.approx(factor, rel=1e-12)
        else:
            assert 1 < slowed < factor


def test_linear_scaling_is_what_hugging_face_computes():
    theirs, _ = hugging_face("linear", {"factor": 4.0})
    torch.testing.assert_close(position_interpolation(64, 4).float(), theirs)


def test_dynamic_ntk_beyond_its_length_is_what_hugging_face_computes():
    theirs, _ = hugging_face("dynamic", {"factor": 2.0}, seq_len=4096)
    torch.testing.assert_close(ntk_aware(64, 3).float(), theirs)


def test_the_attention_factor_is_what_hugging_face_computes_for_yarn():
    _, theirs = hugging_face("yarn", {"factor": 4.0})
    assert yarn_attention_factor(4) == pytest.approx(theirs, rel=1e-12)
    assert yarn_attention_factor(4) ** 2 == pytest.approx(1.29648, abs=5e-6)


def test_yarn_ends_where_hugging_face_ends():
    # Between, they blend along the pair's number and the paper along its turns.
    theirs, _ = hugging_face("yarn", {"factor": 4.0})
    ours = yarn(64, 4, trained_length=2048).float()
    made = 2048 * inv_freq(64) / math.tau
    outside = (made > 40) | (made < 0.8)
    assert outside.sum() > 15
    torch.testing.assert_close(ours[outside], theirs[outside])


def hugging_face(kind, parameters, seq_len=None):
    """(inv_freq, attention factor) of transformers for d_head 64, trained at 2048."""
    rope_utils = pytest.importorskip("transformers.modeling_rope_utils")
    from transformers import LlamaConfig

    config = LlamaConfig(
        hidden_size=256,
        num_attention_heads=4,
        max_position_embeddings=2048,
        rope_parameters={
            "rope_type": kind,
            "rope_theta": 10_000.0,
            "original_max_position_embeddings": 2048,
            **parameters,
        },
    )
    return rope_utils.ROPE_INIT_FUNCTIONS[kind](config, "cpu", seq_len=seq_len)


def test_the_plain_frequencies_give_the_plain_table():
    table = precompute_scaled(inv_freq(32), 300)
    torch.testing.assert_close(table, precompute_freqs_cis(32, 300), rtol=0, atol=1e-7)


def test_scores_grow_by_the_square_of_the_attention_factor():
    q = torch.randn(1, 5, 2, 8, generator=torch.Generator().manual_seed(0))
    plain, stretched = (precompute_scaled(inv_freq(8), 5, a) for a in (1.0, 1.2))
    (q1, k1), (q2, k2) = (apply_rotary_emb(q, q, table) for table in (plain, stretched))
    torch.testing.assert_close((q2 * k2).sum(-1), 1.44 * (q1 * k1).sum(-1))


@pytest.mark.parametrize(
    ("factor", "error", "came"),
    [
        (0.5, ValueError, "0.5"),
        (math.nan, ValueError, "nan"),
        (math.inf, ValueError, "inf"),
        ("4", TypeError, "str"),
        (True, TypeError, "bool"),
    ],
)
def test_a_factor_that_is_none_is_refused(factor, error, came):
    others = (
        lambda _, f: yarn_attention_factor(f),
        lambda _, f: longrope_attention_factor(f, 64),
        lambda d_head, f: dynamic_ntk(d_head, f, 64, 128),
    )
    for method in (*METHODS.values(), *others):
        assert_refused(lambda m=method: m(32, factor), error, "factor", came)


def test_other_bad_arguments_are_refused():
    for d_head in (2, 1, 7, -4):
        assert_refused(
            lambda n=d_head: ntk_base(n, 4), ValueError, "d_head", f"{d_head}"
        )
    assert_refused(lambda: ntk_base(8, 4, base=-1), ValueError, "base", "-1")
    assert_refused(lambda: yarn(8, 4, 0), ValueError, "trained_length", "0")
    assert_refused(lambda: yarn(8, 4, 64, turns=(2, 2)), ValueError, "turns", "(2, 2)")
    for method in (yarn, yarn_along_pairs, llama3):
        assert_refused(
            lambda m=method: m(8, 4, 64, turns=(3, 2)), ValueError, "turns", "(3, 2)"
        )
    assert_refused(
        lambda: yarn_along_pairs(8, 4, 64, turns=(0, 2)), ValueError, "turns", "0"
    )
    assert_refused(lambda: yarn_along_pairs(8, 4, 64, 1.0), ValueError, "base", "1.0")
    assert_refused(lambda: dynamic_ntk(8, 4, 64, 0), ValueError, "seq_len", "0")
    assert_refused(lambda: longrope(8, [1.0] * 3), ValueError, "factors", "3")
    assert_refused(lambda: longrope(8, [1.0, 2.0, 0, 1.0]), ValueError, "factors", "0")
    assert_refused(
        lambda: longrope_attention_factor(4, 1), ValueError, "trained_length", "1"
    )
    assert_refused(lambda: proportional(8, 1.5), ValueError, "share", "1.5")
    assert_refused(
        lambda: precompute_scaled(inv_freq(8), 0), ValueError, "max_seq_len", "0"
    )


@pytest.mark.parametrize(
    ("inv_freq", "error", "came"),
    [
        ([1.0], TypeError, "list"),
        (torch.ones(2).int(), TypeError, "int32"),
        (torch.ones(3, 2), ValueError, "[3, 2]"),
        (torch.tensor([1.0, float("nan")]), ValueError, "[2]"),
    ],
)
def test_a_table_of_no_frequencies_is_refused(inv_freq, error, came):
    assert_refused(lambda: precompute_scaled(inv_freq, 3), error, "inv_freq", came)


def test_a_table_of_float32_frequencies_has_float64_angles():
    frequencies = torch.tensor([0.1, 0.7])
    table = precompute_scaled(frequencies, 100_001)
    exact = torch.polar(torch.ones(2).double(), 100_000 * frequencies.double())
    assert torch.equal(table[-1], exact.to(torch.complex64))
