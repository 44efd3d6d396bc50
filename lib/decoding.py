"""Positions and masks when a text is not simply read from its start, and a check for caches.

Padding and packing are one thing here. Every token of a row has the number of the
document it belongs to, and padding is a document that nobody reads: an attention mask
[0, 0, 1, 1, 1] is such a row already.

Shapes: B batch, T tokens.
"""

import textwrap
from collections import Counter
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
        [(number, times)] = Counter(row[starts_there].tolist()).most_common(1)
        if times > 1:
            raise ValueError(
                f"documents: got {number} again after another document, want the tokens "
                "of each document together, and a number of its own for a second padding"
            )
    return starts


# --- Stepwise equals full -------------------------------------------------------------


@dataclass(frozen=True)
class Split:
    """A text read in pieces, beside the same text read at once.

    pieces: their sizes. wrong: the positions whose outputs differ. error: the largest
    difference, as a share of the largest output (`stepwise` says of which).
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
    """What `stepwise` found: one `Split` for each way to cut the text, and the outputs' type."""

    splits: tuple[Split, ...]
    dtype: torch.dtype = torch.float32

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
        if self.dtype.itemsize < 4 and all(split.error < 0.05 for split in wrong):
            return (
                f"outputs are in {self.dtype}, which rounds so far by itself: check the "
                "model in float32"
            )
        if any(split.wrong[0] < split.pieces[0] for split in wrong):
            return (
                "the first piece alone is wrong: do outputs depend on later tokens, or "
                "on how many there are?"
            )
        by_one = [split for split in self.splits if split.by_one]
        if by_one and not any(split.wrong for split in by_one):
            return (
                "single tokens are right, longer pieces are not: no mask inside a piece, "
                "or one row of the table for all of it?"
            )
        # One token alone is hardly wrong: after it some mistakes show a token later.
        telling = [split for split in wrong if split.pieces[0] > 1] or wrong
        if all(split.wrong_at_once for split in telling):
            causes = (
                "wrong from the first token after the first piece: where does a piece "
                "begin, are the cached keys as they were, may it see all of them?"
            )
            return causes if by_one else causes + " Is there no mask inside it?"
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

    ids [B, T], integers, T at least 4; random ones are best, for with one token
    throughout no position could be told. splits: sizes of pieces, each of two or more,
    that add up to T; None is token by token, a prompt and then single tokens, and two
    longer pieces.
    tolerance: the largest difference that counts as equal, as a share of the largest
    output of its channel, or of a usual channel's if that is larger. A model in a half
    type is compared best after `model.float()`; larger tolerances overlook mistakes.
    The check compares the model with itself: a mistake that both ways make alike, such
    as a shift of all positions, is not seen. Before each split another text is read, so
    that nothing is found in a buffer that was not written. Raises TypeError or ValueError
    that names the argument, also for a model that reads one text in two ways; an error of
    the model's as ValueError that names the tokens.
    """
    _require_telling(ids)
    if as_number("tolerance", tolerance, above=0) >= 1:
        raise ValueError(f"tolerance: got {tolerance}, want less than 1")
    length = ids.shape[1]
    cuts = _usual_splits(length) if splits is None else _as_splits(splits, length)
    full, found = _outputs(read, ids, (length,)), []
    if full.isnan().any():
        raise ValueError("read: got nan among its outputs, want numbers")
    for cut in [(length,), *cuts]:
        _outputs(read, ids.roll(1, dims=1), (length,))
        pieces = _outputs(read, ids, cut)
        if pieces.shape != full.shape:
            raise ValueError(
                f"read: got outputs {list(pieces.shape)} in pieces of {_counted(cut)}, "
                f"want {list(full.shape)} as at once"
            )
        found.append(_compare(full, pieces, cut, tolerance))
    again, *splits_found = found
    if again.wrong:
        raise ValueError(
            "read: got two results for the same text, want one: is dropout on, or a state kept?"
        )
    return Stepwise(tuple(splits_found), full.dtype)


def _require_telling(ids: Tensor) -> None:
    require_tensor("ids", ids)
    if ids.is_floating_point() or ids.is_complex() or ids.dtype == torch.bool:
        raise TypeError(f"ids: got dtype {ids.dtype}, want integers")
    if ids.ndim != 2 or len(ids) == 0 or ids.shape[1] < 4:
        raise ValueError(f"ids: got shape {list(ids.shape)}, want [B, T], T at least 4")
    if (ids == ids[:, :1]).all(1).any():
        raise ValueError("ids: got one token throughout a row, want different ones")


def _usual_splits(length: int) -> list[tuple[int, ...]]:
    prompt = length // 2
    single = (1,) * length
    return [single, (prompt, *single[prompt:]), (prompt, length - prompt)]


def _as_splits(splits: Sequence[Sequence[int]], length: int) -> list[tuple[int, ...]]:
    nested = isinstance(splits, Sequence) and all(
        isinstance(split, Sequence) for split in splits
    )
    if not nested:
        raise TypeError(f"splits: got {splits!r}, want a list of lists of sizes")
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
    """What the model says of every token, [B, T, ...], read in these pieces."""
    state, start = None, 0
    found: list[Tensor] = []
    for piece in ids.split(cut, dim=1):
        end = start + piece.shape[1]
        which = f"token {start}" if end == start + 1 else f"tokens {start} to {end - 1}"
        where = f"{which}, in pieces of {_counted(cut)}"
        try:
            out, state = read(piece.clone(), state)
        except Exception as error:
            raise ValueError(
                f"read: got {type(error).__name__} ({error}) for {where}, want outputs and a state"
            ) from error
        if not isinstance(out, Tensor):
            raise TypeError(
                f"read: got {type(out).__name__} for {where}, want a torch.Tensor"
            )
        if out.is_complex():
            raise TypeError(f"read: got {out.dtype} for {where}, want real numbers")
        if out.shape[:2] != piece.shape or out.numel() == 0:
            raise ValueError(
                f"read: got outputs {list(out.shape)} for {where}, want {list(piece.shape)} and more"
            )
        if found and found[0].shape[2:] != out.shape[2:]:
            raise ValueError(
                f"read: got outputs {list(out.shape)} for {where}, want the last axes of "
                f"{list(found[0].shape)}, as before"
            )
        found.append(out.detach().clone())
        start = end
    return torch.cat(found, dim=1)


def _compare(
    full: Tensor, pieces: Tensor, cut: tuple[int, ...], tolerance: float
) -> Split:
    full, pieces = (x.double().flatten(2) for x in (full, pieces))
    if full.ndim == 2:  # one number for each token
        full, pieces = full[..., None], pieces[..., None]
    channel = full.abs().nan_to_num(0, posinf=0).amax((0, 1))
    usual = channel[channel > 0].median() if channel.any() else channel.new_ones(())
    size = channel.maximum(usual)
    missed = (pieces - full).abs() / size
    missed[pieces == full] = 0  # infinities too
    by_token = missed.amax((0, 2))
    wrong = (~(by_token <= tolerance)).nonzero().flatten()  # a nan is wrong too
    return Split(cut, tuple(wrong.tolist()), by_token.max().item())


def _told(split: Split) -> str:
    told = f"pieces {_counted(split.pieces):<10} "
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
