"""lib/layouts.py against written-out values, transformers' models, and functions with a mistake in each.

Whatever tells a right function from a wrong one here avoids what tells nothing: position 0, vectors of equal
numbers, positions in order from 0, and B, T, h that are the same.
"""

import math
import warnings
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.nn import functional as F

from lib.layouts import (
    LAYOUTS,
    Diagnosis,
    convert_weight,
    diagnose,
    pairs_of,
    permutation,
    rotate,
    to_half_split,
    to_interleaved,
)
from lib.rope import (
    apply_rotary_emb,
    freqs_cis_at,
    inv_freq,
    precompute_freqs_cis,
    rotary_attention,
)
from lib.scaling import position_interpolation, precompute_scaled, proportional
from tests.refusals import NO_POSITIVE_INT, assert_refused

B, T, H, H_KV, D_HEAD = 2, 5, 4, 3, 8
EACH_LAYOUT = pytest.mark.parametrize("layout", LAYOUTS)


def random(*shape, seed=0, dtype=torch.float32):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=draw, dtype=torch.float64).to(dtype)


def random_positions(*shape):
    return torch.randint(1, 4096, shape, generator=torch.Generator().manual_seed(1))


def heads(*numbers):
    """One head of one token: [1, 1, 1, d_head]."""
    return torch.tensor(numbers, dtype=torch.float32).view(1, 1, 1, -1)


def assert_near(actual, expected, within=1e-5):
    torch.testing.assert_close(actual, torch.as_tensor(expected), rtol=0, atol=within)


# --- Pairs and orders -----------------------------------------------------------------------------


def test_the_pairs_of_each_layout():
    assert pairs_of(8, "interleaved").tolist() == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert pairs_of(8, "half-split").tolist() == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert pairs_of(8, "interleaved", rotary_dim=4).tolist() == [[0, 1], [2, 3]]
    assert pairs_of(8, "half-split", rotary_dim=4).tolist() == [[0, 2], [1, 3]]
    assert pairs_of(8, "half-split").dtype == torch.int64


def test_the_permutation_of_some_heads():
    assert permutation(4).tolist() == [0, 2, 1, 3]
    assert permutation(8).tolist() == [0, 2, 4, 6, 1, 3, 5, 7]
    assert permutation(8, rotary_dim=4).tolist() == [0, 2, 1, 3, 4, 5, 6, 7]
    assert permutation(2).tolist() == [0, 1]  # one pair: no difference


@pytest.mark.parametrize("rotary_dim", [None, 4])
def test_the_permutation_puts_every_pair_where_the_other_layout_has_it(rotary_dim):
    order = permutation(D_HEAD, rotary_dim)
    moved = order[pairs_of(D_HEAD, "half-split", rotary_dim)]
    assert torch.equal(moved, pairs_of(D_HEAD, "interleaved", rotary_dim))


@pytest.mark.parametrize("rotary_dim", [None, 2, 6])
def test_there_and_back_is_where_it_was(rotary_dim):
    x = random(B, T, H, D_HEAD)
    there = to_half_split(x, rotary_dim)
    assert torch.equal(there, x[..., permutation(D_HEAD, rotary_dim)])
    assert torch.equal(to_interleaved(there, rotary_dim), x)
    assert torch.equal(to_half_split(to_interleaved(x, rotary_dim), rotary_dim), x)
    assert torch.equal(there[..., rotary_dim or 8 :], x[..., rotary_dim or 8 :])
    assert there.data_ptr() != x.data_ptr()


# --- The rotation ---------------------------------------------------------------------------------


def test_a_vector_at_position_1_in_both_layouts():
    x = heads(1, 2, 3, 4)
    interleaved, half_split = (rotate(x, [1], layout) for layout in LAYOUTS)
    assert_near(interleaved.flatten(), [-1.14264, 1.92208, 2.95985, 4.02980])
    assert_near(half_split.flatten(), [-1.98411, 1.95990, 2.46238, 4.01980])
    for rotated in (interleaved, half_split):
        assert rotated.norm().item() == pytest.approx(5.47723, abs=1e-5)


def test_a_head_turned_in_part_has_the_frequencies_of_a_smaller_head():
    x = torch.arange(1.0, 9).view(1, 1, 1, 8)
    rotated = rotate(x, [2], "half-split", rotary_dim=4)
    expected = [-3.1440, 1.9196, -0.3391, 4.0392, 5, 6, 7, 8]
    assert_near(rotated.flatten(), expected, within=5e-5)
    alone = rotate(x[..., :4], [2], "half-split")
    assert torch.equal(rotated[..., :4], alone)


