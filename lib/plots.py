"""The course's figures. Each function takes numbers (tensors, arrays or lists) and returns a `Picture`
whose text equivalent is made from the same numbers.

Colour never stands alone: signs differ in the size of a tile, curves in marker and dash, vectors in the shape
of their tip. Arithmetic is float64. No figure prints a rounding error, only a bound of it: the same numbers
give the same figure on every machine.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Arc, Circle, PathPatch, Rectangle
from matplotlib.path import Path
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator
from torch import Tensor

from lib.checks import as_int
from lib.picture import COLOURS, Picture, new_figure, place, write
from lib.rope import rotate_pair

Numbers = Tensor | np.ndarray | Sequence

INK, MUTED, GRID, SURFACE, PAPER = (
    COLOURS[name] for name in ("ink", "muted", "grid", "surface", "paper")
)
BLUE, ORANGE, GREEN, PINK = (
    COLOURS[name] for name in ("blue", "orange", "green", "pink")
)

MOST_PAIRS = 8  # a figure of more pairs shows this many, evenly spread
MOST_COLUMNS = 50
TURN = 2 * math.pi


# ---- Rotation ----


def angle_table(positions: Numbers, inv_freq: Numbers) -> Picture:
    """The table of angles m * theta_i: a strip of tiles for each pair, a tile for each position.

    positions [M], evenly spaced and rising, in tokens; inv_freq [n_pairs], in radians per token.
    Shows cos(angle), marks every completed turn, and writes the angle at the last position. Of more than 8
    pairs or 50 positions it shows that many, evenly spread; a fast pair turns unseen between two of them. It
    does not show the sine: an angle and its mirror image look the same.
    """
    positions, inv_freq = (
        _array("positions", positions, 1),
        _array("inv_freq", inv_freq, 1),
    )
    pairs = _spread(len(inv_freq), MOST_PAIRS)
    shown = positions[_spread(len(positions), MOST_COLUMNS)]
    ends = shown[-1] * inv_freq
    left, width, row = 74, 258, 38
    with new_figure(400, 94 + row * len(pairs)) as figure:
        write(figure, 2, 12, "pair", color=MUTED)
        write(figure, left, 12, "▾ one more full turn", color=MUTED)
        write(figure, 398, 12, f"at m = {say(shown[-1])}", color=MUTED, ha="right")
        for index, pair in enumerate(pairs):
            top = 30 + row * index
            strip = place(figure, left, top, width, 20)
            _tiles(strip, np.cos(shown * inv_freq[pair])[None])
            _turn_marks(strip, shown, TURN / inv_freq[pair])
            write(figure, 2, top + 7, f"pair {pair}")
            write(
                figure,
                2,
                top + 21,
                f"θ{_sub(pair)} = {say(inv_freq[pair], 2)}",
                color=MUTED,
            )
            write(figure, 398, top + 7, f"{say(ends[pair])} rad", ha="right")
            write(figure, 398, top + 21, _turns(ends[pair]), color=MUTED, ha="right")
        ticks = [
            tick
            for tick in MaxNLocator(6, integer=True).tick_values(*shown[[0, -1]])
            if tick <= shown[-1]
        ]
        strip.set_xticks(
            np.interp(ticks, shown, np.arange(len(shown)) + 0.5),
            [say(tick) for tick in ticks],
        )
        strip.set_xlabel("position m (tokens)", labelpad=2)
        _tile_key(figure, left, 30 + row * len(pairs) + 36, width, "cos(angle)")
    rows = "; ".join(
        f"pair {pair} (θ{_sub(pair)} = {say(inv_freq[pair])} rad per token) has turned by "
        f"{say(ends[pair])} rad, {_turns(ends[pair])}"
        for pair in pairs
    )
    return Picture(
        figure,
        f"Angles of {len(pairs)} pairs at positions {say(shown[0])} to {say(shown[-1])}, drawn "
        f"as their cosine{_sample(len(shown), len(positions))}. At position {say(shown[-1])} {rows}.",
    )


def _sample(shown: int, of: int) -> str:
    return "" if shown == of else f", {shown} of {say(of)} evenly spread"


def _turn_marks(strip: Axes, positions: np.ndarray, wavelength: float) -> None:
    """A small triangle above the tile where each full turn is complete, unless they would touch."""
    step = (positions[-1] - positions[0]) / max(1, len(positions) - 1) or 1
    first, last = (
        math.ceil(positions[0] / wavelength),
        math.floor(positions[-1] / wavelength),
    )
    marks = (
        np.arange(max(1, first), last + 1) * wavelength - positions[0]
    ) / step + 0.5
    if 0 < len(marks) <= len(positions) / 2:
        strip.plot(
            marks,
            np.full(len(marks), -0.2),
            "v",
            color=INK,
            ms=4.5,
            mew=0,
            clip_on=False,
        )


def rotated_pairs(
    pairs_q: Numbers, pairs_k: Numbers, position: float, inv_freq: Numbers
) -> Picture:
    """The pairs of one query and one key, before and after the rotation of one position.

    pairs_q, pairs_k [n_pairs, 2]; position in tokens; inv_freq [n_pairs], in radians per token.
    One panel for each pair (at most 8): dashed before, solid after; a round tip is q, a square tip is k; the
    circles are the norms that stay. The arcs are the angle less its full turns. Every panel has its
    own scale. It does not show scores.
    """
    before = np.stack([_array("pairs_q", pairs_q, 2), _array("pairs_k", pairs_k, 2)])
    angles = float(position) * _array("inv_freq", inv_freq, 1)
    if before.shape[1:] != (len(angles), 2):
        raise ValueError(
            f"pairs_q: got shape {list(before.shape[1:])}, want [{len(angles)}, 2]"
        )
    after = np.stack([_rotate(pairs, angles) for pairs in before])
    lengths = np.linalg.norm(before, axis=-1)
    pairs = _spread(len(angles), MOST_PAIRS)
    size, column, row = 176, 206, 222
    with new_figure(400, 32 + row * math.ceil(len(pairs) / 2)) as figure:
        _vector_legend(figure)
        for index, pair in enumerate(pairs):
            left, top = 10 + column * (index % 2), 72 + row * (index // 2)
            write(figure, left, top - 24, f"pair {pair}", weight="bold")
            write(figure, left, top - 9, _angle(angles[pair]), color=MUTED)
            sizes = (
                f"|q| = {say(lengths[0, pair], 2)}, |k| = {say(lengths[1, pair], 2)}"
            )
            write(figure, left + size, top - 24, sizes, color=MUTED, ha="right")
            axes = place(figure, left, top, size, size)
            _cross(axes, 1.12 * lengths[:, pair].max())
            for which in (0, 1):
                _turned_vector(
                    axes, before[which, pair], after[which, pair], angles[pair], which
                )
    rows = "; ".join(
        f"pair {pair} turns by {_angle(angles[pair])}, "
        + " and ".join(
            f"{name} from {_point(before[which, pair])} to {_point(after[which, pair])}, "
            f"norm {say(lengths[which, pair])} both times"
            for which, name in enumerate("qk")
        )
        for pair in pairs
    )
    return Picture(
        figure,
        f"Pairs of a query q and a key k before and after rotation at position {say(position)}. "
        f"{_capital(rows)}.",
    )


VECTOR_LOOKS = (("q", BLUE, "o"), ("k", ORANGE, "s"))


def _turned_vector(
    axes: Axes, before: np.ndarray, after: np.ndarray, angle: float, which: int
) -> None:
    """A vector before (dashed, hollow tip) and after (solid), its circle, and the arc between the two."""
    name, colour, tip = VECTOR_LOOKS[which]
    length, start = np.hypot(*before), math.degrees(math.atan2(before[1], before[0]))
    axes.add_patch(Circle((0, 0), length, fill=False, ec=GRID, lw=1))
    axes.plot([0, before[0]], [0, before[1]], color=colour, lw=1.25, dashes=(3, 2))
    axes.plot([0, after[0]], [0, after[1]], color=colour, lw=2, label=f"{name}-after")
    axes.plot(*before, tip, mfc=PAPER, mec=colour, mew=1.25, ms=6)
    axes.plot(*after, tip, color=colour, ms=7, mew=0)
    turned = math.degrees(math.remainder(angle, TURN)) % 360
    if angle < 0:
        turned -= 360
    ends = sorted((start, start + turned))
    diameter = length * (0.62 if which == 0 else 0.44)
    axes.add_patch(
        Arc((0, 0), diameter, diameter, theta1=ends[0], theta2=ends[1], ec=colour, lw=1)
    )


def _cross(axes: Axes, limit: float) -> None:
    """Two thin axes through zero; the scale is told by the norms over the panel."""
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit))
    axes.set_axis_off()
    for xs, ys in (([-limit, limit], [0, 0]), ([0, 0], [-limit, limit])):
        axes.plot(xs, ys, color=GRID, lw=0.75)
    axes.text(limit, -0.04 * limit, "x", color=MUTED, va="top", ha="right")
    axes.text(-0.04 * limit, limit, "y", color=MUTED, va="top", ha="right")


def _vector_legend(figure: Figure) -> None:
    axes = place(figure, 0, 0, 400, 24, xlim=(0, 400), ylim=(24, 0))
    axes.set_axis_off()
    for which, (name, colour, tip) in enumerate(VECTOR_LOOKS):
        left = 10 + 206 * which
        axes.plot([left, left + 24], [11, 11], color=colour, lw=1.25, dashes=(3, 2))
        axes.plot(left + 24, 11, tip, mfc=PAPER, mec=colour, mew=1.25, ms=6)
        axes.text(left + 33, 15, f"{name} before")
        axes.plot([left + 98, left + 122], [11, 11], color=colour, lw=2)
        axes.plot(left + 122, 11, tip, color=colour, ms=7, mew=0)
        axes.text(left + 131, 15, f"{name} after")


def dot_product_vs_offset(
    offsets: Numbers,
    scores_by_pair: Numbers,
    whole_head: Numbers,
    offset_label: str = "offset m − n (tokens)",
) -> Picture:
    """The score of a fixed query and key against their offset: each pair's part, and their sum.

    offsets [N], rising, in tokens; scores_by_pair [n_pairs, N]; whole_head [N]; `offset_label` names the sign
    convention on the shared axis. The pairs (at most 8) share one scale, the whole head has its own. Scores
    are before the division by √d_head and before softmax: it does not show attention weights.
    """
    offsets, whole = _array("offsets", offsets, 1), _array("whole_head", whole_head, 1)
    parts = _array("scores_by_pair", scores_by_pair, 2)
    if parts.shape[1] != len(offsets) or len(whole) != len(offsets):
        raise ValueError(
            f"scores: got {parts.shape[1]} (pairs) and {len(whole)} (head), want {len(offsets)} offsets"
        )
    pairs = _spread(len(parts), MOST_PAIRS)
    curves = [(f"pair {pair}", parts[pair]) for pair in pairs] + [("whole head", whole)]
    scale = np.abs(parts[pairs]).max()
    left, width, height, row = 36, 352, 42, 68
    with new_figure(400, 80 + row * len(curves)) as figure:
        write(figure, 2, 12, "score q′·k′ (no unit)", color=MUTED)
        for index, (name, scores) in enumerate(curves):
            top, is_whole = 44 + row * index, index == len(pairs)
            axes = place(figure, left, top, width, height + 26 * is_whole)
            _score_curve(
                axes,
                offsets,
                scores,
                np.abs(whole).max() if is_whole else scale,
                is_whole,
            )
            write(figure, left, top - 7, name + ": the sum" * is_whole, weight="bold")
            write(
                figure,
                left + width,
                top - 7,
                _at_zero(offsets, scores),
                color=MUTED,
                ha="right",
            )
        axes.tick_params(labelbottom=True)
        axes.set_xlabel(offset_label, labelpad=2)
    rows = "; ".join(
        f"{name} from {say(scores.min())} to {say(scores.max())}"
        + _at_zero(offsets, scores, before=", ")
        for name, scores in curves
    )
    return Picture(
        figure,
        f"Score of one query and one key against the {offset_label}, from {say(offsets[0])} to "
        f"{say(offsets[-1])}. Ranges: {rows}. The whole head scores {say(whole[0])} at offset "
        f"{say(offsets[0])} and {say(whole[-1])} at offset {say(offsets[-1])}.",
    )


def _score_curve(
    axes: Axes, offsets: np.ndarray, scores: np.ndarray, scale: float, is_whole: bool
) -> None:
    colour = ORANGE if is_whole else BLUE
    axes.set(xlim=(offsets[0], offsets[-1]), ylim=(-1.1 * scale, 1.1 * scale))
    axes.axhline(0, color=GRID, lw=0.75)
    axes.axvline(0, color=MUTED, lw=0.75, dashes=(2, 2))
    axes.plot(
        offsets, scores, color=colour, lw=2.25 if is_whole else 1.5, label="scores"
    )
    zero = offsets == 0
    axes.plot(offsets[zero], scores[zero], "o", color=colour, ms=5.5, mew=0)
    axes.yaxis.set_major_locator(MaxNLocator(2, symmetric=True))
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(FuncFormatter(lambda value, _: say(value)))
    axes.tick_params(labelbottom=False)


def _at_zero(offsets: np.ndarray, scores: np.ndarray, before: str = "") -> str:
    return "".join(
        f"{before}{say(score)} at offset 0" for score in scores[offsets == 0][:1]
    )


def norms(before: Numbers, after: Numbers) -> Picture:
    """The norm of many vectors before and after rotation: a rotation leaves every dot on the diagonal.

    before, after [..., d_head]: the vectors themselves. At most 120 dots are drawn; the bound in the text is
    that of all vectors. It does not show directions, which do change.
    """
    first, second = (
        np.linalg.norm(_array(name, vectors), axis=-1).ravel()
        for name, vectors in (("before", before), ("after", after))
    )
    if len(first) != len(second):
        raise ValueError(
            f"after: got {len(second)} vectors, want {len(first)}, as many as before"
        )
    dots = _spread(len(first), 120)
    low, high = (
        math.floor(min(first.min(), second.min())),
        math.ceil(max(first.max(), second.max())),
    )
    with new_figure(300, 280) as figure:
        axes = place(figure, 34, 24, 220, 220, xlim=(low, high), ylim=(low, high))
        axes.plot([low, high], [low, high], color=MUTED, lw=1, dashes=(3, 2))
        axes.plot(
            first[dots],
            second[dots],
            "o",
            mfc="none",
            mec=BLUE,
            mew=1.25,
            ms=5.5,
            label="dots",
        )
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_locator(MaxNLocator(5, integer=True))
        axes.set_xlabel("norm before rotation (no unit)", labelpad=2)
        write(figure, 2, 12, "norm after rotation (no unit)", color=MUTED)
        axes.text(high, high, " after =\n before", color=MUTED, va="center")
    return Picture(
        figure,
        f"Norms of {len(first)} vectors before and after rotation. They run from {say(first.min())} to "
        f"{say(first.max())}; before and after differ by {_bound(np.abs(second - first).max())}.",
    )


def wavelengths(inv_freq: Numbers, length: float) -> Picture:
    """The wavelength 2π/theta_i of every pair, on a log axis, against a context length.

    inv_freq [n_pairs], in radians per token; length in tokens. A filled dot completes a turn within the
    length, a hollow one does not. It does not show how much a model uses each pair.
    """
    inv_freq = _array("inv_freq", inv_freq, 1)
    waves = TURN / inv_freq
    full = waves <= length
    pairs = np.arange(len(waves))
    few = len(waves) <= MOST_PAIRS
    row, dot = (24, 7) if few else (5, 4)
    height = row * (len(waves) + 1)
    low, high = (
        10 ** math.floor(math.log10(min(*waves, length))),
        1.6 * max(*waves, length),
    )
    with new_figure(400, height + 62) as figure:
        axes = place(
            figure,
            36,
            26,
            300,
            height,
            xscale="log",
            xlim=(low, high),
            ylim=(len(waves), -1),
        )
        axes.axvline(length, color=ORANGE, lw=1.5, dashes=(4, 2))
        axes.hlines(pairs, low, waves, color=GRID, lw=1)
        axes.plot(
            waves[full], pairs[full], "o", color=BLUE, ms=dot, mew=0, label="full"
        )
        axes.plot(
            waves[~full],
            pairs[~full],
            "o",
            mfc=PAPER,
            mec=BLUE,
            mew=1.25,
            ms=dot - 1,
            label="partial",
        )
        for pair in pairs.tolist() if few else ():
            write(figure, 398, 26 + row * (pair + 1) + 4, say(waves[pair]), ha="right")
        if few:
            write(figure, 398, 14, "tokens", color=MUTED, ha="right")
        above: dict[str, Any] = {
            "transform": axes.get_xaxis_transform(),
            "ha": "center",
            "va": "bottom",
        }
        axes.text(
            length, 1 + 4 / height, f"length {say(length)}", color=ORANGE, **above
        )
        axes.yaxis.set_major_locator(MaxNLocator(8, integer=True))
        axes.set_ylim(len(waves), -1)
        axes.set_yticks([tick for tick in axes.get_yticks() if 0 <= tick < len(waves)])
        _powers_of_ten(axes)
        axes.set_xlabel("wavelength 2π/θᵢ (tokens)", labelpad=2)
        write(figure, 2, 14, "pair i", color=MUTED)
    some = _spread(len(waves), MOST_PAIRS)
    rows = ", ".join(f"pair {pair} {say(waves[pair])}" for pair in some)
    return Picture(
        figure,
        f"Wavelengths of {len(waves)} pairs in tokens: {rows}. Within {say(length)} tokens {full.sum()} of "
        f"{len(waves)} pairs complete a turn.",
    )


# ---- Tables ----


def broadcast_add(tokens: Numbers, positions: Numbers) -> Picture:
    """x = E[id] + P[t] as strips of tiles: every sequence of the batch gets the same rows of P.

    tokens [B, T, d], the token vectors; positions [T, d], the position vectors. Shows the first 2 sequences,
    8 tokens and 16 dimensions; the shapes written are the whole ones. It does not show how E is looked up.
    """
    tokens, positions = _array("tokens", tokens, 3), _array("positions", positions, 2)
    if tokens.shape[1:] != positions.shape:
        raise ValueError(
            f"positions: got shape {list(positions.shape)}, want {list(tokens.shape[1:])}"
        )
    total = tokens + positions
    shown = [
        values[..., :8, :16]
        for values in (tokens[:2], np.stack([positions] * 2), total[:2])
    ]
    scale = _round_up(max(np.abs(values).max() for values in shown))
    batch, rows, columns = shown[0].shape
    left, width, height = 76, 152, 11 * rows
    whole, part = list(tokens.shape), list(positions.shape)
    rows_of = (
        ("E[id]", whole, ("b = 0", "b = 1")),
        ("+ P[t]", part, ("", "the same rows again")),
        ("= x", whole, ("", "")),
    )
    with new_figure(400, 72 + 3 * (height + 22)) as figure:
        for index, ((name, shape, captions), values) in enumerate(
            zip(rows_of, shown, strict=True)
        ):
            top = 20 + index * (height + 22)
            write(figure, 2, top + height / 2 - 3, name, weight="bold")
            write(figure, 2, top + height / 2 + 12, str(shape), color=MUTED)
            for which in range(batch):
                x = left + which * (width + 14)
                strip = place(figure, x, top, width, height)
                _tiles(strip, values[which] / scale)
                write(figure, x, top - 6, captions[which], color=MUTED)
                if which == 0:
                    strip.set_yticks(
                        np.array([0, rows - 1]) + 0.5, ["t = 0", f"{rows - 1}"]
                    )
        bottom = 3 * (height + 22)
        write(
            figure,
            left,
            bottom + 14,
            f"dimensions 0 to {columns - 1} of {whole[2]}",
            color=MUTED,
        )
        _tile_key(figure, left, bottom + 38, 2 * width + 14, "value (no unit)", scale)
    row = round(positions[-1, 0], 3)
    firsts = [
        round(value, 3) for value in tokens[:, -1, 0]
    ]  # before adding: sums must add up
    first = "; ".join(
        f"sequence {which}: {say(value)} + ({say(row)}) = {say(round(value + row, 3))}"
        for which, value in enumerate(firsts)
    )
    return Picture(
        figure,
        f"Token vectors {whole} plus position vectors {part} give x {whole}. Every sequence gets the same "
        f"position rows. At token {part[0] - 1}, dimension 0, {first}.",
    )


def table_rows(trained: Numbers, untrained: Numbers, far: int = 32) -> Picture:
    """Are the rows of a position table alike? The cosine between rows, for two tables.

    trained, untrained [rows, d], with more than `far` rows each. Shows at most 12 evenly spread rows a side;
    the means in the text are over all rows t and t + 1, and all rows t and t + `far`. It does not show
    what a model does with the rows.
    """
    tables = _position_tables(trained=trained, untrained=untrained)
    as_int("far", far, at_least=1)
    facts = []
    with new_figure(400, 268) as figure:
        for index, (name, table) in enumerate(tables.items()):
            if len(table) <= far:
                raise ValueError(
                    f"{name}: got {len(table)} rows, want more than far = {far}"
                )
            for row in np.flatnonzero(~table.any(axis=1)):
                raise ValueError(f"{name}: got zeros in row {row}, want a direction")
            rows = _spread(len(table), 12)
            left = 28 + 196 * index
            axes = place(figure, left, 22, 172, 172)
            cosines = _cosines(table)
            _tiles(axes, cosines[np.ix_(rows, rows)])
            marks = _spread(len(rows), 4)
            axes.set_xticks(marks + 0.5, rows[marks])
            axes.set_yticks(marks + 0.5, rows[marks])
            axes.set_xlabel("row t of P", labelpad=2)
            write(figure, left, 13, name, weight="bold")
            near_mean, far_mean = (
                np.diagonal(cosines, step).mean() for step in (1, far)
            )
            facts.append(
                f"{_capital(name)} ({len(table)} rows, {len(rows)} of them drawn): "
                f"mean cosine of rows t and t + 1 {near_mean:.2f}, "
                f"of rows t and t + {far} {far_mean:.2f}".replace("-", "−")
            )
        _tile_key(figure, 28, 240, 368, "cosine of two rows")
    return Picture(
        figure, f"Cosine between the rows of two position tables. {'. '.join(facts)}."
    )


def table_values(trained: Numbers, untrained: Numbers) -> Picture:
    """Two position tables as they are: positions downwards, dimensions across.

    trained, untrained [rows, d]. Shows at most 32 evenly spread rows and the first 24 dimensions, both tables on
    one scale, the largest absolute value drawn.
    """
    tables = _position_tables(trained=trained, untrained=untrained)
    for name, table in tables.items():
        if table.min() == table.max():
            raise ValueError(f"{name}: got one value throughout, want several")
    rows = {name: _spread(len(table), 32) for name, table in tables.items()}
    shown = {name: table[rows[name], :24] for name, table in tables.items()}
    scale = _round_up(max(np.abs(values).max() for values in shown.values()))
    with new_figure(400, 304) as figure:
        for index, (name, values) in enumerate(shown.items()):
            left = 28 + 196 * index
            axes = place(figure, left, 22, 172, 210)
            _tiles(axes, values / scale)
            marks = _spread(len(values), 5)
            axes.set_yticks(marks + 0.5, rows[name][marks])
            axes.set_xlabel(f"{values.shape[1]} of {tables[name].shape[1]} dimensions")
            write(figure, left, 13, name, weight="bold")
        _tile_key(figure, 28, 276, 368, "value", scale)
    spreads = ", ".join(f"{name} {say(table.std())}" for name, table in tables.items())
    return Picture(
        figure,
        f"Two position tables, positions downwards. Standard deviation of all values: {spreads}. Down a "
        f"column, neighbouring rows of the trained table differ by {say(_mean_step(tables['trained']))} of that "
        f"on average, those of the untrained one by {say(_mean_step(tables['untrained']))}.",
    )


def _position_tables(**tables: Numbers) -> dict[str, np.ndarray]:
    """Each [rows, d], by its argument's name; with neighbours to compare, and finite."""
    arrays = {name: _array(name, table, 2) for name, table in tables.items()}
    for name, array in arrays.items():
        if len(array) < 2 or array.shape[1] < 1:
            raise ValueError(
                f"{name}: got shape {list(array.shape)}, want two rows or more of some numbers"
            )
        for value in array[~np.isfinite(array)]:
            raise ValueError(f"{name}: got {value}, want finite numbers")
    return arrays


