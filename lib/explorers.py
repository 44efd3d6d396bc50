"""The course's explorers: each function makes one figure with its sliders, from the functions the chapters teach."""

import math

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

from lib.absolute import LearnedPositions
from lib.explorer import Explorer
from lib.picture import COLOURS, new_figure, place, write
from lib.rope import apply_rotary_emb, freqs_cis_at, inv_freq, rotation_angles

INK, MUTED, GRID, SURFACE, PAPER = (
    COLOURS[name] for name in ("ink", "muted", "grid", "surface", "paper")
)
BLUE, ORANGE, GREEN = (COLOURS[name] for name in ("blue", "orange", "green"))
CIRCLE = np.linspace(0, 2 * math.pi, 61)
WHOLE_HEAD = "whole head"


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
        light = axes.add_patch(Rectangle((34, 24), 362, 20, fill=False, ec=BLUE, lw=2))
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
        turned = [
            apply_rotary_emb(
                *[x.expand(1, len(offsets), 1, -1)] * 2,
                freqs_cis_at(m, len(q), dtype=torch.complex128),
            )[0]
            for x, m in ((q, offsets + shift), (k, torch.full_like(offsets, shift)))
        ]
        terms = (turned[0] * turned[1]).unflatten(-1, (-1, 2)).sum(-1)[0, :, 0]
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
        dots = {
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
