"""Pictures for a web page: Matplotlib draws, this module turns the drawing into tidy SVG with its text.

    with new_figure(400, 200) as figure:
        axes = place(figure, left=40, top=20, width=340, height=150)
        axes.plot([0, 1], [2, 3], color=COLOURS["blue"])
    Picture(figure, "A line from (0, 2) to (1, 3).")

The SVG follows the page: it scales with the column, takes the page's font, and changes colour with the
light and dark theme, because every colour in it is a CSS variable of `lib.theme`. The same numbers always
give the same characters, on any machine: nothing is random or dated, and all coordinates are rounded.
Nothing here changes Matplotlib's settings or opens a window.
"""

import hashlib
import html
import io
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import matplotlib.style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.backends.backend_svg import RendererSVG
from matplotlib.figure import Figure

from lib.theme import COLOURS, FONT, theme_css

_NAMES = {light: name for name, light in COLOURS.items()}

STYLE = {
    "figure.dpi": 72,  # one Matplotlib pixel is one SVG unit
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "axes.edgecolor": COLOURS["muted"],
    "axes.labelcolor": COLOURS["muted"],
    "axes.linewidth": 0.75,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.labelsize": 10.5,
    "font.family": ["DejaVu Sans"],  # measured with this one; the page shows its own
    "font.size": 10.5,
    "lines.linewidth": 1.75,
    "lines.solid_capstyle": "round",
    "lines.dash_capstyle": "butt",
    "text.color": COLOURS["ink"],
    "text.parse_math": False,
    "xtick.color": COLOURS["muted"],
    "ytick.color": COLOURS["muted"],
    "xtick.major.width": 0.75,
    "ytick.major.width": 0.75,
    "xtick.major.size": 3,
    "ytick.major.size": 3,
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "svg.fonttype": "none",  # text stays text
    "svg.hashsalt": "picture",  # ids by content, not by chance
}

THEME_CSS = theme_css(".picture") + (
    ".pictures{display:flex;flex-wrap:wrap;gap:1rem 2rem;align-items:flex-start}"
    ".picture{flex:1 1 0;min-width:min(100%,17rem);margin:.5rem 0;padding:0;break-inside:avoid}"
    ".picture svg{display:block;width:100%;height:auto;margin:0 0 .5rem;overflow:visible}"
    ".picture details{font-size:.9em}.picture summary{cursor:pointer}.picture details p{margin:.4rem 0 0}"
    ".text_html:has(>.pictures){background:none!important;color:inherit!important;padding:0!important}"
)


class Picture:
    """One figure or several side by side, each with its text equivalent; a notebook shows it as a picture.

    Several figures lie in one row on a wide page and below each other on a phone. `kind` is what the reader
    is told to read: "figure" or "diagram".
    """

    def __init__(
        self,
        figures: Figure | Sequence[Figure],
        texts: str | Sequence[str],
        kind: str = "figure",
    ) -> None:
        self.figures = [figures] if isinstance(figures, Figure) else list(figures)
        self.texts = [texts] if isinstance(texts, str) else list(texts)
        self.kind = kind
        if len(self.figures) != len(self.texts):
            raise ValueError(
                f"{len(self.figures)} figures need as many texts, got {len(self.texts)}"
            )

    @property
    def text(self) -> str:
        """What the picture shows, in words and numbers."""
        return "\n\n".join(self.texts)

    def __repr__(self) -> str:
        return self.text

    def __add__(self, other: "Picture") -> "Picture":
        """Both pictures side by side."""
        return Picture(
            self.figures + other.figures, self.texts + other.texts, self.kind
        )

    def html(self) -> str:
        """The picture as a piece of a page, style and all."""
        parts = [
            self._figure_html(*pair)
            for pair in zip(self.figures, self.texts, strict=True)
        ]
        return f'<style>{THEME_CSS}</style><div class="pictures">{"".join(parts)}</div>'

    def _figure_html(self, figure: Figure, text: str) -> str:
        width = figure.get_size_inches()[0] * 72
        svg = svg_markup(figure, prefix=_digest(text), label=text.split(". ")[0])
        return (
            f'<figure class="picture" style="flex-basis:{width:.0f}px">{svg}'
            f"<details><summary>Read this {self.kind} as text</summary>"
            f"<p>{html.escape(text)}</p></details></figure>"
        )

    def _repr_mimebundle_(
        self, include: object = None, exclude: object = None
    ) -> dict[str, str]:
        return {"text/html": self.html(), "text/plain": self.text}