def _mean_step(table: np.ndarray) -> float:
    """How far neighbouring rows are apart, as a share of the table's spread."""
    return np.abs(np.diff(table, axis=0)).mean() / table.std()


def _cosines(table: np.ndarray) -> np.ndarray:
    unit = table / np.linalg.norm(table, axis=1, keepdims=True)
    return unit @ unit.T


def perplexity_by_position(
    edges: Numbers,
    perplexity: Mapping[str, Numbers],
    trained_length: int,
    table_rows: int | None = None,
    yours: Mapping[str, Numbers] | None = None,
    title: str = "",
    limits: tuple[float, float] | None = None,
) -> Picture:
    """Byte perplexity by position for several models, on log axes.

    edges [n + 1], rising: bin j holds the positions edges[j] .. edges[j + 1] - 1. perplexity: for each
    model's label [n], or [seeds, n], whose mean is the curve and whose range the band around it; NaN where it
    cannot run, which ends the curve in a cross. `trained_length` ends the shaded range, `table_rows` marks
    the end of the learned table. yours: [n] of one more run for some labels, drawn as points with a dark edge.
    At most 4 models; markers stand at powers of two, and so do the numbers in the text.
    Raises ValueError, by the argument's name or the model's label, for what is none of this.
    """
    edges = _as_edges(edges)
    if not 1 <= len(perplexity) <= len(CURVE_LOOKS):
        raise ValueError(
            f"perplexity: got {len(perplexity)} models, want 1 to {len(CURVE_LOOKS)}"
        )
    as_int("trained_length", trained_length, at_least=1)
    if table_rows is not None:
        as_int("table_rows", table_rows, at_least=1)
    curves = {label: _by_seed(label, values) for label, values in perplexity.items()}
    points = {
        label: _array(label, values, 1) for label, values in (yours or {}).items()
    }
    for label, values in [*curves.items(), *points.items()]:
        _require_perplexities(label, values, len(edges) - 1)
    for label in points.keys() - curves.keys():
        raise ValueError(f"yours: got {label!r}, want one of {list(curves)}")
    legend_rows = math.ceil(len(curves) / 2)
    top = 44 + 18 * legend_rows + 18 * bool(title)
    with new_figure(400, top + 260) as figure:
        if title:
            write(figure, 2, 12, title, weight="bold")
        write(
            figure,
            2,
            12 + 18 * bool(title),
            "byte perplexity (1 is perfect)",
            color=MUTED,
        )
        axes = perplexity_axes(figure, top, edges, trained_length, table_rows)
        for (label, values), look in zip(curves.items(), CURVE_LOOKS, strict=False):
            draw_perplexity(axes, edges, values, label, *look)
            if label in points:
                axes.plot(
                    bin_centres(edges),
                    points[label],
                    color=look[0],
                    ls="",
                    marker=look[1],
                    ms=8,
                    mec=INK,
                    mew=1.25,
                    label=f"your {label}",
                )
        low, high = axes.get_ylim()
        axes.set_ylim(limits or (low / 1.1, high * 1.1))
        _one_two_five(axes)
        handles = [line for line in axes.lines if line.get_label() in curves]
        axes.legend(
            handles=handles,
            loc="lower left",
            bbox_to_anchor=(0, 20 / 226 + 1),
            ncols=2,
            frameon=False,
            borderaxespad=0,
            borderpad=0,
            handlelength=2.4,
            columnspacing=2,
            labelspacing=0.5,
        )
    rows = [
        f"{_capital(label)}: {_by_bin(values, edges)}"
        for label, values in curves.items()
    ]
    rows += [
        f"Your {label}: {_by_bin(values[None], edges)}"
        for label, values in points.items()
    ]
    seeds = max((len(values) for values in curves.values()), default=1)
    spread = f" Means of {seeds} seeds, in brackets their range." if seeds > 1 else ""
    table = f" The learned table has {say(table_rows)} rows." if table_rows else ""
    return Picture(
        figure,
        f"{title + ': byte' if title else 'Byte'} perplexity by position. Trained on the first "
        f"{say(trained_length)} positions.{table}{spread} {'. '.join(rows)}.",
    )


