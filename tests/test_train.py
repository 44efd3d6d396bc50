"""lib/train.py: the same run whether or not it was stopped, and clear words about bad text."""

import copy
import math
import os
import re
import signal
import subprocess
import sys
import threading

import pytest
import torch

from lib import train
from lib.decoder import DecoderConfig
from lib.train import (
    Text,
    Training,
    TrainingConfig,
    as_ids,
    random_windows,
    resume,
    save,
    standard_library,
    text_of,
)
from tests.chapters import ROOT

pytestmark = pytest.mark.rests_on("lib")

TINY = DecoderConfig("rope", max_position=16, d=16, h=2, n_layers=1)
BUDGET = TrainingConfig(length=16, steps=12, batch=4, warm_up=2, seed=3)


def text(content=bytes(range(256)) * 4):
    return Text(as_ids(content), as_ids(content[:100]), "a text")


def weights(training):
    return torch.cat([p.detach().flatten() for p in training.model.parameters()])


def finished(config=TINY, budget=BUDGET):
    training = Training(config, text(), budget)
    training.run()
    return training


# --- Training -------------------------------------------------------------------------


def test_the_loss_falls():
    budget = TrainingConfig(length=16, steps=200, batch=8, learning_rate=1e-2)
    losses = finished(budget=budget).losses
    assert sum(losses[-5:]) < 0.7 * sum(losses[:5])


def test_a_seed_decides_everything_and_leaves_the_global_dice_alone():
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    runs = [finished(), finished(), finished(budget=TrainingConfig(16, 12, 4, seed=4))]
    assert torch.equal(torch.rand(3), expected)
    assert torch.equal(weights(runs[0]), weights(runs[1]))
    assert not torch.equal(weights(runs[0]), weights(runs[2]))


def test_the_first_weights_are_those_of_the_seed():
    for seed in (3, 4):
        begun = Training(TINY, text(), TrainingConfig(16, 12, 4, seed=seed)).model
        expected = train.seeded(TINY, seed).state_dict()
        found = begun.state_dict()
        assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_the_rate_rises_then_falls_to_nothing():
    budget = TrainingConfig(steps=1000, warm_up=100, learning_rate=1.0)
    rates = [budget.learning_rate_at(step) for step in range(1000)]
    top = rates.index(max(rates))
    assert 80 < top < 120 and 0.95 < max(rates) <= 1
    assert rates[:top] == sorted(rates[:top])
    assert rates[top:] == sorted(rates[top:], reverse=True)
    assert rates[-1] < 1e-4 and rates[0] < 0.02


@pytest.mark.parametrize("steps", [1, 2, 3])
def test_the_shortest_budgets_have_a_rate(steps):
    rates = [TrainingConfig(steps=steps).learning_rate_at(n) for n in range(steps)]
    assert all(0 < rate <= 1e-3 for rate in rates)


def test_steps_are_those_worked_out_by_hand():
    """The next byte is predicted, on windows of the seed; gradients are clipped; AdamW, and what decays."""
    config = DecoderConfig("learned", max_position=20, d=16, h=2, n_layers=1)
    budget = TrainingConfig(16, 20, 4, 0.05, warm_up=2, weight_decay=0.5, seed=3)
    windows = torch.Generator().manual_seed(3)
    model = train.seeded(config, 3).double()
    with torch.no_grad():  # far from what fits, so that gradients are large
        model.norm.weight.fill_(30)
    training = Training(copy.deepcopy(model), text(), budget)
    moments = {
        p: (torch.zeros_like(p), torch.zeros_like(p)) for p in model.parameters()
    }
    norms = []
    for step in range(4):
        read = random_windows(text().train, 4, 16, windows)
        probabilities = model(read[:, :16]).log_softmax(-1)
        loss = -probabilities.gather(2, read[:, 1:17, None]).mean()
        gradients = torch.autograd.grad(loss, list(model.parameters()))
        norms.append(torch.cat([g.flatten() for g in gradients]).norm().item())
        rate = budget.learning_rate_at(step)
        with torch.no_grad():
            for (name, p), g in zip(model.named_parameters(), gradients, strict=True):
                g = g / max(1, norms[-1])
                mean, square = moments[p]
                mean.lerp_(g, 0.1), square.lerp_(g * g, 0.05)
                if p.ndim == 2 and name != "positions.weight":
                    p *= 1 - rate * 0.5
                corrected = (square / (1 - 0.95 ** (step + 1))).sqrt() + 1e-8
                p -= rate * mean / (1 - 0.9 ** (step + 1)) / corrected
        assert training.step() == pytest.approx(loss.item(), rel=1e-4)
    assert max(norms) > 2 * min(norms) > 2, "clipping would not be seen"
    for p, q in zip(model.parameters(), training.model.parameters(), strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)


