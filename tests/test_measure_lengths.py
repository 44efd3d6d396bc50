"""tools/measure_lengths.py, step by step on tiny models: each number in the stored file is what its name says."""

import copy
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from lib import scaling
from lib.decoder import DecoderConfig
from lib.lengths import loss_by_position, perplexities
from lib.train import Text, Training, TrainingConfig, as_ids, seeded
from tools import measure_lengths
from tools.measure_lengths import COARSE, FINE, LONGEST, TRAINED, Measurement, Scope

SOURCE = "".join(f"{n}: {n * n} is {n} times {n}\n" for n in range(300)).encode()
TEXT = Text(as_ids(SOURCE), as_ids(SOURCE[::-1]), "squares")
SMALL = {"d": 16, "h": 2, "n_layers": 2}


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """A short text, and one thread, as the measurement has: those of a small model wait for one another."""
    monkeypatch.setattr(measure_lengths, "standard_library", lambda: TEXT)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def measurement(tmp_path):
    scope = Scope(
        seeds=2, steps=1, fine_tuning_steps=3, live_seeds=3, live_steps=5, windows=2
    )
    return Measurement(scope, tmp_path)


def model_of(position, seed=0):
    """A small model whose positions matter."""
    model = seeded(DecoderConfig(position, LONGEST, **SMALL), seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8)
    return model.eval()


def told(model, edges, length=LONGEST):
    """What the file says of a model: its perplexities, with the digits that are kept."""
    loss = loss_by_position(model, TEXT.held_out, length, windows=2, room=LONGEST)
    return measure_lengths.significant(perplexities(loss, edges))


def test_a_cut_model_is_the_same_one_with_its_first_rows_alone():
    whole = model_of("learned")
    short = measure_lengths.cut(whole, 24)
    assert len(short.positions) == 24 and len(whole.positions) == LONGEST
    ids = TEXT.held_out[None, :24]
    torch.testing.assert_close(short(ids), whole(ids))
    with pytest.raises(IndexError, match="24 rows"):
        short(TEXT.held_out[None, :25])


def test_the_learned_model_is_measured_whole_and_cut_to_its_trained_rows(
    measurement, monkeypatch
):
    monkeypatch.setattr(Measurement, "trained", lambda _, *run: model_of(*run))
    found, model = measurement.measure("learned", 1), model_of("learned", 1)
    assert found["coarse", "learned"] == told(model, COARSE)
    assert found["fine", "learned"] == told(model, FINE)
    for section, edges in (("coarse", COARSE), ("fine", FINE)):
        inside = edges.index(TRAINED)
        cut = found[section, "cut"]
        assert cut[:inside] == pytest.approx(found[section, "learned"][:inside], 1e-3)
        assert cut[inside:] == [None] * (len(edges) - 1 - inside)


def test_a_table_that_gives_more_than_it_has_is_noticed(measurement):
    with pytest.raises(AssertionError, match="64 rows had one more"):
        # its table is longer than its configuration says
        model = model_of("learned")
        model.config = replace(model.config, max_position=64)
        measurement.as_far_as_it_runs(model)