# ---- Drawing ----


@contextmanager
def style() -> Iterator[None]:
    """Draw in this book's style; the reader's own Matplotlib settings are neither used nor changed."""
    with matplotlib.style.context(["default", STYLE]):
        yield


@contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """A figure of width x height points to draw in, inside `with`. It is no window and needs no closing."""
    with style():
        yield Figure(figsize=(width / 72, height / 72))


def place(
    figure: Figure, left: float, top: float, width: float, height: float, **options: Any
) -> Axes:
    """Axes at a place given in points, counted from the figure's top left corner."""
    full_width, full_height = figure.get_size_inches() * 72
    bottom = full_height - top - height
    box = (
        left / full_width,
        bottom / full_height,
        width / full_width,
        height / full_height,
    )
    return figure.add_axes(box, **options)


def write(figure: Figure, x: float, y: float, text: str, **options: Any) -> None:
    """Text whose baseline starts at a place given in points, counted from the figure's top left corner."""
    width, height = figure.get_size_inches() * 72
    figure.text(x / width, 1 - y / height, text, **options)


# ---- SVG ----


def svg_markup(figure: Figure, prefix: str, label: str | None = None) -> str:
    """The figure as inline SVG for a page.

    It has a viewBox and no fixed width, so that it fills its column (up to 1.4 pixels a point). `label` is
    its name for screen readers. Every id starts with `prefix`; a gid given to an artist (`set_gid("tip")`)
    becomes the id `prefix-tip`, Matplotlib's own numbered ids are dropped. Colours outside the palette are
    an error.
    """
    root = svg_tree(figure, prefix)
    if label is None:
        root.set("aria-hidden", "true")
    else:
        root.set("role", "img")
        root.set("aria-label", label)
    return ElementTree.tostring(root, encoding="unicode")


def svg_tree(figure: Figure, prefix: str) -> ElementTree.Element:
    """The figure as a tidy tree of SVG elements."""
    buffer = io.StringIO()
    with style():
        figure.savefig(buffer, format="svg")
    raw = ElementTree.fromstring(buffer.getvalue())
    [root] = tidy(raw, prefix)
    width = figure.get_size_inches()[0] * 72
    root.attrib = {
        "xmlns": "http://www.w3.org/2000/svg",
        "viewBox": root.attrib["viewBox"],
        "style": f"max-width:{width * 1.4:.0f}px;font:{STYLE['font.size']}px {FONT};stroke-linejoin:round",
    }
    return root


def artist_markup(figure: Figure, artists: Sequence[Artist], prefix: str) -> list[str]:
    """Each artist alone as pieces of SVG, where `svg_markup` would draw it; the last piece is what they share.

    Drawing a few artists takes milliseconds where a whole figure takes a hundred: an explorer redraws so.
    """
    width, height = figure.get_size_inches() * 72
    buffer = io.StringIO()
    with _svg_settings():
        renderer = RendererSVG(width, height, buffer, image_dpi=72)
        for artist in artists:
            renderer.open_group("artist", gid="artist")
            artist.draw(renderer)
            renderer.close_group("artist")
        renderer.finalize()
    groups, shared = [], []
    for element in ElementTree.fromstring(buffer.getvalue()):
        pieces = [piece for child in element for piece in tidy(child, prefix)]
        if element.get("id") == "artist":
            groups.append(pieces)
        elif element.tag.endswith("defs"):  # clip paths
            shared += tidy(element, prefix)
    return [
        "".join(ElementTree.tostring(piece, encoding="unicode") for piece in part)
        for part in [*groups, shared]
    ]


