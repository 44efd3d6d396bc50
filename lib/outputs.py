"""What explorers and exercises need to be alive twice: a widget for a kernel, a page without one."""

import json
from typing import Any

WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"  # names a live widget


def bundle(widget: Any, page: str, text: str) -> dict:
    """A cell's output: the ipywidget, the piece of a page in its place, and plain text."""
    view = widget._repr_mimebundle_().get(WIDGET_VIEW)
    return {WIDGET_VIEW: view, "text/html": page, "text/plain": text}


def packed(data: dict) -> str:
    """`data` as JSON for a script element; no text in it can end the script."""
    json_text = json.dumps(data, ensure_ascii=False, separators=(",", ":"))
    return json_text.replace("<", "\\u003c")
