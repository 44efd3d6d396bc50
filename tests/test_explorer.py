"""Explorers in Python: the sliders move the artists, the baked frames are the live ones, and faults are shown."""

import functools
import gzip
import json
import math
import random
import re

import ipywidgets
import numpy as np
import pytest
import torch
import traitlets

import lib.explorer
from lib import explorers
from lib.absolute import LearnedPositions
from lib.explorer import Explorer, _Packer
from lib.layouts import rotate
from lib.lengths import METHODS, Measured
from lib.picture import COLOURS, new_figure, place
from lib.precision import WAYS
from lib.rope import freqs_cis_at, inv_freq
from lib.rope_models import PUBLISHED
from tests.chapters import ROOT
from tests.packed import unpack
from tests.refusals import assert_refused

pytestmark = pytest.mark.rests_on("lib")

MOST_KILOBYTES = 40  # gzipped, a whole explorer


def a_dot():
    """A figure with one dot, to be moved."""
    with new_figure(200, 100) as figure:
        axes = place(figure, 20, 10, 160, 60, xlim=(0, 10), ylim=(0, 10))
        (dot,) = axes.plot([0], [0], "o", color=COLOURS["blue"])
    return figure, dot


def dot_explorer(**options):
    figure, dot = a_dot()

    def update(x, y):
        dot.set_data([x], [y])
        return [dot]

    controls = options or {"x": range(5), "y": ["low", "high"]}
    heights = {"low": 1, "high": 9}
    explorer = Explorer(
        figure,
        lambda x, y: update(x, heights[y]),
        lambda x, y: f"The dot is at {x}, {y}.",
        title="A dot",
        **controls,
    )
    return explorer, dot


def data_of(html):
    packed = re.search(
        r'<script type="application/json">(.*?)</script>', html, re.DOTALL
    )[1]
    return json.loads(packed)


def course():
    """Every explorer of the course, as the chapters make them."""
    torch.manual_seed(0)
    q, k = torch.randn(2, 8, dtype=torch.float64).unbind()
    table = LearnedPositions(10, 32)
    return {
        "table lookup": explorers.table_lookup(table),
        "rotated pair": explorers.rotated_pair(q, k),
        "clock hands": explorers.clock_hands(8),
        "score against offset": explorers.score_against_offset(q, k),
        "offset test": explorers.offset_test(table, 8),
        "measured lengths": explorers.measured_lengths(measured()),
        "attention": explorers.attention_by_layer(
            measured_maps(), step=4, trained_length=64
        ),
        "layout pairs": explorers.layout_pairs(q, k),
        "decoding starts": decoding_starts(),
        "angle errors": explorers.angle_errors(),
        "published wavelengths": explorers.published_wavelengths(),
    }


def decoding_starts(tokens=12):
    q, k = torch.randn(2, tokens, 8, generator=torch.Generator().manual_seed(6))
    where = {
        "true position": lambda start, n: start + torch.arange(n),
        "start ignored": lambda start, n: torch.arange(n),
        "all 100 later": lambda start, n: 100 + start + torch.arange(n),
    }
    return explorers.decoding_starts(3 * q, k, where)


def measured():
    return Measured()


def measured_maps():
    return {METHODS[name]: weights for name, weights in measured().attention.items()}


@pytest.fixture(scope="module")
def baked():
    return {name: (explorer, explorer.html()) for name, explorer in course().items()}


COURSE = [
    "table lookup",
    "rotated pair",
    "clock hands",
    "score against offset",
    "offset test",
    "measured lengths",
    "attention",
    "layout pairs",
    "decoding starts",
    "angle errors",
    "published wavelengths",
]


# ---- Values ----


def test_setting_a_value_moves_the_artist():
    explorer, dot = dot_explorer()
    explorer.x, explorer.y = 3, "high"
    explorer.svg()
    assert [list(data) for data in dot.get_data()] == [[3], [9]]
    assert explorer.values == {"x": 3, "y": "high"}
    assert explorer.sentence == "The dot is at 3, high."