@contextmanager
def _svg_settings() -> Iterator[None]:
    """What the SVG renderer reads while it draws. Matplotlib's own context copies all settings: a millisecond."""
    settings = matplotlib.rcParams
    before = {name: settings[name] for name in ("svg.fonttype", "svg.hashsalt")}
    settings.update({name: STYLE[name] for name in before})
    try:
        yield
    finally:
        settings.update(before)


def tidy(element: ElementTree.Element, prefix: str) -> list[ElementTree.Element]:
    """Matplotlib's element as we publish it: rounded, themed, prefixed, and without what says nothing."""
    tag = element.tag.split("}")[-1]
    if tag in ("metadata", "style"):
        return []
    children = [tidied for child in element for tidied in tidy(child, prefix)]
    attributes = dict(
        tidy_attribute(name, value, prefix) for name, value in element.attrib.items()
    )
    attributes = {name: value for name, value in attributes.items() if value}
    if tag in ("g", "defs") and not (children and (attributes or tag == "defs")):
        return children
    if tag == "path" and attributes.get("style") == "fill:none":  # invisible
        return []
    result = ElementTree.Element(tag, attributes)
    result.text = element.text if tag in ("text", "tspan") else None
    result.extend(children)
    return [result]


@lru_cache(
    maxsize=10_000
)  # most attributes of a figure's frames are the same ones again
def tidy_attribute(name: str, value: str, prefix: str) -> tuple[str, str]:
    """One attribute of Matplotlib's SVG as we publish it; an empty value means that it can go."""
    name = name.split("}")[-1]  # xlink:href is href today
    if name == "id":
        numbered = re.fullmatch(r"[A-Za-z][\w.]*_\d+", value)
        return name, "" if numbered else f"{prefix}-{value}"
    if name == "style":
        return name, _tidy_style(value)
    if name in ("href", "clip-path"):
        return name, value.replace("#", f"#{prefix}-")
    if name in ("d", "x", "y", "width", "height", "viewBox", "transform", "points"):
        return name, _tidy_numbers(value)
    return name, value


def _tidy_numbers(value: str) -> str:
    """Numbers rounded to a tenth, without the spaces and zero rotations that change nothing."""
    value = " ".join(
        re.sub(
            r"-?\d+\.\d+", lambda number: _rounded(float(number[0]), 1), value
        ).split()
    )
    value = re.sub(r"rotate\(-?0 [^)]*\)", "", value)
    value = re.sub(r" ?([MLQCz]) ?", r"\1", value)
    return _RECTANGLE.sub(r"M\1 \2H\3V\4H\1z", value)


_RECTANGLE = re.compile(r"M(\S+) ([^\sL]+)L(\S+) \2L\3 ([^\sL]+)L\1 \4(?:L\1 \2)?z")


def _rounded(number: float, places: int) -> str:
    text = f"{number:.{places}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def _tidy_style(value: str) -> str:
    """Colours become variables; the font family and size are the whole picture's, so they go."""
    declarations = [
        [word.strip() for word in part.split(":", 1)]
        for part in value.split(";")
        if part.strip()
    ]
    dropped = (["font-size", f"{STYLE['font.size']}px"],)
    return ";".join(
        _tidy_declaration(name, text)
        for name, text in declarations
        if name != "font-family" and [name, text] not in dropped
    )


def _tidy_declaration(name: str, value: str) -> str:
    if name in ("fill", "stroke") and value != "none":
        if value not in _NAMES:
            raise ValueError(
                f"{value} is not a colour of the palette: {', '.join(COLOURS)}"
            )
        return f"{name}:var(--pic-{_NAMES[value]},{value})"
    return f"{name}:" + re.sub(
        r"-?\d+\.\d+", lambda number: _rounded(float(number[0]), 2), value
    )


def _digest(text: str) -> str:
    return "p" + hashlib.sha256(text.encode()).hexdigest()[:8]
