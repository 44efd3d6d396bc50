"""Measure the training: python -m tools.benchmark_training

Prints how many tokens a second `lib.train.Training` learns from, beside a plain loop in
nanoGPT's manner, and the ratio of the two. The loop is written here, from what nanoGPT
is known for, and copies none of its code: one fused qkv, PyTorch's attention, batches
stacked row by row from a uint16 array, AdamW that is fused on CUDA only, a loss that is
read every tenth step. torch.compile is off, as nanoGPT advises for a CPU.

Both have the same sizes, batch, text and threads, float32, no dropout, and begin at the
same weights, from which they must compute the same logits. The reference knows learned
positions only; RoPE is measured against that same reference, so its line also holds the
price of the rotation.

All take turns in one process, a block of steps each, forwards and then backwards, so
that a noisy machine is as noisy for one as for the other. Wants a quiet one anyway;
where other work wants the cores too, OMP_WAIT_POLICY=PASSIVE or --threads 1 helps.
"""

import argparse
import math
import statistics
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from tqdm import tqdm

from lib.decoder import Decoder, DecoderConfig
from lib.show import table
from lib.train import Text, Training, TrainingConfig, seeded, standard_library

REFERENCE = "reference, learned"
LOG_INTERVAL = 10  # steps, nanoGPT's
WARM_UP = 10  # steps of each that are not measured
HEADER = ("loop", "tokens/s", "ratio", "lowest", "highest", "last loss read")


# --- The reference --------------------------------------------------------------------


