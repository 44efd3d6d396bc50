"""The picture maker: SVG that is tidy, themed, the same every time, and readable without seeing it."""

import re
import xml.etree.ElementTree as ElementTree

import matplotlib
import pytest

from lib.picture import Picture, new_figure, place, svg_markup, tidy_attribute
from lib.theme import COLOURS, PALETTE

BACKGROUNDS = (
    ("#ffffff", "#ffffff"),
    ("#121212", "#14181e"),
)  # of light and of dark pages


def line(ys=(1, 3, 2), colour="blue"):
    with new_figure(300, 200) as figure:
        axes = place(figure, left=40, top=20, width=240, height=150)
        axes.plot(ys, "o-", color=COLOURS[colour])
        axes.text(0, 1, "θ₀ = 1 & more")
    return figure


def contrast(one, other):
    def luminance(colour):
        parts = [int(colour[start : start + 2], 16) / 255 for start in (1, 3, 5)]
        red, green, blue = (
            p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
        )
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("name", ["ink", "muted", "blue", "orange", "green", "pink"])
def test_text_colours_have_aa_contrast_in_both_themes(name):
    for colour, pages, surface in zip(
        PALETTE[name], BACKGROUNDS, PALETTE["surface"], strict=True
    ):
        assert all(contrast(colour, page) >= 4.5 for page in (*pages, surface)), (
            name,
            colour,
        )


@pytest.mark.parametrize("name", ["blue", "orange"])
def test_paper_is_readable_on_a_filled_table_row(name):
    assert all(
        contrast(*pair) >= 4.5
        for pair in zip(PALETTE[name], PALETTE["paper"], strict=True)
    )


def test_place_counts_points_from_the_top_left():
    with new_figure(300, 200) as figure:
        axes = place(figure, left=40, top=20, width=240, height=150)
    assert axes.bbox.bounds == pytest.approx((40, 200 - 20 - 150, 240, 150))


def test_svg_is_well_formed_vector_and_scales_with_its_column():
    root = ElementTree.fromstring(svg_markup(line(), "p", label="A line"))
    assert root.attrib["viewBox"] == "0 0 300 200"
    assert "width" not in root.attrib and "height" not in root.attrib
    assert (root.attrib["role"], root.attrib["aria-label"]) == ("img", "A line")
    tags = {element.tag.split("}")[1] for element in root.iter()}
    assert tags <= {"svg", "g", "defs", "path", "use", "text", "clipPath", "rect"}
    assert "θ₀ = 1 & more" in [element.text for element in root.iter()]


def test_a_known_line_lands_on_known_coordinates():
    with new_figure(300, 200) as figure:
        axes = place(figure, 40, 20, 240, 150, xlim=(0, 2), ylim=(0, 10))
        axes.plot([0, 1, 2], [0, 10 / 3, 10], color=COLOURS["pink"])
    # x = 40 + 120 n; y = 170 - 15 n, rounded to a tenth
    assert 'd="M40 170L160 120L280 20"' in svg_markup(figure, "p")


def test_numbers_are_rounded_and_nothing_is_dated():
    svg = svg_markup(line((1, 10 / 3, 2)), "p")
    assert not re.search(r'(?: d| x| y|transform)="[^"]*\.\d\d', svg)
    assert (
        "metadata" not in svg
        and "<?xml" not in svg
        and "Matplotlib" not in svg
        and "<style" not in svg
    )


@pytest.mark.parametrize(
    ("name", "raw", "published"),
    [
        ("x", "-0.04", "0"),
        ("x", "10.05000", f"{10.05:.1f}".removesuffix(".0")),
        ("d", "M 1.234567 2 \nL 3.0 4.56 \nz", "M1.2 2L3 4.6z"),
        ("d", "M 1 2 L 5 2 L 5 9.01 L 1 9.01 L 1 2 z", "M1 2H5V9H1z"),
        ("d", "M 1 2 L 5 3 L 5 9 L 1 9 z", "M1 2L5 3L5 9L1 9z"),
        ("transform", "rotate(-0 12.345 6)", ""),
        ("id", "line2d_12", ""),
        ("id", "tip", "p-tip"),
        ("clip-path", "url(#abc)", "url(#p-abc)"),
        (
            "style",
            "fill: #0068a8; opacity: 0.300001",
            "fill:var(--pic-blue,#0068a8);opacity:0.3",
        ),
        (
            "style",
            "font-size: 10.5px; font-family: 'DejaVu Sans'; text-anchor: end",
            "text-anchor:end",
        ),
    ],
)
def test_attributes_are_tidied(name, raw, published):
    assert tidy_attribute(name, raw, "p") == (name, published)


def test_every_colour_is_a_variable_and_others_are_refused():
    colours = re.findall(r"(?:fill|stroke):([^;\"]+)", svg_markup(line(), "p"))
    assert {colour for colour in colours if not colour.startswith("var(--pic-")} <= {
        "none"
    }
    with new_figure(300, 200) as figure:
        place(figure, 40, 20, 240, 150).plot([1, 2], color="red")
    with pytest.raises(ValueError, match="#ff0000 is not a colour of the palette"):
        svg_markup(figure, "p")


def test_every_variable_used_is_defined_for_light_and_dark():
    page = Picture(line(), "A line.").html()
    light, dark = page.split("html[data-theme")[:2]
    for name in set(re.findall(r"var\(--pic-(\w+)", page)) - {"paper"}:
        assert f"--pic-{name}:{PALETTE[name][0]}" in light
        assert f"--pic-{name}:{PALETTE[name][1]}" in dark


def test_same_figure_gives_the_same_characters_and_two_share_no_id():
    assert Picture(line(), "One.").html() == Picture(line(), "One.").html()
    page = (
        Picture([line(), line((3, 1, 2))], ["One.", "Two."]).html()
        + Picture(line(), "Three.").html()
    )
    ids = re.findall(r' id="([^"]+)"', page)
    assert len(ids) == len(set(ids)) > 3
    assert set(re.findall(r'(?:href="#|url\(#)([^")]+)', page)) <= set(ids)


def test_html_carries_the_text_and_escapes_it():
    bundle = Picture(line(), "It says 1 < 2. And more.")._repr_mimebundle_()
    assert bundle["text/plain"] == "It says 1 < 2. And more."
    assert '<figure class="picture"' in bundle["text/html"]
    assert 'aria-label="It says 1 &lt; 2"' in bundle["text/html"]
    assert (
        "<summary>Read this figure as text</summary><p>It says 1 &lt; 2. And more.</p>"
        in bundle["text/html"]
    )


def test_figures_and_texts_must_match():
    with pytest.raises(ValueError, match="2 figures need as many texts, got 1"):
        Picture([line(), line()], "One.")


def test_pictures_side_by_side_by_adding():
    both = Picture(line(), "One.", kind="diagram") + Picture(
        line(), "Two.", kind="diagram"
    )
    assert both.html().count("<figure") == 2
    assert both.html().count("Read this diagram as text") == 2
    assert both.text == "One.\n\nTwo."


def test_the_readers_settings_are_neither_changed_nor_used():
    plain = Picture(line(), "One.").html()
    with matplotlib.rc_context(
        {"lines.linewidth": 9, "font.size": 30, "axes.facecolor": "red"}
    ):
        before = dict(matplotlib.rcParams)
        assert Picture(line(), "One.").html() == plain
        assert dict(matplotlib.rcParams) == before
