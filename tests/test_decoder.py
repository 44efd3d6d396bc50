"""lib/decoder.py: it sees no future, its positions are what they say, and its tables end where they should."""

import pytest
import torch

from lib.decoder import Decoder, DecoderConfig


def decoder(position, max_position=32):
    torch.manual_seed(0)
    return Decoder(
        DecoderConfig(position, max_position, V=50, d=16, h=2, n_layers=2)
    ).eval()


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


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (DecoderConfig("sinus", 8), "position: got 'sinus'"),
        (DecoderConfig("rope", 8, d=10), "d: got 10"),
    ],
)
def test_a_bad_configuration_is_named(config, message):
    with pytest.raises(ValueError, match=message):
        Decoder(config)
