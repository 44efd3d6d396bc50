"""lib/decoding.py: positions and masks of padded and packed rows, and the check that stepwise equals full."""

import math

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from lib.decoder import Decoder, DecoderConfig
from lib.decoding import (
    Split,
    Stepwise,
    attention_mask,
    positions_in_documents,
    stepwise,
)
from lib.rope import apply_rotary_emb, freqs_cis_at
from tests.refusals import assert_refused

V, D, H, D_HEAD, T = 11, 16, 2, 8, 9
GENERATOR = torch.Generator().manual_seed(4)
TOKENS = torch.randn(V, D, generator=GENERATOR)
WEIGHTS = torch.randn(3, D, D, generator=GENERATOR) / 2
IDS = torch.randint(V, (2, T), generator=GENERATOR)


def heads(ids, positions):
    q, k, v = ((TOKENS[ids] @ w).unflatten(-1, (H, D_HEAD)) for w in WEIGHTS)
    return (*apply_rotary_emb(q, k, freqs_cis_at(positions, D_HEAD)), v)


def attend(q, k, v, mask):
    q, k, v = (x.transpose(1, 2) for x in (q, k, v))
    out = scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return out.transpose(1, 2).flatten(2)


def reader(where=lambda start, n: start + torch.arange(n), masked=True):
    def read(ids, cache):
        start = 0 if cache is None else cache[0].shape[1]
        n = ids.shape[1]
        q, k, v = heads(ids, where(start, n))
        if cache is not None:
            k, v = (torch.cat(both, 1) for both in zip(cache, (k, v), strict=True))
        mask = torch.ones(n, start + n, dtype=torch.bool)
        if masked or not start:
            mask = mask.tril(start)
        return attend(q, k, v, mask), (k, v)

    return read


# --- Several documents in a row -------------------------------------------------------


@pytest.mark.parametrize(
    ("documents", "positions"),
    [
        ([0, 0, 1, 1, 1], [0, 1, 0, 1, 2]),  # a mask, padded on the left
        ([1, 1, 1, 0, 0], [0, 1, 2, 0, 1]),
        ([1, 1, 1, 1], [0, 1, 2, 3]),
        ([7, -2, -2, 9], [0, 0, 1, 0]),
        ([3], [0]),
    ],
)
def test_each_document_counts_from_0(documents, positions):
    rows = torch.tensor([documents, [5] * len(documents)])
    found = positions_in_documents(rows)
    assert found.dtype == torch.int64
    assert found.tolist() == [positions, list(range(len(documents)))]
    two = set(documents) <= {0, 1}
    assert not two or positions_in_documents(rows[:1].bool()).tolist() == [positions]


def test_a_token_sees_its_own_document_up_to_itself():
    documents = torch.tensor([[4, 4, 9, 9, 9, 1], [0, 0, 0, 0, 5, 5]])
    mask = attention_mask(documents)
    assert mask.shape == (2, 1, 6, 6) and mask.dtype == torch.bool
    for row, numbers in enumerate(documents.tolist()):
        for query in range(6):
            for key in range(6):
                may = key <= query and numbers[key] == numbers[query]
                assert mask[row, 0, query, key].item() == may


def test_packed_and_padded_tokens_give_what_each_document_gives_alone():
    lengths = [3, 5, 1]
    documents = torch.tensor(
        [[n for n, size in enumerate(lengths) for _ in range(size)]]
    )
    ids = IDS[:1]
    packed = attend(
        *heads(ids, positions_in_documents(documents)), attention_mask(documents)
    )
    alone = [reader()(piece, None)[0] for piece in ids.split(lengths, 1)]
    assert torch.allclose(packed, torch.cat(alone, 1), atol=1e-5)


@pytest.mark.parametrize("function", [positions_in_documents, attention_mask])
@pytest.mark.parametrize(
    ("documents", "error", "came"),
    [
        ([[0, 1]], TypeError, "list"),
        (torch.tensor([[0.0, 1.0]]), TypeError, "float32"),
        (torch.tensor([[0j, 1j]]), TypeError, "complex64"),
        (torch.tensor([0, 1]), ValueError, "[2]"),
        (torch.ones(2, 0, dtype=torch.int64), ValueError, "[2, 0]"),
        (torch.tensor([[0, 0, 0], [3, 8, 3]]), ValueError, "3 again"),
        (torch.tensor([[1, 0, 1]]), ValueError, "1 again"),
    ],
)
def test_bad_documents_are_refused(function, documents, error, came):
    assert_refused(lambda: function(documents), error, "documents", came)


# --- Stepwise equals full -------------------------------------------------------------


