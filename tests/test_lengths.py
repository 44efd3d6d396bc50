"""lib/lengths.py: losses stand at their positions, and the stored measurement is what the chapters say it is."""

import json
import math
import re

import pytest
import torch
from torch.nn import functional as F

from lib.decoder import Decoder, DecoderConfig
from lib.lengths import STORED, Measured, Runs, loss_by_position, perplexities


@pytest.fixture(scope="module")
def measured():
    return Measured()


def decoder(position="learned", max_position=16):
    torch.manual_seed(0)
    return Decoder(DecoderConfig(position, max_position, d=16, h=2, n_layers=1)).eval()


def text(length=200):
    return torch.randint(256, (length,), generator=torch.Generator().manual_seed(0))


def test_each_loss_is_that_of_the_byte_after_its_position():
    model, read = decoder(), text(17)  # one window fits
    with torch.no_grad():
        logits = model(read[None, :-1])[0]
    expected = [F.cross_entropy(logits[t], read[t + 1]).item() for t in range(16)]
    found = loss_by_position(model, read, 16, windows=1)
    assert found.dtype == torch.float64
    assert found.tolist() == pytest.approx(expected, rel=1e-5)


def test_losses_can_be_learned_from():
    found = loss_by_position(decoder(), text(), 16, windows=1)
    scale = torch.ones((), dtype=torch.float64, requires_grad=True)
    (scale * found).sum().backward()
    assert scale.grad == found.sum()


def test_several_windows_are_averaged_from_the_first_byte_to_the_last():
    model, read = decoder(), text()
    first, last = (
        loss_by_position(model, part, 16, windows=1) for part in (read, read[-17:])
    )
    both = loss_by_position(model, read, 16, windows=2)
    torch.testing.assert_close(both, (first + last) / 2)


def test_with_the_same_room_a_shorter_reading_is_the_start_of_a_longer_one():
    model, read = decoder(), text()
    long = loss_by_position(model, read, 16, windows=5)
    short = loss_by_position(model, read, 8, windows=5, room=16)
    torch.testing.assert_close(short, long[:8])
    assert not torch.allclose(loss_by_position(model, read, 8, windows=5), long[:8])


@pytest.mark.parametrize(
    ("position", "error"), [("learned", IndexError), ("rope", ValueError)]
)
def test_a_table_that_ends_is_not_measured_past_its_end(position, error):
    with pytest.raises(error, match="table"):
        loss_by_position(decoder(position), text(), 17, windows=2)


def test_a_text_that_is_too_short_is_refused():
    with pytest.raises(ValueError, match=re.escape("text: got 16 bytes, want more")):
        loss_by_position(decoder(), text(16), 16)
    with pytest.raises(ValueError, match="room: got 8, want at least 16"):
        loss_by_position(decoder(), text(), 16, room=8)
    with pytest.raises(ValueError, match="windows: got 0"):
        loss_by_position(decoder(), text(), 16, windows=0)


def test_perplexity_is_the_exponential_of_the_mean_loss():
    loss = torch.tensor([0.0, math.log(4), math.log(16)], dtype=torch.float64)
    assert perplexities(loss, (0, 1, 3)) == pytest.approx([1, 8])
    assert math.isnan(perplexities(loss, (0, 4))[0])  # the losses end before the bin


def test_a_loss_that_is_no_number_is_not_a_model_that_cannot_run():
    loss = torch.tensor([1.0, math.nan, 1.0])
    with pytest.raises(ValueError, match="loss: got nan at position 1, want numbers"):
        perplexities(loss, (2, 3))


def test_runs_know_their_mean_and_range():
    runs = Runs(torch.tensor([[1.0, 5.0, math.nan], [3.0, 4.0, math.nan]]))
    assert runs.mean.tolist()[:2] == [2, 4.5] and math.isnan(runs.mean[2])
    assert runs.lowest.tolist()[:2] == [1, 4] and runs.highest.tolist()[:2] == [3, 5]