@pytest.mark.parametrize("rotary_dim", [None, 4])
@pytest.mark.parametrize("positions", [(T,), (B, T)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_one_layout_is_the_other_in_another_order(dtype, positions, rotary_dim):
    x, positions = random(B, T, H, D_HEAD, dtype=dtype), random_positions(*positions)
    kept = x.clone()
    one = rotate(x, positions, "interleaved", 500_000, rotary_dim)
    other = rotate(
        to_half_split(x, rotary_dim), positions, "half-split", 500_000, rotary_dim
    )
    assert torch.equal(to_half_split(one, rotary_dim), other)
    assert one.dtype == other.dtype == dtype
    assert torch.equal(x, kept)


def test_interleaved_is_what_lib_rope_does():
    x, positions = random(B, T, H, D_HEAD), random_positions(B, T)
    ours, _ = apply_rotary_emb(x, x, freqs_cis_at(positions, D_HEAD, 77))
    assert torch.equal(rotate(x, positions, "interleaved", 77), ours)


@EACH_LAYOUT
def test_each_layout_turns_its_own_pairs_as_written_out(layout):
    x, positions = random(B, T, H, D_HEAD, dtype=torch.float64), random_positions(T)
    rotated = rotate(x, positions, layout, 100, rotary_dim=6)
    expected = x.clone()
    for t, m in enumerate(positions.tolist()):
        for i, (a, b) in enumerate(pairs_of(D_HEAD, layout, 6).tolist()):
            angle = m * 100 ** (-2 * i / 6)
            x_a, x_b = x[:, t, :, a], x[:, t, :, b]
            expected[:, t, :, a] = x_a * math.cos(angle) - x_b * math.sin(angle)
            expected[:, t, :, b] = x_a * math.sin(angle) + x_b * math.cos(angle)
    torch.testing.assert_close(rotated, expected, rtol=0, atol=1e-11)


def test_the_rotation_has_a_gradient():
    x = random(B, T, H, D_HEAD, dtype=torch.float64).requires_grad_()
    positions = random_positions(T)
    assert torch.autograd.gradcheck(lambda x: rotate(x, positions, "half-split"), x)


@pytest.mark.parametrize(
    ("q_layout", "k_layout", "score"),
    [
        ("interleaved", "interleaved", 0.909297),  # sin 2
        ("half-split", "half-split", 0),
        ("interleaved", "half-split", 0.141113),
    ],
)
def test_the_score_of_two_unit_vectors_tells_the_layouts_apart(
    q_layout, k_layout, score
):
    q, k = heads(1, 0, 0, 0), heads(0, 1, 0, 0)
    turned = rotate(q, [3], q_layout) * rotate(k, [1], k_layout)
    assert turned.sum().item() == pytest.approx(score, abs=1e-6)
    at_0 = rotate(q, [0], q_layout) * rotate(k, [0], k_layout)
    assert at_0.sum().item() == 0  # where nothing turns, nothing differs


@EACH_LAYOUT
def test_positions_run_along_the_tokens_where_sizes_do_not_tell(layout):
    rotated = rotate(torch.ones(1, 3, 3, 4), torch.arange(3), layout)
    assert_near(rotated[0, :, 0, 0], [1, -0.30117, -1.32544])


# --- Against transformers -------------------------------------------------------------------------


@pytest.fixture(scope="module")
def hf():
    transformers = pytest.importorskip("transformers")
    from transformers.models.gpt_neox import modeling_gpt_neox
    from transformers.models.gptj import modeling_gptj
    from transformers.models.llama import modeling_llama

    return SimpleNamespace(
        all=transformers,
        llama=modeling_llama,
        gpt_neox=modeling_gpt_neox,
        gptj=modeling_gptj,
    )


def llama_of(hf, base=10_000.0, d_head=16):
    config = hf.all.LlamaConfig(
        hidden_size=3 * d_head,
        num_attention_heads=3,
        rope_parameters={"rope_type": "default", "rope_theta": base},
    )
    table = hf.llama.LlamaRotaryEmbedding(config)
    return rotation_of(hf.llama.apply_rotary_pos_emb, table)


def gpt_neox_of(hf, base=10_000.0, d_head=96, part=0.25):
    config = hf.all.GPTNeoXConfig(
        hidden_size=3 * d_head,
        num_attention_heads=3,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": base,
            "partial_rotary_factor": part,
        },
    )
    table = hf.gpt_neox.GPTNeoXRotaryEmbedding(config)
    return rotation_of(hf.gpt_neox.apply_rotary_pos_emb, table)


def rotation_of(apply, table):
    """transformers' q and k together, with a table for positions [B, T], as x and positions [T]."""

    def turn(x, positions):
        cos, sin = table(x, positions[None])
        return apply(x, x, cos, sin, unsqueeze_dim=2)[1]

    return turn


def gptj_of(hf, rotary_dim=64):
    """GPT-J's rotation in part, as its attention does it; its base is 10,000."""
    table = hf.gptj.create_sinusoidal_positions(2048, rotary_dim)

    def turn(x, positions):
        sin, cos = table[positions][None].split(rotary_dim // 2, dim=-1)
        turned, kept = x[..., :rotary_dim], x[..., rotary_dim:]
        turned = hf.gptj.apply_rotary_pos_emb(turned, sin, cos)
        return torch.cat((turned, kept), dim=-1)

    return turn


def float32_bound(x, positions):
    """Their angles are products in float32: a few roundings of the largest angle, and of the vector."""
    return 8 * 2.0**-24 * positions.max().item() * x.abs().max().item()


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_half_split_is_what_transformers_llama_does(hf, base):
    x, positions = random(B, T, H, 16), random_positions(T)
    theirs = llama_of(hf, base)(x, positions)
    ours = rotate(x, positions, "half-split", base)
    assert_near(ours, theirs, float32_bound(x, positions))


def test_half_split_in_part_is_what_gpt_neox_does(hf):
    x, positions = random(B, T, H, 96), random_positions(T)
    theirs = gpt_neox_of(hf)(x, positions)
    ours = rotate(x, positions, "half-split", rotary_dim=24)
    assert_near(ours, theirs, float32_bound(x, positions))
    assert torch.equal(ours[..., 24:], x[..., 24:])


def test_interleaved_in_part_is_what_gptj_does(hf):
    x, positions = random(B, T, H, 256), random_positions(T) // 2
    theirs = gptj_of(hf)(x, positions)
    ours = rotate(x, positions, "interleaved", rotary_dim=64)
    assert_near(ours, theirs, float32_bound(x, positions))


# --- Weights --------------------------------------------------------------------------------------


def test_the_rows_of_each_head_are_reordered_and_no_others():
    weight = torch.arange(2 * 8).view(16, 1) * torch.ones(1, 3)
    order = convert_weight(weight, 2, "half-split")[:, 0].int().tolist()
    assert order == [0, 2, 4, 6, 1, 3, 5, 7, 8, 10, 12, 14, 9, 11, 13, 15]
    part = convert_weight(weight, 2, "half-split", rotary_dim=4)[:, 0].int().tolist()
    assert part == [0, 2, 1, 3, 4, 5, 6, 7, 8, 10, 9, 11, 12, 13, 14, 15]


def test_to_half_split_is_what_metas_checkpoints_went_through():
    # Row 2i + c of a head, half c of pair i, becomes row c * d_head / 2 + i: the `permute` of
    # transformers' convert_llama_weights_to_hf.py.
    weight = random(H_KV * D_HEAD, 11)
    expected = torch.empty_like(weight)
    for head in range(H_KV):
        for i in range(D_HEAD // 2):
            for c in range(2):
                new, old = c * D_HEAD // 2 + i, 2 * i + c
                expected[head * D_HEAD + new] = weight[head * D_HEAD + old]
    assert torch.equal(convert_weight(weight, H_KV, "half-split"), expected)


@EACH_LAYOUT
@pytest.mark.parametrize("rotary_dim", [None, 4])
def test_converted_weights_and_biases_give_the_same_vectors_in_the_other_layout(
    layout, rotary_dim
):
    x, weight, bias = random(B, T, 11), random(H * D_HEAD, 11), random(H * D_HEAD)
    kept = weight.clone()
    move = to_half_split if layout == "half-split" else to_interleaved
    converted = F.linear(
        x, *(convert_weight(w, H, layout, rotary_dim) for w in (weight, bias))
    )
    vectors = F.linear(x, weight, bias).unflatten(-1, (H, -1))
    assert_near(converted, move(vectors, rotary_dim).flatten(-2), 1e-6)
    assert torch.equal(weight, kept)


@pytest.mark.parametrize("rotary_dim", [None, 4])
def test_a_weight_converted_there_and_back_is_as_it_was(rotary_dim):
    weight = random(H * D_HEAD, 11)
    there = convert_weight(weight, H, "half-split", rotary_dim)
    assert not torch.equal(there, weight)
    assert torch.equal(convert_weight(there, H, "interleaved", rotary_dim), weight)


# --- A whole model, converted ---------------------------------------------------------------------

Q_HEADS, KV_HEADS, WIDTH, LLAMA_BASE = 4, 2, 32, 500.0


@pytest.fixture(scope="module")
def llama(hf):
    """A small random Llama of transformers with grouped-query attention, its weights large enough to matter."""
    config = hf.all.LlamaConfig(
        vocab_size=61,
        hidden_size=WIDTH,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=Q_HEADS,
        num_key_value_heads=KV_HEADS,
        initializer_range=0.3,
        rope_parameters={"rope_type": "default", "rope_theta": LLAMA_BASE},
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return hf.all.LlamaForCausalLM(config).eval()


@pytest.fixture(scope="module")
def ids():
    return torch.randint(61, (3, 17), generator=torch.Generator().manual_seed(2))


def rms_norm(x, weight):
    return F.rms_norm(x, weight.shape, weight, eps=1e-6)


@torch.no_grad()
def interleaved_llama(weights, ids):
    """Logits [B, T, V] of a Llama whose queries and keys are interleaved, in this project's terms."""
    freqs_cis = precompute_freqs_cis(WIDTH // Q_HEADS, ids.shape[1], LLAMA_BASE)
    x = F.embedding(ids, weights["model.embed_tokens.weight"])
    for n in range(2):
        block = {
            name.removeprefix(f"model.layers.{n}.").removesuffix(".weight"): weight
            for name, weight in weights.items()
        }
        read = rms_norm(x, block["input_layernorm"])
        xq, xk, xv = (
            F.linear(read, block[f"self_attn.{name}_proj"]).unflatten(-1, (count, -1))
            for name, count in (("q", Q_HEADS), ("k", KV_HEADS), ("v", KV_HEADS))
        )
        attended = rotary_attention(xq, xk, xv, freqs_cis).flatten(-2)
        x = x + F.linear(attended, block["self_attn.o_proj"])
        read = rms_norm(x, block["post_attention_layernorm"])
        gate, up = (
            F.linear(read, block[f"mlp.{name}_proj"]) for name in ("gate", "up")
        )
        x = x + F.linear(F.silu(gate) * up, block["mlp.down_proj"])
    return F.linear(
        rms_norm(x, weights["model.norm.weight"]), weights["lm_head.weight"]
    )


def converted(weights, **heads_of):
    """The weights with those of the named projections converted, each with its number of heads."""
    new = dict(weights)
    for name in weights:
        for projection, count in heads_of.items():
            if name.endswith(f"{projection}.weight"):
                new[name] = convert_weight(weights[name], count, "interleaved")
    return new


def error_of(llama, ids, **heads_of):
    """The largest difference of a logit, and the largest logit."""
    with torch.no_grad():
        theirs = llama(ids).logits
    ours = interleaved_llama(converted(llama.state_dict(), **heads_of), ids)
    return (ours - theirs).abs().max().item(), theirs.abs().max().item()


def test_a_converted_llama_gives_the_logits_of_transformers(llama, ids):
    error, largest = error_of(llama, ids, q_proj=Q_HEADS, k_proj=KV_HEADS)
    assert error < 1e-4 < largest


@pytest.mark.parametrize(
    "heads_of",
    [
        {},
        {"q_proj": Q_HEADS},
        {"k_proj": KV_HEADS},
        {"q_proj": Q_HEADS, "k_proj": Q_HEADS},  # as if there were no groups
        {"q_proj": KV_HEADS, "k_proj": KV_HEADS},
        {"q_proj": 1, "k_proj": 1},  # the rows of all heads together
        {"q_proj": Q_HEADS, "k_proj": KV_HEADS, "v_proj": KV_HEADS},
        {"q_proj": Q_HEADS, "k_proj": KV_HEADS, "o_proj": Q_HEADS},
    ],
    ids=str,
)
def test_a_llama_converted_otherwise_gives_other_logits(llama, ids, heads_of):
    error, largest = error_of(llama, ids, **heads_of)
    assert error > 0.05 * largest


def test_one_token_cannot_tell_whether_weights_were_converted(llama, ids):
    error, _ = error_of(llama, ids[:, :1])
    assert error < 1e-4


# --- Diagnosis: functions that are fine -----------------------------------------------------------


def turned_by(frequencies, pairs, scale=1.0, dtype=torch.float32):
    """A rotation written out without the library: frequencies [n] for pairs [n, 2] of any dimensions."""
    frequencies = torch.as_tensor(frequencies, dtype=dtype)
    a, b = torch.as_tensor(pairs).T

    def turn(x, positions):
        angle = positions.to(dtype)[:, None, None] * frequencies
        cos, sin = (scale * part.float() for part in (angle.cos(), angle.sin()))
        turned = x.clone()
        turned[..., a] = x[..., a] * cos - x[..., b] * sin
        turned[..., b] = x[..., a] * sin + x[..., b] * cos
        return turned

    return turn


def facts(diagnosis):
    return diagnosis.layout, diagnosis.sign, diagnosis.rotary_dim


def assert_found(diagnosis, layout, base, rotary_dim, sign=1):
    assert facts(diagnosis) == (layout, sign, rotary_dim)
    assert diagnosis.base == pytest.approx(base, rel=1e-3)
    assert diagnosis.scale == 1


@pytest.mark.parametrize("base", [10_000, 500_000.0, 1e6, 31_082.24, 100, 0.5])
def test_lib_rope_is_recognised(base):
    def turn(x, positions):
        return apply_rotary_emb(x, x, freqs_cis_at(positions, 64, base))[0]

    assert_found(diagnose(turn, 64), "interleaved", base, 64)


@EACH_LAYOUT
@pytest.mark.parametrize(
    ("d_head", "rotary_dim"), [(4, 4), (8, 4), (96, 24), (80, 32), (128, 128), (64, 64)]
)
def test_our_rotation_is_recognised_in_every_layout_and_part(
    layout, d_head, rotary_dim
):
    found = diagnose(
        lambda x, positions: rotate(x, positions, layout, rotary_dim=rotary_dim), d_head
    )
    assert_found(found, layout, 10_000, rotary_dim)
    assert found.d_head == d_head
    assert [list(pair) for pair in found.pairs] == pairs_of(
        d_head, layout, rotary_dim
    ).tolist()
    assert found.inv_freq == pytest.approx(inv_freq(rotary_dim).tolist(), rel=1e-5)


@pytest.mark.parametrize("base", [10_000.0, 500_000.0])
def test_transformers_llama_is_recognised(hf, base):
    found = diagnose(llama_of(hf, base, d_head=128), 128)
    assert_found(found, "half-split", base, 128)


def test_gpt_neox_is_recognised(hf):
    assert_found(diagnose(gpt_neox_of(hf), 96), "half-split", 10_000, 24)


def test_gptj_is_recognised_up_to_the_end_of_its_table(hf):
    found = diagnose(gptj_of(hf), 256, max_position=2047)
    assert_found(found, "interleaved", 10_000, 64)
    assert_rejected(gptj_of(hf), "IndexError", "max_position", d_head=256)


@EACH_LAYOUT
def test_a_rotation_the_other_way_round_is_told(layout):
    turn = turned_by(-inv_freq(16, 500), pairs_of(16, layout))
    assert_found(diagnose(turn, 16), layout, 500, 16, sign=-1)


def test_any_rotation_is_recognised_by_one_written_out():
    draw = torch.Generator().manual_seed(3)
    for _ in range(25):
        rotary_dim, more, layout, sign = torch.randint(
            1000, (4,), generator=draw
        ).tolist()
        rotary_dim, more = 4 + 2 * (rotary_dim % 15), 2 * (more % 5)
        layout, sign = LAYOUTS[layout % 2], 1 - 2 * (sign % 2)
        base = 10 ** (1 + 5 * torch.rand((), generator=draw).item())
        frequencies = sign * inv_freq(rotary_dim, base)
        pairs = pairs_of(rotary_dim + more, layout, rotary_dim)
        found = diagnose(turned_by(frequencies, pairs), rotary_dim + more)
        assert_found(found, layout, base, rotary_dim, sign)


def test_a_short_range_of_positions_tells_as_much():
    found = diagnose(
        lambda x, positions: rotate(x, positions, "half-split", 5e5), 128, 16
    )
    assert_found(found, "half-split", 5e5, 128)


def test_a_long_table_is_recognised_to_its_end():
    found = diagnose(llama_like(128, 500_000.0), 128, max_position=131_071)
    assert_found(found, "half-split", 500_000, 128)


def llama_like(d_head, base):
    """Frequencies and angles in float32, as most public code has them."""
    exponents = torch.arange(0, d_head, 2, dtype=torch.float32) / d_head
    return turned_by(1 / base**exponents, pairs_of(d_head, "half-split"))


@pytest.mark.parametrize("d_head", [6, 20, 80, 112, 192])
@pytest.mark.parametrize("base", [10.0, 1e7])
def test_what_float32_loses_is_no_mistake(d_head, base):
    found = diagnose(llama_like(d_head, base), d_head)
    assert_found(found, "half-split", base, d_head)


def test_frequencies_that_are_no_powers_have_no_base():
    last_one_slower = torch.tensor([*inv_freq(8).tolist()[:3], 0.0005])
    for frequencies in (
        position_interpolation(8, 4),  # powers of the base, but the first is 1/4
        inv_freq(8).bfloat16(),
        inv_freq(8).half(),
        inv_freq(8).flip(0),
        last_one_slower,
        inv_freq(8) * torch.tensor([1, 1, -1, 1]),
    ):
        found = diagnose(turned_by(frequencies, pairs_of(8, "half-split")), 8)
        assert found.layout == "half-split"
        assert found.base is None
        assert found.inv_freq == pytest.approx(frequencies.tolist(), rel=1e-5)
    assert found.sign is None


def test_a_divisor_of_d_head_in_part_is_seen_as_another_base():
    turn = turned_by(inv_freq(16)[:4], pairs_of(16, "half-split", 8))
    found = diagnose(turn, 16)
    assert_found(found, "half-split", 100, 8)
    assert "base 100 (or 10,000 if d_head divides the exponent)" in str(found)


def test_a_scaled_table_tells_its_factor():
    table = precompute_scaled(inv_freq(8), 4096, attention_factor=1.138629)

    def yarn(x, positions):
        return apply_rotary_emb(x, x, table[positions])[0]

    found = diagnose(yarn, 8)
    assert found.scale == pytest.approx(1.138629, rel=1e-5)
    assert_found(replace(found, scale=1), "interleaved", 10_000, 8)
    assert str(found).endswith("all of them times 1.13863")


@pytest.mark.parametrize(
    "pairs",
    [
        [(0, 7), (1, 6), (2, 5), (3, 4)],
        [(4, 5), (6, 7)],  # the last dimensions
        [(2, 6), (3, 7)],  # half-split, the faster pairs of the head at rest
        [(3, 5), (0, 1), (2, 7), (4, 6)],
    ],
    ids=str,
)
def test_other_pairs_are_an_unknown_layout_and_described(pairs):
    found = diagnose(turned_by(inv_freq(2 * len(pairs)), pairs), 8)
    assert_found(found, "unknown", 10_000, 2 * len(pairs))
    assert list(found.pairs) == pairs  # fastest first
    assert f"pairs of neither layout: {pairs[0]}, {pairs[1]}" in str(found)


def test_a_single_pair_is_in_either_layout_and_has_no_base():
    found = diagnose(lambda x, positions: rotate(x, positions, "half-split"), 2)
    assert facts(found) == ("either", 1, 2)
    assert found.base is None
    assert found.inv_freq == pytest.approx([1], rel=1e-6)


def test_what_a_diagnosis_says():
    assert str(diagnose(lambda x, m: rotate(x, m, "interleaved", 5e5), 8)) == (
        "interleaved pairs (2i, 2i + 1); anticlockwise; base 500,000; 8 of 8 dimensions turned"
    )
    turn = turned_by(-inv_freq(4) / 4, pairs_of(8, "half-split", 4))
    assert str(diagnose(turn, 8)) == (
        "half-split pairs (i, i + 2); clockwise; no base to be told: -0.25, -0.0025 radians per token; "
        "4 of 8 dimensions turned"
    )


def test_a_diagnosis_cannot_be_changed_and_draws_nothing_from_torchs_generator():
    torch.manual_seed(0)
    expected = torch.rand(())
    torch.manual_seed(0)
    found = diagnose(lambda x, m: rotate(x, m, "interleaved"), 8)
    assert torch.rand(()) == expected
    assert isinstance(found, Diagnosis)
    with pytest.raises(AttributeError):
        found.base = 1.0


# --- Diagnosis: functions that are not ------------------------------------------------------------


def assert_rejected(function, *words, d_head=8, error=ValueError, **arguments):
    with pytest.raises(error) as caught, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of complex numbers cast to real ones
        diagnose(function, d_head, **arguments)
    message = str(caught.value)
    assert message.startswith("rotate_function: got ") and ", want " in message
    for word in words:
        assert word in message


def half_split_turn(x, cos, sin):
    """cos, sin [..., d_head] beside x: the rotation of GPT-NeoX and transformers."""
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


def interleaved_turn(x, cos, sin):
    """cos, sin [..., d_head] beside x: the rotation of GPT-J."""
    return x * cos + torch.stack((-x[..., 1::2], x[..., ::2]), dim=-1).flatten(-2) * sin


def tables(positions, of, d_head=8):
    """cos and sin [T, 1, d_head] of a layout."""
    angles = positions[:, None, None].float() * inv_freq(d_head).float()
    twice = {
        "half-split": torch.cat((angles, angles), dim=-1),
        "interleaved": angles.repeat_interleave(2, dim=-1),
    }
    angles = twice[of]
    return angles.cos(), angles.sin()


def fine(x, positions):
    return half_split_turn(x, *tables(positions, "half-split"))


def test_the_function_that_mistakes_are_made_in_is_fine():
    assert_found(diagnose(fine, 8), "half-split", 10_000, 8)
    found = diagnose(
        lambda x, m: interleaved_turn(x, *tables(m, "interleaved")), d_head=8
    )
    assert_found(found, "interleaved", 10_000, 8)


def test_a_mixed_table_does_not_keep_the_norm():
    x, one = heads(1, 2, 3, 4), torch.tensor([1])
    mixed = half_split_turn(x, *tables(one, "interleaved", d_head=4))
    assert mixed.norm().item() == pytest.approx(5.86321, abs=1e-5)
    assert_rejected(
        lambda x, m: half_split_turn(x, *tables(m, "interleaved")),
        "norm that is not kept: at position 1 ",
        "table of one layout under the rotation of the other",
    )
    assert_rejected(
        lambda x, m: interleaved_turn(x, *tables(m, "half-split")),
        "norm that is not kept: at position 1 ",
        "table of one layout under the rotation of the other",
    )


def along_heads(x, positions):
    """The rotation of [B, heads, T, d_head], given heads and tokens the other way round."""
    cos, sin = tables(torch.arange(4096), "half-split")
    return half_split_turn(x, cos[: x.shape[2], 0], sin[: x.shape[2], 0])


def test_a_rotation_along_the_heads_is_found():
    ones = torch.ones(1, 3, 3, 8)
    assert_near(along_heads(ones, torch.arange(3))[0, :, 0, 0], [1.0, 1.0, 1.0])
    assert_rejected(along_heads, "heads", "and not the tokens")


def test_a_table_that_lies_along_the_heads_is_found():
    def beside_heads(x, positions):
        cos, sin = tables(positions, "half-split")
        return half_split_turn(x, cos[:, 0], sin[:, 0])

    assert torch.isfinite(beside_heads(torch.ones(1, 3, 3, 8), torch.arange(3))).all()
    assert_rejected(beside_heads, "T is the size of the heads axis")


def test_a_table_that_lies_along_the_batch_is_found():
    def beside_rows(x, positions):
        cos, sin = tables(positions, "half-split")
        return half_split_turn(x, cos[:, None], sin[:, None])

    assert_rejected(beside_rows, "T is the size of the batch axis")


def test_heads_and_tokens_taken_for_each_other_by_view_are_found():
    def scrambled(x, positions):
        batch, tokens, count, d_head = x.shape
        seen = x.view(batch, count, tokens, d_head).transpose(1, 2)
        return fine(seen, positions).transpose(1, 2).reshape(x.shape)

    assert_rejected(scrambled, "heads of a token turned differently")


def in_place(x, positions):
    x.copy_(fine(x, positions))
    return x


def positions_changed(x, positions):
    turned = fine(x, positions)
    positions += 1
    return turned


def dynamic_ntk(x, positions):
    """The base grows with the length of this call."""
    base = 10_000 * max(1, positions.max().item() / 64) ** (8 / 6)
    return rotate(x, positions, "half-split", base)


def growing_table():
    """The base grows with the length of the longest call, and stays."""
    base = 10_000.0

    def turn(x, positions):
        nonlocal base
        turned = rotate(x, positions, "half-split", base)
        base = max(base, 5.0 * len(positions))
        return turned

    return turn


def three_by_three(x, positions):
    """Pairs (0, 1) and then (1, 2): dimension 1 is in both."""
    first = turned_by([1.0], [(0, 1)])(x, positions)
    return turned_by([0.1], [(1, 2)])(first, positions)


def counted_from_the_first(x, positions):
    return fine(x, positions[0] + torch.arange(len(positions)))


def normed(x, positions):
    return fine(F.rms_norm(x, (8,)), positions)


def mean_taken(x, positions):
    return fine(x - x.mean(1, keepdim=True), positions)


def clamped(x, positions):
    return fine(x, positions.clamp(max=2047))


def xpos(x, positions):
    """Queries that grow with the position, so that keys can shrink (Sun et al., arXiv 2212.10554)."""
    return fine(x, positions) * 1.0001 ** positions[:, None, None]


def off_at_one_position(x, positions):
    return fine(x, torch.where(positions == 1003, 1004, positions))


MISTAKES = {
    "in place": (in_place, "its input written to"),
    "positions changed": (positions_changed, "its input written to"),
    "broadcast row": (
        lambda x, m: half_split_turn(x, *tables(m[-1:], "half-split")),
        "all tokens turned alike",
    ),
    "positions in bfloat16": (
        lambda x, m: fine(x, m.bfloat16()),
        "position 257 turned by another angle",
    ),
    "positions in float16": (
        lambda x, m: fine(x, m.half()),
        "position 2049 turned by another angle",
    ),
    "positions as bytes": (
        lambda x, m: fine(x, m.to(torch.uint8)),
        "position 256 turned by another angle",
    ),
    "a table that ends": (clamped, "position 2048 turned by another angle"),
    "one position": (off_at_one_position, "position 1003 turned by another angle"),
    "positions ignored": (
        lambda x, m: fine(x, torch.arange(x.shape[1])),
        "the same for other positions",
    ),
    "the first position": (counted_from_the_first, "only the first position read"),
    "positions from 1": (lambda x, m: fine(x, m + 1), "radians and", "at position 0"),
    "positions less the first": (lambda x, m: fine(x, m - m[0]), "in other company"),
    "dynamic NTK": (dynamic_ntk, "in other company"),
    "a table that grows": (growing_table(), "after a longer call"),
    "not turned": (lambda x, m: x.clone(), "x back as it was"),
    "zeros": (lambda x, m: torch.zeros_like(x), "all tokens turned alike"),
    "a shape": (lambda x, m: fine(x, m)[:, :-1], "[2, 4, 3, 8] in torch.float32 back"),
    "heads first": (lambda x, m: fine(x, m).transpose(1, 2), "[2, 3, 5, 8] in"),
    "a dtype": (lambda x, m: fine(x, m).double(), "torch.float64 back"),
    "half type inside": (lambda x, m: fine(x.bfloat16(), m).float(), "half type"),
    "cos, sin in bfloat16": (
        lambda x, m: half_split_turn(
            x, *(part.bfloat16().float() for part in tables(m, "half-split"))
        ),
        "norm of pair",
    ),
    "an infinity": (lambda x, m: fine(x, m) / 0, "a nan or an infinity"),
    "an error": (lambda x, m: x @ x.transpose(1, 2), "RuntimeError"),
    "other tokens": (lambda x, m: fine(x, m).cumsum(1), "depends on another token"),
    "all tokens": (mean_taken, "depends on another token"),
    "other heads": (lambda x, m: fine(x, m) + x.mean(2, True), "another head"),
    "other rows": (lambda x, m: fine(x - x[:1], m), "another row of the batch"),
    "a norm": (normed, "not linear"),
    "dropout": (lambda x, m: F.dropout(fine(x, m), 0.1), "two results"),
    "xPos": (xpos, "norm of pair"),
    "absolute values": (
        lambda x, m: half_split_turn(x.abs(), *tables(m, "half-split")),
        "not linear",
    ),
    "a lost minus": (
        lambda x, m: (
            x * tables(m, "half-split")[0] + x.roll(4, -1) * tables(m, "half-split")[1]
        ),
        "turn by -1 and 1 radians, as with the minus lost",
    ),
    "a mirror": (
        lambda x, m: fine(x, m) * torch.tensor([1.0] * 4 + [-1] * 4),
        "at position 0",
    ),
    "sin before cos": (
        lambda x, m: half_split_turn(x, *tables(m, "half-split")[::-1]),
        "at position 0",
    ),
    "three dimensions": (three_by_three, "mixed with"),
    "the rest scaled": (
        lambda x, m: torch.cat(
            (rotate(x, m, "half-split", 9, 4)[..., :4], 2 * x[..., 4:]), -1
        ),
        "dimension 4 changed but mixed with no other",
    ),
    "only the real part": (
        lambda x, m: x * tables(m, "half-split")[0],
        "mixed with no other",
    ),
    "one head unturned": (
        lambda x, m: torch.cat((fine(x, m)[:, :, :-1], x[:, :, -1:]), dim=2),
        "heads of a token turned differently",
    ),
    "one row unturned": (
        lambda x, m: torch.cat((fine(x, m)[:1], x[1:])),
        "norm of pair",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_function_with_a_mistake_is_not_reported_as_fine(mistake):
    function, *words = MISTAKES[mistake]
    assert_rejected(function, *words)


def test_positions_that_a_half_type_rounds_are_right_as_far_as_it_does_not():
    rounded = MISTAKES["positions in bfloat16"][0]
    assert_found(diagnose(rounded, 8, max_position=256), "half-split", 10_000, 8)
    assert_rejected(rounded, "position 257", max_position=257)


def test_a_function_that_returns_queries_and_keys_is_asked_for_one_tensor():
    assert_rejected(lambda x, m: (x, x), "tuple", error=TypeError)


# --- Bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "call",
    [
        lambda size: pairs_of(size, "half-split"),
        permutation,
        lambda size: diagnose(fine, size),
    ],
    ids=["pairs_of", "permutation", "diagnose"],
)
@pytest.mark.parametrize(
    ("size", "error", "came"), [*NO_POSITIVE_INT, (7, ValueError, "7")]
)
def test_a_d_head_that_has_no_pairs_is_refused(call, size, error, came):
    assert_refused(lambda: call(size), error, "d_head", came)


@pytest.mark.parametrize(
    "call",
    [
        lambda part: pairs_of(8, "half-split", part),
        lambda part: permutation(8, part),
        lambda part: to_half_split(random(8), part),
        lambda part: to_interleaved(random(8), part),
        lambda part: convert_weight(random(16, 3), 2, "half-split", part),
        lambda part: rotate(random(B, T, H, 8), [1] * T, "half-split", 9, part),
    ],
)
@pytest.mark.parametrize(
    ("part", "error", "came"),
    [
        *(case for case in NO_POSITIVE_INT if case[0] is not None),
        (3, ValueError, "3"),
        (10, ValueError, "10"),
    ],
)
def test_a_rotary_dim_that_does_not_fit_is_refused(call, part, error, came):
    assert_refused(lambda: call(part), error, "rotary_dim", came)


@pytest.mark.parametrize("layout", ["half", None, 1, ["half-split"]], ids=str)
def test_another_layout_is_refused(layout):
    x = random(B, T, H, 8)
    for name, call in (
        ("layout", lambda: pairs_of(8, layout)),
        ("layout", lambda: rotate(x, [1] * T, layout)),
        ("to", lambda: convert_weight(random(16, 3), 2, layout)),
    ):
        assert_refused(call, ValueError, name, repr(layout))


@pytest.mark.parametrize(("heads", "error", "came"), NO_POSITIVE_INT)
def test_a_number_of_heads_that_is_none_is_refused(heads, error, came):
    assert_refused(
        lambda: convert_weight(random(16, 3), heads, "half-split"), error, "heads", came
    )


@pytest.mark.parametrize(
    ("weight", "error", "came"),
    [
        (random(16, 3), ValueError, "16 rows"),  # no multiple of 3 heads
        (random(15, 3), ValueError, "15 rows"),  # 5 dimensions each: no pairs
        (random(0, 3), ValueError, "0 rows"),
        (random(6, 2, 3), ValueError, "[6, 2, 3]"),
        (torch.tensor(1.0), ValueError, "[]"),
        ([1.0, 2.0], TypeError, "list"),
    ],
)
def test_a_weight_that_has_no_such_heads_is_refused(weight, error, came):
    assert_refused(
        lambda: convert_weight(weight, 3, "half-split"), error, "weight", came
    )


@pytest.mark.parametrize("call", [to_half_split, to_interleaved])
def test_vectors_that_are_none_are_refused(call):
    assert_refused(lambda: call([1.0, 2.0]), TypeError, "x", "list")
    assert_refused(lambda: call(random(2, 7)), ValueError, "d_head", "7")
    assert_refused(lambda: call(torch.tensor(1.0)), ValueError, "x", "[]")


@pytest.mark.parametrize(
    ("x", "positions", "error", "argument", "came"),
    [
        ([1.0], [1], TypeError, "x", "list"),
        (torch.ones(1, 1, 1, 4).int(), [1], TypeError, "x", "torch.int32"),
        (random(1, 1, 4), [1], ValueError, "x", "[1, 1, 4]"),
        (random(1, 1, 1, 5), [1], ValueError, "d_head", "5"),
        (random(2, 3, 1, 4), [1], ValueError, "positions", "[1]"),
        (random(2, 3, 1, 4), 1, ValueError, "positions", "[]"),
        (random(2, 3, 1, 4), [1, 2], ValueError, "positions", "[2]"),
        (random(2, 3, 1, 4), [[1, 2, 3]], ValueError, "positions", "[1, 3]"),
        (random(2, 3, 1, 4), "one", TypeError, "positions", "one"),
        (random(2, 3, 1, 4), [1, 2, math.nan], ValueError, "positions", "nan"),
    ],
)
def test_what_cannot_be_rotated_is_refused(x, positions, error, argument, came):
    assert_refused(lambda: rotate(x, positions, "half-split"), error, argument, came)


def test_a_base_that_is_none_is_refused():
    x = random(1, 1, 1, 4)
    assert_refused(lambda: rotate(x, [1], "half-split", 0), ValueError, "base", "0")


def test_a_diagnosis_of_no_function_or_too_few_positions_is_refused():
    assert_refused(lambda: diagnose("rope", 8), TypeError, "rotate_function", "str")
    assert_refused(lambda: diagnose(fine, 8, 15), ValueError, "max_position", "15")
    assert_refused(lambda: diagnose(fine, 8, 1e3), TypeError, "max_position", "1000.0")


# --- Proportional rotations -------------------------------------------------------------------------


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_fastest_pairs_of_a_whole_head_are_recognised(layout):
    frequencies = proportional(16, 0.5)
    a, b = pairs_of(16, layout).T

    def turn(x, positions):
        angle = positions[:, None, None] * frequencies
        cos, sin = angle.cos().float(), angle.sin().float()
        turned = x.clone()
        turned[..., a] = x[..., a] * cos - x[..., b] * sin
        turned[..., b] = x[..., a] * sin + x[..., b] * cos
        return turned

    found = diagnose(turn, 16)
    assert found.layout == layout and found.rotary_dim == 8
    assert "(i, i + 8)" in str(found) or layout == "interleaved"
    assert "10,000 if d_head divides" in str(found)


def test_a_scale_near_1_is_a_scale():
    found = diagnose(lambda x, p: 1.000005 * rotate(x, p, "half-split"), 8)
    assert found.scale == pytest.approx(1.000005, abs=1e-7)