def _as_edges(edges: Numbers) -> np.ndarray:
    """[n + 1], as positions that rise."""
    edges = _array("edges", edges, 1)
    if len(edges) < 2 or not (edges[0] >= 0 and (np.diff(edges) > 0).all()):
        raise ValueError(
            f"edges: got {edges.tolist()}, want two or more positions that rise from 0 or more"
        )
    return edges


def _require_perplexities(label: str, values: np.ndarray, bins: int) -> None:
    """values [..., bins], above 0 as far as the model can run, and NaN from there on."""
    if values.shape[-1] != bins:
        raise ValueError(
            f"{label}: got {values.shape[-1]} values, want {bins}, one a bin"
        )
    if not values.size:
        raise ValueError(f"{label}: got shape {list(values.shape)}, want a seed")
    missing = np.isnan(values)
    if missing[..., 0].any():
        raise ValueError(f"{label}: got nan in its first bin, want a perplexity")
    if (missing[..., :-1] & ~missing[..., 1:]).any():
        raise ValueError(f"{label}: got a number after nan, want nan to the end")
    for value in values[values <= 0]:
        raise ValueError(f"{label}: got {value}, want perplexities above 0")


def perplexity_axes(
    figure: Figure,
    top: float,
    edges: np.ndarray,
    trained_length: int,
    table_rows: int | None = None,
) -> Axes:
    """Log axes of perplexity against position, with the trained range shaded and the table's end marked."""
    low = max(edges[0], 1)
    axes = place(figure, 36, top, 350, 226, xscale="log", yscale="log")
    axes.set_xlim(low, 1.06 * max(edges[-1], table_rows or 0))
    axes.axvspan(low, trained_length, color=SURFACE, lw=0)
    axes.axvline(trained_length, color=MUTED, lw=0.75)
    marks = [(trained_length, "trained here ")]
    if table_rows:
        axes.axvline(table_rows, color=MUTED, lw=1.25, dashes=(4, 2))
        marks.append((table_rows, f"table ends: {say(table_rows)} rows"))
    for x, text in marks:
        over_axes = axes.get_xaxis_transform()
        axes.text(x, 1.02, text, color=MUTED, ha="right", transform=over_axes)
    _powers_of_two(axes)
    axes.set_xlabel("position in the text (bytes)", labelpad=2)
    return axes