def test_a_right_model_is_equal_however_the_text_is_cut():
    found = stepwise(reader(), IDS)
    assert found.equal and all(split.error < 1e-5 for split in found.splits)
    assert [split.pieces for split in found.splits] == [
        (1,) * 9,
        (4, 1, 1, 1, 1, 1),
        (4, 5),
    ]
    assert str(found).endswith("equal, however the text is cut")


BROKEN = {
    "start ignored": lambda start, n: torch.arange(n),
    "start doubled": lambda start, n: 2 * start + torch.arange(n),
    "one late": lambda start, n: start + (start > 0) + torch.arange(n),
    "one early": lambda start, n: start - (start > 0) + torch.arange(n),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_wrong_start_is_wrong_from_the_first_token_after_the_first_piece(name):
    found = stepwise(reader(BROKEN[name]), IDS)
    assert not found.equal
    for split in found.splits:
        assert split.wrong[0] == split.pieces[0] and split.error > 0.01
    assert "where does a piece begin" in found.suspicion


@pytest.mark.parametrize("shift", [1, 100])
def test_a_shift_of_everything_is_not_seen(shift):
    assert stepwise(reader(lambda start, n: shift + start + torch.arange(n)), IDS).equal


def test_a_mask_that_is_missing_in_later_pieces_is_seen_in_longer_pieces_only():
    found = stepwise(reader(masked=False), IDS)
    assert [bool(split.wrong) for split in found.splits] == [False, False, True]
    assert "no mask inside a piece" in found.suspicion
    assert stepwise(reader(masked=False), IDS, splits=[[1] * T]).equal


def test_a_model_that_sees_the_future_is_wrong_in_the_first_piece():
    def read(ids, cache):
        q, k, v = heads(ids, torch.arange(ids.shape[1]))
        return attend(q, k, v, torch.ones(1, 1, dtype=torch.bool)), None

    assert "the first piece alone is wrong" in stepwise(read, IDS).suspicion


def test_angles_that_change_with_the_length_are_wrong_later():
    def read(ids, cache):
        start = 0 if cache is None else cache[0].shape[1]
        n = ids.shape[1]
        base = 10.0 if start + n <= 6 else 1e6
        q, k, v = ((TOKENS[ids] @ w).unflatten(-1, (H, D_HEAD)) for w in WEIGHTS)
        rows = freqs_cis_at(torch.arange(start, start + n), D_HEAD, base)
        q, k = apply_rotary_emb(q, k, rows)
        if cache is not None:
            k, v = (torch.cat(both, 1) for both in zip(cache, (k, v), strict=True))
        mask = torch.ones(n, start + n, dtype=torch.bool).tril(start)
        return attend(q, k, v, mask), (k, v)

    short = stepwise(read, IDS[:, :6])
    assert short.equal
    assert not stepwise(read, IDS).equal


def test_a_loss_at_one_later_place_is_told_as_such():
    def read(ids, cache):
        start = cache or 0
        out = ids[..., None].double()
        out[:, max(7 - start, 0) :] += 1.0 * (start > 0)
        return out, start + ids.shape[1]

    found = stepwise(read, IDS)
    assert [split.wrong for split in found.splits] == [(7, 8)] * 3
    assert "does a cache or a table end" in found.suspicion


def test_the_error_is_a_share_of_the_largest_output():
    def read(ids, cache):
        out = torch.zeros(*ids.shape, 3)
        out[..., 1] = 4
        out[..., 2] = 1.0 * (cache is not None)
        return out, True

    [split] = stepwise(read, IDS, splits=[[5, 4]]).splits
    assert split == Split((5, 4), (5, 6, 7, 8), 0.25)
    assert stepwise(read, IDS, splits=[[5, 4]], tolerance=0.3).equal


def test_a_nan_is_wrong():
    def read(ids, cache):
        return torch.full((*ids.shape, 1), math.nan if cache else 1.0), True

    assert stepwise(read, IDS, splits=[[4, 5]]).splits[0].wrong == (4, 5, 6, 7, 8)
    with pytest.raises(ValueError, match="read: got nan among its outputs"):
        stepwise(lambda ids, cache: (ids[..., None] * math.nan, 0), IDS)


def test_outputs_that_the_model_writes_over_are_kept():
    buffer = torch.zeros(1, T, 1, dtype=torch.float64)

    def read(ids, cache):
        out = buffer[:, : ids.shape[1]]
        out.copy_(ids[..., None])
        return out, None

    assert stepwise(read, IDS[:1]).equal


def test_a_buffer_that_is_never_written_is_found():
    kept = torch.zeros(2, 2, T, H, D_HEAD)

    def read(ids, start):
        first, start = start is None, start or 0
        stop = start + ids.shape[1]
        q, k, v = heads(ids, torch.arange(start, stop))
        if first:
            kept[0, :, :stop], kept[1, :, :stop] = k, v
        mask = torch.ones(ids.shape[1], stop, dtype=torch.bool).tril(start)
        return attend(q, kept[0, :, :stop], kept[1, :, :stop], mask), stop

    assert not stepwise(read, IDS).equal


def test_keys_that_are_cached_before_they_are_turned_are_found():
    def read(ids, cache):
        start = 0 if cache is None else cache[0].shape[1]
        positions = start + torch.arange(ids.shape[1])
        q, k, v = heads(ids, positions)
        unturned = heads(ids, torch.zeros(ids.shape[1]))[1]
        keys = k if cache is None else torch.cat((cache[0], k), 1)
        values = v if cache is None else torch.cat((cache[1], v), 1)
        old = unturned if cache is None else torch.cat((cache[0], unturned), 1)
        mask = torch.ones(ids.shape[1], keys.shape[1], dtype=torch.bool).tril(start)
        return attend(q, keys, values, mask), (old, values)

    found = stepwise(read, IDS)
    assert not found.equal and "cached keys as they were" in found.suspicion


def test_one_large_channel_hides_no_other():
    def read(ids, cache):
        out, cache = reader(BROKEN["start ignored"])(ids, cache)
        return torch.cat((out, torch.full((*ids.shape, 1), 1e6)), -1), cache

    assert not stepwise(read, IDS).equal


def test_a_row_of_the_batch_that_is_wrong_is_found():
    def read(ids, cache):
        out, cache = reader()(ids, cache)
        out[1] += 1.0 * (ids.shape[1] == 1)
        return out, cache

    assert not stepwise(read, IDS).equal


def test_equal_infinities_are_equal():
    def read(ids, cache):
        out, cache = reader()(ids, cache)
        return torch.cat((out, torch.full((*ids.shape, 1), -math.inf)), -1), cache

    assert stepwise(read, IDS).equal


def test_a_model_of_zeros_is_equal():
    assert stepwise(lambda ids, cache: (0.0 * ids[..., None], 0), IDS).equal


def test_the_model_cannot_change_the_ids():
    def read(ids, cache):
        out = reader()(ids, cache)
        ids.zero_()
        return out

    before = IDS.clone()
    assert stepwise(read, IDS).equal and torch.equal(IDS, before)


def test_no_gradient_is_recorded():
    def read(ids, cache):
        assert not torch.is_grad_enabled()
        return ids[..., None], cache

    stepwise(read, IDS)


def test_half_types_are_sent_to_float32():
    generator = torch.Generator().manual_seed(0)

    def read(ids, cache):
        out = 1 + 0.02 * torch.rand(*ids.shape, 1, generator=generator)
        return (out if ids.shape[1] < T else torch.ones_like(out)).bfloat16(), 1

    found = stepwise(read, IDS)
    assert not found.equal and "check the model in float32" in found.suspicion


SINGLE, PROMPT, HALVES = (1,) * 9, (4, 1, 1, 1, 1, 1), (4, 5)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({}, "equal, however"),
        ({SINGLE: 1, PROMPT: 4, HALVES: 4}, "where does a piece begin"),
        ({SINGLE: 2, PROMPT: 4, HALVES: 4}, "where does a piece begin"),
        ({SINGLE: 1, PROMPT: 4}, "where does a piece begin"),
        ({SINGLE: 7, PROMPT: 7, HALVES: 7}, "does a cache or a table end"),
        ({SINGLE: 1, PROMPT: 4, HALVES: 7}, "does a cache or a table end"),
        ({HALVES: 4}, "single tokens are right"),
        ({SINGLE: 2, HALVES: 4}, "where does a piece begin"),
        ({PROMPT: 2, HALVES: 4}, "the first piece alone is wrong"),
        ({SINGLE: 0}, "the first piece alone is wrong"),
    ],
)
def test_each_pattern_has_its_suspicion(wrong, said):
    splits = [
        Split(pieces, (wrong[pieces], 8) if pieces in wrong else (), 0.5)
        for pieces in (SINGLE, PROMPT, HALVES)
    ]
    assert said in Stepwise(tuple(splits)).suspicion


