"""The figures: what is drawn and what is said against values worked out on their own."""

import hashlib
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from functools import cache
from itertools import pairwise

import numpy as np
import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from lib import plots
from lib.picture import style
from tests.refusals import assert_refused

pytestmark = pytest.mark.rests_on("lib")

INV_FREQ = torch.tensor([1.0, 0.1, 0.01, 0.001], dtype=torch.float64)
OFFSETS = torch.arange(-50, 51)
Q = torch.tensor(
    [[1.0, 0.5], [0.2, -0.7], [-0.4, 0.9], [1.1, 0.3]], dtype=torch.float64
)
K = torch.tensor(
    [[0.3, -1.0], [0.8, 0.1], [0.6, 0.6], [-0.5, 1.2]], dtype=torch.float64
)
EDGES = [32, 64, 80, 96]
PERPLEXITY = {"RoPE": [3.18, 3.12, 4.06], "learned, 64 rows": [3.3, math.nan, math.nan]}
FINE = [*range(1, 12), 12, 16, 24, 32]
SEEDS = torch.tensor([[2.0], [4.0]]).expand(2, len(FINE) - 1)


def vectors(*shape, seed=123):
    return torch.from_numpy(np.random.default_rng(seed).normal(size=shape))


def scores():
    """Re q conj(k) e^{i offset theta} for each pair, by complex numpy."""
    q, k = (pairs.numpy() @ np.array([1, 1j]) for pairs in (Q, K))
    return ((q * k.conj())[:, None] * np.exp(1j * np.outer(INV_FREQ, OFFSETS))).real


def smooth_table(rows=64):
    """A table whose rows t and t' have the cosine cos(0.1 (t - t'))."""
    t = torch.arange(rows) * 0.1
    return torch.stack([torch.cos(t), torch.sin(t)], dim=1)


FIGURES = {
    "angle_table": lambda: plots.angle_table(torch.arange(50), INV_FREQ),
    "angle_table_of_64_pairs": lambda: plots.angle_table(
        range(2048), 10000 ** -(torch.arange(64) / 64)
    ),
    "rotated_pairs": lambda: plots.rotated_pairs(Q, K, 3, INV_FREQ),
    "dot_product_vs_offset": lambda: plots.dot_product_vs_offset(
        OFFSETS, scores(), scores().sum(0)
    ),
    "norms": lambda: plots.norms(vectors(2, 5, 4, 8), vectors(2, 5, 4, 8)),
    "wavelengths": lambda: plots.wavelengths(INV_FREQ, 10),
    "wavelengths_of_64_pairs": lambda: plots.wavelengths(
        10000 ** -(torch.arange(64) / 64), 4096
    ),
    "broadcast_add": lambda: plots.broadcast_add(vectors(2, 5, 32), vectors(5, 32)),
    "table_rows": lambda: plots.table_rows(smooth_table(), vectors(64, 32)),
    "perplexity_by_position": lambda: plots.perplexity_by_position(
        EDGES, PERPLEXITY, 64, 1024
    ),
    "perplexity_of_seeds": lambda: plots.perplexity_by_position(
        FINE, {"several": SEEDS}, 16, title="Some", limits=(1, 10)
    ),
    "perplexity_and_yours": lambda: plots.perplexity_by_position(
        EDGES, {"RoPE": [[3.0, 3, 4], [4.0, 4, 5]]}, 64, yours={"RoPE": [3.5, 3, 9]}
    ),
    "table_values": lambda: plots.table_values(smooth_table(), vectors(64, 32)),
    "diagram_past_the_table": lambda: plots.two_panel_diagram(50, 10, 50 * INV_FREQ),
    "diagram_inside": lambda: plots.two_panel_diagram(5, 10, 5 * INV_FREQ),
    "diagram_of_a_long_table": lambda: plots.two_panel_diagram(
        500, 1024, 500 * INV_FREQ
    ),
}


@cache
def drawn(name):
    return FIGURES[name]()