def draw_perplexity(
    axes: Axes,
    edges: np.ndarray,
    by_seed: np.ndarray,
    label: str,
    colour: str,
    tip: str,
    dashes: tuple,
) -> None:
    """The mean of the seeds [seeds, n] as a curve, their range as a band, and a cross where it cannot go on."""
    centres, mean = bin_centres(edges), by_seed.mean(0)
    shown = np.flatnonzero(_at_powers_of_two(edges))
    axes.plot(
        centres,
        mean,
        color=colour,
        marker=tip,
        markevery=shown.tolist(),
        dashes=dashes,
        ms=6,
        mew=0,
        label=label,
    )
    if len(by_seed) > 1:
        band = (by_seed.min(0), by_seed.max(0))
        axes.fill_between(centres, *band, color=colour, alpha=0.2, lw=0)
    if np.isnan(mean).any():
        end = np.isnan(mean).argmax()
        place = centres[end - 1], mean[end - 1]
        axes.plot([place[0], edges[end]], [place[1]] * 2, color=colour, dashes=dashes)
        axes.plot(edges[end], place[1], "X", color=colour, ms=11, mec=PAPER, mew=1)


def _by_seed(label: str, values: Numbers) -> np.ndarray:
    """[seeds, n], of one seed if it is none."""
    array = np.atleast_2d(_array(label, values))
    return _array(label, array, 2)