def test_rows_that_no_window_reaches_stay_as_they_were():
    config = DecoderConfig("learned", max_position=40, d=16, h=2, n_layers=1)
    before = train.seeded(config, BUDGET.seed).positions.weight.clone()
    after = finished(config).model.positions.weight
    assert torch.equal(after[16:], before[16:])
    assert not torch.equal(after[:16], before[:16])


def test_windows_reach_both_ends_of_the_text():
    windows = random_windows(
        torch.arange(20), 500, 16, torch.Generator().manual_seed(0)
    )
    assert windows.shape == (500, 17)
    assert windows.min() == 0 and windows.max() == 19
    assert (windows.diff() == 1).all()


def test_a_training_that_diverges_says_so_and_keeps_its_last_finite_state():
    budget = TrainingConfig(16, 200, 4, learning_rate=1e20, warm_up=2)
    training, saved = Training(TINY, text(), budget), []
    with pytest.raises(FloatingPointError, match=r"learning_rate: got 1e\+20.*nan"):
        training.run(save=lambda: saved.append(training.steps_done), save_every=1)
    assert saved == list(range(1, training.steps_done + 1))
    assert len(training.losses) == training.steps_done < 200
    assert all(map(math.isfinite, training.losses))


def test_the_command_asks_for_a_place_before_it_trains(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(Training, "run", lambda *_, **__: pytest.fail("it trains"))
    (tmp_path / "a file").write_text("")
    given = [*map(str, command(tmp_path, *OPTIONS)[3:])]
    given += ["--checkpoint", str(tmp_path / "a file" / "run.pt")]
    with pytest.raises(SystemExit) as stopped:
        train.main(given)
    assert stopped.value.code == 2 and "a file" in capsys.readouterr().err


def test_the_command_says_that_a_training_diverged(tmp_path, capsys, monkeypatch):
    def diverge(_):
        raise FloatingPointError("learning_rate: got 1")

    monkeypatch.setattr(Training, "step", diverge)
    given = map(str, command(tmp_path, *OPTIONS)[3:])
    assert train.main(list(given)) == 1
    assert "learning_rate: got 1" in capsys.readouterr().err


# --- Stopping and going on ------------------------------------------------------------


@pytest.mark.parametrize("stop_after", [1, 5, 11])
def test_a_run_that_was_stopped_ends_as_one_that_was_not(tmp_path, stop_after):
    first = Training(TINY, text(), BUDGET)
    for _ in range(stop_after):
        first.step()
    save(first, tmp_path / "run.pt")
    second = Training(TINY, text(), BUDGET)
    resume(second, tmp_path / "run.pt")
    assert second.steps_done == stop_after
    second.run()
    assert torch.equal(weights(second), weights(finished()))
    assert second.losses == finished().losses


def command(folder, *options):
    (folder / "text.txt").write_bytes(bytes(range(256)) * 40)
    given = ["rope", "--text", folder / "text.txt", "--checkpoint", folder / "run.pt"]
    return [sys.executable, "-m", "lib.train", *given, *options]


# Threads of so small a model wait for one another, and where others work, for minutes.
ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}


def run(folder, *options):
    return subprocess.run(
        command(folder, *options),
        cwd=ROOT,
        env=ONE_THREAD,
        capture_output=True,
        text=True,
        timeout=300,
    )