def artists(picture, label):
    """The artists with this label, in drawing order."""
    lines = [
        line
        for figure in picture.figures
        for axes in figure.axes
        for line in axes.lines
    ]
    return [line for line in lines if line.get_label() == label]


def tiles(axes):
    """The levels that the tiles of these axes show, read back from the drawing."""
    left, top = axes.get_xlim()[1], axes.get_ylim()[0]
    levels = np.zeros((round(top), round(left)))
    for patch in axes.patches:
        sign = 1 if patch.get_facecolor()[2] > patch.get_facecolor()[0] else -1
        for x, y in patch.get_path().vertices.reshape(-1, 5, 2)[:, :4].mean(axis=1):
            levels[math.floor(y), math.floor(x)] = sign * patch.get_alpha()
    return levels


# ---- Every figure ----


@pytest.fixture(scope="module")
def pages():
    return {name: drawn(name).html() for name in FIGURES}


@pytest.mark.parametrize("name", FIGURES)
def test_each_is_small_vector_themed_and_well_formed(pages, name):
    for svg in re.findall(r"<svg.*?</svg>", pages[name], re.DOTALL):
        ElementTree.fromstring(svg)
        assert len(svg) < 30_000
        assert "<image" not in svg and "data:" not in svg and "DejaVu" not in svg
        assert all(
            c == "none" or c.startswith("var(")
            for c in re.findall(r"(?:fill|stroke):([^;\"]+)", svg)
        )
        assert not re.search(r'(?: d| x| y)="[^"]*\.\d\d', svg)


@pytest.mark.parametrize("name", FIGURES)
def test_each_is_the_same_twice(pages, name):
    assert FIGURES[name]().html() == pages[name]


def test_ids_are_unique_on_a_page_of_all_figures(pages):
    ids = re.findall(r' id="([^"]+)"', "".join(pages.values()))
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", FIGURES)
def test_text_in_a_figure_stays_readable_on_a_phone(name):
    for figure in drawn(name).figures:
        texts = figure.findobj(lambda artist: hasattr(artist, "get_fontsize"))
        smallest = min(text.get_fontsize() for text in texts if text.get_text())
        assert smallest * 350 / (figure.get_size_inches()[0] * 72) >= 9


@pytest.mark.parametrize("name", FIGURES)
def test_no_text_leaves_its_figure(pages, name):
    for figure in drawn(name).figures:
        with style():
            canvas = FigureCanvasAgg(figure)
            canvas.draw()
            for text in figure.findobj(lambda artist: hasattr(artist, "get_fontsize")):
                if text.get_text() and f">{text.get_text()}<" in pages[name]:
                    box = text.get_window_extent(canvas.get_renderer())
                    assert box.x0 >= -3 and box.x1 <= figure.bbox.width + 3, (
                        text.get_text()
                    )
                    assert box.y0 >= -3 and box.y1 <= figure.bbox.height + 3, (
                        text.get_text()
                    )


def test_figures_are_the_same_in_a_fresh_python():
    code = (
        "import hashlib; from lib import plots;"
        "picture = plots.angle_table(range(50), [1, 0.1, 0.01, 0.001]);"
        "print(hashlib.sha256(picture.html().encode()).hexdigest())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert (
        run.stdout.strip()
        == hashlib.sha256(FIGURES["angle_table"]().html().encode()).hexdigest()
    )


# ---- Rotation ----


def test_angle_table_shows_the_cosine_and_says_the_angles():
    picture = drawn("angle_table")
    strips = picture.figures[0].axes[:4]
    shown = np.concatenate([tiles(axes) for axes in strips])
    expected = [
        [math.cos(m * theta) for m in range(50)] for theta in (1, 0.1, 0.01, 0.001)
    ]
    assert np.abs(shown - expected).max() <= 0.05 + 1e-9
    for said in (
        "49 rad, 7.8 turns",
        "4.9 rad",
        "0.49 rad",
        "0.049 rad",
        "positions 0 to 49",
    ):
        assert said in picture.text
    [marks] = strips[0].lines
    assert marks.get_xdata() == pytest.approx(
        [n * 2 * math.pi + 0.5 for n in range(1, 8)]
    )
    assert not strips[1].lines  # 4.9 rad is no full turn