def bin_centres(edges: np.ndarray) -> np.ndarray:
    """The middle of each bin on a log axis."""
    return np.sqrt(np.maximum(edges[:-1], 1) * edges[1:])


def _at_powers_of_two(edges: np.ndarray) -> np.ndarray:
    """Which bins start at a power of two; all of few bins, for there is room."""
    if len(edges) < 12:
        return np.ones(len(edges) - 1, dtype=bool)
    return np.log2(np.maximum(edges[:-1], 1)) % 1 == 0


def _by_bin(by_seed: np.ndarray, edges: np.ndarray) -> str:
    """The means, with their range where there are several, as far as the model can run."""
    told = []
    bins = zip(by_seed.T, pairwise(edges), _at_powers_of_two(edges), strict=True)
    for values, (start, end), shown in bins:
        if np.isnan(values).any():
            told.append(f"cannot run from {say(start)} on")
            break
        if shown:
            text = say(values.mean())
            if len(values) > 1:
                text += f" ({say(values.min())} to {say(values.max())})"
            where = say(start) if end == start + 1 else f"{say(start)}–{say(end - 1)}"
            told.append(f"{text} at {where}")
    return ", ".join(told)


CURVE_LOOKS = (
    (BLUE, "o", (1, 0)),
    (ORANGE, "s", (5, 2)),
    (GREEN, "^", (2, 1.5)),
    (PINK, "D", (6, 2, 1.5, 2)),
)


