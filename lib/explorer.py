"""A figure with sliders that is alive twice: with a kernel, and on a page without one.

    with new_figure(300, 150) as figure:
        axes = place(figure, left=40, top=10, width=250, height=110)
        axes.set(xlim=(0, 10), ylim=(-1, 1), xlabel="x", ylabel="sin(k x)")
        x = np.linspace(0, 10, 101)
        (curve,) = axes.plot(x, np.sin(x), color=COLOURS["blue"])

    def update(k):
        curve.set_ydata(np.sin(k * x))
        return [curve]

    def describe(k):
        return f"sin({k} x) completes {10 * k / (2 * np.pi):.1f} waves between 0 and 10."

    Explorer(figure, update, describe, title="A wave", k=range(1, 9))

Sizes are in points: `new_figure(width, height)`, up to about 400 wide, and `place` counts
from the top left corner and leaves the room that labels need to you. Colours are those of
`COLOURS`, because they follow the theme; any other is an error.

`update` moves a few artists of the figure and returns them as a list, always the same
ones: lines, patches, texts, a scatter with any number of points (of a bar chart its bars:
`[*bars]`). An artist is hidden with `set_visible(False)`. `describe` says in a sentence
what the figure then shows. Both are called with a value of every control, by name;
controls are ranges or lists of numbers or strings.

In JupyterLab the sliders are ipywidgets. On a page every frame is there already: it was
drawn when the cell ran, and a small script (explorer.js, part of the output) puts it in
place. The page's address keeps the setting, `#a-wave?k=3`; a second explorer of one title
is `a-wave-2`. `python -m tools.notebooks FILE` stores a notebook with its explorers as a
page shows them. nbconvert prefers the live widget of a notebook saved from JupyterLab,
which a page cannot run, unless it is told:
`--NbConvertBase.display_data_priority="['text/html', 'text/plain']"`.
"""

import itertools
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Sequence, Sized
from html import escape
from pathlib import Path

import ipywidgets
import traitlets
from IPython.display import display
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from tqdm import tqdm

from lib.outputs import bundle, packed
from lib.picture import THEME_CSS, artist_markup, svg_markup

MOST_FRAMES = 5_000  # about 30 seconds of drawing, and a page of a few megabytes
SCRIPT, CSS = (
    Path(__file__).with_name(f"explorer.{kind}").read_text() for kind in ("js", "css")
)
# A number on its own or after a path's command letter; digits inside an id or a colour are none.
NUMBER = re.compile(
    r"(?:(?<![\w#.-])|(?<=[\s\"\dz][MLHVCQ]))(-?\d+(?:\.\d+)?)(?![\da-y_])"
)

_names: set[str] = set()  # of the explorers made so far