OPTIONS = ["--steps", "400", "--length", "16", "--batch", "2"]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The weights at the end of a run that nobody stopped."""
    folder = tmp_path_factory.mktemp("whole")
    assert run(folder, *OPTIONS).returncode == 0
    return torch.load(folder / "run.pt", weights_only=True)["model"]


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_was_interrupted_or_killed_goes_on(tmp_path, sign, undisturbed):
    """Ctrl-C keeps the last step; a kill costs what came after the last checkpoint."""
    process = subprocess.Popen(
        command(tmp_path, *OPTIONS),
        cwd=ROOT,
        env=ONE_THREAD,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: (tmp_path / "run.pt").exists() or process.poll() is not None)
        os.kill(process.pid, sign)
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    if sign == signal.SIGINT:
        assert process.returncode == 130 and "the same command goes on" in errors
    done = torch.load(tmp_path / "run.pt", weights_only=True)["steps_done"]
    assert 0 < done < 400
    again = run(tmp_path, *OPTIONS)
    assert again.returncode == 0, again.stderr
    assert f"going on after step {done}" in again.stdout
    end = torch.load(tmp_path / "run.pt", weights_only=True)["model"]
    assert all(torch.equal(end[name], undisturbed[name]) for name in end)


def wait_for(condition, seconds=120):
    waiting = threading.Event()
    for _ in range(seconds * 50):
        if condition():
            return
        waiting.wait(0.02)
    raise TimeoutError("it did not happen")


@pytest.mark.parametrize(
    ("config", "budget", "message"),
    [
        (
            DecoderConfig("none", 16, d=16, h=2, n_layers=1),
            BUDGET,
            "run.pt: decoder.position: the checkpoint has rope, this run has none",
        ),
        (
            TINY,
            TrainingConfig(16, 12, 4, warm_up=2, seed=9),
            "run.pt: training.seed: the checkpoint has 3, this run has 9",
        ),
    ],
)
def test_the_checkpoint_of_another_run_is_refused(tmp_path, config, budget, message):
    save(finished(), tmp_path / "run.pt")
    with pytest.raises(ValueError, match=message):
        resume(Training(config, text(), budget), tmp_path / "run.pt")


def written(*, without=(), **changes):
    """What is written in place of a checkpoint's own: a state with changes."""

    def write(path, state):
        state = {name: value for name, value in state.items() if name not in without}
        torch.save(state | changes, path)

    return write


def cut_short(path, state):
    torch.save(state, path)
    path.write_bytes(path.read_bytes()[:-500])


NO_CHECKPOINTS = {
    "a text": lambda path, _: path.write_text("not one"),
    "nothing": lambda path, _: path.write_bytes(b""),
    "cut short": cut_short,
    "a tensor": lambda path, _: torch.save(torch.zeros(3), path),
    "another dict": lambda path, _: torch.save({"weights": torch.zeros(3)}, path),
    "no weights": written(without=["model"]),
    "no identity": written(without=["text"]),
    "no weights in it": written(model={}),
    "other weights": lambda path, state: written(
        model={name: value[..., :1] for name, value in state["model"].items()}
    )(path, state),
    "no moments": written(optimizer={}),
    "moments of others": lambda path, state: written(
        optimizer=state["optimizer"] | {"param_groups": []}
    )(path, state),
    "moments of other sizes": lambda path, state: written(
        optimizer=state["optimizer"]
        | {
            "state": {
                n: {name: value[..., None].clone() for name, value in moments.items()}
                for n, moments in state["optimizer"]["state"].items()
            }
        }
    )(path, state),
    "no dice": written(windows=torch.zeros(3, dtype=torch.uint8)),
    "steps without losses": written(losses=[1.0]),
    "more steps than there are": written(steps_done=13, losses=[1.0] * 13),
    "steps in words": written(steps_done="three", losses=[1.0] * 3),
}


@pytest.mark.parametrize("content", NO_CHECKPOINTS)
def test_a_file_that_is_no_checkpoint_is_refused_whole(tmp_path, content):
    path = tmp_path / "run.pt"
    first = Training(TINY, text(), BUDGET)
    for _ in range(3):
        first.step()
    NO_CHECKPOINTS[content](path, first.state())
    there = path.read_bytes()
    training = Training(TINY, text(), BUDGET)
    training.step()  # so that there is something to lose
    with pytest.raises(ValueError, match=r"run\.pt: no checkpoint of this program"):
        resume(training, path)
    assert path.read_bytes() == there
    training.run()  # as if nothing had been
    assert torch.equal(weights(training), weights(finished()))