# ---- Diagrams ----


def two_panel_diagram(position: int, max_position: int, angles: Numbers) -> Picture:
    """Both diagrams side by side: `diagram_absolute` and `diagram_rotary`."""
    return diagram_absolute(position, max_position) + diagram_rotary(position, angles)


def diagram_absolute(position: int, max_position: int) -> Picture:
    """A learned table: token id selects a row of E, position selects a row of P, if there is one.

    position, max_position: whole numbers. Of more than 10 rows the table is drawn with a gap. A diagram: it
    shows the way of the data, no values.
    """
    exists = 0 <= position < max_position
    rows = _rows_to_draw(position, max_position)
    with new_figure(310, 408) as figure:
        axes = _canvas(figure, 310, 408)
        axes.text(0, 13, "A · Learned position table", weight="bold")
        _box(axes, 10, 30, 120, 26, "token id")
        _box(axes, 170, 30, 120, 26, f"position p = {position}")
        axes.text(10, 84, "E [V, d]", color=MUTED)
        axes.text(186, 84, f"P [{max_position}, d]", color=MUTED)
        for index in range(10):
            _row(axes, 10, 92 + 16 * index, 84, BLUE if index == 4 else None)
        axes.text(
            52, 92 + 16 * 4 + 12, "E[id]", color=PAPER, ha="center", weight="bold"
        )
        for index, row in enumerate(rows):
            y = 92 + 16 * index
            if row is None:
                axes.text(228, y + 11, "⋮", color=MUTED, ha="center")
                continue
            _row(axes, 186, y, 84, BLUE if row == position else None)
            axes.text(180, y + 12, str(row), color=MUTED, ha="right")
        row_y = (
            92
            + 16 * (rows.index(position) if exists else len(rows))
            + (8 if exists else 16)
        )
        _arrow(axes, [(112, 56), (112, 164), (96, 164)])
        _arrow(
            axes,
            [(287, 56), (287, row_y), (272, row_y)],
            colour=BLUE if exists else ORANGE,
        )
        if exists:
            axes.text(
                228,
                row_y + 4,
                f"P[{position}]",
                color=PAPER,
                ha="center",
                weight="bold",
            )
        else:
            axes.add_patch(
                Rectangle(
                    (186, row_y - 8),
                    84,
                    16,
                    fill=False,
                    ec=ORANGE,
                    lw=1.25,
                    ls=(0, (3, 2)),
                )
            )
            axes.text(228, row_y + 4, f"no row {position}", color=ORANGE, ha="center")
        _arrow(axes, [(52, 252), (52, 316), (138, 316)])
        _arrow(
            axes,
            [
                (228, 92 + 16 * len(rows) + (0 if exists else 24)),
                (228, 316),
                (162, 316),
            ],
            colour=INK if exists else ORANGE,
            dashed=not exists,
        )
        axes.add_patch(Circle((150, 316), 9, fc="none", ec=INK, lw=1.25))
        axes.text(150, 320, "+", ha="center", weight="bold")
        _arrow(axes, [(150, 325), (150, 348)])
        _box(
            axes,
            85,
            350,
            130,
            40,
            "x = E[id] + P[p]\ninto the blocks"
            if exists
            else "no row to add,\nso no x",
        )
    last = max_position - 1
    if exists:
        fate = f"position {position} selects row P[{position}]; the sum x = E[id] + P[{position}] goes on"
    else:
        fate = f"position {position} has no row there, so there is nothing to add and no x to go on"
    return Picture(
        figure,
        "Panel A, a learned position table. The token id selects row E[id] of the token table. The position "
        f"table P has {max_position} rows, 0 to {last}: {fate}. Adding comes before the first block.",
        kind="diagram",
    )


