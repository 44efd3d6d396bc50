"""lib/live.py: alive with a kernel, and on a page nothing that varies from run to run."""

import pytest

from lib import live
from lib.live import Live, ProgressBar
from lib.outputs import WIDGET_VIEW
from lib.picture import Picture, new_figure


def test_the_bar_is_a_widget_and_a_page_keeps_only_what_was_trained(monkeypatch):
    shown = []
    monkeypatch.setattr(live, "display", lambda data, raw: shown.append(data))
    with ProgressBar(total=20, desc="rope") as bar:
        for _ in range(20):
            bar.update()
        bar.set_postfix_str("loss 1.234")
    [data] = shown
    assert data["text/plain"] == "rope: 20 steps" and "1.234" not in data["text/html"]
    assert WIDGET_VIEW in data
    assert bar._bar.value == 20 and bar._bar.bar_style == "success"
    assert bar._note.value == "loss 1.234"


def test_a_bar_that_was_stopped_does_not_say_that_it_is_done(monkeypatch):
    monkeypatch.setattr(live, "display", lambda data, raw: None)
    with pytest.raises(KeyboardInterrupt), ProgressBar(total=20, desc="<b>") as bar:
        bar.update()
        raise KeyboardInterrupt
    assert bar._bar.value == 1 and bar._bar.bar_style == ""


def test_a_kernel_shows_your_picture_and_a_page_the_stored_one():
    pictures = []
    for text in ("Yours.", "Stored."):
        with new_figure(100, 50) as figure:
            pictures.append(Picture(figure, text))
    shown = Live(*pictures)
    data = shown._repr_mimebundle_()
    assert "Stored." in data["text/html"] and data["text/plain"] == "Stored."
    assert "Yours." not in data["text/html"]
    assert data[WIDGET_VIEW]["model_id"] == shown.widget.model_id
    assert "Yours." in shown.widget.value