class Explorer(traitlets.HasTraits):
    """A Matplotlib figure, controls that move it, and a sentence for every setting.

    figure: as `lib.picture.new_figure` makes it; what does not move is drawn once.
    update(**values): moves artists and returns them as a list; the same artists at every setting.
    describe(**values): returns the setting's sentence, the figure's text equivalent.
    title: names the group of controls, and the setting in the page's address.
    controls: name=values, the values a range or a list; the first one also plays. A name with underscores is
    shown with spaces.

    Each control is a trait of the explorer: read it, set it (`explorer.position = 12`), observe it, or link it to
    another widget. Raises TypeError or ValueError for controls without values, for more than 5,000 frames, and
    when `update` or `describe` return something else; TraitError for a value that a control does not have.
    """

    def __init__(
        self,
        figure: Figure,
        update: Callable[..., Iterable[Artist]],
        describe: Callable[..., str],
        title: str = "Explorer",
        **controls: Sequence,
    ) -> None:
        self.figure, self.title = figure, title
        self._update, self._describe = update, describe
        self._controls = {
            name: _values(name, values) for name, values in controls.items()
        }
        if not controls:
            raise TypeError(
                "controls: got none, want at least one, such as position=range(10)"
            )
        taken = [
            name for name in controls if hasattr(type(self), name) or name[0] == "_"
        ]
        if taken:
            raise ValueError(
                f"controls: {taken[0]!r} is already a name of the explorer's own, want another"
            )
        _limit(self._controls)
        self._name = _unique(_slug(title))
        super().__init__()
        self.add_traits(
            **{name: _OneOf(values) for name, values in self._controls.items()}
        )
        self._artists = self._moved(self.values)
        self._still = self._draw_still()
        self._widget = None

    def notify_change(self, change: traitlets.Bunch) -> None:
        """Tell the observers first, linked widgets among them, then redraw: that may raise."""
        super().notify_change(change)
        if change.name in self._controls:
            self._show()

    @property
    def values(self) -> dict:
        """The present setting: a value for each control."""
        return {name: getattr(self, name) for name in self._controls}

    @property
    def sentence(self) -> str:
        """What the figure shows at the present setting."""
        return self._sentence(self.values)

    def svg(self) -> str:
        """The figure at the present setting, as inline SVG."""
        return self._svg(self._pieces(self.values))

    def frames(self) -> list[dict]:
        """Every setting in order, the last control fastest."""
        settings = itertools.product(*self._controls.values())
        return [dict(zip(self._controls, setting, strict=True)) for setting in settings]

    # ---- With a kernel ----

    @property
    def widget(self) -> ipywidgets.Widget:
        """Sliders, picture and sentence as one ipywidget, made on first use."""
        if self._widget is None:
            self._picture, self._line, self._error = (
                ipywidgets.HTML(),
                ipywidgets.HTML(),
                ipywidgets.HTML(),
            )
            sliders = [
                self._slider(name, values) for name, values in self._controls.items()
            ]
            self._widget = ipywidgets.VBox(
                [*sliders, self._picture, self._line, self._error]
            )
            self._show()
        return self._widget

    def _slider(self, name: str, values: tuple) -> ipywidgets.Widget:
        slider = ipywidgets.SelectionSlider(
            options=[(_label(value), value) for value in values],
            value=getattr(self, name),
            description=_words(name),
            style={"description_width": "6em"},
            layout={"width": "min(100%, 34em)"},
        )
        traitlets.link((self, name), (slider, "value"))
        return slider

    def _show(self) -> None:
        """Redraw the widget. What goes wrong is shown under the last good picture, and raised."""
        if self._widget is None:
            return
        try:
            picture, sentence = self.svg(), self.sentence
        except Exception as error:
            text = escape(f"{type(error).__name__}: {error}")
            self._error.value = f'<pre role="alert" style="color:#b3261e;white-space:pre-wrap">{text}</pre>'
            raise
        self._error.value = ""
        self._picture.value = (
            f'<style>{THEME_CSS}</style><div class="picture">{picture}</div>'
        )
        self._line.value = f'<p aria-live="polite">{escape(sentence)}</p>'

    # ---- Without a kernel ----

    def html(self) -> str:
        """The explorer as a piece of a page: drawn as it stands, all settings as data, and the script."""
        packers = self._bake()
        labels = {
            name: list(map(_label, self._controls[name])) for name in self._controls
        }
        data = {
            "frame": self.frames().index(self.values),
            "controls": list(labels.items()),
            "parts": [packer.packed() for packer in packers],
        }
        width = max(len(label) for row in labels.values() for label in row)
        rows = [
            self._row_html(*row, width, plays=n == 0)
            for n, row in enumerate(labels.items())
        ]
        # The page keeps room for the longest sentence, so that nothing jumps. A shorter
        # one may break into more lines, hence a word more.
        room = max(packers[-1].texts, key=len) + " mmmmmmmmmm"
        return (
            f"<style>{THEME_CSS}{CSS}</style>"
            "<noscript><style>.explorer fieldset{display:none!important}</style></noscript>"
            f'<figure class="picture explorer" id="{self._name}">'
            f"<fieldset><legend>{escape(self.title)}</legend>{''.join(rows)}</fieldset>"
            f'{self.svg()}<figcaption data-room="{escape(room)}">'
            f'<span aria-live="polite">{escape(self.sentence)}</span></figcaption>'
            f'<script type="application/json">{packed(data)}</script>'
            f"</figure><script>{SCRIPT}</script>"
        )

    def _row_html(self, name: str, labels: list[str], width: int, plays: bool) -> str:
        index = self._controls[name].index(getattr(self, name))
        label = escape(labels[index])
        button = '<button type="button" aria-label="Play">▶</button>'
        return (
            f"<label><span>{escape(_words(name))}</span>"
            f'<input type="range" min="0" max="{len(labels) - 1}" value="{index}" '
            f'autocomplete="off" aria-valuetext="{label}">'
            f'<output style="width:{width}ch" aria-hidden="true">{label}</output></label>'
            f"{button if plays and len(labels) > 2 else ''}"
        )

    def _bake(self) -> list["_Packer"]:
        """All frames, drawn: a packer for each moving part, for what they share, and for the sentence."""
        packers = [_Packer() for _ in range(len(self._artists) + 2)]
        for values in _progress(self.frames(), self.title):
            texts = [*self._pieces(values), self._sentence(values)]
            for packer, text in zip(packers, texts, strict=True):
                packer.add(text)
        self._moved(self.values)  # leave the figure as it stands
        return packers

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict:
        widget = self.widget
        try:
            page = self.html()
        except Exception:
            display(widget)  # alive all the same, at the settings that work
            raise
        return bundle(widget, page, self.sentence)

    # ---- Drawing ----

    def _moved(self, values: dict) -> list[Artist]:
        """Call `update`, and see that it answered with the figure's artists."""
        artists = self._call(self._update, "update", values)
        if isinstance(artists, Artist) or not isinstance(artists, Iterable):
            raise TypeError(
                f"update: returned {_kind(artists)} at {_setting(values)}, want a list of the artists it moved"
            )
        artists = list(artists)
        strangers = [artist for artist in artists if not isinstance(artist, Artist)]
        if strangers or not artists:
            found = _kind(strangers[0]) if strangers else "no artist"
            raise TypeError(
                f"update: returned {found} in its list at {_setting(values)}, want the artists it moved"
            )
        known = getattr(self, "_artists", artists)
        if [id(artist) for artist in artists] != [id(artist) for artist in known]:
            raise ValueError(
                f"update: returned other artists at {_setting(values)} ({len(artists)}) than the "
                f"first time ({len(known)}), want the same ones every time: hide one with "
                "set_visible(False)"
            )
        return artists

    def _pieces(self, values: dict) -> list[str]:
        """SVG of the moved artists, then what they share."""
        return artist_markup(self.figure, self._moved(values), f"{self._name}-moving")

    def _sentence(self, values: dict) -> str:
        sentence = self._call(self._describe, "describe", values)
        if not isinstance(sentence, str):
            raise TypeError(
                f"describe: returned {_kind(sentence)} at {_setting(values)}, want a sentence"
            )
        return sentence

    def _call(self, function: Callable, name: str, values: dict) -> object:
        try:
            return function(**values)
        except Exception as error:
            raise RuntimeError(
                f"{name} failed at {_setting(values)}: {type(error).__name__}: {error}"
            ) from error

    def _draw_still(self) -> str:
        """The figure without the artists that move, cut before its end: there they go."""
        visible = [artist.get_visible() for artist in self._artists]
        for artist in self._artists:
            artist.set_visible(False)
        try:
            return svg_markup(self.figure, self._name, label=self.title).removesuffix(
                "</svg>"
            )
        finally:
            for artist, was_visible in zip(self._artists, visible, strict=True):
                artist.set_visible(was_visible)
            # A title finds its place only when all of the figure is drawn.
            self.figure.draw_without_rendering()

    def _svg(self, pieces: list[str]) -> str:
        return self._still + "".join(f"<g>{piece}</g>" for piece in pieces) + "</svg>"