def _rows_to_draw(position: int, max_position: int) -> list[int | None]:
    """Row numbers from 0 to the last, with None for a gap; the position is among them if it is a row."""
    if max_position <= 10:
        return list(range(max_position))
    last = max_position - 1
    if position < 6 or position > last:
        return [*range(8), None, last]
    before = [0, 1, 2, None] if position > 6 else [*range(6)]
    after = [None, last] if position < last - 1 else [last] * (position < last)
    return [*before, position, *after]


def diagram_rotary(position: int, angles: Numbers) -> Picture:
    """RoPE: position gives an angle for each pair, which turns Q and K; V passes by.

    position in tokens; angles [n_pairs], in radians, at that position. Draws at most 4 pairs as dials, from a
    common start. A diagram: the dials' angles are true, their lengths are not data.
    """
    angles = _array("angles", angles, 1)
    shown = _spread(len(angles), 4)
    with new_figure(310, 408) as figure:
        axes = _canvas(figure, 310, 408)
        axes.text(0, 13, "B · RoPE: an angle for any position", weight="bold")
        _box(axes, 10, 30, 110, 26, f"position p = {position}")
        bottom = 96 + 44 * len(shown)
        axes.add_patch(Rectangle((134, 92), 102, bottom - 92, fc=SURFACE, lw=0))
        _arrow(axes, [(65, 56), (65, 71)])
        axes.text(10, 86, "angle p · θᵢ (rad)", color=MUTED)
        for index, pair in enumerate(shown):
            y = 116 + 44 * index
            axes.text(10, y + 4, f"pair {pair}", color=MUTED)
            axes.text(104, y + 4, say(angles[pair]), ha="right")
            _arrow(axes, [(110, y), (130, y)], colour=MUTED)
            _dial(axes, 158, y, angles[pair], BLUE)
            _dial(axes, 212, y, angles[pair], ORANGE)
        for x, name, turned in ((158, "Q", "Q′"), (212, "K", "K′"), (272, "V", "V")):
            _box(axes, x - 19, 30, 38, 26, name)
            _box(axes, x - 19, bottom + 20, 38, 26, turned)
            stops = [56, bottom + 17] if name == "V" else [56, 89, bottom, bottom + 17]
            for start, end in zip(stops[::2], stops[1::2], strict=True):
                _arrow(axes, [(x, start), (x, end)])
            _arrow(axes, [(x, bottom + 46), (x, bottom + 61)])
        axes.text(
            266,
            (56 + bottom) / 2,
            "unchanged",
            color=MUTED,
            rotation=90,
            va="center",
            ha="right",
        )
        _box(axes, 139, bottom + 64, 152, 26, "attention")
        axes.text(10, bottom + 112, f"At p = {position} the angles exist.")
        axes.text(
            10, bottom + 127, "How good the model is there: measure it.", color=MUTED
        )
    rows = ", ".join(f"pair {pair} by {say(angles[pair])} rad" for pair in shown)
    return Picture(
        figure,
        f"Panel B, rotary position embeddings. Position {position} gives every pair of a head an angle, "
        f"position times θᵢ: it turns the pairs of Q and K, {rows}. V passes by unchanged. At position "
        f"{position} the angles exist, whatever the length trained at; how good the model is there has to be "
        "measured.",
        kind="diagram",
    )


def _dial(
    axes: Axes, x: float, y: float, angle: float, colour: str, radius: float = 17
) -> None:
    """A hand that started to the right (dashed) and has turned anticlockwise by the angle (solid)."""
    axes.add_patch(Circle((x, y), radius, fc="none", ec=GRID, lw=1))
    axes.plot([x, x + radius], [y, y], color=colour, lw=1, dashes=(2, 1.5))
    tip = x + radius * math.cos(angle), y - radius * math.sin(angle)
    axes.plot([x, tip[0]], [y, tip[1]], color=colour, lw=2, label="hand")


# ---- Parts of figures ----


def _array(name: str, values: Numbers, ndim: int | None = None) -> np.ndarray:
    """The values as a float64 array, with a named error if their number of axes is not `ndim`."""
    array = torch.as_tensor(values, dtype=torch.float64).detach().cpu().numpy()
    if ndim is not None and array.ndim != ndim:
        raise ValueError(f"{name}: got shape {list(array.shape)}, want {ndim} axes")
    return array


def _spread(count: int, most: int) -> np.ndarray:
    """At most `most` of the indices 0 .. count - 1, evenly spread, ends included."""
    return (
        np.arange(count)
        if count <= most
        else np.linspace(0, count - 1, most).round().astype(int)
    )