def test_a_file_that_cannot_be_read_is_not_called_no_checkpoint(tmp_path):
    for path, error in (
        (tmp_path, IsADirectoryError),
        (tmp_path / "x", FileNotFoundError),
    ):
        with pytest.raises(error, match=re.escape(str(path))):
            resume(Training(TINY, text(), BUDGET), path)


@pytest.mark.parametrize("content", ["a tensor", "no weights", "other weights"])
def test_the_command_says_which_file_is_no_checkpoint(tmp_path, capsys, content):
    given = command(tmp_path, *OPTIONS)[3:]
    config = TrainingConfig(length=16, steps=400, batch=2)
    state = Training(
        DecoderConfig("rope", 1024), text_of([tmp_path / "text.txt"]), config
    ).state()
    NO_CHECKPOINTS[content](tmp_path / "run.pt", state)
    with pytest.raises(SystemExit) as stopped:
        train.main(list(map(str, given)))
    assert stopped.value.code == 2
    assert "run.pt: no checkpoint of this program" in capsys.readouterr().err


# --- Text -----------------------------------------------------------------------------


def test_the_standard_library_is_split_by_file():
    library = standard_library()
    assert len(library.train) > 3_000_000 and len(library.held_out) > 300_000
    assert library.name == standard_library().name


def test_every_tenth_file_is_held_out(tmp_path):
    files = [tmp_path / f"{n:02}.txt" for n in range(20)]
    for n, file in enumerate(files):
        file.write_bytes(bytes([n]) * 5)
    split = text_of(files)
    assert set(split.held_out.tolist()) == {0, 10}
    assert set(split.train.tolist()) == set(range(20)) - {0, 10}


def test_of_few_files_the_last_tenth_is_held_out(tmp_path):
    file = tmp_path / "one.txt"
    file.write_bytes(bytes(range(100)))
    split = text_of([file])
    assert split.train.tolist() == list(range(90))
    assert split.held_out.tolist() == list(range(90, 100))


@pytest.mark.parametrize("content", [b"", b"short"])
def test_no_text_is_an_error(tmp_path, content):
    (tmp_path / "x.txt").write_bytes(content)
    with pytest.raises(ValueError, match="text: got"):
        text_of([tmp_path / "x.txt"])


def test_one_path_is_no_list_of_files(tmp_path):
    for path in (tmp_path / "x.txt", "x.txt"):
        with pytest.raises(TypeError, match=r"files: got '.*x\.txt', want a list"):
            text_of(path)


@pytest.mark.parametrize(
    ("rate", "error"), [("a", TypeError), (True, TypeError), (-1, ValueError)]
)
def test_a_rate_is_a_number_of_at_least_nothing(rate, error):
    for name in ("learning_rate", "weight_decay"):
        with pytest.raises(error, match=f"{name}: got"):
            TrainingConfig(**{name: rate})


def test_a_text_shorter_than_a_window_is_an_error():
    with pytest.raises(ValueError, match=r"text.train: got 16 bytes.*window of 16"):
        Training(TINY, text(bytes(16)), BUDGET)


@pytest.mark.parametrize(
    ("name", "content", "options", "message"),
    [
        ("missing.txt", None, [], "No such file"),
        ("empty.txt", b"", [], "text: got 0 bytes"),
        (
            "short.txt",
            b"x" * 200,
            [],
            "held_out: got 20 bytes, want more than a window",
        ),
        ("fine.txt", b"x" * 2000, ["--steps", "0"], "steps: got 0, want at least 1"),
        ("fine.txt", b"x" * 2000, ["--rows", "50"], "--length: got 64, want at most"),
    ],
)
def test_the_command_names_what_is_wrong(
    tmp_path, capsys, name, content, options, message
):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    given = ["rope", "--text", str(tmp_path / name), *options]
    given += ["--checkpoint", str(tmp_path / "run.pt")]
    with pytest.raises(SystemExit) as stopped:
        train.main(given)
    assert stopped.value.code == 2
    assert re.search(re.escape(message), capsys.readouterr().err)
    assert not (tmp_path / "run.pt").exists()