class _Packer:
    """Texts that differ in their numbers, stored as templates with holes and, for each state, what fills them."""

    def __init__(self) -> None:
        self.texts: dict[str, int] = {}  # each different text, numbered as it came
        self.frames: list[int] = []

    def add(self, text: str) -> None:
        self.frames.append(self.texts.setdefault(text, len(self.texts)))

    def packed(self) -> dict:
        """{templates: lists of literals, states: [template, "number number ..."], frames: each frame's state}."""
        cut = [
            NUMBER.split(text) for text in self.texts
        ]  # literal, number, literal, number, ..., literal
        alike: dict[tuple, list[int]] = {}
        for state, pieces in enumerate(cut):
            alike.setdefault(tuple(pieces[::2]), []).append(state)
        states: list[list[object]] = [[]] * len(cut)
        templates: list[list[str]] = []
        for members in alike.values():
            columns = list(zip(*(cut[state] for state in members), strict=True))
            holes = [n for n, column in enumerate(columns) if len(set(column)) > 1]
            bounds = zip([-1, *holes], [*holes, len(columns)], strict=True)
            literals = [
                "".join(column[0] for column in columns[a + 1 : b]) for a, b in bounds
            ]
            for state in members:
                states[state] = [len(templates), " ".join(cut[state][n] for n in holes)]
            templates.append(literals)
        return {"templates": templates, "states": states, "frames": self.frames}


