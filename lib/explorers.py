"""The course's explorers: each function makes one figure with its sliders, from the functions the chapters teach."""

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import PathPatch, Rectangle
from matplotlib.path import Path
from torch import Tensor

from lib import layouts, precision
from lib.absolute import LearnedPositions
from lib.checks import as_int
from lib.explorer import Explorer
from lib.lengths import METHODS, Measured
from lib.picture import COLOURS, new_figure, place, write
from lib.plots import bin_centres, perplexity_axes, say
from lib.rope import (
    apply_rotary_emb,
    dot_product_vs_offset,
    freqs_cis_at,
    inv_freq,
    rotation_angles,
)
from lib.rope_models import PUBLISHED, Published

INK, MUTED, GRID, SURFACE, PAPER = (
    COLOURS[name] for name in ("ink", "muted", "grid", "surface", "paper")
)
BLUE, ORANGE, GREEN = (COLOURS[name] for name in ("blue", "orange", "green"))
MOST_TILES = 50  # on a side of an attention map
CIRCLE = np.linspace(0, 2 * math.pi, 61)
WHOLE_HEAD = "whole head"
EVERY_PAIR = "worst of all"
TEXT_LENGTHS = tuple(2**n for n in range(11, 18))
Start = Callable[[int, int], Tensor]  # start, n -> the positions of n tokens


def table_lookup(table: LearnedPositions, positions: range = range(13)) -> Explorer:
    """A learned table asked for one position after another: its row lights up, or it answers with its error.

    The figure shows the table's first 8 dimensions as numbers.
    """
    rows, columns = len(table), min(8, table.weight.shape[1])
    with new_figure(400, 70 + 20 * rows) as figure:
        axes = place(
            figure, 0, 0, 400, 70 + 20 * rows, xlim=(0, 400), ylim=(70 + 20 * rows, 0)
        )
        axes.set_axis_off()
        axes.text(
            8,
            14,
            f"P, {rows} rows (first {columns} of {table.weight.shape[1]} dimensions)",
            color=MUTED,
        )
        for row in range(rows):
            axes.text(28, 38 + 20 * row, str(row), color=MUTED, ha="right")
        for (row, column), value in np.ndenumerate(
            table.weight.detach().numpy()[:, :columns]
        ):
            axes.text(
                78 + 44 * column,
                38 + 20 * row,
                _entry(value),
                color=MUTED,
                ha="right",
            )
        light = Rectangle((34, 24), 362, 20, fill=False, ec=BLUE, lw=2)
        axes.add_patch(light)
        answer = axes.text(34, 60 + 20 * rows, "", color=INK)

    def look_up(position: int) -> tuple[bool, str]:
        try:
            row = table[position]
        except IndexError as error:
            return False, f"IndexError: {error}"
        return True, f"Position {position} has a row: a vector of {len(row)} numbers."

    def update(position):
        exists, _ = look_up(position)
        light.set_y(24 + 20 * min(position, rows))
        light.set_edgecolor(BLUE if exists else ORANGE)
        light.set_linestyle("-" if exists else (0, (3, 2)))
        answer.set_text(
            f"P[{position}]" if exists else f"P[{position}]: there is no such row"
        )
        answer.set_color(BLUE if exists else ORANGE)
        return [light, answer]

    return Explorer(
        figure,
        update,
        lambda position: look_up(position)[1],
        title="Table lookup",
        position=positions,
    )


def rotated_pair(q: Tensor, k: Tensor, positions: range = range(129)) -> Explorer:
    """One pair of a query and a key, before and after the rotation of one position.

    q, k [d_head]. The circles are the norms, which stay.
    """
    pairs = np.stack(
        [q.double().numpy().reshape(-1, 2), k.double().numpy().reshape(-1, 2)]
    ) @ [1, 1j]
    theta = inv_freq(len(q)).numpy()
    limit = 1.15 * np.abs(pairs).max()
    with new_figure(400, 300) as figure:
        axes = _plane(place(figure, 10, 10, 280, 280), limit)
        vectors = []
        for colour, marker, name in ((BLUE, "o", "q"), (ORANGE, "s", "k")):
            (circle,) = axes.plot([], [], color=GRID, lw=1)
            (before,) = axes.plot([], [], color=colour, lw=1.25, dashes=(3, 2))
            (after,) = axes.plot(
                [],
                [],
                color=colour,
                lw=2,
                marker=marker,
                markevery=[1],
                ms=7,
                label=f"after {name}",
            )
            vectors.append(
                (
                    circle,
                    before,
                    after,
                    axes.text(
                        0,
                        0,
                        name,
                        color=colour,
                        ha="center",
                        va="center",
                        weight="bold",
                    ),
                )
            )
        write(figure, 306, 40, "before: dashed", color=MUTED)
        write(figure, 306, 56, "after: solid", color=MUTED)
        write(figure, 306, 80, "● query q", color=BLUE)
        write(figure, 306, 96, "■ key k", color=ORANGE)
        radians = figure.text(306 / 400, 160 / 300, "", color=INK)
        turns = figure.text(306 / 400, 144 / 300, "", color=MUTED)

    def update(position, pair):
        angle = position * theta[pair]
        for start, (circle, before, after, label) in zip(
            pairs[:, pair], vectors, strict=True
        ):
            end = start * np.exp(1j * angle)
            circle.set_data(abs(start) * np.cos(CIRCLE), abs(start) * np.sin(CIRCLE))
            before.set_data([0, start.real], [0, start.imag])
            after.set_data([0, end.real], [0, end.imag])
            outside = end * (1 + 0.11 * limit / abs(end))
            label.set_position((outside.real, outside.imag))
        radians.set_text(f"{angle:.3f} rad")
        turns.set_text(f"{angle / (2 * math.pi):.3f} turns")
        return [*(artist for vector in vectors for artist in vector), radians, turns]

    def describe(position, pair):
        angle, (q_norm, k_norm) = position * theta[pair], np.abs(pairs[:, pair])
        return (
            f"At position {position} pair {pair} has turned by {angle:.3f} rad, {angle / (2 * math.pi):.3f} turns. "
            f"The norms are what they were: {q_norm:.3f} for q, {k_norm:.3f} for k."
        )

    return Explorer(
        figure,
        update,
        describe,
        title="A rotated pair",
        position=positions,
        pair=range(len(theta)),
    )


