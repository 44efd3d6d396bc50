"""Positions and masks when a text is not simply read from its start, and a check for caches.

Padding and packing are one thing here. Every token of a row has the number of the
document it belongs to, and padding is a document that nobody reads: an attention mask
[0, 0, 1, 1, 1] is such a row already.

Shapes: B batch, T tokens.
"""

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lib.checks import as_int, as_number, require_tensor

Reader = Callable[[Tensor, Any], tuple[Tensor, Any]]


# --- Several documents in a row -------------------------------------------------------


def positions_in_documents(documents: Tensor) -> Tensor:
    """Each token's position in its own document: int64 [B, T], from 0.

    documents [B, T]: any integers (or bools), one number for each document of a row,
    whose tokens stand together. Tokens of a padding get positions too, of no meaning,
    but ones that every table has. Raises TypeError or ValueError that names the
    argument, also for a document that goes on after another one.
    """
    starts = _starts(documents)
    index = torch.arange(documents.shape[1], device=documents.device)
    return index - (index * starts).cummax(dim=1).values


def attention_mask(documents: Tensor) -> Tensor:
    """Which key each query may see: bool [B, 1, T, T], True where it may.

    Its own document, up to itself; itself always, so that no row of the mask is empty,
    not even one of padding. For `scaled_dot_product_attention`. documents and errors as
    in `positions_in_documents`.
    """
    own = _starts(documents).cumsum(dim=1)
    return (own[:, None, :, None] == own[:, None, None, :]).tril()


def _starts(documents: Tensor) -> Tensor:
    """bool [B, T]: where a document begins."""
    require_tensor("documents", documents)
    if documents.is_floating_point() or documents.is_complex():
        raise TypeError(f"documents: got dtype {documents.dtype}, want integers")
    if documents.ndim != 2 or documents.shape[1] == 0:
        raise ValueError(
            f"documents: got shape {list(documents.shape)}, want [B, T] with a token"
        )
    starts = torch.ones_like(documents, dtype=torch.bool)
    starts[:, 1:] = documents[:, 1:] != documents[:, :-1]
    for row, starts_there in zip(documents, starts, strict=True):
        begun = row[starts_there].tolist()
        again = [number for number in begun if begun.count(number) > 1]
        if again:
            raise ValueError(
                f"documents: got {again[0]} again after another document, want the "
                "tokens of each document together"
            )
    return starts


