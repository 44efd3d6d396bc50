"""What a notebook shows while it runs, and what a page, where nothing runs, shows in its place."""

import time
from html import escape

import ipywidgets
from IPython.display import display

from lib.outputs import bundle
from lib.picture import Picture


class ProgressBar:
    """A progress bar in a notebook, used as tqdm's are; a page keeps what was trained."""

    def __init__(
        self, total: int, initial: int = 0, desc: str = "", **_: object
    ) -> None:
        self._done, self._told = initial, time.monotonic()
        self._bar = ipywidgets.IntProgress(value=initial, max=total, description=desc)
        self._note = ipywidgets.Label()
        text = f"{desc}: {total} steps"
        page = f"<p>{escape(text)}</p>"
        display(bundle(ipywidgets.HBox([self._bar, self._note]), page, text), raw=True)

    def __enter__(self) -> "ProgressBar":
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.value = self._done
        if self._done >= self._bar.max:
            self._bar.bar_style = "success"

    def update(self) -> None:
        self._done += 1
        if time.monotonic() - self._told > 0.1:  # ten messages a second are enough
            self._bar.value, self._told = self._done, time.monotonic()

    def set_postfix_str(self, text: str) -> None:
        self._note.value = text


class Live:
    """A picture of a run in this kernel; a page, where nothing runs, shows a stored one in its place."""

    def __init__(self, yours: Picture, stored: Picture) -> None:
        self.widget, self._stored = ipywidgets.HTML(yours.html()), stored

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict:
        return bundle(self.widget, self._stored.html(), self._stored.text)
