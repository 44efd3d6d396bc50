"""lib/lab.py: an experiment is what its arguments say."""

import pytest
import torch
from tqdm import tqdm

from lib import lab
from lib.decoder import DecoderConfig
from lib.lab import edges, experiment
from lib.lengths import loss_by_position
from lib.train import Text, Training, TrainingConfig, as_ids

SOURCE = b"def twice(x):\n    return 2 * x\n\n\n" * 60
TINY = {"steps": 3, "length": 8, "batch": 2, "text": Text(*[as_ids(SOURCE)] * 2, "x")}


def quiet(*args, **options):
    return tqdm(*args, **{**options, "disable": True})


def run(position="rope", **changes):
    return experiment(position, **(TINY | {"bar": quiet} | changes))


@pytest.mark.parametrize("position", ["learned", "rope", "none"])
def test_every_position_can_be_read_eight_times_as_far_as_it_was_trained(position):
    trained = run(position)
    assert trained.model.config.position == position
    assert trained.loss.shape == (64,) and torch.isfinite(trained.loss).all()
    assert trained.edges == (4, 8, 10, 16, 32, 64)
    assert len(trained.perplexities) == 5


def test_what_is_asked_for_reaches_the_model():
    config = run(base=500.0, d_head=4, h=3, n_layers=1).model.config
    assert (config.base, config.d, config.h, config.n_layers) == (500.0, 12, 3, 1)
    assert config.d_head == 4


def test_what_is_asked_for_reaches_the_training_and_the_measurement():
    text = Text(as_ids(SOURCE), as_ids(SOURCE[::-1]), "y")
    trained = run(
        steps=4, length=12, batch=3, learning_rate=0.03, seed=5, text=text, windows=7
    )
    config = DecoderConfig("rope", max_position=96, d=64, h=4, n_layers=2)
    budget = TrainingConfig(12, 4, 3, learning_rate=0.03, seed=5)
    same = Training(config, text, budget)
    same.run()
    loss = loss_by_position(same.model, text.held_out, 96, windows=7)
    torch.testing.assert_close(trained.loss, loss, rtol=1e-4, atol=0)
    assert trained.model.config == config and trained.length == 12


def test_a_seed_decides_the_result_and_the_threads_are_given_back():
    threads = torch.get_num_threads()
    first, again, other = run(seed=1), run(seed=1), run(seed=2)
    assert torch.equal(first.loss, again.loss)
    assert not torch.equal(first.loss, other.loss)
    with pytest.raises(ValueError, match="d_head"):
        run(d_head=3)
    assert torch.get_num_threads() == threads


def test_ratios_compare_with_the_second_half_of_the_trained_range():
    loss = torch.zeros(64, dtype=torch.float64)
    loss[8:10], loss[32:] = torch.tensor(2.0).log(), torch.tensor(5.0).log()
    trained = lab.Trained(None, 8, loss)
    assert trained.ratios == pytest.approx({"just past": 2, "far past": 5})


def test_bins_double_past_the_trained_length():
    assert edges(32) == (16, 32, 40, 64, 128, 256)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"h": 0}, ValueError, "h: got 0, want at least 1"),
        ({"d_head": 2.5}, TypeError, r"d_head: got 2.5 \(float\), want an int"),
        ({"windows": 0}, ValueError, "windows: got 0"),
        ({"learning_rate": "a"}, TypeError, "learning_rate: got str, want a number"),
        ({"text": "some"}, TypeError, "text: got str, want a Text"),
        ({"length": 2000}, ValueError, r"text.held_out: got \d+ bytes.*= 16000"),
    ],
)
def test_what_cannot_be_run_is_named_before_anything_is_trained(change, error, message):
    def never(*_, **__):
        pytest.fail("a training began")

    with pytest.raises(error, match=message):
        run(**change, bar=never)


def test_a_run_that_diverged_is_no_model_that_cannot_run():
    with pytest.raises(FloatingPointError, match=r"learning_rate: got 1e\+20"):
        run(learning_rate=1e20, steps=60)


@pytest.mark.parametrize("length", [3, 0])
def test_a_training_too_short_for_the_bins_is_refused(length):
    with pytest.raises(ValueError, match=f"length: got {length}, want at least 4"):
        run(length=length)