def test_a_value_that_a_control_does_not_have_is_refused_by_name():
    explorer, _ = dot_explorer()
    with pytest.raises(
        traitlets.TraitError, match=r"x: got 99, want one of its 5 values, 0 to 4"
    ):
        explorer.x = 99
    assert explorer.x == 0


def test_values_are_observed_and_linked_with_other_widgets():
    explorer, _ = dot_explorer()
    seen, other = [], ipywidgets.IntSlider(max=4)
    explorer.observe(lambda change: seen.append(change.new), "x")
    traitlets.link((explorer, "x"), (other, "value"))
    other.value = 2
    assert explorer.x == 2 and seen == [2]


def test_the_widget_s_slider_and_the_explorer_follow_each_other():
    explorer, _ = dot_explorer()
    slider = explorer.widget.children[0]
    slider.value = 4
    assert explorer.x == 4
    explorer.x = 1
    assert slider.value == 1


def test_the_widget_shows_the_picture_and_sentence_of_the_setting():
    explorer, _ = dot_explorer()
    *_, picture, line, error = explorer.widget.children
    explorer.x = 3
    assert explorer.svg() in picture.value
    assert "The dot is at 3, low." in line.value and error.value == ""


# ---- Frames ----


@pytest.mark.parametrize("name", COURSE)
def test_every_baked_frame_is_the_live_frame(baked, name):
    explorer, html = baked[name]
    parts = data_of(html)["parts"]
    for number, values in enumerate(explorer.frames()):
        live = [*explorer._pieces(values), explorer._sentence(values)]
        assert [unpack(part, number) for part in parts] == live, values


@pytest.mark.parametrize("name", COURSE)
def test_an_explorer_is_light(baked, name):
    assert len(gzip.compress(baked[name][1].encode(), 6)) <= MOST_KILOBYTES * 1000


def test_the_same_explorer_is_made_of_the_same_characters(monkeypatch):
    def fresh():
        monkeypatch.setattr(lib.explorer, "_names", set())
        return dot_explorer()[0].html()

    assert fresh() == fresh()


def test_baking_leaves_the_figure_as_it_stood():
    explorer, dot = dot_explorer()
    explorer.x = 2
    explorer.html()
    assert list(dot.get_xdata()) == [2]


def ids(html):
    return re.findall(r'\bid="([^"]+)"', html)


def test_no_id_stands_twice_on_a_page(baked):
    page = "".join(html for _, html in baked.values())
    page += dot_explorer()[0].html() + dot_explorer()[0].html()
    assert len(ids(page)) == len(set(ids(page))) > 20


def test_a_title_that_ends_in_a_number_does_not_take_another_s_id(monkeypatch):
    monkeypatch.setattr(lib.explorer, "_names", set())
    figure, dot = a_dot()
    made = [
        Explorer(figure, lambda n: [dot], str, title=title, n=[1, 2])
        for title in ("A", "A", "A 2")
    ]
    assert len({explorer._name for explorer in made}) == 3


def test_titles_labels_and_sentences_are_text_and_never_markup():
    figure, dot = a_dot()
    wild = "</script><b>"
    explorer = Explorer(
        figure, lambda n: [dot], lambda n: f"{wild} {n}", title=wild, n=[wild, 1]
    )
    html = explorer.html()
    assert html.count("<script") == html.count("</script>") == 2
    assert "<b>" not in html.split('<script type="application/json">')[0]
    assert unpack(data_of(html)["parts"][-1], 0) == f"{wild} {wild}"


def test_packing_keeps_any_text():
    alphabet = ' 0123456789.-"<>#aMLzé\n'
    generator = random.Random(0)
    texts = [
        "".join(generator.choices(alphabet, k=generator.randrange(30)))
        for _ in range(300)
    ]
    packer = _Packer()
    for text in texts:
        packer.add(text)
    packed = json.loads(json.dumps(packer.packed()))
    assert [unpack(packed, n) for n in range(len(texts))] == texts