def clock_hands(d_head: int, positions: range = range(129)) -> Explorer:
    """The angles of all pairs of a head at one position, as the hands of clocks that start to the right."""
    theta = inv_freq(d_head).numpy()
    size = 400 / len(theta)
    with new_figure(400, size + 62) as figure:
        hands, labels = [], []
        for pair in range(len(theta)):
            axes = _plane(
                place(figure, size * pair + 4, 20, size - 8, size - 8), 1.1, cross=False
            )
            axes.plot(np.cos(CIRCLE), np.sin(CIRCLE), color=GRID, lw=1)
            axes.plot([0, 1], [0, 0], color=MUTED, lw=1, dashes=(3, 2))
            hands += axes.plot(
                [], [], color=BLUE, lw=2.5, marker="o", markevery=[1], ms=5
            )
            centre = (size * pair + size / 2) / 400
            figure.text(
                centre, 1 - 12 / (size + 62), f"pair {pair}", ha="center", color=MUTED
            )
            labels.append(
                figure.text(centre, 34 / (size + 62), "", ha="center", color=INK)
            )
            labels.append(
                figure.text(centre, 18 / (size + 62), "", ha="center", color=MUTED)
            )

    def update(position):
        for pair, angle in enumerate(position * theta):
            hands[pair].set_data([0, math.cos(angle)], [0, math.sin(angle)])
            labels[2 * pair].set_text(f"{angle:.3f} rad")
            labels[2 * pair + 1].set_text(f"{angle / (2 * math.pi):.3f} turns")
        return hands + labels

    def describe(position):
        turns = [
            f"pair {pair} by {angle / (2 * math.pi):.3f}"
            for pair, angle in enumerate(position * theta)
        ]
        return f"At position {position}, turned: {', '.join(turns)} turns."

    return Explorer(
        figure, update, describe, title="All pairs as clock hands", position=positions
    )