def test_without_single_tokens_the_mask_is_a_suspect_too():
    found = stepwise(reader(masked=False), IDS, splits=[[4, 5]])
    assert "Is there no mask inside it?" in found.suspicion


def test_the_report_tells_each_split_in_a_line():
    lines = str(
        Stepwise(
            (
                Split((1,) * 9, (1, 5), 0.00123),
                Split((1024, *(1,) * 1024), (), 0.0),
                Split((4, 5), (4,), 12.0),
            )
        )
    ).splitlines()
    assert lines[:3] == [
        "pieces 9x1        2 of 9 tokens wrong, the first at 1, by up to 0.0012 of the largest output",
        "pieces 1024, 1024x1 equal",
        "pieces 4, 5       1 of 9 tokens wrong, the first at 4, by up to 12 of the largest output",
    ]
    assert all(len(line) <= 80 for line in lines[3:])


@pytest.mark.parametrize("position", ["learned", "rope", "none"])
def test_the_books_decoder_passes(position):
    torch.manual_seed(0)
    model = Decoder(DecoderConfig(position, max_position=T, V=V, d=32, h=2, h_kv=1))

    def read(ids, cache):
        cache = cache or model.new_cache(len(ids), T)
        return model(ids, cache), cache

    assert stepwise(read, IDS).equal