class Reference(nn.Module):
    """Token ids and targets [B, T] -> the loss; ids alone -> logits [B, T, V].

    The parameters stand in the order of `Decoder`'s, so that they can be copied.
    """

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.tokens = nn.Embedding(config.V, config.d)
        self.positions = nn.Embedding(config.max_position, config.d)
        self.blocks = nn.ModuleList(
            ReferenceBlock(config) for _ in range(config.n_layers)
        )
        self.norm = nn.LayerNorm(config.d)
        self.head = nn.Linear(config.d, config.V, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, ids: Tensor, targets: Tensor | None = None) -> Tensor:
        x = self.tokens(ids) + self.positions(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        if targets is None:
            return logits
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


class ReferenceBlock(nn.Module):
    """Pre-norm attention and MLP, [B, T, d] -> [B, T, d]."""

    def __init__(self, config: DecoderConfig) -> None:
        super().__init__()
        self.heads = config.h
        self.attention_norm = nn.LayerNorm(config.d)
        self.qkv = nn.Linear(config.d, 3 * config.d)
        self.out = nn.Linear(config.d, config.d)
        self.mlp_norm = nn.LayerNorm(config.d)
        self.widen = nn.Linear(config.d, 4 * config.d)
        self.narrow = nn.Linear(4 * config.d, config.d)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.attention_norm(x))
        return x + self.narrow(F.gelu(self.widen(self.mlp_norm(x))))

    def attention(self, x: Tensor) -> Tensor:
        B, T, d = x.shape
        q, k, v = (
            y.view(B, T, self.heads, d // self.heads).transpose(1, 2)
            for y in self.qkv(x).split(d, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).contiguous().view(B, T, d))


class ReferenceTraining:
    """The plain loop: `step` takes one. It begins as a copy of `model`."""

    def __init__(self, model: Decoder, text: Text, config: TrainingConfig) -> None:
        self.config = config
        self.model = reference_like(model)
        self.text = text.train.numpy().astype(np.uint16)
        self.optimizer = reference_optimizer(self.model, config)
        self.steps_done = 0
        self.losses: list[float] = []
        self.batch = self.next_batch()

    def step(self) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = self.learning_rate()
        loss = self.model(*self.batch)
        self.batch = self.next_batch()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.steps_done += 1
        if self.steps_done % LOG_INTERVAL == 0:
            self.losses.append(loss.item())

    def next_batch(self) -> tuple[Tensor, Tensor]:
        """What is read and what is predicted, both int64 [batch, length]."""
        length = self.config.length
        starts = torch.randint(len(self.text) - length, (self.config.batch,))
        ids, targets = (
            torch.stack(
                [
                    torch.from_numpy(self.text[i : i + length].astype(np.int64))
                    for i in (starts + shift).tolist()
                ]
            )
            for shift in (0, 1)
        )
        return ids, targets

    def learning_rate(self) -> float:
        """A linear warm-up, then a cosine down to a tenth."""
        highest, warm_up = self.config.learning_rate, self.config.warm_up
        if self.steps_done < warm_up:
            return highest * (self.steps_done + 1) / (warm_up + 1)
        way = (self.steps_done - warm_up) / max(1, self.config.steps - warm_up)
        lowest = highest / 10
        return lowest + (highest - lowest) * (1 + math.cos(math.pi * min(1, way))) / 2


def reference_like(model: Decoder) -> Reference:
    """A reference with the model's weights. Raises ValueError if it differs from it."""
    reference = Reference(model.config)
    mine, theirs = list(model.parameters()), list(reference.parameters())
    counts = [sum(p.numel() for p in parameters) for parameters in (mine, theirs)]
    if counts[0] != counts[1] or [p.shape for p in mine] != [p.shape for p in theirs]:
        raise ValueError(
            f"the reference has {counts[1]:,} parameters, the decoder {counts[0]:,}: "
            "want the same number, in the same shapes"
        )
    ids = torch.arange(model.config.max_position).view(1, -1) % model.config.V
    with torch.no_grad():
        for to, source in zip(theirs, mine, strict=True):
            to.copy_(source)
        far = (model(ids) - reference(ids)).abs().max().item()
    if far > 1e-4:
        raise ValueError(f"the reference's logits are {far:.1e} from the decoder's")
    return reference


def reference_optimizer(
    model: Reference, config: TrainingConfig
) -> torch.optim.Optimizer:
    """AdamW as PyTorch chooses it on a CPU, which is not fused; matrices decay."""
    matrices = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [
        {"params": matrices, "weight_decay": config.weight_decay},
        {"params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=config.learning_rate, betas=(0.9, 0.95))


# --- The measurement ------------------------------------------------------------------


def contestants(config: TrainingConfig) -> dict[str, Training | ReferenceTraining]:
    """The reference and ours, by name; both learned ones begin at the same weights."""
    text = standard_library()
    learned, rope = (
        seeded(DecoderConfig(position, config.length), config.seed)
        for position in ("learned", "rope")
    )
    torch.manual_seed(config.seed)  # the reference's windows
    return {
        REFERENCE: ReferenceTraining(learned, text, config),
        "ours, learned": Training(learned, text, config),
        "ours, rope": Training(rope, text, config),
    }


def seconds(step: Callable[[], object], steps: int) -> float:
    start = time.perf_counter()
    for _ in range(steps):
        step()
    return time.perf_counter() - start


def measure(
    loops: dict[str, Training | ReferenceTraining], steps: int, blocks: int
) -> dict[str, list[float]]:
    """For each loop the tokens/s of every block."""
    speeds: dict[str, list[float]] = {name: [] for name in loops}
    for loop in loops.values():
        seconds(loop.step, WARM_UP)
    for block in tqdm(range(blocks), unit="block", disable=None, leave=False):
        for name in list(loops)[:: -1 if block % 2 else 1]:
            config = loops[name].config
            tokens = steps * config.batch * config.length
            speeds[name].append(tokens / seconds(loops[name].step, steps))
    return speeds


def row(name: str, speeds: dict[str, list[float]], loss: float) -> tuple:
    """Medians over the blocks; a ratio is taken within its block."""
    pairs = zip(speeds[name], speeds[REFERENCE], strict=True)
    ratios = [mine / reference for mine, reference in pairs]
    summary = (statistics.median(ratios), min(ratios), max(ratios))
    shown = (f"{ratio:.3f}" for ratio in summary)
    return (name, f"{statistics.median(speeds[name]):.0f}", *shown, f"{loss:.2f}")


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tools.benchmark_training",
        description="Measure the training against a plain loop in nanoGPT's manner.",
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--steps", type=int, default=10, help="steps in a block")
    parser.add_argument("--blocks", type=int, default=20, help="blocks of each loop")
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="PyTorch's threads"
    )
    given = parser.parse_args()
    for name, value in vars(given).items():
        if value < 1:
            parser.error(f"--{name}: got {value}, want at least 1")
    torch.set_num_threads(given.threads)
    total = WARM_UP + given.steps * given.blocks
    loops = contestants(TrainingConfig(steps=total))
    count = sum(p.numel() for p in loops[REFERENCE].model.parameters())
    print(f"reference and ours, learned: {count:,} parameters each, the same logits")
    print(f"{given.blocks} blocks of {given.steps} steps; threads: {given.threads}\n")
    speeds = measure(loops, given.steps, given.blocks)
    losses = {name: (loop.losses or [math.nan])[-1] for name, loop in loops.items()}
    table([row(name, speeds, losses[name]) for name in loops], header=HEADER)


if __name__ == "__main__":
    main()
