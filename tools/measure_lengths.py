"""Train three small decoders at 64 tokens, measure them at lengths up to 1024, and store what the chapters draw.

    python -m tools.measure_lengths

writes chapters/data/lengths.json: byte perplexity by position for a learned table (1024
rows, of which 64 are trained), for RoPE and for no positions at all, and the learned
table's rows before and after training. The text is the source of the running Python's
standard library, split by file. Same seed, data and budget for all. Half an hour on one
core; stopped, it goes on where it was. Digits vary with the Python version's text and the
machine's arithmetic, verdicts should not.
"""

import argparse
import json
import platform
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from lib.decoder import Decoder, DecoderConfig
from lib.files import write_atomically
from lib.train import Training, TrainingConfig, resume, save, seeded, standard_library

ROOT = Path(__file__).parent.parent
RESULT = ROOT / "chapters" / "data" / "lengths.json"
CHECKPOINTS = ROOT / "_build" / "lengths"
BINS = [0, 32, 64, 80, 96, 128, 256, 512, 1024]  # positions, each bin [start, next)
TRAINED, LONGEST, BATCH, SEED = 64, 1024, 32, 0
STEPS = 3000


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Train three small decoders and measure them past their length."
    )
    parser.add_argument(
        "--steps",
        type=int,
        default=STEPS,
        help=f"training steps for each (default: {STEPS})",
    )
    parser.add_argument(
        "--output",
        type=Path,
        help=f"where to write (default: chapters/data/{RESULT.name})",
    )
    arguments = parser.parse_args()
    steps, output = arguments.steps, arguments.output or RESULT
    if steps < 1:
        parser.error(f"--steps: got {steps}, want at least 1")
    if steps != STEPS and arguments.output is None:
        parser.error(
            "a trial of other length needs --output: the chapters read the full run"
        )
    text = standard_library()
    result = {
        "settings": {
            "trained_length": TRAINED,
            "table_rows": LONGEST,
            "steps": steps,
            "batch": BATCH,
            "seed": SEED,
            "n_layers": DecoderConfig.n_layers,
            "d": DecoderConfig.d,
            "h": DecoderConfig.h,
            "python": platform.python_version(),
            "torch": torch.__version__.split("+")[0],
            "machine": f"{platform.machine()} CPU",
            "held_out_bytes": len(text.held_out),
        },
        "bins": BINS,
        "perplexity": {},
    }
    budget = TrainingConfig(length=TRAINED, steps=steps, batch=BATCH, seed=SEED)
    for position in ("learned", "rope", "none"):
        config = DecoderConfig(position, max_position=LONGEST)
        model = trained(Training(config, text, budget), f"{position}-{steps}-{SEED}")
        if position == "learned":
            result["untrained_rows"] = rows_of(seeded(config, SEED))
            result["trained_rows"] = rows_of(model)
        result["perplexity"][position] = perplexity_by_bin(model, text.held_out)
        print(position, [round(value, 2) for value in result["perplexity"][position]])
    write_atomically(output, json.dumps(result) + "\n")


def trained(training: Training, name: str) -> Decoder:
    """The model after its training, which a checkpoint makes interruptible."""
    path = CHECKPOINTS / f"{name}.pt"
    if path.exists():
        resume(training, path)
    if not training.finished:
        training.run(save=lambda: save(training, path), label=name)
    return training.model.eval()


@torch.inference_mode()
def perplexity_by_bin(model: Decoder, text: Tensor, windows: int = 64) -> list[float]:
    """exp of the mean loss of the bytes predicted at positions of each bin, over evenly spread windows."""
    starts = torch.linspace(0, len(text) - LONGEST - 1, windows).long()
    batch = text[starts[:, None] + torch.arange(LONGEST + 1)]
    losses = [
        F.cross_entropy(
            model(part[:, :-1]).transpose(1, 2), part[:, 1:], reduction="none"
        )
        for part in batch.split(8)
    ]
    by_position = torch.cat(losses).mean(0)
    return [by_position[a:b].mean().exp().item() for a, b in pairwise(BINS)]


def rows_of(model: Decoder) -> list[list[float]]:
    """The first TRAINED rows of the learned table, rounded: they are stored as text."""
    return [
        [round(value, 4) for value in row] for row in model.positions[:TRAINED].tolist()
    ]


if __name__ == "__main__":
    main()