def test_numbers_that_change_are_stored_once_each():
    packer = _Packer()
    for n in range(100):
        packer.add(f'<path d="M0 0L{n / 10} 5" style="stroke:#0068a8"/>')
    packed = packer.packed()
    assert len(packed["templates"]) == 1 and packed["states"][7] == [0, "0.7"]


def test_the_course_s_explorers_draw_the_right_numbers(baked):
    pair = baked["rotated pair"][0]
    pair.position, pair.pair = 12, 1
    pair.svg()
    after = [
        artist.get_xydata()[1]
        for artist in pair._artists
        if artist.get_label().startswith("after")
    ]
    torch.manual_seed(0)
    vectors = torch.randn(2, 8, dtype=torch.float64).numpy()
    for tip, (x, y) in zip(after, vectors[:, 2:4], strict=True):
        turned = [x * np.cos(1.2) - y * np.sin(1.2), x * np.sin(1.2) + y * np.cos(1.2)]
        assert np.allclose(tip, turned)
    assert "1.200 rad, 0.191 turns" in pair.sentence


def at(explorer, **values):
    """The explorer's artists at a setting."""
    for name, value in values.items():
        setattr(explorer, name, value)
    explorer.svg()
    return explorer._artists


def test_the_table_lights_the_row_or_answers_with_its_own_error(baked):
    lookup = baked["table lookup"][0]
    light, answer = at(lookup, position=9)
    row_9 = light.get_y()
    assert lookup.sentence == "Position 9 has a row: a vector of 32 numbers."
    light, answer = at(lookup, position=3)
    assert row_9 - light.get_y() == 6 * 20 and answer.get_text() == "P[3]"
    light, answer = at(lookup, position=12)
    assert light.get_y() == row_9 + 20 and "no such row" in answer.get_text()
    assert (
        lookup.sentence
        == "IndexError: position 12 is outside the table, which has 10 rows: 0 to 9"
    )


@pytest.mark.parametrize("position", [0, 7, 128])
def test_the_clock_hands_stand_at_their_angles(baked, position):
    artists = at(baked["clock hands"][0], position=position)
    for pair, (hand, theta) in enumerate(
        zip(artists[:4], (1, 0.1, 0.01, 0.001), strict=True)
    ):
        angle = position * theta
        assert np.allclose(hand.get_xydata()[1], [np.cos(angle), np.sin(angle)])
        assert artists[4 + 2 * pair].get_text() == f"{angle:.3f} rad"


def test_the_score_curves_are_the_closed_form_and_the_table_s(baked):
    torch.manual_seed(0)
    q, k = torch.randn(2, 8, dtype=torch.float64).numpy()
    turns = np.exp(1j * np.outer(np.arange(21), [1, 0.1, 0.01, 0.001]))
    terms = ((q[::2] + 1j * q[1::2]) * (k[::2] - 1j * k[1::2]) * turns).real
    score = baked["score against offset"][0]
    assert np.allclose(
        at(score, shift=0, part="whole head")[0].get_ydata(), terms.sum(-1)
    )
    assert np.allclose(at(score, shift=35, part="pair 2")[0].get_ydata(), terms[:, 2])


def test_a_shift_moves_the_learned_curve_and_not_rope_s(baked):
    score = baked["score against offset"][0]
    here, there = (
        [np.array(a.get_ydata()) for a in at(score, shift=shift)] for shift in (0, 50)
    )
    assert np.allclose(here[0], there[0])
    assert not np.allclose(here[1], there[1], atol=0.5)


@pytest.mark.parametrize(("position", "covered"), [(9, 4), (10, 1), (128, 1)])
def test_the_offset_test_fills_the_dots_that_are_covered(baked, position, covered):
    test = baked["offset test"][0]
    line, inside, outside = at(test, position=position)
    assert list(line.get_xdata()) == [position, position]
    assert (
        len(inside.get_xdata()) == covered and len(outside.get_xdata()) == 4 - covered
    )
    assert ("no row: IndexError" in test.sentence) == (position > 9)
    assert ("never trained on: to be measured" in test.sentence) == (position > 9)


