"""Train three small decoders at 64 tokens, measure them at lengths up to 1024, and store what the chapters draw.

    python -m tools.measure_lengths

writes chapters/data/lengths.json: byte perplexity by position for a learned table (1024
rows, of which 64 are trained), for RoPE and for no positions at all, and the learned
table's rows before and after training. The text is the source of the running Python's
standard library, split by file. Same seed, data and budget for all. About fifteen
minutes on two cores; digits vary with the Python version's text and the machine's
arithmetic, verdicts should not.
"""

import argparse
import json
import math
import platform
import sysconfig
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F
from tqdm import trange

from lib.decoder import Decoder, DecoderConfig
from tools.files import write_atomically

RESULT = Path(__file__).parent.parent / "chapters" / "data" / "lengths.json"
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
    train, held_out = standard_library_text()
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
            "held_out_bytes": len(held_out),
        },
        "bins": BINS,
        "perplexity": {},
    }
    for position in ("learned", "rope", "none"):
        torch.manual_seed(SEED)
        model = Decoder(DecoderConfig(position, max_position=LONGEST))
        if position == "learned":
            result["untrained_rows"] = rows_of(model)
        fit(model, train, steps, position)
        if position == "learned":
            result["trained_rows"] = rows_of(model)
        result["perplexity"][position] = perplexity_by_bin(model, held_out)
        print(position, [round(value, 2) for value in result["perplexity"][position]])
    write_atomically(output, json.dumps(result) + "\n")


def standard_library_text() -> tuple[Tensor, Tensor]:
    """Bytes of the standard library's modules as two int64 tensors; every tenth file is held out."""
    files = sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py"))
    held_out = b"".join(file.read_bytes() for file in files[::10])
    train = b"".join(file.read_bytes() for n, file in enumerate(files) if n % 10)
    return tuple(
        torch.frombuffer(bytearray(text), dtype=torch.uint8).long()
        for text in (train, held_out)
    )


def fit(model: Decoder, text: Tensor, steps: int, label: str) -> None:
    """AdamW with warm-up and cosine decay on random windows of TRAINED bytes."""
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1
    )
    generator = torch.Generator().manual_seed(SEED)
    warm_up = min(100, steps // 10 + 1)
    for step in trange(steps, desc=label, mininterval=10):
        decay = 0.5 * (1 + math.cos(math.pi * step / steps))
        optimizer.param_groups[0]["lr"] = 1e-3 * min((step + 1) / warm_up, decay)
        starts = torch.randint(len(text) - TRAINED - 1, (BATCH,), generator=generator)
        windows = text[starts[:, None] + torch.arange(TRAINED + 1)]
        loss = F.cross_entropy(
            model(windows[:, :-1]).flatten(0, 1), windows[:, 1:].flatten()
        )
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()


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