def score_against_offset(
    q: Tensor, k: Tensor, max_offset: int = 20, shifts: range = range(0, 101, 5)
) -> Explorer:
    """The score of a query and a key against their offset, with both moved along by a shift.

    q, k [d_head]. Above, RoPE: pairs alone or the whole head, by really rotating both at shift + offset and shift.
    Below, a learned table of as many rows as are needed, added to the same two vectors.
    """
    q, k = q.double(), k.double()
    offsets = torch.arange(max_offset + 1)
    generator = torch.Generator().manual_seed(0)
    table = torch.randn(
        shifts[-1] + max_offset + 1, len(q), generator=generator, dtype=torch.float64
    )
    parts = [WHOLE_HEAD, *(f"pair {pair}" for pair in range(len(q) // 2))]

    def rope_scores(part, shift):
        """[n_offsets], the query at shift + offset and the key at shift."""

        def turned(x: Tensor, positions: Tensor) -> Tensor:
            heads = x.expand(1, len(offsets), 1, -1)
            turns = freqs_cis_at(positions, len(q), dtype=torch.complex128)
            return apply_rotary_emb(heads, heads, turns)[0]

        q_turned = turned(q, offsets + shift)
        k_turned = turned(k, torch.full_like(offsets, shift))
        terms = (q_turned * k_turned).unflatten(-1, (-1, 2)).sum(-1)[0, :, 0]
        return terms.sum(-1) if part == WHOLE_HEAD else terms[:, parts.index(part) - 1]

    def table_scores(shift):
        return (q + table[offsets + shift]) @ (k + table[shift])

    told = min(7, max_offset)  # the offset that the sentence is about
    top = max(rope_scores(part, 0).abs().max().item() for part in parts)
    low = max(table_scores(shift).abs().max().item() for shift in shifts)
    with new_figure(400, 330) as figure:
        curves = []
        for n, (name, limit, colour) in enumerate(
            (("RoPE", top, BLUE), ("learned table", low, ORANGE))
        ):
            axes = place(
                figure,
                46,
                24 + 158 * n,
                344,
                108,
                xlim=(-0.5, max_offset + 0.5),
                xticks=range(0, max_offset + 1, 5),
                ylim=(-1.25 * limit, 1.25 * limit),
            )
            axes.axhline(0, color=GRID, lw=0.75)
            axes.axvline(told, color=GRID, lw=0.75)
            axes.set_ylabel("score q · k")
            axes.yaxis.set_label_coords(-0.095, 0.5)
            write(figure, 46, 14 + 158 * n, name, weight="bold", color=colour)
            curves += axes.plot([], [], color=colour, marker="os"[n], ms=4)
        axes.set_xlabel("offset m − n (tokens)", labelpad=2)

    def update(part, shift):
        curves[0].set_data(offsets.numpy(), rope_scores(part, shift).numpy())
        curves[1].set_data(offsets.numpy(), table_scores(shift).numpy())
        return curves

    def describe(part, shift):
        what = "the whole head" if part == WHOLE_HEAD else part
        rope, learned = rope_scores(part, shift)[told], table_scores(shift)[told]
        return (
            f"Key at {shift}, query at {shift + told}: with RoPE {what} scores "
            f"{_signed(rope)}, whatever the shift. With the learned table the score is "
            f"{_signed(learned)} here."
        )

    return Explorer(
        figure, update, describe, title="Score against offset", shift=shifts, part=parts
    )


def offset_test(
    table: LearnedPositions, d_head: int, positions: range = range(129)
) -> Explorer:
    """A text read from its start by two models that trained on texts as long as the table.

    Bars show where a position is defined and where it was trained on; dots on the line of
    the present position are filled where it is. What a model does there is not shown.
    """
    rows, last = len(table), positions[-1]
    bars = [("learned", "defined", rows, BLUE), ("learned", "trained on", rows, BLUE)]
    bars += [("RoPE", "defined", last + 1, GREEN), ("RoPE", "trained on", rows, GREEN)]
    heights = [0, 1, 2.5, 3.5]
    with new_figure(400, 206) as figure:
        axes = place(figure, 132, 8, 256, 150, xlim=(-1, last + 1), ylim=(4.2, -0.7))
        axes.set_xlabel("position in a text read from its start (tokens)", labelpad=5)
        axes.set_yticks(heights, [f"{method}: {what}" for method, what, *_ in bars])
        axes.spines["left"].set_visible(False)
        axes.tick_params(axis="y", length=0)
        for y, (_, what, end, colour) in zip(heights, bars, strict=True):
            fill = colour if what == "trained on" else SURFACE
            bar = Rectangle((-0.5, y - 0.3), end, 0.6, fc=fill, ec=colour, lw=1.25)
            axes.add_patch(bar)
        (here,) = axes.plot([], [], color=INK, lw=1.25)
        dots: dict[str, Any] = {
            "color": INK,
            "ls": "",
            "marker": "o",
            "ms": 7,
            "mew": 1.5,
            "clip_on": False,
        }
        (inside,) = axes.plot([], [], **dots)
        (outside,) = axes.plot([], [], **dots, mfc=PAPER)

    def has_row(position):
        try:
            table[position]
        except IndexError:
            return False
        return True

    def update(position):
        covered = [has_row(position), has_row(position), True, position < rows]
        here.set_data([position, position], [-0.7, 4.2])
        for marks, which in ((inside, True), (outside, False)):
            shown = [y for y, yes in zip(heights, covered, strict=True) if yes == which]
            marks.set_data([position] * len(shown), shown)
        return [here, inside, outside]

    def describe(position):
        angle = rotation_angles(position, d_head)[-1].item()
        learned = "has a row, trained" if has_row(position) else "no row: IndexError"
        seen = "trained on" if position < rows else "never trained on: to be measured"
        return (
            f"Position {position}. Learned table: {learned}. RoPE: defined, its slowest "
            f"pair at {angle:.3f} rad; {seen}."
        )

    return Explorer(
        figure, update, describe, title="The offset test", position=positions
    )


def measured_lengths(measured: Measured) -> Explorer:
    """The stored measurement: one method's curve over all seeds, and one range of positions.

    The sentence says mean and range there, and how many times the perplexity inside the trained range that is.
    Raises ValueError when a method of METHODS is not in it.
    """
    for section in ("fine", "coarse"):
        for name in METHODS.keys() - getattr(measured, section).keys():
            raise ValueError(
                f"measured: got no {name!r} in {section}, want all of {list(METHODS)}"
            )
    labels = {label: name for name, label in METHODS.items()}
    edges, trained_length = (
        np.array(measured.fine_edges),
        measured.settings["trained_length"],
    )
    bins = list(pairwise(measured.coarse_edges))
    ranges = {f"{start} to {end - 1}": (start, end) for start, end in bins}
    seeds = len(next(iter(measured.fine.values())).by_seed)
    with new_figure(400, 286) as figure:
        write(figure, 2, 12, "byte perplexity (1 is perfect)", color=MUTED)
        axes = perplexity_axes(figure, 36, edges, trained_length)
        for runs in measured.fine.values():
            axes.plot(bin_centres(edges), runs.mean.numpy(), color=GRID, lw=1.25)
        axes.set_ylim(2.5, 100)
        axes.set_yticks([3, 5, 10, 20, 50, 100], ["3", "5", "10", "20", "50", "100"])
        axes.minorticks_off()
        window = Rectangle((1, 2.5), 1, 97.5, fc=BLUE, alpha=0.12, lw=0)
        axes.add_patch(window)
        seed_lines = [
            axes.plot([], [], color=BLUE, lw=0.75, alpha=0.6)[0] for _ in range(seeds)
        ]
        (curve,) = axes.plot([], [], color=BLUE, lw=2.25)
        (dot,) = axes.plot([], [], "o", color=BLUE, ms=8, mec=PAPER, mew=1.5)
        (stop,) = axes.plot([], [], "X", color=ORANGE, ms=12, mec=PAPER, mew=1)

    def values(method, positions):
        """[seeds] in that range of positions."""
        n = bins.index(ranges[positions])
        return measured.coarse[labels[method]].by_seed[:, n].numpy()

    def update(method, positions):
        runs = measured.fine[labels[method]]
        for line, row in zip(seed_lines, runs.by_seed.numpy(), strict=True):
            line.set_data(bin_centres(edges), row)
        curve.set_data(bin_centres(edges), runs.mean.numpy())
        start, end = ranges[positions]
        start = max(start, 1)
        window.set_bounds(start, 2.5, end - start, 97.5)
        middle, found = math.sqrt(start * end), values(method, positions)
        runs_there = not np.isnan(found).any()
        dot.set_data([middle], [found.mean()])
        dot.set_visible(runs_there)
        stop.set_data([middle], [50])
        stop.set_visible(not runs_there)
        return [window, *seed_lines, curve, dot, stop]

    def describe(method, positions):
        found, name = values(method, positions), method[0].upper() + method[1:]
        if np.isnan(found).any():
            return f"{name}, positions {positions}: no row, IndexError. There is nothing to measure."
        inside = values(method, f"{trained_length // 2} to {trained_length - 1}").mean()
        return (
            f"{name}, positions {positions}: byte perplexity {found.mean():.1f}, "
            f"the {seeds} seeds from {found.min():.1f} to {found.max():.1f}. That is "
            f"{found.mean() / inside:.1f} times the {inside:.1f} of the trained range's second half."
        )

    return Explorer(
        figure,
        update,
        describe,
        title="The measured lengths",
        positions=list(ranges),
        method=list(labels),
    )


def attention_by_layer(
    maps: Mapping[str, Tensor], step: int = 1, trained_length: int | None = None
) -> Explorer:
    """Who looks at whom, layer by layer, in several models side by side.

    maps: for each model's label [n_layers, T, T], causal, rows that sum to 1; T at most 50. step: how many
    neighbouring positions stand behind a row or a column. Dashed lines mark `trained_length`. A tile's strength
    is the square root of its weight, so that small ones are seen.
    Raises ValueError, by the argument's name or the model's label, for what is none of this.
    """
    arrays = {label: weights.double().numpy() for label, weights in maps.items()}
    layers, count = _size_of_maps(arrays)
    as_int("step", step, at_least=1)
    border = count
    if trained_length is not None:  # two steps: the sentence is about neighbours
        as_int("trained_length", trained_length, at_least=2 * step)
        border = min(count, trained_length // step)
    size = (400 - 26 - 12 * (len(arrays) - 1)) / len(arrays)
    with new_figure(400, size + 78) as figure:
        patches = {}
        for n, (label, weights) in enumerate(arrays.items()):
            left = 26 + (size + 12) * n
            axes = place(figure, left, 22, size, size)
            patches[label] = _draw_attention(axes, weights[0], step, trained_length)
            if n:
                axes.set_yticklabels([])
            write(figure, left, 13, label, weight="bold")
        _attention_key(figure, 26, size + 44)

    def update(layer):
        for label, weights in arrays.items():
            _move_attention(patches[label], weights[layer - 1])
        return [patch for several in patches.values() for patch in several]

    def near(weights, rows):
        """The share of these queries' attention that goes to their own step and the one before."""
        return (weights[rows, rows] + weights[rows, rows - 1]).mean()

    def describe(layer):
        inside, past = np.arange(1, border), np.arange(border, count)
        told = []
        for label, weights in arrays.items():
            share = f"{label} {near(weights[layer - 1], inside):.0%}"
            if len(past):
                share += (
                    f", past the trained length {near(weights[layer - 1], past):.0%}"
                )
            told.append(share)
        nearest = (
            f"a query's own {step} positions and the {step} before"
            if step > 1
            else "itself and the byte before"
        )
        return f"Layer {layer} of {layers}. Share of attention that goes to {nearest}: {'; '.join(told)}."

    return Explorer(
        figure,
        update,
        describe,
        title="Attention by position",
        layer=range(1, layers + 1),
    )


def _size_of_maps(maps: Mapping[str, np.ndarray]) -> tuple[int, int]:
    """n_layers and T of maps [n_layers, T, T], which are alike in both and have rows that sum to 1."""
    if not maps:
        raise ValueError("maps: got none, want one or more")
    layers, count = (*next(iter(maps.values())).shape, 0, 0)[:2]
    for label, weights in maps.items():
        drawable = layers and 2 <= count <= MOST_TILES
        if not drawable or weights.shape != (layers, count, count):
            raise ValueError(
                f"{label}: got shape {list(weights.shape)}, want [n_layers, T, T], T from 2 to "
                f"{MOST_TILES}, and the same for every model"
            )
        totals = weights.sum(-1)
        for total in totals[~np.isclose(totals, 1, atol=0.05)]:
            raise ValueError(f"{label}: got a row whose sum is {total}, want 1")
    return layers, count


def layout_pairs(q: Tensor, k: Tensor, positions: range = range(65)) -> Explorer:
    """Which dimensions form a pair in both layouts, and what mixing them up does to a score.

    q, k [d_head]: of a model whose pairs are interleaved. Below, the score of the query at a
    position and the key at 0: as the model was made, and with its weights, unconverted, under
    the half-split rotation.
    """
    d_head, n_pairs = len(q), len(q) // 2
    right = dot_product_vs_offset(q, k, positions)
    # Half-split pairs, put side by side, are the interleaved ones of another head.
    half_q, half_k = (layouts.to_interleaved(x) for x in (q, k))
    mixed = dot_product_vs_offset(half_q, half_k, positions)
    limit = 1.15 * max(right.abs().max(), mixed.abs().max()).item()
    side = 280 / d_head
    with new_figure(400, 292) as figure:
        canvas = place(figure, 0, 0, 400, 92, xlim=(0, 400), ylim=(92, 0))
        canvas.set_axis_off()
        boxes, numbers = {}, []
        for row, layout in enumerate(layouts.LAYOUTS):
            y = 18 + 40 * row
            canvas.text(2, y + 19, layout, color=MUTED)
            for n in range(d_head):
                box = Rectangle((100 + side * n, y), side - 4, 28, ec=MUTED, lw=0.75)
                boxes[layout, n] = canvas.add_patch(box)
                middle = 100 + side * n + (side - 4) / 2
                numbers.append(canvas.text(middle, y + 19, str(n), ha="center"))
        canvas.text(100, 10, "dimensions of a head", color=MUTED)
        axes = place(
            figure,
            46,
            132,
            344,
            118,
            xlim=(positions[0] - 1, positions[-1] + 1),
            ylim=(-limit, limit),
        )
        axes.axhline(0, color=GRID, lw=0.75)
        axes.set_xlabel(
            "position of the query (tokens); the key stands at 0", labelpad=2
        )
        write(figure, 46, 120, "● as the model was made", color=BLUE)
        write(figure, 220, 120, "■ unconverted", color=ORANGE)
        axes.plot(positions, right, color=BLUE, lw=1.25)
        axes.plot(positions, mixed, color=ORANGE, lw=1.25, dashes=(4, 2))
        (line,) = axes.plot([], [], color=MUTED, lw=0.75)
        (good,) = axes.plot([], [], "o", color=BLUE, ms=8, mec=PAPER, mew=1)
        (bad,) = axes.plot([], [], "s", color=ORANGE, ms=7, mec=PAPER, mew=1)

    def update(position, pair):
        for layout in layouts.LAYOUTS:
            chosen = layouts.pairs_of(d_head, layout)[pair].tolist()
            for n in range(d_head):
                boxes[layout, n].set_facecolor(GRID if n in chosen else SURFACE)
                boxes[layout, n].set_edgecolor(BLUE if n in chosen else MUTED)
                boxes[layout, n].set_linewidth(2 if n in chosen else 0.75)
        n = positions.index(position)
        line.set_data([position] * 2, [-limit, limit])
        good.set_data([position], [right[n]])
        bad.set_data([position], [mixed[n]])
        return [*boxes.values(), *numbers, line, good, bad]  # numbers stay above

    def describe(position, pair):
        n = positions.index(position)
        first, second = (
            "{} and {}".format(*layouts.pairs_of(d_head, layout)[pair].tolist())
            for layout in layouts.LAYOUTS
        )
        same = abs(right[n] - mixed[n]) < 1e-6
        verdict = "the same" if same else "another score"
        return (
            f"Pair {pair} of {n_pairs}: dimensions {first} interleaved, {second} half-split. Query at "
            f"{position}: {_signed(right[n])} as the model was made, {_signed(mixed[n])} unconverted: {verdict}."
        )

    return Explorer(
        figure,
        update,
        describe,
        title="Two layouts",
        position=positions,
        pair=range(n_pairs),
    )


def decoding_starts(
    q: Tensor, k: Tensor, where: Mapping[str, Start], prompt: int = 4
) -> Explorer:
    """A text read with a cache: what its tokens are turned by, and where the newest one looks.

    q, k [T, d_head], of one head. The first `prompt` tokens are read at once, the rest one by one. where: for each
    label, the positions int64 [n] by which n tokens are turned that begin at `start`; the first one is right.
    Raises ValueError for a prompt that is not 1 to T - 1 tokens, and for no labels.
    """
    tokens = len(q)
    if as_int("prompt", prompt, at_least=1) >= tokens:
        raise ValueError(f"prompt: got {prompt}, want fewer than the {tokens} tokens")
    if not where:
        raise ValueError("where: got no labels, want the right positions and others")
    q, k = q.detach(), k.detach()
    pieces = [(0, prompt), *((n, 1) for n in range(prompt, tokens))]
    turned_by = {
        label: torch.cat([positions(*piece) for piece in pieces]).tolist()
        for label, positions in where.items()
    }
    weights = {
        label: _attention_weights(q, k, positions)
        for label, positions in turned_by.items()
    }
    right = next(iter(where))
    side = 296 / tokens
    with new_figure(400, 268) as figure:
        canvas = place(figure, 0, 0, 400, 84, xlim=(0, 400), ylim=(84, 0))
        canvas.set_axis_off()
        canvas.text(2, 18, "token", color=MUTED)
        canvas.text(2, 56, "turned as at", color=MUTED)
        boxes, numbers = [], []
        for n in range(tokens):
            middle = 96 + side * (n + 0.5)
            canvas.text(middle, 18, str(n), ha="center", color=MUTED)
            box = Rectangle((96 + side * n + 1, 38), side - 2, 26, lw=1)
            boxes.append(canvas.add_patch(box))
            numbers.append(canvas.text(middle, 56, "", ha="center"))
        axes = place(figure, 96, 112, 296, 118, xlim=(-0.5, tokens - 0.5), ylim=(0, 1))
        axes.set_xlabel("key of token", labelpad=2)
        axes.set_xticks(range(tokens))
        axes.tick_params(axis="x", length=0)
        axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
        write(figure, 2, 134, "attention of", color=MUTED)
        write(figure, 2, 148, "the newest", color=MUTED)
        write(figure, 96, 102, "▬ right", color=BLUE)
        write(figure, 158, 102, "■ as it is computed", color=ORANGE)
        bars = [Rectangle((n - 0.3, 0), 0.6, 0, fc=ORANGE, lw=0) for n in range(tokens)]
        for bar in bars:
            axes.add_patch(bar)
        marks = [
            axes.plot([], [], color=BLUE, lw=2.5, solid_capstyle="butt")[0]
            for _ in range(tokens)
        ]

    def update(token, positions):
        for n in range(tokens):
            there, at = n <= token, turned_by[positions][n]
            boxes[n].set_facecolor(SURFACE if there else PAPER)
            boxes[n].set_edgecolor((BLUE if at == n else ORANGE) if there else GRID)
            numbers[n].set_text(str(at) if there else "")
            numbers[n].set_color(INK if at == n else ORANGE)
            bars[n].set_height(weights[positions][token, n].item())
            marks[n].set_data([n - 0.4, n + 0.4], [weights[right][token, n]] * 2)
            marks[n].set_visible(there)
        return [*boxes, *numbers, *bars, *marks]

    def describe(token, positions):
        moved = (weights[positions] - weights[right])[token].abs().sum().item() / 2
        wrong = [n for n in range(token + 1) if turned_by[positions][n] != n]
        at = turned_by[positions][token]
        told = f"Token {token}, {positions}: turned as at position {at}. "
        if not wrong:
            return (
                told + "All tokens so far stand where they are, and attention is right."
            )
        if moved < 1e-5:
            return told + (
                "Tokens are turned by other positions than their own, and attention is right all the same."
            )
        share = f"{moved:.0%}" if moved >= 0.005 else "less than 1%"
        return told + f"{share} of its attention goes to other tokens than it should."

    return Explorer(
        figure,
        update,
        describe,
        title="Where the newest token stands",
        token=range(prompt - 1, tokens),
        positions=list(where),
    )


def _attention_weights(q: Tensor, k: Tensor, positions: Sequence[int]) -> Tensor:
    """[T, T]: causal attention of one head, q and k [T, d_head] turned by these positions."""
    rows = freqs_cis_at(positions, q.shape[1])
    q, k = (
        x[0, :, 0] for x in apply_rotary_emb(q[None, :, None], k[None, :, None], rows)
    )
    scores = q @ k.T / math.sqrt(q.shape[1])
    unseen = torch.ones_like(scores, dtype=torch.bool).triu(1)
    return scores.masked_fill(unseen, -math.inf).softmax(-1)


def angle_errors(
    ways: Mapping[str, precision.Way] = precision.WAYS,
    d_head: int = 128,
    last_octave: int = 20,
) -> Explorer:
    """How far the angles of a rotation table are off, by how it is made and how long the text is.

    The largest error is that of some positions in each octave up to 2^last_octave, drawn at random, for rounding
    spares powers of two.
    """
    as_int("last_octave", last_octave, at_least=2)
    frequencies, generator = inv_freq(d_head), torch.Generator().manual_seed(0)
    octaves = [2**n for n in range(1, last_octave + 1)]
    positions = [
        torch.randint(end // 2, end, (min(end, 48),), generator=generator)
        for end in octaves
    ]
    largest = {
        name: torch.stack(
            [
                precision.angle_errors(
                    way(there, frequencies), there, frequencies
                ).amax(0)
                for there in positions
            ]
        )
        .cummax(0)
        .values.clamp(min=1e-10)
        for name, way in ways.items()
    }
    pairs = [EVERY_PAIR, *(n for n in (0, 1, 2, 4, 8, 16, 32) if n < d_head // 2)]

    def errors(name: str, pair: int | str) -> Tensor:
        found = largest[name]
        return found.amax(1) if isinstance(pair, str) else found[:, pair]

    with new_figure(400, 262) as figure:
        write(figure, 2, 12, "largest error of an angle (radians)", color=MUTED)
        axes = place(figure, 46, 26, 344, 190)
        axes.set(xscale="log", yscale="log", xlim=(2, octaves[-1]), ylim=(1e-10, 30))
        marks = octaves[1::4]
        axes.set_xticks(marks, [f"{mark:,}" for mark in marks])
        powers = [1e-10, 1e-8, 1e-6, 1e-4, 1e-2, 1]
        axes.set_yticks(powers, [say(power) for power in powers])
        axes.minorticks_off()
        axes.set_xlabel("tokens of the text", labelpad=2)
        axes.axhline(math.pi, color=ORANGE, lw=0.75, dashes=(3, 2))
        axes.text(2.2, math.pi * 1.4, "half a turn: no angle is known", color=ORANGE)
        for name in ways:
            axes.plot(octaves, errors(name, EVERY_PAIR), color=MUTED, lw=0.75)
        (curve,) = axes.plot([], [], color=BLUE, lw=2.25)
        (dot,) = axes.plot(
            [], [], "o", color=BLUE, ms=8, mec=PAPER, mew=1.5, clip_on=False
        )

    def update(way, pair, tokens):
        found = errors(way, pair)
        curve.set_data(octaves, found)
        dot.set_data([tokens], [found[octaves.index(tokens)]])
        return [curve, dot]

    def describe(way, pair, tokens):
        error = errors(way, pair)[octaves.index(tokens)].item()
        where = (
            "the worst pair"
            if pair == EVERY_PAIR
            else f"pair {pair} (a turn in {say(math.tau / frequencies[pair].item())} tokens)"
        )
        share = error / math.pi
        meaning = (
            "less than a float32 can tell of 1 radian"
            if error < 1e-7
            else f"{say(share, 1)} of half a turn"
            if share < 0.5
            else "the angle is lost"
        )
        off = f"up to {say(error)} rad" if error > 1e-8 else "less than 1e−08 rad"
        return (
            f"A text of {tokens:,} tokens, {way}: {where} is off by {off}, {meaning}."
        )

    return Explorer(
        figure,
        update,
        describe,
        title="How exact is the angle?",
        tokens=octaves,
        way=list(ways),
        pair=pairs,
    )


def published_wavelengths(
    models: Mapping[str, Published] = PUBLISHED,
    lengths: Sequence[int] = TEXT_LENGTHS,
) -> Explorer:
    """How long a turn of each pair takes in models' published parameters, against the length before scaling.

    A pair whose turn is longer than that length has not seen all angles in such texts. It meets new ones in a
    text in which it turns further.
    """
    if not models:
        raise ValueError("models: got none, want one or more")
    plain = {name: inv_freq(model.d_head, model.base) for name, model in models.items()}
    most_pairs = max(map(len, plain.values()))
    with new_figure(400, 300) as figure:
        write(figure, 2, 12, "tokens for one turn", color=MUTED)
        write(figure, 46, 28, "● in use", color=BLUE)
        write(figure, 106, 28, "○ unscaled", color=MUTED)
        write(figure, 186, 28, "■ meets new angles in this text", color=ORANGE)
        axes = place(figure, 46, 38, 344, 216)
        axes.set(yscale="log", xlim=(-1, most_pairs), ylim=(4, 4e7))
        axes.set_xlabel("pair", labelpad=2)
        powers = [10**n for n in range(1, 8)]
        axes.set_yticks(
            powers,
            [
                f"{power:,}" if power < 1e6 else f"1e{round(math.log10(power))}"
                for power in powers
            ],
        )
        axes.minorticks_off()
        (trained_line,) = axes.plot([], [], color=MUTED, lw=1, dashes=(4, 2))
        (text_line,) = axes.plot([], [], color=INK, lw=1)
        behind = {"fc": PAPER, "ec": "none", "pad": 1}
        trained_label = axes.text(0, 1, "", color=MUTED, bbox=behind)
        text_label = axes.text(0, 1, "", color=INK, bbox=behind)
        (before,) = axes.plot([], [], "o", color=MUTED, ms=4, mew=0.75, mfc=PAPER)
        (after,) = axes.plot([], [], "o", color=BLUE, ms=4, mew=0)
        (new,) = axes.plot([], [], "s", color=ORANGE, ms=4.5, mew=0)

    def meets_new(model, frequencies, length):
        """bool [pairs]: makes no full turn in the original length, and turns further in this text."""
        seen = plain[model] * models[model].trained_length
        return (seen < math.tau) & (frequencies * length > seen * (1 + 1e-9))

    def update(tokens, model):
        scaled = models[model].scaled(tokens).inv_freq
        pairs = np.arange(len(scaled))
        marked = meets_new(model, scaled, tokens).numpy()
        turns = (math.tau / scaled).numpy()
        before.set_data(pairs, math.tau / plain[model])
        after.set_data(pairs[~marked], turns[~marked])
        new.set_data(pairs[marked], turns[marked])
        trained = models[model].trained_length
        for line, length in ((trained_line, trained), (text_line, tokens)):
            line.set_data([-1, most_pairs], [length, length])
        trained_label.set_text(f"original length: {trained:,}")
        text_label.set_text(f"this text: {tokens:,}")
        trained_label.set_visible(tokens != trained)
        # The upper line's label stands above it and the lower one's below, so they never meet.
        above, below = max(trained, tokens) * 1.45, min(trained, tokens) / 2.7
        text_label.set_position((-0.5, above if tokens >= trained else below))
        trained_label.set_position((-0.5, below if tokens >= trained else above))
        return [trained_line, text_line, before, after, new, trained_label, text_label]

    def describe(tokens, model):
        published = models[model]
        scaled = published.scaled(tokens).inv_freq
        partly = (plain[model] * published.trained_length < math.tau).sum().item()
        unscaled, now = (
            meets_new(model, frequencies, tokens).sum().item()
            for frequencies in (plain[model], scaled)
        )
        told = (
            f"{model}, a text of {tokens:,} tokens: {partly} of {len(scaled)} pairs make no full turn in "
            f"{published.trained_length:,}, the original length. "
        )
        if torch.equal(scaled, plain[model]):
            return told + f"{now} of them meet new angles."
        return (
            told
            + f"Unscaled, {unscaled} of them would meet new angles; scaled, {now} do."
        )

    return Explorer(
        figure,
        update,
        describe,
        title="A turn of each pair",
        tokens=list(lengths),
        model=list(models),
    )


def _plane(axes: Axes, limit: float, cross: bool = True) -> Axes:
    """Square axes without frame or numbers, for vectors in a plane; every circle in it is a norm."""
    axes.set(xlim=(-limit, limit), ylim=(-limit, limit), aspect="equal")
    axes.set_axis_off()
    if cross:
        axes.axhline(0, color=GRID, lw=0.75)
        axes.axvline(0, color=GRID, lw=0.75)
    return axes


def _entry(value: float) -> str:
    text = f"{value:+.3f}".replace("-", "−")
    return "0.000" if text in ("+0.000", "−0.000") else text


def _signed(number: Tensor) -> str:
    return f"{number.item():.3f}".replace("-", "−")


def _draw_attention(
    axes: Axes, weights: np.ndarray, step: int = 1, trained_length: int | None = None
) -> list:
    """One map as tiles of 10 levels; returns their patches, one a level, hidden where it has no tile."""
    count = len(weights)
    axes.set(xlim=(0, count), ylim=(count, 0))
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    marks = np.linspace(0, count, 5)[:-1]  # the last would meet the next map's first
    axes.set_xticks(marks, [f"{mark * step:.0f}" for mark in marks])
    axes.set_yticks(marks, [f"{mark * step:.0f}" for mark in marks])
    corner = np.array([(0, 0), (0, count), (count, count), (0, 0)])
    axes.add_patch(PathPatch(Path(corner, closed=True), fc=SURFACE, lw=0))
    if trained_length is not None:
        axes.axhline(trained_length / step, color=MUTED, lw=0.75, dashes=(3, 2))
        axes.axvline(trained_length / step, color=MUTED, lw=0.75, dashes=(3, 2))
    patches = [
        PathPatch(Path([(0, 0)]), fc=BLUE, alpha=level / 10, lw=0)
        for level in range(1, 11)
    ]
    for patch in patches:
        axes.add_patch(patch)
    _move_attention(patches, weights)
    return patches


def _move_attention(patches: Sequence[PathPatch], weights: np.ndarray) -> None:
    """Show other weights [T, T] with the patches of `_draw_attention`."""
    levels = np.rint(np.sqrt(weights.clip(0, 1)) * 10).round(6).astype(int)
    for level, patch in enumerate(patches, 1):
        runs = [
            _strip(row, start, end)
            for row, line in enumerate(levels)
            for start, end in _runs_of(line == level)
        ]
        patch.set_path(Path.make_compound_path(*runs) if runs else Path([(0, 0)]))
        patch.set_visible(bool(runs))


def _runs_of(mask: np.ndarray) -> list[tuple[int, int]]:
    """Where a row of booleans is True without a break: [start, end)."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], mask.astype(int), [0]))))
    return list(zip(edges[::2], edges[1::2], strict=True))


def _strip(row: int, start: int, end: int) -> Path:
    corners = [(start, row), (end, row), (end, row + 1), (start, row + 1), (start, row)]
    return Path(corners, closed=True)


def _attention_key(figure: Figure, left: float, top: float) -> None:
    """What a map of `_draw_attention` is read by: its axes, and its ten levels."""
    write(figure, left, top + 9, "down: query, across: key", color=MUTED)
    write(figure, left + 168, top + 9, "weight", color=MUTED)
    key = place(figure, left + 214, top, 160, 8, xlim=(0, 10), ylim=(0, 1))
    key.set_yticks([])
    key.spines[:].set_visible(False)
    key.tick_params(length=0)
    for level in range(1, 11):
        key.add_patch(Rectangle((level - 1, 0), 1, 1, fc=BLUE, alpha=level / 10, lw=0))
    key.set_xticks([0.5, 4.5, 9.5], ["0.01", "0.25", "1"])