def test_a_moved_title_stays_in_the_figure():
    figure, _ = a_dot()
    title = figure.axes[0].set_title("0")

    def update(n):
        title.set_text(str(n))
        return [title]

    html = Explorer(figure, update, lambda n: "", n=range(3)).svg()
    y = float(re.search(r'<text[^>]*\by="([-\d.]+)"[^>]*>0<', html)[1])
    assert 0 < y < 100


def test_a_progress_bar_is_for_somebody_who_waits(monkeypatch):
    monkeypatch.delenv("JPY_SESSION_NAME", raising=False)
    assert lib.explorer._progress([{}], "A").disable
    monkeypatch.setenv("JPY_SESSION_NAME", "chapter.ipynb")
    bar = lib.explorer._progress([{}], "A")
    assert not bar.disable and bar.delay == 5


# ---- Faults ----


def test_an_update_that_fails_at_once_says_where():
    figure, _ = a_dot()
    with pytest.raises(RuntimeError, match="update failed at n=0: ZeroDivisionError"):
        Explorer(figure, lambda n: 1 / n, str, n=range(3))


def test_an_update_that_fails_later_is_shown_and_raised_and_the_rest_still_works():
    figure, dot = a_dot()
    explorer = Explorer(
        figure, lambda n: [dot] if n != 2 else 1 / 0, lambda n: f"n is {n}.", n=range(4)
    )
    *_, line, error = explorer.widget.children
    with pytest.raises(RuntimeError, match="update failed at n=2"):
        explorer.n = 2
    assert "update failed at n=2: ZeroDivisionError" in error.value
    assert explorer.widget.children[0].value == 2, (
        "the slider stands where the value is"
    )
    explorer.n = 3
    assert error.value == "" and "n is 3." in line.value
    with pytest.raises(RuntimeError, match="update failed at n=2"):
        explorer.html()


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (None, "returned None"),
        ([], "returned no artist"),
        ([1], "returned int '1' in its list"),
        (3, "returned int"),
    ],
)
def test_an_update_that_returns_no_artists_is_told(returned, message):
    figure, _ = a_dot()
    with pytest.raises(TypeError, match=f"update: {message}.*want .*artists it moved"):
        Explorer(figure, lambda n: returned, str, n=range(3))


def test_an_update_that_returns_a_bare_artist_is_told():
    figure, dot = a_dot()
    with pytest.raises(TypeError, match=r"update: returned Line2D .*want a list"):
        Explorer(figure, lambda n: dot, str, n=range(3))