def _rotate(pairs: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """pairs [n_pairs, 2], each turned by its angle, with the course's own rotation."""
    x, y = torch.from_numpy(pairs).unbind(-1)
    return torch.stack(rotate_pair(x, y, torch.from_numpy(angles)), dim=-1).numpy()


def _tiles(axes: Axes, values: np.ndarray) -> None:
    """Values from −1 to 1 as tiles: blue above zero, orange and smaller below, stronger further from zero.

    One path for each of 21 levels keeps the SVG small.
    """
    rows, columns = values.shape
    axes.set(xlim=(0, columns), ylim=(rows, 0), facecolor=SURFACE)
    axes.tick_params(length=0)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    levels = np.rint((np.clip(values, -1, 1) * 10).round(6)).astype(int)
    gap = 0.4 * columns / axes.bbox.width, 0.4 * rows / axes.bbox.height
    for level in np.unique(levels[levels != 0]):
        share = 1 if level > 0 else 0.64
        tiles = [_tile(x, y, share, gap) for y, x in np.argwhere(levels == level)]
        colour = BLUE if level > 0 else ORANGE
        patch = PathPatch(
            Path.make_compound_path(*tiles),
            fc=colour,
            alpha=abs(level) / 10,
            lw=0,
            clip_on=False,
        )
        axes.add_patch(patch)


def _tile(x: int, y: int, share: float, gap: tuple[float, float]) -> Path:
    """The tile of column x and row y, covering `share` of its cell's sides."""
    dx, dy = (0.5 * share - margin for margin in gap)
    corners = [(-dx, -dy), (dx, -dy), (dx, dy), (-dx, dy), (-dx, -dy)]
    return Path(np.add(corners, (x + 0.5, y + 0.5)), closed=True)


def _tile_key(
    figure: Figure, left: float, top: float, width: float, label: str, scale: float = 1
) -> None:
    """The key of `_tiles`: its 21 levels, with their values from −scale to scale."""
    key = place(figure, left + width - 168, top, 168, 8)
    _tiles(key, np.linspace(-1, 1, 21)[None])
    key.set_xticks([0.5, 10.5, 20.5], [say(-scale), "0", say(scale)])
    write(figure, left, top + 9, label, color=MUTED)


def _powers_of_ten(axes: Axes) -> None:
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: say(value)))
    axes.xaxis.set_minor_locator(NullLocator())


def _powers_of_two(axes: Axes) -> None:
    low, high = axes.get_xlim()
    powers = [2**n for n in range(40) if low <= 2**n <= high]
    powers = powers[:: math.ceil(len(powers) / 8)]
    axes.set_xticks(powers, [say(power) for power in powers])
    axes.xaxis.set_minor_locator(NullLocator())


def _one_two_five(axes: Axes) -> None:
    low, high = axes.get_ylim()
    values = [
        step * 10**n
        for n in range(7)
        for step in (1, 2, 5)
        if low <= step * 10**n <= high
    ]
    axes.set_yticks(values, [say(value) for value in values])
    axes.yaxis.set_minor_locator(NullLocator())
    axes.grid(axis="y", color=GRID, lw=0.5)
    axes.set_axisbelow(True)


# ---- Parts of diagrams: a canvas in points, y downwards ----


def _canvas(figure: Figure, width: float, height: float) -> Axes:
    axes = place(figure, 0, 0, width, height, xlim=(0, width), ylim=(height, 0))
    axes.set_axis_off()
    return axes


def _box(
    axes: Axes, x: float, y: float, width: float, height: float, text: str
) -> None:
    axes.add_patch(Rectangle((x, y), width, height, fc=SURFACE, ec=MUTED, lw=0.75))
    lines = text.split("\n")
    for index, line in enumerate(lines):
        axes.text(
            x + width / 2,
            y + height / 2 + 4 + 14 * (index - (len(lines) - 1) / 2),
            line,
            ha="center",
        )


def _row(axes: Axes, x: float, y: float, width: float, colour: str | None) -> None:
    axes.add_patch(
        Rectangle((x, y), width, 16, fc=colour or SURFACE, ec=colour or MUTED, lw=0.75)
    )


def _arrow(
    axes: Axes, points: Sequence, colour: str = INK, dashed: bool = False
) -> None:
    """A line through the points with a head at its end."""
    xs, ys = zip(*points, strict=True)
    axes.plot(
        xs,
        ys,
        color=colour,
        lw=1.25,
        dashes=(3, 2) if dashed else (None, None),
        solid_capstyle="butt",
    )
    (x0, y0), (x1, y1) = points[-2:]
    tip = {(1, 0): ">", (-1, 0): "<", (0, 1): "v", (0, -1): "^"}[
        (int(np.sign(x1 - x0)), int(np.sign(y1 - y0)))
    ]
    axes.plot(x1, y1, tip, color=colour, ms=6, mew=0)


# ---- Numbers in words ----


def say(number: float, digits: int = 3) -> str:
    """Three significant digits, whole from 1,000 on, with a true minus sign: 0.628, −1.5, 6,283, 1e−05."""
    number = round(float(number), 12)  # what is smaller is a rounding error
    text = (
        f"{number:,.0f}"
        if abs(number) >= 10**digits
        else f"{float(f'{number:.{digits}g}') + 0:,g}"
    )
    return text.replace("-", "−")


def _round_up(number: float) -> float:
    """The next number with one digit: 0.0525 becomes 0.06."""
    unit = 10.0 ** math.floor(math.log10(number))
    return math.ceil(number / unit) * unit


def _turns(angle: float) -> str:
    return f"{say(angle / TURN, 2)} turns"


def _angle(angle: float) -> str:
    return f"{say(angle)} rad = {_turns(angle)}"


def _point(point: np.ndarray) -> str:
    return f"({say(point[0])}, {say(point[1])})"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _sub(index: int) -> str:
    return str(index).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


def _bound(difference: float) -> str:
    """A power of ten above the difference: stable where its digits are not."""
    if difference == 0:
        return "nothing"
    return "less than " + say(float(f"1e{math.floor(math.log10(difference)) + 1}"))