FREQUENCIES = {
    "unchanged": lambda d: 10_000 ** (-2 * torch.arange(d // 2).double() / d),
    "interpolation": lambda d: scaling.position_interpolation(d, 4),
    "NTK-aware": lambda d: scaling.ntk_aware(d, 4),
    "YaRN": lambda d: scaling.yarn(d, 4, 64),
}


def test_stretched_models_have_other_frequencies_and_each_is_tuned_from_the_same_weights(
    measurement, monkeypatch
):
    fast = replace(measure_lengths.FINE_TUNING, learning_rate=0.03)
    monkeypatch.setattr(measure_lengths, "FINE_TUNING", fast)
    monkeypatch.setattr(Measurement, "trained", lambda _, *run: model_of(*run))
    found, model = measurement.measure("rope", 1), model_of("rope", 1)
    assert found["fine", "rope"] == told(model, FINE)
    assert found["coarse", "rope"] == told(model, COARSE)
    budget = TrainingConfig(256, 3, 8, learning_rate=0.03, warm_up=20, seed=1)
    for name, frequencies in FREQUENCIES.items():
        other = copy.deepcopy(model)
        stretch = 1.1386294 if name == "YaRN" else 1  # 0.1 ln 4 + 1
        angles = torch.arange(LONGEST)[:, None] * frequencies(8)
        other.freqs_cis = (stretch * torch.exp(1j * angles)).to(torch.complex64)
        assert found["stretched", name] == pytest.approx(told(other, FINE), 2e-3)
        Training(other, TEXT, budget).run()
        assert found["tuned", name] == pytest.approx(told(other, FINE), 2e-3)
        assert found["tuned", name] != pytest.approx(found["stretched", name], 0.01)
    unlike = [found["stretched", name] for name in FREQUENCIES]
    for n, values in enumerate(unlike):
        for others in unlike[:n]:
            assert values != pytest.approx(others, 2e-3), "too alike to be told apart"


def test_the_fine_tuning_is_on_texts_as_long_as_the_stretch():
    tuning = measure_lengths.FINE_TUNING
    assert tuning.length == measure_lengths.FACTOR * TRAINED
    assert tuning.learning_rate < TrainingConfig.learning_rate


def test_a_training_has_its_own_seed_and_is_not_done_again(measurement, tmp_path):
    for seed in (0, 1):
        config = TrainingConfig(length=TRAINED, steps=1, seed=seed)
        same = Training(DecoderConfig("none", LONGEST), TEXT, config)
        same.run()
        for _ in range(2):  # trained, and then taken up from its checkpoint
            model = measurement.trained("none", seed)
            assert not model.training
            for p, q in zip(model.parameters(), same.model.parameters(), strict=True):
                torch.testing.assert_close(p, q)
    assert {path.name for path in tmp_path.iterdir()} == {"none-1-0.pt", "none-1-1.pt"}


def test_every_seed_of_every_kind_is_a_job_and_a_row(measurement, monkeypatch):
    asked = []

    def in_turn(jobs):
        for job, position, seed in jobs:
            section = {"measure": "coarse", "measure_live": "live"}[job.__name__]
            asked.append((section, position, seed))
            yield {(section, position): [seed]}

    monkeypatch.setattr(measure_lengths, "in_parallel", in_turn)
    monkeypatch.setattr(Measurement, "looked_into", lambda _: {"attention": "maps"})
    result = measurement.all()
    positions = ("learned", "rope", "none")
    assert set(asked) == {
        (section, position, seed)
        for section, seeds in (("coarse", 2), ("live", 3))
        for position in positions
        for seed in range(seeds)
    }
    assert len(asked) == 15
    assert result["coarse"] == {name: [[0], [1]] for name in positions}
    assert result["live"] == {name: [[0], [1], [2]] for name in positions}
    assert result["attention"] == "maps"


def test_a_live_run_is_an_experiment_with_its_seed(measurement, monkeypatch):
    asked = []

    def experiment(*given, **options):
        asked.append((given, options))
        return SimpleNamespace(perplexities=[1.23456, float("nan")])

    monkeypatch.setattr(measure_lengths, "experiment", experiment)
    assert measurement.measure_live("none", 2) == {("live", "none"): [1.235, None]}
    [(given, options)] = asked
    assert given == ("none",) and options.pop("bar")
    assert options == {"seed": 2, "steps": 5, "windows": 2}


def test_rows_and_maps_are_those_of_the_first_seed(measurement, monkeypatch):
    monkeypatch.setattr(Measurement, "trained", lambda _, *run: model_of(*run))
    found, model = measurement.looked_into(), model_of("learned", 0)
    start = seeded(DecoderConfig("learned", LONGEST, **SMALL), 0)
    for name, each in (("trained_rows", model), ("untrained_rows", start)):
        rows = torch.tensor(found[name])
        torch.testing.assert_close(rows, each.positions.weight[:64], rtol=0, atol=6e-5)

    starts = torch.linspace(0, len(TEXT.held_out) - 128, 64).long()
    ids = torch.stack([TEXT.held_out[n : n + 128] for n in starts])
    for position in ("learned", "rope", "none"):
        maps = model_of(position).attention_maps(ids).mean(dim=(1, 2))
        expected = maps.view(2, 32, 4, 32, 4).sum(4).mean(2)
        told = torch.tensor(found["attention"][position])
        torch.testing.assert_close(told, expected, rtol=0, atol=6e-4)