def test_an_update_that_changes_its_artists_is_told():
    figure, dot = a_dot()
    explorer = Explorer(
        figure, lambda n: [dot] * (1 + n // 2), lambda n: "", n=range(4)
    )
    with pytest.raises(
        ValueError,
        match=r"update: returned other artists at n=2 \(2\) than the first time \(1\)",
    ):
        explorer.html()


def test_a_describe_that_returns_no_sentence_is_told():
    figure, dot = a_dot()
    explorer = Explorer(figure, lambda n: [dot], lambda n: n, n=range(4))
    with pytest.raises(
        TypeError, match="describe: returned int '0' at n=0, want a sentence"
    ):
        explorer.html()


@pytest.mark.parametrize(
    ("controls", "error", "message"),
    [
        ({}, TypeError, "controls: got none"),
        ({"n": []}, ValueError, "n: got no values"),
        ({"n": "abc"}, TypeError, "n: got str 'abc', want a range or a list"),
        ({"n": 5}, TypeError, "n: got int '5', want a range or a list"),
        (
            {"n": range(10**9)},
            ValueError,
            "n: got 1,000,000,000 values, want at most 5,000",
        ),
        (
            {"n": range(1000), "m": range(100)},
            ValueError,
            "1,000 n x 100 m make 100,000 frames",
        ),
        (
            {"values": range(3)},
            ValueError,
            "'values' is already a name of the explorer's own",
        ),
    ],
)
def test_controls_that_make_no_explorer_are_refused(controls, error, message):
    figure, dot = a_dot()
    with pytest.raises(error, match=message):
        Explorer(figure, lambda **_: [dot], str, **controls)


def test_an_explorer_that_cannot_be_baked_is_shown_alive_and_the_fault_raised(
    monkeypatch,
):
    shown = []
    monkeypatch.setattr(lib.explorer, "display", shown.append)
    figure, dot = a_dot()
    explorer = Explorer(
        figure, lambda n: [dot] if n != 2 else 1 / 0, lambda n: "", n=range(4)
    )
    with pytest.raises(RuntimeError, match="update failed at n=2"):
        explorer._repr_mimebundle_()
    assert shown == [explorer.widget]


@pytest.mark.rests_on("lib", "CONTRIBUTING.md")
def test_the_example_of_the_notes_is_that_of_the_docstring():
    notes = (ROOT / "CONTRIBUTING.md").read_text()
    shown = (
        next(
            block
            for block in re.findall(r"(?s)```python\n(.*?)```", notes)
            if "Explorer(" in block
        )
        .replace("\n", "")
        .replace(" ", "")
    )
    example = lib.explorer.__doc__.split("\n\n    ", 1)[1].split("\n\nSizes are", 1)[0]
    assert shown.endswith(example.replace("\n", "").replace(" ", ""))


def test_the_example_of_the_docstring_runs():
    example = lib.explorer.__doc__.split("\n\n    ", 1)[1].split("\n\nSizes are", 1)[0]
    source = "\n".join(
        line.removeprefix("    ") for line in ("    " + example).split("\n")
    )
    source = source.replace("Explorer(figure", "explorer = Explorer(figure")
    names = {
        "np": np,
        "new_figure": new_figure,
        "place": place,
        "COLOURS": COLOURS,
        "Explorer": Explorer,
    }
    exec(source, names)
    assert (
        names["explorer"].sentence == "sin(1 x) completes 1.6 waves between 0 and 10."
    )
    assert len(names["explorer"].frames()) == 8


# ---- The lab's explorers ----


def test_the_measured_lengths_are_those_of_the_file():
    explorer, stored = explorers.measured_lengths(measured()), measured()
    explorer.method, explorer.positions = "RoPE", "512 to 1023"
    runs, seeds = stored.coarse["rope"].by_seed, stored.settings["seeds"]
    far, inside = (runs[:, stored.coarse_edges.index(start)] for start in (512, 32))
    assert explorer.sentence == (
        f"RoPE, positions 512 to 1023: byte perplexity {far.mean():.1f}, the {seeds} seeds "
        f"from {far.min():.1f} to {far.max():.1f}. That is {far.mean() / inside.mean():.1f} "
        f"times the {inside.mean():.1f} of the trained range's second half."
    )


def test_where_there_is_no_row_no_number_is_shown():
    explorer = explorers.measured_lengths(measured())
    explorer.method, explorer.positions = "learned, 64 rows", "64 to 79"
    assert explorer.sentence.endswith(
        "no row, IndexError. There is nothing to measure."
    )
    assert "nan" not in explorer.svg()
    explorer.positions = "32 to 63"
    assert "byte perplexity" in explorer.sentence


def attention_of(weights, **options):
    explorer = explorers.attention_by_layer({"a": torch.tensor(weights)}, **options)
    explorer.svg()
    return explorer


def test_an_attention_map_has_a_tile_for_every_weight():
    weights = [[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.25, 0.25, 0.5]]
    explorer = attention_of([weights])
    [axes] = [axes for axes in explorer.figure.axes if axes.get_xlim() == (0, 3)]
    drawn = np.zeros((3, 3))
    for patch in axes.patches[1:]:  # the first is the ground below
        if patch.get_visible():
            for strip in patch.get_path().vertices.reshape(-1, 5, 2):
                (left, top), (right, bottom) = strip.min(0), strip.max(0)
                drawn[int(top) : int(bottom), int(left) : int(right)] = (
                    patch.get_alpha()
                )
    assert drawn == pytest.approx(np.sqrt(weights), abs=0.051)


def test_the_sentence_says_how_near_attention_stays():
    evenly, itself = torch.ones(8, 8).tril(), torch.eye(8)
    evenly = evenly / evenly.sum(-1, keepdim=True)
    maps = {"even": evenly[None], "own": itself[None]}
    explorer = explorers.attention_by_layer(maps, step=2, trained_length=8)
    inside = sum(2 / (n + 1) for n in (1, 2, 3)) / 3
    past = sum(2 / (n + 1) for n in (4, 5, 6, 7)) / 4
    assert explorer.sentence == (
        "Layer 1 of 1. Share of attention that goes to a query's own 2 positions and the 2 before: "
        f"even {inside:.0%}, past the trained length {past:.0%}; "
        "own 100%, past the trained length 100%."
    )
    alone = explorers.attention_by_layer({"own": itself[None]})
    assert alone.sentence.endswith("to itself and the byte before: own 100%.")


OWN = torch.eye(8).expand(2, 8, 8)  # every query looks at itself
NO_MAPS = [
    ({}, {}, "maps", "none"),
    ({"a": torch.eye(60)[None]}, {}, "a", "shape [1, 60, 60]"),
    ({"a": torch.ones(1, 1, 1)}, {}, "a", "shape [1, 1, 1]"),
    ({"a": OWN[0]}, {}, "a", "shape [8, 8]"),
    ({"a": OWN[:, :4]}, {}, "a", "shape [2, 4, 8]"),
    ({"a": OWN[:0]}, {}, "a", "shape [0, 8, 8]"),
    ({"a": OWN, "b": OWN[:1]}, {}, "b", "shape [1, 8, 8]"),
    ({"a": OWN[:1], "b": OWN}, {}, "b", "shape [2, 8, 8]"),
    ({"a": OWN, "b": OWN[:, :4, :4]}, {}, "b", "shape [2, 4, 4]"),
    ({"a": OWN * math.nan}, {}, "a", "nan"),
    ({"a": OWN / 2}, {}, "a", "0.5"),
    ({"a": OWN}, {"step": 0}, "step", "0"),
    ({"a": OWN}, {"trained_length": 1}, "trained_length", "1"),
    ({"a": OWN}, {"step": 4, "trained_length": 7}, "trained_length", "7"),
]


@pytest.mark.parametrize(("maps", "options", "argument", "came"), NO_MAPS)
def test_what_are_no_attention_maps_is_named(maps, options, argument, came):
    call = functools.partial(explorers.attention_by_layer, maps, **options)
    assert_refused(call, ValueError, argument, came)


def test_a_measurement_without_a_method_is_named():
    for section in ("fine", "coarse"):
        stored = measured()
        getattr(stored, section).pop("cut")
        call = functools.partial(explorers.measured_lengths, stored)
        assert_refused(call, ValueError, "measured", f"no 'cut' in {section}")


# ---- The field's explorers ----


def test_mixed_layouts_agree_at_position_0_and_not_after():
    q, k = torch.randn(2, 8, generator=torch.Generator().manual_seed(5)).unbind()
    explorer = explorers.layout_pairs(q, k)
    assert explorer.sentence.endswith("unconverted: the same.")
    explorer.position, explorer.pair = 12, 1
    right, mixed = (
        (rotate(q.view(1, 1, 1, 8), [12], layout).flatten() @ k).item()
        for layout in ("interleaved", "half-split")
    )
    assert explorer.sentence.replace("−", "-") == (
        "Pair 1 of 4: dimensions 2 and 3 interleaved, 1 and 5 half-split. Query at 12: "
        f"{right:.3f} as the model was made, {mixed:.3f} unconverted: another score."
    )


def test_the_boxes_of_a_pair_are_those_that_turn_together():
    q, k = torch.randn(2, 8, generator=torch.Generator().manual_seed(5)).unbind()
    explorer = explorers.layout_pairs(q, k)
    explorer.pair = 2
    explorer.svg()
    canvas = explorer.figure.axes[0]
    chosen = [n for n, box in enumerate(canvas.patches) if box.get_linewidth() > 1]
    assert chosen == [4, 5, 8 + 2, 8 + 6]  # a row of 8 for each layout


def test_only_positions_that_move_offsets_move_attention():
    explorer = decoding_starts()
    assert explorer.token == 3 and "attention is right" in explorer.sentence
    explorer.token = 7
    assert "turned as at position 7." in explorer.sentence
    explorer.positions = "all 100 later"
    assert explorer.sentence == (
        "Token 7, all 100 later: turned as at position 107. Tokens are turned by other positions than their "
        "own, and attention is right all the same."
    )
    explorer.positions = "start ignored"
    assert "turned as at position 0." in explorer.sentence
    assert re.search(r" \d+% of its attention goes to other tokens", explorer.sentence)


def test_the_bars_are_the_attention_of_the_newest_token():
    explorer = decoding_starts()
    explorer.token, explorer.positions = 5, "start ignored"
    explorer.svg()
    boxes, axes = explorer.figure.axes
    heights = [bar.get_height() for bar in axes.patches]
    assert sum(heights) == pytest.approx(1) and heights[6:] == [0] * 6
    told = [text.get_text() for text in boxes.texts]
    assert told[3::2][:7] == ["0", "1", "2", "3", "0", "0", ""]


def test_the_angle_explorer_reads_off_what_the_ways_lose():
    explorer = explorers.angle_errors()
    explorer.way, explorer.tokens = "positions in bfloat16", 256
    assert "the worst pair is off by up to" in explorer.sentence
    assert "the angle is lost" not in explorer.sentence
    explorer.tokens = 4096
    assert explorer.sentence.endswith("the angle is lost.")
    explorer.way, explorer.pair = "angles in float64", 1
    said = float(
        re.search(r"up to ([\de−.]+) rad", explorer.sentence)[1].replace("−", "-")
    )
    positions = torch.arange(4096)
    exact = freqs_cis_at(positions, 128, dtype=torch.complex128)
    found = (
        (freqs_cis_at(positions, 128) * exact.conj()).angle().abs()[:, 1].max().item()
    )
    assert 0.5 * found < said <= 1.01 * found
    assert explorer.sentence.startswith(
        "A text of 4,096 tokens, angles in float64: pair 1 (a turn in 7.26 tokens) is off by up to "
    )


def test_an_error_never_shrinks_with_the_text():
    explorer = explorers.angle_errors({"float32": WAYS["all in float32"]}, 16, 8)
    sizes = []
    for tokens in (2, 16, 256):
        explorer.tokens = tokens
        explorer.svg()
        sizes.append(explorer.figure.axes[0].lines[-1].get_ydata()[0])
    assert sizes == sorted(sizes) and sizes[0] > 0


def test_the_pairs_that_meet_new_angles_are_those_that_turn_further_than_in_training():
    explorer = explorers.published_wavelengths()
    explorer.tokens, explorer.model = 32_768, "Llama 3.1 8B"
    model = PUBLISHED["Llama 3.1 8B"]
    plain, scaled = inv_freq(128, 500_000), model.scaled(32_768).inv_freq
    partly = plain * 8192 < math.tau
    met = {
        name: (partly & (theta * 32_768 > plain * 8192)).sum().item()
        for name, theta in (("plain", plain), ("scaled", scaled))
    }
    assert explorer.sentence == (
        f"Llama 3.1 8B, a text of 32,768 tokens: {partly.sum()} of 64 pairs make no full turn in 8,192, the "
        f"original length. Unscaled, {met['plain']} of them would meet new angles; scaled, {met['scaled']} do."
    )
    explorer.svg()
    before, after, new = explorer.figure.axes[0].lines[-3:]
    assert len(before.get_xdata()) == 64 and len(new.get_xdata()) == met["scaled"]
    assert len(after.get_xdata()) == 64 - met["scaled"]
    explorer.model, explorer.tokens = "Llama 2 7B", 2_048
    assert explorer.sentence.endswith("0 of them meet new angles.")


def test_longrope_changes_its_list_past_the_trained_length():
    explorer = explorers.published_wavelengths(lengths=(4_096, 8_192))
    explorer.model = "Phi-3 mini 128k"
    explorer.svg()
    short = explorer.figure.axes[0].lines[-2].get_ydata()
    explorer.tokens = 8_192
    explorer.svg()
    assert max(explorer.figure.axes[0].lines[-2].get_ydata()) > 10 * max(short)


@pytest.mark.parametrize("prompt", [0, 12, 13, -1])
def test_a_prompt_that_leaves_no_token_is_refused(prompt):
    q, k = torch.randn(2, 12, 8)
    where = {"true position": lambda start, n: start + torch.arange(n)}
    with pytest.raises(ValueError, match="prompt: got"):
        explorers.decoding_starts(q, k, where, prompt)
    with pytest.raises(ValueError, match="where: got no labels"):
        explorers.decoding_starts(q, k, {})


def test_explorers_of_nothing_are_refused():
    with pytest.raises(ValueError, match="models: got none"):
        explorers.published_wavelengths({})
    with pytest.raises(ValueError, match="last_octave: got 1"):
        explorers.angle_errors(last_octave=1)


def test_bars_are_what_is_computed_and_marks_what_is_right():
    explorer = decoding_starts()
    explorer.token = 9
    explorer.svg()
    axes = explorer.figure.axes[1]
    right = [float(bar.get_height()) for bar in axes.patches]
    assert [float(line.get_ydata()[0]) for line in axes.lines] == pytest.approx(right)
    explorer.positions = "start ignored"
    explorer.svg()
    computed = [float(bar.get_height()) for bar in axes.patches]
    assert computed != pytest.approx(right)
    assert [float(line.get_ydata()[0]) for line in axes.lines] == pytest.approx(right)
    assert [line.get_visible() for line in axes.lines] == [True] * 10 + [False] * 2
    moved = sum(abs(a - b) for a, b in zip(right, computed, strict=True)) / 2
    assert f"{moved:.0%} of its attention" in explorer.sentence
    edges = [box.get_edgecolor() for box in explorer.figure.axes[0].patches]
    assert edges[0] == edges[3] != edges[4] == edges[9] != edges[10]


def test_the_wavelengths_and_both_lines_stand_where_they_belong():
    explorer = explorers.published_wavelengths()
    explorer.tokens, explorer.model = 65_536, "Llama 3.1 8B"
    explorer.svg()
    axes = explorer.figure.axes[0]
    trained, text, before, after, new = axes.lines
    assert list(trained.get_ydata()) == [8_192] * 2
    assert list(text.get_ydata()) == [65_536] * 2
    plain = math.tau / inv_freq(128, 500_000)
    assert list(before.get_ydata()) == pytest.approx(plain.tolist())
    scaled = math.tau / PUBLISHED["Llama 3.1 8B"].scaled(65_536).inv_freq
    drawn = sorted([*after.get_ydata(), *new.get_ydata()])
    assert drawn == pytest.approx(scaled.tolist())
    labels = {label.get_text(): label.get_position()[1] for label in axes.texts}
    assert labels["original length: 8,192"] < 8_192
    assert labels["this text: 65,536"] > 65_536


def test_the_angle_explorer_draws_the_chosen_pair_at_the_chosen_length():
    explorer = explorers.angle_errors()
    explorer.way, explorer.pair, explorer.tokens = "inv_freq in bfloat16", 1, 512
    explorer.svg()
    curve, dot = explorer.figure.axes[0].lines[-2:]
    positions = torch.arange(256, 512)
    lost = (inv_freq(128)[1].bfloat16().double() - inv_freq(128)[1]).abs() * positions
    assert lost.min() <= dot.get_ydata()[0] <= lost.max()
    assert dot.get_xdata()[0] == 512
    at = list(curve.get_xdata()).index(512)
    assert curve.get_ydata()[at] == dot.get_ydata()[0]
    assert explorer.sentence.endswith("of half a turn.")
