"""lib/decoder.py: it sees no future, its positions are what they say, and its tables end where they should."""

import functools
import math
import re

import pytest
import torch

from lib.decoder import Decoder, DecoderConfig
from lib.rope import precompute_freqs_cis
from tests.refusals import assert_refused

EACH_POSITION = pytest.mark.parametrize("position", ["learned", "rope", "none"])


def decoder(position, max_position=32, **sizes):
    torch.manual_seed(0)
    sizes = {"V": 50, "d": 16, "h": 4, "n_layers": 2} | sizes
    return Decoder(DecoderConfig(position, max_position, **sizes)).eval()


@pytest.fixture
def ids():
    return torch.randint(50, (3, 11), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("position", ["learned", "rope", "none"])
def test_a_token_sees_no_later_token(position, ids):
    model, other = decoder(position), ids.clone()
    other[:, 7:] = (other[:, 7:] + 1) % 50
    assert model(ids).shape == (3, 11, 50)
    torch.testing.assert_close(model(ids)[:, :7], model(other)[:, :7])
    assert not torch.allclose(model(ids)[:, 7:], model(other)[:, 7:])


@pytest.mark.parametrize(
    ("position", "parameters"), [("learned", 32 * 16), ("rope", 0), ("none", 0)]
)
def test_only_the_learned_table_has_parameters(position, parameters):
    counts = [
        sum(p.numel() for p in decoder(p).parameters()) for p in (position, "none")
    ]
    assert counts[0] - counts[1] == parameters


@pytest.mark.parametrize(
    ("position", "error"), [("learned", IndexError), ("rope", ValueError)]
)
def test_a_text_longer_than_the_table_is_refused(position, error, ids):
    with pytest.raises(error, match="table"):
        decoder(position, max_position=10)(ids)


def test_the_rotation_table_moves_with_the_model_and_is_in_no_checkpoint():
    model = decoder("rope")
    assert (
        "freqs_cis" in dict(model.named_buffers())
        and "freqs_cis" not in model.state_dict()
    )


def by_hand(model, ids):
    """The logits [T, V] of one text [T], from the weights alone: head by head, in float64."""
    config = model.config
    weights = {name: value.double() for name, value in model.state_dict().items()}

    def norm(x, name):
        x = x - x.mean(-1, keepdim=True)
        x = x / (x.square().mean(-1, keepdim=True) + 1e-5).sqrt()
        return x * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def linear(x, name):
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def turned(x):
        pairs = torch.complex(x[:, ::2], x[:, 1::2])
        exponents = -2 * torch.arange(pairs.shape[1]).double() / config.d_head
        angles = torch.arange(len(x))[:, None] * config.base**exponents
        return torch.view_as_real(pairs * torch.exp(1j * angles)).flatten(1)

    def attention(x, name):
        heads = linear(x, f"{name}.qkv").split(config.d_head, dim=1)
        h, h_kv = config.h, config.kv_heads
        q, k, v = heads[:h], heads[h : h + h_kv], heads[h + h_kv :]
        if config.position == "rope":
            q, k = map(turned, q), list(map(turned, k))
        future, found = torch.ones(len(x), len(x)).triu(1).bool(), []
        for n, query in enumerate(q):
            shared = n // (h // h_kv)
            scores = query @ k[shared].T / math.sqrt(config.d_head)
            found.append(scores.masked_fill(future, -math.inf).softmax(-1) @ v[shared])
        return linear(torch.cat(found, dim=1), f"{name}.out")

    def mlp(x, name):
        x = linear(x, f"{name}.0")
        return linear(x * (1 + torch.erf(x / math.sqrt(2))) / 2, f"{name}.2")

    x = weights["tokens.weight"][ids]
    if config.position == "learned":
        x = x + weights["positions.weight"][: len(ids)]
    for n in range(config.n_layers):
        block = f"blocks.{n}"
        x = x + attention(norm(x, f"{block}.attention_norm"), f"{block}.attention")
        x = x + mlp(norm(x, f"{block}.mlp_norm"), f"{block}.mlp")
    return norm(x, "norm") @ weights["tokens.weight"].T


@EACH_POSITION
@pytest.mark.parametrize("h_kv", [4, 2, 1])
def test_the_logits_are_those_worked_out_by_hand(position, h_kv, ids):
    model = decoder(position, h_kv=h_kv, base=50.0).double()
    with torch.no_grad():
        for parameter in model.parameters():  # so that every one of them counts
            parameter.normal_(std=0.5)
        expected = torch.stack([by_hand(model, text) for text in ids])
        # The rotation table is float32.
        torch.testing.assert_close(model(ids), expected, rtol=1e-5, atol=1e-5)


CASTS = {
    "to bfloat16": (lambda model: model.to(torch.bfloat16), 0.05),
    "half": (lambda model: model.half(), 0.01),
    "double": (lambda model: model.double(), 1e-6),
    "to float64": (lambda model: model.to("cpu", torch.float64), 1e-6),
    "there and back": (lambda model: model.to(torch.float64).float(), 1e-6),
    "like a tensor": (lambda model: model.to(torch.zeros(1).double()), 1e-6),
}


@pytest.mark.filterwarnings("error")
@EACH_POSITION
@pytest.mark.parametrize("cast", CASTS)
def test_a_cast_model_computes_the_same_in_its_own_numbers(position, cast, ids):
    model, (convert, tolerance) = decoder(position), CASTS[cast]
    # rows that the formula would not make again
    if position == "rope":
        model.freqs_cis = precompute_freqs_cis(4, 32, base=50.0)
    expected = model(ids)
    found = convert(model)(ids)
    assert found.dtype == model.tokens.weight.dtype
    torch.testing.assert_close(found.float(), expected, rtol=0, atol=tolerance)
    if position == "rope":
        assert torch.equal(model.freqs_cis, precompute_freqs_cis(4, 32, base=50.0))


def test_the_rotation_table_follows_to_a_device_and_back():
    model = decoder("rope")
    table, weights = model.freqs_cis, model.state_dict()
    model.to("meta", torch.bfloat16)
    assert model.freqs_cis.is_meta and model.freqs_cis.dtype == torch.complex64
    model.to_empty(device="cpu")  # all is lost but what the formula makes again
    assert torch.equal(model.freqs_cis, table)
    model.float().load_state_dict(weights)
    assert torch.equal(model.freqs_cis, table)


def test_a_move_that_fails_leaves_the_rotation_table():
    model = decoder("rope")

    def fail(_):
        raise RuntimeError("no such device")

    with pytest.raises(RuntimeError, match="no such device"):
        model._apply(fail)
    assert model.freqs_cis is not None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"position": "sinus"}, "position: got 'sinus'"),
        ({"d": 10}, "d: got 10, want a multiple of h = 4"),
        ({"h_kv": 3}, "h_kv: got 3, want a divisor of h = 4"),
        ({"h_kv": 0}, "h_kv: got 0, want at least 1"),
        ({"n_layers": 0}, "n_layers: got 0"),
        ({"max_position": 0}, "max_position: got 0"),
        ({"V": -1}, "V: got -1"),
    ],
)
def test_a_bad_configuration_is_named(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        DecoderConfig(**{"position": "rope", "max_position": 8} | change)


def test_weights_start_as_gpt_2_s():
    torch.manual_seed(0)
    config = DecoderConfig("learned", max_position=512, d=256, n_layers=8)
    model = Decoder(config)
    attention, mlp = model.blocks[3].attention, model.blocks[3].mlp
    added = 0.02 / math.sqrt(2 * 8)
    for weight, std in (
        (model.tokens.weight, 0.02),
        (model.positions.weight, 0.01),
        (attention.qkv.weight, 0.02),
        (attention.out.weight, added),
        (mlp[0].weight, 0.02),
        (mlp[-1].weight, added),
    ):
        assert weight.std().item() == pytest.approx(std, rel=0.05)
        assert abs(weight.mean().item()) < std / 20
    assert not any(b.any() for n, b in model.named_parameters() if n.endswith("bias"))


NO_IDS = [
    ([[1, 2]], TypeError, "list"),
    (torch.zeros(1, 4), TypeError, "dtype torch.float32"),
    (torch.zeros(1, 4, dtype=torch.uint8), TypeError, "dtype torch.uint8"),
    (torch.zeros(4, dtype=torch.long), ValueError, "shape [4]"),
    (torch.zeros(1, 1, 4, dtype=torch.long), ValueError, "shape [1, 1, 4]"),
    (torch.tensor([[0, 49, 50]]), IndexError, "50"),
    (torch.tensor([[3, -1]]), IndexError, "-1"),
]


@EACH_POSITION
@pytest.mark.parametrize(("ids", "error", "came"), NO_IDS, ids=str)
def test_what_are_no_token_ids_is_named_whatever_the_way_in(position, ids, error, came):
    model = decoder(position)
    cache = model.new_cache(batch=1, length=8)
    for call in (
        lambda: model(ids),
        lambda: model(ids, cache),
        lambda: model.attention_maps(ids),
        lambda: model.generate(ids, 2),
    ):
        assert_refused(call, error, "ids", came)
    assert cache.length == 0


@EACH_POSITION
def test_int32_ids_are_ids_and_no_token_is_a_text(position, ids):
    model = decoder(position)
    assert torch.equal(model(ids.int()), model(ids))
    assert model(ids[:, :0]).shape == (3, 0, 50)


# --- With a cache ---------------------------------------------------------------------


@EACH_POSITION
@pytest.mark.parametrize("h_kv", [None, 2, 1])
@pytest.mark.parametrize(
    "parts", [[1] * 11, [11], [6, 1, 4], [1, 10], [10, 1]], ids=str
)
def test_step_by_step_is_the_full_pass(position, h_kv, parts, ids):
    model = decoder(position, h_kv=h_kv)  # and in a notebook gradients are recorded
    cache = model.new_cache(batch=3, length=11)
    steps = [model(part, cache) for part in ids.split(parts, dim=1)]
    torch.testing.assert_close(torch.cat(steps, dim=1), model(ids))
    assert cache.length == 11


@pytest.mark.parametrize("parts", [[11], [6, 5]], ids=str)
def test_what_was_read_with_a_cache_has_no_gradient_to_be_wrong(parts, ids):
    model = decoder("rope")
    cache = model.new_cache(batch=3, length=11)
    steps = [model(part, cache) for part in ids.split(parts, dim=1)]
    assert not any(logits.requires_grad for logits in steps)
    with pytest.raises(RuntimeError, match="does not require grad"):
        steps[-1].sum().backward()
    model(ids).sum().backward()  # and gradients are recorded again
    assert model.blocks[0].attention.qkv.weight.grad.any()


@EACH_POSITION
@torch.inference_mode()
def test_a_full_cache_is_an_error_and_stays_as_it_was(position, ids):
    model = decoder(position)
    cache = model.new_cache(batch=3, length=8)
    model(ids[:, :7], cache)
    with pytest.raises(IndexError, match=r"position 8 is outside the cache.*8 tokens"):
        model(ids[:, 7:9], cache)
    assert cache.length == 7
    torch.testing.assert_close(model(ids[:, 7:8], cache), model(ids[:, :8])[:, 7:])


@torch.inference_mode()
def test_another_batch_is_no_continuation(ids):
    model = decoder("rope")
    cache = model.new_cache(batch=3, length=8)
    with pytest.raises(ValueError, match="ids: got a batch of 1, want the cache's 3"):
        model(ids[:1, :2], cache)


OTHERS = {
    "no cache": lambda: [torch.zeros(1)],
    "of other sizes": lambda: decoder("rope", h_kv=2).new_cache(3, 8),
    "turned otherwise": lambda: decoder("rope", base=50.0).new_cache(3, 8),
    "of another type": lambda: decoder("rope").double().new_cache(3, 8),
    "elsewhere": lambda: decoder("rope").to("meta").new_cache(3, 8),
}
TOLD = {
    "no cache": (TypeError, "list"),
    "of other sizes": (ValueError, "h_kv=2"),
    "turned otherwise": (ValueError, "base=50.0"),
    "of another type": (ValueError, "torch.float64"),
    "elsewhere": (ValueError, "meta"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_the_cache_of_another_model_is_refused(other, ids):
    error, came = TOLD[other]
    cache = OTHERS[other]()
    assert_refused(lambda: decoder("rope")(ids[:, :2], cache), error, "cache", came)


@pytest.mark.parametrize(
    ("position", "error"), [("learned", IndexError), ("rope", ValueError)]
)
@torch.inference_mode()
def test_a_cache_longer_than_the_table_does_not_hide_its_end(position, error, ids):
    model = decoder(position, max_position=10)
    cache = model.new_cache(batch=3, length=20)
    model(ids[:, :10], cache)
    with pytest.raises(error, match="table"):
        model(ids[:, 10:], cache)


def test_a_cache_takes_the_memory_of_its_own_key_and_value_heads():
    few, many = (decoder("rope", h_kv=h).new_cache(1, 8) for h in (1, 4))
    assert 4 * few.layer(0).keys.numel() == many.layer(0).keys.numel()


@EACH_POSITION
def test_generating_continues_the_text_and_is_the_same_with_the_same_dice(
    position, ids
):
    model = decoder(position)
    texts = [
        model.generate(ids, 6, torch.Generator().manual_seed(seed))
        for seed in (1, 1, 2)
    ]
    assert texts[0].shape == (3, 17) and torch.equal(texts[0][:, :11], ids)
    assert torch.equal(texts[0], texts[1]) and not torch.equal(texts[0], texts[2])


@pytest.mark.parametrize(
    ("count", "error", "came"),
    [
        (-1, ValueError, "-1"),
        (2.5, TypeError, "2.5 (float)"),
        (True, TypeError, "True"),
    ],
)
def test_a_count_that_is_none_is_named(count, error, came, ids):
    call = functools.partial(decoder("rope").generate, ids, count)
    assert_refused(call, error, "count", came)


def test_generating_needs_a_token_to_begin_with_and_may_add_none(ids):
    model = decoder("rope")
    for empty in (ids[:, :0], ids[:0]):
        for count in (0, 2):
            call = functools.partial(model.generate, empty, count)
            assert_refused(call, ValueError, "ids", str(list(empty.shape)))
    assert torch.equal(model.generate(ids, 0), ids)


# --- Attention maps -------------------------------------------------------------------


@torch.inference_mode()
@EACH_POSITION
@pytest.mark.parametrize("h_kv", [4, 2])
def test_attention_maps_are_the_weights_that_attention_uses(position, h_kv, ids):
    model = decoder(position, h_kv=h_kv)
    seen = []
    attention = model.blocks[0].attention
    attention.register_forward_pre_hook(lambda _, read: seen.append(read[:2]))
    maps = model.attention_maps(ids)
    assert maps.shape == (2, 3, 4, 11, 11)
    torch.testing.assert_close(maps.sum(-1), torch.ones(2, 3, 4, 11))
    assert (maps.triu(1) == 0).all()

    q, k, v = attention.read(*seen[0])
    k, v = (x.repeat_interleave(4 // h_kv, dim=2) for x in (k, v))
    scores = torch.einsum("bthd,bshd->bhts", q, k) / math.sqrt(q.shape[-1])
    hidden = torch.ones(11, 11).triu(1).bool()
    weights = scores.masked_fill(hidden, -math.inf).softmax(-1)
    torch.testing.assert_close(maps[0], weights)
    mixed = torch.einsum("bhts,bshd->bthd", weights, v).flatten(-2)
    torch.testing.assert_close(attention(*seen[0], None), attention.out(mixed))


def test_what_a_model_returns_can_be_learned_from(ids):
    model = decoder("rope")
    maps = model.attention_maps(ids)
    scale = torch.ones((), requires_grad=True)
    (scale * maps).square().sum().backward()
    assert scale.grad == pytest.approx(2 * maps.square().sum().item())
    model(model.generate(ids, 2)).sum().backward()
    assert model.tokens.weight.grad.any()


def test_looking_at_attention_leaves_the_model_as_it_was(ids):
    model = decoder("rope")
    before = model(ids)
    model.attention_maps(ids)
    assert torch.equal(model(ids), before)
    with pytest.raises(ValueError, match="table"):
        decoder("rope", max_position=5).attention_maps(ids)
    assert not any(block.attention._forward_pre_hooks for block in model.blocks)