@pytest.mark.parametrize(
    ("values", "beyond"),
    [
        ([2, 4.5, math.nan], 1),
        ([6, 5, math.nan], 2),
        ([1, 2, math.nan], 2),
        ([3.3, 10, math.nan], 2),
        ([2, 4.5, 1], math.inf),  # it ran where the stored ones could not
        ([2, math.nan, math.nan], math.inf),
    ],
)
def test_values_outside_the_range_are_measured_by_their_factor(values, beyond):
    runs = Runs(torch.tensor([[1.0, 5.0, math.nan], [3.0, 4.0, math.nan]]))
    assert runs.beyond(values) == pytest.approx(beyond)


# --- The stored measurement -----------------------------------------------------------


def test_it_says_what_was_run(measured):
    expected = {"seeds", "steps", "trained_length", "python", "torch", "machine"}
    assert expected <= measured.settings.keys()
    assert measured.settings["seeds"] >= 3
    assert measured.settings["torch"] == torch.__version__.split("+")[0]


def test_every_method_has_a_row_of_every_bin_for_every_seed(measured):
    seeds, live = measured.settings["seeds"], measured.settings["live_seeds"]
    methods = {"learned", "cut", "rope", "none"}
    assert measured.coarse.keys() == measured.fine.keys() == methods
    assert measured.stretched.keys() == measured.tuned.keys()
    for runs in measured.coarse.values():
        assert runs.by_seed.shape == (seeds, len(measured.coarse_edges) - 1)
    for section in (measured.fine, measured.stretched, measured.tuned):
        for runs in section.values():
            assert runs.by_seed.shape == (seeds, len(measured.fine_edges) - 1)
    assert {len(runs.by_seed) for runs in measured.live.values()} == {live}


def test_the_seeds_differ(measured):
    for runs in [*measured.coarse.values(), *measured.live.values()]:
        assert (runs.highest > runs.lowest)[~runs.mean.isnan()].all()


def test_a_cut_table_is_the_same_model_inside_and_has_nothing_past_it(measured):
    past = torch.tensor(measured.coarse_edges[1:]) > measured.settings["trained_length"]
    cut, whole = (measured.coarse[name].by_seed for name in ("cut", "learned"))
    assert cut[:, past].isnan().all() and not whole.isnan().any()
    torch.testing.assert_close(cut[:, ~past], whole[:, ~past], rtol=0.001, atol=0)


def test_unchanged_frequencies_are_the_rope_model_itself(measured):
    torch.testing.assert_close(
        measured.stretched["unchanged"].by_seed,
        measured.fine["rope"].by_seed,
        rtol=0.002,  # four digits are kept
        atol=0,
    )


def test_attention_weights_are_shares_of_one(measured):
    for maps in measured.attention.values():
        torch.testing.assert_close(
            maps.sum(-1),
            torch.ones(maps.shape[:-1], dtype=maps.dtype),
            rtol=0,
            atol=0.02,
        )
        assert (maps.triu(1) == 0).all()


def test_times_compare_with_the_second_half_of_the_trained_range(measured):
    runs, edges = measured.coarse["rope"].by_seed, measured.coarse_edges
    expected = runs[:, edges.index(512)] / runs[:, edges.index(32)]
    assert torch.equal(measured.times("rope", 512), expected)


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"settings": 1}'])
def test_a_file_that_is_no_measurement_is_named(tmp_path, content):
    path = tmp_path / "other.json"
    path.write_text(content)
    with pytest.raises(
        ValueError, match=r"other\.json: no measurement of this program"
    ):
        Measured(path)
    with pytest.raises(FileNotFoundError, match="nothing"):
        Measured(tmp_path / "nothing.json")


def test_json_has_no_nan():
    json.loads(STORED.read_text(), parse_constant=lambda name: pytest.fail(name))
