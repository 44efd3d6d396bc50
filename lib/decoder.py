"""A small decoder-only transformer that takes its positions in one of three ways: a learned table, RoPE or none.

Shapes: B batch, T tokens, V token ids, d width, h query heads, h_kv key and value heads,
d_head = d / h. Pre-norm, biases as in GPT-2, the output tied to the token table.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from lib.absolute import LearnedPositions
from lib.checks import as_int, require_tensor
from lib.rope import BASE, apply_rotary_emb, precompute_freqs_cis

Position = Literal["learned", "rope", "none"]
POSITIONS = get_args(Position)


@dataclass(frozen=True)
class DecoderConfig:
    """Sizes of a decoder.

    position: how it knows where a token stands. max_position: rows of the learned table
    or of the rotation table. h_kv: key and value heads, a divisor of h; None is h.
    base: of the rotation.
    """

    position: Position
    max_position: int
    V: int = 256  # bytes
    d: int = 128
    h: int = 4
    h_kv: int | None = None
    n_layers: int = 4
    base: float = BASE

    def __post_init__(self) -> None:
        if self.position not in POSITIONS:
            raise ValueError(
                f"position: got {self.position!r}, want 'learned', 'rope' or 'none'"
            )
        for name in ("max_position", "V", "d", "h", "n_layers"):
            as_int(name, getattr(self, name), at_least=1)
        if self.d % self.h:
            raise ValueError(f"d: got {self.d}, want a multiple of h = {self.h}")
        if self.h % as_int("h_kv", self.kv_heads, at_least=1):
            raise ValueError(f"h_kv: got {self.h_kv}, want a divisor of h = {self.h}")

    @property
    def d_head(self) -> int:
        return self.d // self.h

    @property
    def kv_heads(self) -> int:
        return self.h if self.h_kv is None else self.h_kv


class Decoder(nn.Module):
    """Token ids [B, T] -> logits [B, T, V].

    freqs_cis: the rotation table, complex64 [max_position, d_head/2] whatever the type of
    the weights, or None. Another of this shape may take its place.
    """

    freqs_cis: Tensor | None

    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(config.V, config.d)
        self.positions = None
        if config.position == "learned":
            self.positions = LearnedPositions(config.max_position, config.d)
        # A buffer moves with the model; the formula makes it again, so no checkpoint holds it.
        self.register_buffer("freqs_cis", _rotation_table(config), persistent=False)
        blocks = [Block(config) for _ in range(config.n_layers)]
        self.blocks = nn.ModuleList(blocks)
        self.norm = nn.LayerNorm(config.d)
        self.apply(_initialise)
        for block in blocks:  # what is added to the residual stream n times
            for added in (block.attention.out, block.mlp[-1]):
                weight = added.get_parameter("weight")
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * config.n_layers))

    def forward(self, ids: Tensor, cache: "Cache | None" = None) -> Tensor:
        """ids [B, T], int64 or int32 -> logits [B, T, V].

        With a cache the ids continue the text in it, at their true positions, and no
        gradient is recorded: the logits have none, and `backward` says so. Raises
        IndexError past the end of a learned table or of the cache, and ValueError past
        the end of the rotation table; TypeError, ValueError or IndexError for what are
        no ids, and for the cache of another model. (On a GPU an id outside 0 .. V - 1 is
        CUDA's error: to look for it would be to wait.)
        """
        _require_ids(ids)
        if cache is None:
            return self._logits(ids)
        if not isinstance(cache, Cache):
            raise TypeError(f"cache: got {type(cache).__name__}, want a Cache")
        start = cache.start_of(ids, self)
        with torch.no_grad():  # what is kept of earlier passes could not pass it on
            logits = self._logits(ids, start, cache)
        cache.length += ids.shape[1]
        return logits

    def _logits(
        self, ids: Tensor, start: int = 0, cache: "Cache | None" = None
    ) -> Tensor:
        x = self._vectors(ids)
        if self.positions is not None:
            x = self.positions(x, start)
        rows = None
        if self.freqs_cis is not None:
            rows = self.freqs_cis[start : start + ids.shape[1]]
        for n, block in enumerate(self.blocks):
            x = block(x, rows, cache and cache.layer(n))
        return F.linear(self.norm(x), self.tokens.weight)

    def _vectors(self, ids: Tensor) -> Tensor:
        """[B, T, d]: the tokens' own; the look-up itself notices an id that has none."""
        try:
            return self.tokens(ids)
        except IndexError as error:
            last = self.config.V - 1
            outside = ids[(ids < 0) | (ids > last)][0]
            raise IndexError(f"ids: got {outside}, want 0 to {last}") from error

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> "Decoder":
        """What `to` and `half` do to every tensor; the rotation table only moves.

        PyTorch casts a complex buffer with the weights, and a real type has no room for
        its sines.
        """
        table = self.freqs_cis

        def moved(tensor: Tensor) -> Tensor:
            if table is None or tensor is not table:
                return fn(tensor)
            device = fn(table.real).device
            no_numbers = table.is_meta and device.type != "meta"
            made = _rotation_table(self.config) if no_numbers else None
            return (table if made is None else made).to(device)

        return super()._apply(moved, recurse)

    @torch.no_grad()
    def attention_maps(self, ids: Tensor) -> Tensor:
        """ids [B, T] -> [n_layers, B, h, T, T]: each query's weights on the keys up to its own."""
        maps = []
        hooks = [
            module.register_forward_pre_hook(
                lambda attention, read: maps.append(attention.weights(*read[:2]))
            )
            for module in self.modules()
            if isinstance(module, Attention)
        ]
        try:
            self(ids)
        finally:
            for hook in hooks:
                hook.remove()
        return torch.stack(maps)

    def new_cache(self, batch: int, length: int) -> "Cache":
        """An empty cache for texts of up to `length` tokens."""
        return Cache(self.config, batch, length, like=self.tokens.weight)

    @torch.no_grad()
    def generate(
        self, ids: Tensor, count: int, generator: torch.Generator | None = None
    ) -> Tensor:
        """ids [B, T] and `count` more, drawn one by one from what the model predicts.

        Raises as `forward`, and ValueError when there is no token to begin with.
        """
        _require_ids(ids)
        if 0 in ids.shape:
            raise ValueError(
                f"ids: got shape {list(ids.shape)}, want [B, T] with a token or more"
            )
        count = as_int("count", count, at_least=0)
        cache = self.new_cache(len(ids), ids.shape[1] + count)
        logits = self(ids, cache)[:, -1]
        for _ in range(count):
            drawn = torch.multinomial(logits.softmax(-1), 1, generator=generator)
            ids = torch.cat((ids, drawn), dim=1)
            if ids.shape[1] < cache.size:
                logits = self(drawn, cache)[:, -1]
        return ids


class Block(nn.Module):
    """x + attention(norm(x)), then x + mlp(norm(x)); [B, T, d] -> [B, T, d]."""

    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.attention_norm = nn.LayerNorm(config.d)
        self.attention = Attention(config)
        self.mlp_norm = nn.LayerNorm(config.d)
        self.mlp = nn.Sequential(
            nn.Linear(config.d, 4 * config.d),
            nn.GELU(),
            nn.Linear(4 * config.d, config.d),
        )

    def forward(
        self, x: Tensor, freqs_cis: Tensor | None, cache: "CacheLayer | None"
    ) -> Tensor:
        x = x + self.attention(self.attention_norm(x), freqs_cis, cache)
        return x + self.mlp(self.mlp_norm(x))


class Attention(nn.Module):
    """Causal attention; queries and keys are turned if there is a table to turn them by."""

    def __init__(self, config: DecoderConfig):
        super().__init__()
        self.heads = (config.h, config.kv_heads, config.kv_heads)
        self.qkv = nn.Linear(config.d, sum(self.heads) * config.d_head)
        self.out = nn.Linear(config.d, config.d)

    def forward(
        self, x: Tensor, freqs_cis: Tensor | None, cache: "CacheLayer | None"
    ) -> Tensor:
        q, k, v = self.read(x, freqs_cis)
        if cache is not None:
            k, v = cache.append(k, v)  # k is turned already, each at its own position
        return self.out(self.attend(q, k, v).flatten(-2))

    def read(self, x: Tensor, freqs_cis: Tensor | None) -> list[Tensor]:
        """x [B, T, d] -> q [B, T, h, d_head], k and v [B, T, h_kv, d_head]."""
        joint = self.qkv(x).unflatten(-1, (sum(self.heads), -1))
        q, k, v = joint.split(self.heads, dim=2)
        if freqs_cis is not None:
            q, k = apply_rotary_emb(q, k, freqs_cis)
        return [q, k, v]

    def attend(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """q [B, T, h, d_head]; k, v [B, cached + T, h_kv, ...] -> [B, T, h, ...]."""
        q, k, v = (y.transpose(1, 2) for y in (q, k, v))
        attended = F.scaled_dot_product_attention(
            q,
            k,
            v,
            attn_mask=_sees_its_past(q, k),
            is_causal=q.shape[2] == k.shape[2],
            enable_gqa=self.heads[0] != self.heads[1],
        )
        return attended.transpose(1, 2)

    def weights(self, x: Tensor, freqs_cis: Tensor | None) -> Tensor:
        """[B, h, T, T]: how much of each token's value goes to each later token.

        Every token gets a value that is 1 in a dimension of its own, so what attention
        makes of these values is its weights.
        """
        q, k, _ = self.read(x, freqs_cis)
        tokens = torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
        own = tokens[None, :, None].expand(*k.shape[:3], -1)
        return self.attend(q, k, own).transpose(1, 2)


def _sees_its_past(q: Tensor, k: Tensor) -> Tensor | None:
    """[T, cached + T], True where a query may look; None where no mask is needed."""
    new, known = q.shape[2], k.shape[2]
    if new in (1, known):
        return None
    return torch.ones(new, known, dtype=torch.bool, device=q.device).tril(known - new)


def _require_ids(ids: Tensor) -> None:
    require_tensor("ids", ids)
    if ids.dtype not in (torch.int64, torch.int32):
        raise TypeError(f"ids: got dtype {ids.dtype}, want torch.int64 or torch.int32")
    if ids.ndim != 2:
        raise ValueError(f"ids: got shape {list(ids.shape)}, want [B, T]")


def _rotation_table(config: DecoderConfig) -> Tensor | None:
    """Complex64 [max_position, d_head/2], if the decoder turns its queries and keys."""
    if config.position != "rope":
        return None
    return precompute_freqs_cis(config.d_head, config.max_position, config.base)


def _initialise(module: nn.Module) -> None:
    """As GPT-2: weights normal with 0.02, biases 0 (its positions: 0.01, in their class)."""
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


# --- The cache ------------------------------------------------------------------------


class Cache:
    """Keys, turned at their own positions, and values of the tokens read so far.

    length: how many there are. size: how many there can be; one more is an IndexError.
    It is for reading: a pass that uses it records no gradient.
    """

    def __init__(self, config: DecoderConfig, batch: int, size: int, like: Tensor):
        self.batch = as_int("batch", batch, at_least=1)
        self.size, self.length = as_int("length", size, at_least=1), 0
        shape = (config.n_layers, 2, batch, size, config.kv_heads, config.d_head)
        self._kept, self._config = like.new_empty(shape), config

    def start_of(self, ids: Tensor, model: Decoder) -> int:
        """The position at which ids [B, T] begin when the model continues what is here."""
        weight = model.tokens.weight
        for mine, wanted in (
            (self._config, model.config),
            (self._kept.dtype, weight.dtype),
            (self._kept.device, weight.device),
        ):
            if mine != wanted:
                raise ValueError(f"cache: got one of {mine}, want one of {wanted}")
        batch, count = ids.shape
        if batch != self.batch:
            raise ValueError(
                f"ids: got a batch of {batch}, want the cache's {self.batch}"
            )
        if self.length + count > self.size:
            raise IndexError(
                f"position {self.length + count - 1} is outside the cache, which has "
                f"room for {self.size} tokens: 0 to {self.size - 1}"
            )
        return self.length

    def layer(self, n: int) -> "CacheLayer":
        return CacheLayer(self._kept[n, 0], self._kept[n, 1], self.length)


@dataclass
class CacheLayer:
    """One layer's keys and values [B, size, h_kv, d_head], of which `length` are filled."""

    keys: Tensor
    values: Tensor
    length: int

    def append(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """k, v [B, T, h_kv, d_head] written after what is there; all of it so far."""
        end = self.length + k.shape[1]
        self.keys[:, self.length : end] = k
        self.values[:, self.length : end] = v
        return self.keys[:, :end], self.values[:, :end]