def _progress(frames: list[dict], title: str) -> Iterable[dict]:
    """The frames, with a progress bar after five seconds where somebody waits: in a terminal or in JupyterLab.

    A build or a test waits too, but would keep the bar as the cell's output.
    """
    watched = (
        sys.stderr.isatty() or "JPY_SESSION_NAME" in os.environ
    )  # set by the Jupyter server
    return tqdm(
        frames, desc=title, unit=" frames", delay=5, leave=False, disable=not watched
    )


# ---- Controls ----


def _values(name: str, values: Iterable) -> tuple:
    """The values of one control, all of which a slider can reach and a label tells apart."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(
            f"{name}: got {_kind(values)}, want a range or a list of values"
        )
    if isinstance(values, Sized) and len(values) > MOST_FRAMES:
        raise ValueError(
            f"{name}: got {len(values):,} values, want at most {MOST_FRAMES:,} frames in all"
        )
    values = tuple(itertools.islice(values, MOST_FRAMES + 1))
    if not values:
        raise ValueError(f"{name}: got no values, want at least one")
    labels = set(map(_label, values))
    if None in values or len(labels) < len(values) or len(set(values)) < len(values):
        raise ValueError(
            f"{name}: got None or the same value twice, want different values"
        )
    return values


def _label(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _limit(controls: dict[str, tuple]) -> None:
    count = math.prod(map(len, controls.values()))
    if count > MOST_FRAMES:
        sizes = " x ".join(
            f"{len(values):,} {name}" for name, values in controls.items()
        )
        raise ValueError(
            f"controls: {sizes} make {count:,} frames, want at most {MOST_FRAMES:,}; use a larger step"
        )


class _OneOf(traitlets.TraitType):
    """A trait that takes one of a control's values."""

    def __init__(self, values: tuple) -> None:
        super().__init__(default_value=values[0])
        self._values = values

    def validate(self, _obj: object, value: object) -> object:
        if value in self._values:
            return self._values[self._values.index(value)]
        first, last = self._values[0], self._values[-1]
        raise traitlets.TraitError(
            f"{self.name}: got {value!r}, want one of its {len(self._values)} values, {first!r} to {last!r}"
        )


def _setting(values: dict) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in values.items())


def _words(name: str) -> str:
    return name.replace("_", " ")


def _slug(title: str) -> str:
    """`title` in letters that stay as they are in an address."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-") or "explorer"


def _unique(name: str) -> str:
    """`name`, with a number when an explorer has it already: ids on a page must differ."""
    numbered = (f"{name}-{n}" for n in itertools.count(2))
    free = next(n for n in itertools.chain([name], numbered) if n not in _names)
    _names.add(free)
    return free


def _kind(thing: object) -> str:
    return "None" if thing is None else f"{type(thing).__name__} {str(thing)[:40]!r}"