@pytest.mark.parametrize(
    ("scaling", "equal"),
    [
        ({"rope_type": "default"}, True),
        ({"rope_type": "yarn", "factor": 4.0}, True),
        ({"rope_type": "dynamic", "factor": 4.0}, False),
    ],
)
def test_transformers_llama_passes_unless_its_angles_change_with_the_length(
    scaling, equal
):
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=V,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=6,
        initializer_range=0.5,
        rope_parameters={
            "rope_theta": 10_000.0,
            "original_max_position_embeddings": 6,
            **scaling,
        }
        if scaling["rope_type"] == "yarn"
        else {"rope_theta": 10_000.0, **scaling},
    )
    model = transformers.LlamaForCausalLM(config).eval()

    def read(ids, cache):
        out = model(ids, cache=cache, use_cache=True)
        return out.logits, out.cache

    assert stepwise(read, IDS).equal == equal


def growing(ids, start):
    """Outputs as wide as the text so far."""
    stop = (start or 0) + ids.shape[1]
    return torch.ones(*ids.shape, stop), stop


def restless():
    """A model whose state is its own, and never begins anew."""
    reads = []

    def read(ids, state):
        reads.append(ids)
        return ids[..., None] + len(reads), None

    return read


@pytest.mark.parametrize(
    ("options", "error", "argument", "came"),
    [
        ({"ids": [1, 2]}, TypeError, "ids", "list"),
        ({"ids": IDS[0]}, ValueError, "ids", "[9]"),
        ({"ids": IDS[:, :3]}, ValueError, "ids", "[2, 3]"),
        ({"splits": [[4, 4]]}, ValueError, "splits", "[4, 4]"),
        ({"splits": [[9]]}, ValueError, "splits", "[9]"),
        ({"splits": [[9, 0]]}, ValueError, "splits", "0"),
        ({"splits": []}, ValueError, "splits", "none"),
        ({"splits": [4, 5]}, TypeError, "splits", "[4, 5]"),
        ({"splits": 4}, TypeError, "splits", "4"),
        ({"ids": IDS[:0]}, ValueError, "ids", "[0, 9]"),
        ({"ids": IDS.float()}, TypeError, "ids", "float32"),
        ({"ids": torch.ones(2, 9).long()}, ValueError, "ids", "one token throughout"),
        ({"tolerance": 1}, ValueError, "tolerance", "1"),
        ({"read": lambda ids, s: (ids + 1j, s)}, TypeError, "read", "complex"),
        (
            {"read": lambda ids, s: (ids[..., None][..., :0], s)},
            ValueError,
            "read",
            "0]",
        ),
        ({"read": lambda ids, s: (ids[:1], s)}, ValueError, "read", "[1, 9]"),
        ({"read": growing}, ValueError, "read", "[2, 1, 2]"),
        ({"read": restless()}, ValueError, "read", "two results"),
        ({"tolerance": 0}, ValueError, "tolerance", "0"),
        ({"read": lambda ids, s: (None, s)}, TypeError, "read", "tokens 0 to 8"),
        ({"read": lambda ids, s: (ids[:, :1], s)}, ValueError, "read", "[2, 1]"),
        ({"read": lambda ids: ids}, ValueError, "read", "TypeError"),
    ],
)
def test_bad_arguments_are_refused(options, error, argument, came):
    options = {"read": reader(), "ids": IDS, **options}
    assert_refused(lambda: stepwise(**options), error, argument, came)


def test_an_error_of_the_model_says_at_which_tokens():
    def read(ids, cache):
        if cache == 4:
            raise IndexError("full")
        return ids[..., None], (cache or 0) + ids.shape[1]

    with pytest.raises(
        ValueError, match=r"IndexError \(full\) for token 4, in pieces of 9x1"
    ):
        stepwise(read, IDS)