# --- Stepwise equals full -------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """A text read in pieces, beside the same text read at once.

    pieces: their sizes. wrong: the positions whose outputs differ. error: the largest
    difference, as a share of the largest output.
    """

    pieces: tuple[int, ...]
    wrong: tuple[int, ...]
    error: float

    @property
    def by_one(self) -> bool:
        """Whether all tokens after the first piece were read one by one."""
        return max(self.pieces[1:]) == 1

    @property
    def wrong_at_once(self) -> bool:
        """Whether the first wrong output is that of the first token after the first piece."""
        return self.wrong[:1] == self.pieces[:1]


@dataclass(frozen=True)
class Stepwise:
    """What `stepwise` found: one `Split` for each way to cut the text."""

    splits: tuple[Split, ...]

    @property
    def equal(self) -> bool:
        return not any(split.wrong for split in self.splits)

    def __str__(self) -> str:
        lines = [_told(split) for split in self.splits]
        return "\n".join([*lines, *textwrap.wrap(self.suspicion, 80)])

    @property
    def suspicion(self) -> str:
        """Where to look: what mistakes with this pattern have in common."""
        wrong = [split for split in self.splits if split.wrong]
        if not wrong:
            return "equal, however the text is cut"
        if any(split.wrong[0] < split.pieces[0] for split in wrong):
            return (
                "the first piece alone is wrong: do outputs depend on later tokens, or "
                "on how many there are?"
            )
        right_by_one = any(split.by_one and not split.wrong for split in self.splits)
        if right_by_one and not any(split.by_one for split in wrong):
            return (
                "single tokens are right, longer pieces are not: one row of the table "
                "for all of a piece, or no mask inside it?"
            )
        if all(split.wrong_at_once for split in wrong):
            return (
                "wrong from the first token after the first piece: where does a piece "
                "begin, and are the cached keys as they were?"
            )
        return (
            "right at first, wrong later: does a cache or a table end, or do the angles "
            "change with the length?"
        )


def stepwise(
    read: Reader,
    ids: Tensor,
    splits: Sequence[Sequence[int]] | None = None,
    tolerance: float = 1e-4,
) -> Stepwise:
    """Whether a model that reads a text in pieces, with a cache, says what it says at once.

    read takes ids [B, n] and the state after the tokens before, None at the start, and
    returns outputs [B, n, ...] for these tokens (logits, say) and the new state. Of a
    model of transformers (before 5.24 it is past_key_values, twice):

        def read(ids, cache):
            out = model(ids, cache=cache, use_cache=True)
            return out.logits, out.cache

    and of `lib.decoder`: `lambda ids, cache: (model(ids, cache), cache)`, which begins
    with `model.new_cache(...)` where cache is None.

    ids [B, T], T at least 4. splits: sizes of pieces, each of two or more, that add up
    to T; None is token by token, a prompt and then single tokens, and two longer pieces.
    tolerance: the largest difference that counts as equal, as a share of the largest
    output; for a model in a half type take 0.05.
    The check compares the model with itself: a mistake that both ways make alike, such
    as a shift of all positions, is not seen. Raises TypeError or ValueError that names
    the argument; an error of the model's as ValueError that names the tokens.
    """
    require_tensor("ids", ids)
    if ids.ndim != 2 or ids.shape[1] < 4:
        raise ValueError(f"ids: got shape {list(ids.shape)}, want [B, T], T at least 4")
    as_number("tolerance", tolerance, above=0)
    length = ids.shape[1]
    cuts = _usual_splits(length) if splits is None else _as_splits(splits, length)
    full = _outputs(read, ids, (length,))
    return Stepwise(
        tuple(_compare(full, _outputs(read, ids, cut), cut, tolerance) for cut in cuts)
    )


def _usual_splits(length: int) -> list[tuple[int, ...]]:
    prompt = length // 2
    single = (1,) * length
    return [single, (prompt, *single[prompt:]), (prompt, length - prompt)]


def _as_splits(splits: Sequence[Sequence[int]], length: int) -> list[tuple[int, ...]]:
    cuts = [
        tuple(as_int("splits", piece, at_least=1) for piece in split)
        for split in splits
    ]
    for cut in cuts:
        if len(cut) < 2 or sum(cut) != length:
            raise ValueError(
                f"splits: got {list(cut)}, want two or more sizes that add up to T, {length}"
            )
    if not cuts:
        raise ValueError("splits: got none, want at least one")
    return cuts


@torch.no_grad()
def _outputs(read: Reader, ids: Tensor, cut: tuple[int, ...]) -> Tensor:
    """What the model says of every token, float64 [B, T, ...], read in these pieces."""
    state, found, start = None, [], 0
    for piece in ids.split(cut, dim=1):
        end = start + piece.shape[1]
        which = f"token {start}" if end == start + 1 else f"tokens {start} to {end - 1}"
        where = f"{which}, in pieces of {_counted(cut)}"
        try:
            out, state = read(piece, state)
        except Exception as error:
            raise ValueError(
                f"read: got {type(error).__name__} ({error}) for {where}, want outputs and a state"
            ) from error
        if not isinstance(out, Tensor):
            raise TypeError(
                f"read: got {type(out).__name__} for {where}, want a torch.Tensor"
            )
        if out.shape[:2] != piece.shape:
            raise ValueError(
                f"read: got outputs {list(out.shape)} for {where}, want {list(piece.shape)} and more"
            )
        found.append(out.detach().clone().double())
        start = end
    return torch.cat(found, dim=1)


def _compare(
    full: Tensor, pieces: Tensor, cut: tuple[int, ...], tolerance: float
) -> Split:
    size = full.abs().max().clamp(min=torch.finfo(full.dtype).tiny)
    missed = (pieces - full).abs() / size
    by_token = missed.transpose(0, 1).flatten(1).amax(1)
    wrong = (~(by_token <= tolerance)).nonzero().flatten()  # a nan is wrong too
    return Split(cut, tuple(wrong.tolist()), by_token.max().item())


def _told(split: Split) -> str:
    told = f"pieces {_counted(split.pieces):<11}"
    if not split.wrong:
        return told + "equal"
    return (
        f"{told}{len(split.wrong)} of {sum(split.pieces)} tokens wrong, the first at "
        f"{split.wrong[0]}, by up to {split.error:.2g} of the largest output"
    )


def _counted(cut: tuple[int, ...]) -> str:
    """Sizes of pieces, a run of equal ones as 6x1: (6, 1, 1) is 6, 2x1."""
    runs: list[list[int]] = []
    for piece in cut:
        if runs and runs[-1][1] == piece:
            runs[-1][0] += 1
        else:
            runs.append([1, piece])
    return ", ".join(
        f"{count}x{size}" if count > 1 else str(size) for count, size in runs
    )
