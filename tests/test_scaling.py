"""lib/scaling.py against the papers' equations and against Hugging Face's code."""

import math

import pytest
import torch

from lib.rope import apply_rotary_emb, freqs_cis_at, inv_freq, precompute_freqs_cis
from lib.scaling import (
    ntk_aware,
    ntk_base,
    position_interpolation,
    precompute_scaled,
    yarn,
    yarn_attention_factor,
)
from tests.refusals import assert_refused

METHODS = {
    "interpolation": position_interpolation,
    "NTK-aware": ntk_aware,
    "YaRN": lambda d_head, factor: yarn(d_head, factor, trained_length=64),
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
    for method in (*METHODS.values(), lambda _, f: yarn_attention_factor(f)):
        assert_refused(lambda m=method: m(32, factor), error, "factor", came)


def test_other_bad_arguments_are_refused():
    for d_head in (2, 1, 7, -4):
        assert_refused(
            lambda n=d_head: ntk_base(n, 4), ValueError, "d_head", f"{d_head}"
        )
    assert_refused(lambda: ntk_base(8, 4, base=-1), ValueError, "base", "-1")
    assert_refused(lambda: yarn(8, 4, 0), ValueError, "trained_length", "0")
    assert_refused(lambda: yarn(8, 4, 64, turns=(2, 2)), ValueError, "turns", "(2, 2)")
    assert_refused(
        lambda: precompute_scaled(inv_freq(8), 0), ValueError, "max_seq_len", "0"
    )
