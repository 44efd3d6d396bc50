"""A small decoder-only transformer that takes its positions in one of three ways: a learned table, RoPE or none.

Shapes: B batch, T tokens, d width, h heads, d_head = d / h.
"""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn
from torch.nn import functional as F

from lib.absolute import LearnedPositions
from lib.rope import apply_rotary_emb, precompute_freqs_cis


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes of a decoder; `max_position` is the number of rows of the learned or of the rotation table."""

    position: Literal["learned", "rope", "none"]
    max_position: int
    V: int = 256  # bytes
    d: int = 128
    h: int = 4
    n_layers: int = 4


class Decoder(nn.Module):
    """Token ids [B, T] -> logits [B, T, V], pre-norm, initialised as GPT-2 (normal, 0.02; positions 0.01)."""

    def __init__(self, config: DecoderConfig):
        super().__init__()
        if config.position not in ("learned", "rope", "none"):
            raise ValueError(
                f"position: got {config.position!r}, want 'learned', 'rope' or 'none'"
            )
        self.tokens = nn.Embedding(config.V, config.d)
        if config.h < 1 or config.d % config.h:
            raise ValueError(f"d: got {config.d}, want a multiple of h = {config.h}")
        self.positions = freqs_cis = None
        if config.position == "learned":
            self.positions = LearnedPositions(config.max_position, config.d)
        if config.position == "rope":
            freqs_cis = precompute_freqs_cis(config.d // config.h, config.max_position)
        # A buffer moves with the model; the formula makes it again, so no checkpoint holds it.
        self.register_buffer("freqs_cis", freqs_cis, persistent=False)
        self.blocks = nn.ModuleList(Block(config) for _ in range(config.n_layers))
        self.norm = nn.LayerNorm(config.d)
        self.apply(_initialise)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)
        if self.positions is not None:
            x = self.positions(x)
        freqs_cis = None if self.freqs_cis is None else self.freqs_cis[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, freqs_cis)
        return F.linear(self.norm(x), self.tokens.weight)


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)); [B, T, d] -> [B, T, d]."""

    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.h = config.h
        self.attention_norm, self.mlp_norm = (
            nn.LayerNorm(config.d),
            nn.LayerNorm(config.d),
        )
        self.qkv, self.out = (
            nn.Linear(config.d, 3 * config.d),
            nn.Linear(config.d, config.d),
        )
        self.up, self.down = (
            nn.Linear(config.d, 4 * config.d),
            nn.Linear(4 * config.d, config.d),
        )

    def forward(self, x: Tensor, freqs_cis: Tensor | None) -> Tensor:
        q, k, v = (
            y.unflatten(-1, (self.h, -1))
            for y in self.qkv(self.attention_norm(x)).chunk(3, dim=-1)
        )
        if freqs_cis is not None:
            q, k = apply_rotary_emb(q, k, freqs_cis)
        heads_first = (y.transpose(1, 2) for y in (q, k, v))
        attended = F.scaled_dot_product_attention(*heads_first, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(-2))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


def _initialise(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