def test_angle_table_says_that_it_is_a_sample():
    assert "50 of 2,048 evenly spread" in drawn("angle_table_of_64_pairs").text


@pytest.mark.parametrize("position", [0, 3, 50, -7])
def test_vectors_end_where_a_rotation_matrix_puts_them(position):
    picture = plots.rotated_pairs(Q, K, position, INV_FREQ)
    for label, pairs in (("q-after", Q), ("k-after", K)):
        lines = artists(picture, label)
        for theta, pair, line in zip(
            INV_FREQ.tolist(), pairs.numpy(), lines, strict=True
        ):
            a = position * theta
            matrix = np.array([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
            assert [line.get_xdata()[1], line.get_ydata()[1]] == pytest.approx(
                matrix @ pair
            )


@pytest.mark.parametrize(
    ("position", "sweep"), [(3, 3.0), (50, 50 % math.tau), (-7, -(7 % math.tau))]
)
def test_arcs_sweep_the_angle_less_its_full_turns(position, sweep):
    picture = plots.rotated_pairs(Q, K, position, INV_FREQ)
    arcs = [
        patch
        for patch in picture.figures[0].axes[1].patches
        if hasattr(patch, "theta1")
    ]
    starts = [math.degrees(math.atan2(*pairs[0].flip(0).tolist())) for pairs in (Q, K)]
    for arc, start in zip(arcs, starts, strict=True):
        ends = sorted((start, start + math.degrees(sweep)))
        assert [arc.theta1, arc.theta2] == pytest.approx(ends)


def test_rotated_pairs_say_angle_and_norm():
    text = drawn("rotated_pairs").text
    assert (
        "Pair 0 turns by 3 rad = 0.48 turns, q from (1, 0.5) to (−1.06, −0.354), norm 1.12 both times"
        in text
    )


def test_rotated_pairs_refuse_a_wrong_number_of_pairs():
    with pytest.raises(ValueError, match=r"pairs_q: got shape \[4, 2\], want \[3, 2\]"):
        plots.rotated_pairs(Q, K, 3, INV_FREQ[:3])


def test_score_curves_follow_the_closed_form():
    picture = drawn("dot_product_vs_offset")
    curves = [line.get_ydata() for line in artists(picture, "scores")]
    q, k = Q.numpy(), K.numpy()
    for pair, theta in enumerate(INV_FREQ.tolist()):
        dot, cross = (
            q[pair] @ k[pair],
            q[pair, 0] * k[pair, 1] - q[pair, 1] * k[pair, 0],
        )
        expected = [
            dot * math.cos(s * theta) + cross * math.sin(s * theta)
            for s in range(-50, 51)
        ]
        assert curves[pair] == pytest.approx(expected)
    assert curves[4] == pytest.approx(sum(curves[:4]))
    assert f"{curves[0][50]:.3g} at offset 0".replace("-", "−") in picture.text
    assert "offset m − n (tokens), from −50 to 50" in picture.text


def test_score_curves_need_one_score_an_offset():
    with pytest.raises(
        ValueError,
        match=r"scores: got 100 \(pairs\) and 101 \(head\), want 101 offsets",
    ):
        plots.dot_product_vs_offset(OFFSETS, scores()[:, 1:], scores().sum(0))


@pytest.mark.parametrize(
    ("error", "said"),
    [(0, "nothing"), (4.8e-7, "less than 1e−06"), (0.013, "less than 0.1")],
)
def test_norms_say_a_bound_of_the_difference(error, said):
    before = torch.tensor([[3.0, 4.0], [0.0, 2.0]], dtype=torch.float64)
    after = torch.tensor([[0.0, 5.0 + error], [2.0, 0.0]], dtype=torch.float64)
    picture = plots.norms(before, after)
    assert picture.text.endswith(
        f"They run from 2 to 5; before and after differ by {said}."
    )
    [dots] = artists(picture, "dots")
    assert dots.get_xdata().tolist() == [5, 2] and dots.get_ydata() == pytest.approx(
        [5 + error, 2]
    )


def test_wavelengths_fill_the_pairs_that_complete_a_turn():
    picture = drawn("wavelengths")
    [full], [partial] = artists(picture, "full"), artists(picture, "partial")
    assert full.get_xdata() == pytest.approx([2 * math.pi])
    assert partial.get_xdata() == pytest.approx(
        [20 * math.pi, 200 * math.pi, 2000 * math.pi]
    )
    assert "pair 0 6.28, pair 1 62.8, pair 2 628, pair 3 6,283" in picture.text
    assert "Within 10 tokens 1 of 4 pairs complete a turn" in picture.text


# ---- Tables ----


def test_broadcast_adds_the_same_rows_to_every_sequence():
    tokens, positions = vectors(2, 5, 32), vectors(5, 32, seed=4)
    picture = plots.broadcast_add(tokens, positions)
    strips = [tiles(axes) for axes in picture.figures[0].axes[:6]]
    scale = plots._round_up((tokens + positions)[..., :16].abs().max().item())
    expected = [
        tokens[0],
        tokens[1],
        positions,
        positions,
        tokens[0] + positions,
        tokens[1] + positions,
    ]
    for shown, values in zip(strips, expected, strict=True):
        assert np.abs(shown - values[:, :16].numpy() / scale).max() <= 0.05 + 1e-9
    assert "[2, 5, 32] plus position vectors [5, 32] give x [2, 5, 32]" in picture.text


def test_broadcast_refuses_tables_that_do_not_fit():
    with pytest.raises(
        ValueError, match=r"positions: got shape \[1, 32\], want \[5, 32\]"
    ):
        plots.broadcast_add(vectors(2, 5, 32), vectors(1, 32))


def test_table_rows_show_and_say_the_cosine():
    picture = drawn("table_rows")
    shown = tiles(picture.figures[0].axes[0])
    rows = np.linspace(0, 63, 12).round()
    assert np.abs(shown - np.cos(0.1 * (rows[:, None] - rows))).max() <= 0.05 + 1e-6
    assert (
        f"t + 1 {math.cos(0.1):.2f}, of rows t and t + 32 {math.cos(3.2):.2f}".replace(
            "-", "−"
        )
        in picture.text
    )


def test_table_rows_need_rows_that_far_apart():
    with pytest.raises(
        ValueError, match="trained: got 10 rows, want more than far = 32"
    ):
        plots.table_rows(smooth_table(10), smooth_table())


def test_perplexity_is_drawn_at_the_middle_of_each_bin():
    picture = drawn("perplexity_by_position")
    [line] = artists(picture, "RoPE")
    assert line.get_ydata().tolist() == PERPLEXITY["RoPE"]
    assert line.get_xdata() == pytest.approx(
        [math.sqrt(a * b) for a, b in ((32, 64), (64, 80), (80, 96))]
    )
    assert "RoPE: 3.18 at 32–63, 3.12 at 64–79, 4.06 at 80–95." in picture.text
    assert "Learned, 64 rows: 3.3 at 32–63, cannot run from 64 on." in picture.text
    assert "first 64 positions. The learned table has 1,024 rows." in picture.text


def test_a_model_that_cannot_go_on_ends_in_a_cross():
    axes = drawn("perplexity_by_position").figures[0].axes[0]
    [cross] = [line for line in axes.lines if line.get_marker() == "X"]
    assert (cross.get_xdata()[0], cross.get_ydata()[0]) == (64, 3.3)


def test_seeds_are_a_mean_in_a_band():
    picture = drawn("perplexity_of_seeds")
    axes = picture.figures[0].axes[0]
    [line] = artists(picture, "several")
    assert set(line.get_ydata()) == {3.0}
    [band] = axes.collections
    heights = {round(y, 6) for _, y in band.get_paths()[0].vertices.tolist()}
    assert heights == {2.0, 4.0}
    assert axes.get_ylim() == (1, 10)
    assert "Some: byte perplexity" in picture.text
    # of many bins the text tells those that start at a power of two
    assert "3 (2 to 4) at 2, 3 (2 to 4) at 4, 3 (2 to 4) at 8, " in picture.text
    assert " at 3," not in picture.text and "3 (2 to 4) at 16–23" in picture.text


def test_your_run_is_drawn_as_points_over_the_stored_range():
    picture = drawn("perplexity_and_yours")
    [points] = artists(picture, "your RoPE")
    assert (
        points.get_ydata().tolist() == [3.5, 3, 9] and points.get_linestyle() == "None"
    )
    assert "Your RoPE: 3.5 at 32–63, 3 at 64–79, 9 at 80–95." in picture.text


def test_perplexity_needs_one_value_a_bin():
    with pytest.raises(ValueError, match="RoPE: got 2 values, want 3"):
        plots.perplexity_by_position(EDGES, {"RoPE": [1, 2]}, 64)
    with pytest.raises(ValueError, match="RoPE: got 2 values, want 3"):
        plots.perplexity_by_position(EDGES, PERPLEXITY, 64, yours={"RoPE": [1, 2]})


def perplexity(values=PERPLEXITY, edges=EDGES, trained_length=64, *rest, **more):
    return plots.perplexity_by_position(edges, values, trained_length, *rest, **more)


NO_PERPLEXITIES = [
    (lambda: perplexity({}), "perplexity", "0 models"),
    (lambda: perplexity({n: [1, 2, 3] for n in "abcde"}), "perplexity", "5 models"),
    (lambda: perplexity({"a": [math.nan] * 3}), "a", "nan in its first bin"),
    (lambda: perplexity({"a": [math.nan, 2, 3]}), "a", "nan in its first bin"),
    (lambda: perplexity({"a": [[1, 2, 3], [math.nan, 2, 3]]}), "a", "nan in its first"),
    (lambda: perplexity({"a": [1, math.nan, 3]}), "a", "a number after nan"),
    (lambda: perplexity({"a": [1, 2, 0]}), "a", "0"),
    (lambda: perplexity({"a": [1, -2, 3]}), "a", "-2"),
    (lambda: perplexity({"a": np.ones((0, 3))}), "a", "shape [0, 3]"),
    (lambda: perplexity(yours={"RoPE": [math.nan, 2, 3]}), "RoPE", "nan in its first"),
    (lambda: perplexity(yours={"b": [1, 2, 3]}), "yours", "'b'"),
    (lambda: perplexity(edges=EDGES[::-1]), "edges", "96"),
    (lambda: perplexity(edges=[32, 64, 64, 96]), "edges", "64"),
    (lambda: perplexity(edges=[32, math.nan, 80, 96]), "edges", "nan"),
    (lambda: perplexity(edges=[-1, 64, 80, 96]), "edges", "-1"),
    (lambda: perplexity({"a": [[]]}, edges=[32]), "edges", "[32"),
    (lambda: perplexity(trained_length=0), "trained_length", "0"),
    (lambda: perplexity(PERPLEXITY, EDGES, 64, -1), "table_rows", "-1"),
]


@pytest.mark.parametrize(("call", "argument", "came"), NO_PERPLEXITIES)
def test_what_no_perplexity_figure_can_show_is_named(call, argument, came):
    assert_refused(call, ValueError, argument, came)


NO_TABLES = {
    "one row": (smooth_table(1), "shape [1, 2]"),
    "no dimension": (smooth_table()[:, :0], "shape [64, 0]"),
    "nan": (smooth_table() * math.nan, "nan"),
    "infinite": (smooth_table() / 0, "inf"),
}


@pytest.mark.parametrize("name", ["trained", "untrained"])
@pytest.mark.parametrize("table", NO_TABLES)
@pytest.mark.parametrize("figure", [plots.table_rows, plots.table_values])
def test_what_is_no_position_table_is_named(figure, table, name):
    table, came = NO_TABLES[table]
    tables = {"trained": smooth_table(), "untrained": smooth_table()} | {name: table}
    assert_refused(lambda: figure(**tables), ValueError, name, came)


def test_tables_need_what_they_are_compared_by():
    flat, short, fine = torch.ones(64, 2), smooth_table(), smooth_table()
    short[5] = 0
    for call, argument, came in (
        (lambda: plots.table_values(fine, flat), "untrained", "one value"),
        (lambda: plots.table_rows(short, fine), "trained", "row 5"),
        (lambda: plots.table_rows(fine, fine, far=0), "far", "0"),
    ):
        assert_refused(call, ValueError, argument, came)


def test_table_values_are_both_drawn_on_one_scale():
    picture = drawn("table_values")
    untrained = vectors(64, 32).numpy()
    rows = np.linspace(0, 63, 32).round().astype(int)
    expected = untrained[rows, :24]
    scale = plots._round_up(np.abs(expected).max())
    assert tiles(picture.figures[0].axes[1]) == pytest.approx(
        expected / scale, abs=0.051
    )
    trained = smooth_table().numpy()
    step = np.abs(np.diff(trained, axis=0)).mean() / trained.std()
    assert f"trained table differ by {plots.say(step)} of that" in picture.text


# ---- Diagrams ----


def said_in(picture):
    return [
        text.get_text()
        for figure in picture.figures
        for axes in figure.axes
        for text in axes.texts
    ]


def test_a_position_past_the_table_has_no_row():
    picture = plots.diagram_absolute(50, 10)
    assert "no row 50" in said_in(picture) and "P[50]" not in said_in(picture)
    assert [text for text in said_in(picture) if text.isdigit()] == [
        str(row) for row in range(10)
    ]
    assert "10 rows, 0 to 9: position 50 has no row" in picture.text


@pytest.mark.parametrize("position", [0, 5, 9])
def test_a_position_in_the_table_has_one(position):
    picture = plots.diagram_absolute(position, 10)
    assert f"P[{position}]" in said_in(picture)
    assert f"position {position} selects row P[{position}]" in picture.text


@pytest.mark.parametrize("position", [0, 5, 6, 7, 500, 1021, 1022, 1023, 1024])
def test_a_long_table_is_drawn_with_gaps_around_the_position(position):
    rows = plots._rows_to_draw(position, 1024)
    numbers = [row for row in rows if row is not None]
    assert len(rows) <= 10 and numbers == sorted(set(numbers)) and numbers[-1] == 1023
    assert (position in numbers) == (position < 1024)
    for before, after in pairwise(
        rows
    ):  # a gap is where numbers are missing, nowhere else
        assert before is None or after is None or after == before + 1


def test_dials_turn_by_the_angle_anticlockwise():
    angles = [50, 5, 0.5, 0.05]
    picture = plots.diagram_rotary(50, angles)
    hands = artists(picture, "hand")
    for index, hand in enumerate(hands):
        (x0, x1), (y0, y1) = hand.get_data()
        assert math.cos(angles[index // 2]) == pytest.approx((x1 - x0) / 17)
        assert math.sin(angles[index // 2]) == pytest.approx(
            (y0 - y1) / 17
        )  # the canvas counts y downwards
    assert (
        "pair 0 by 50 rad, pair 1 by 5 rad, pair 2 by 0.5 rad, pair 3 by 0.05 rad"
        in picture.text
    )
    assert "V passes by unchanged" in picture.text


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (0.6283, "0.628"),
        (-1.5, "−1.5"),
        (6283.2, "6,283"),
        (999.96, "1,000"),
        (1e-5, "1e−05"),
        (-0.0, "0"),
        (1.4e-17, "0"),
        (2047, "2,047"),
    ],
)
def test_numbers_are_said_shortly(number, said):
    assert plots.say(number) == said
