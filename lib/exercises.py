"""An exercise that answers back, alive twice: with a kernel, and on a page without one.

    Exercise(
        "table-cost",
        "What does it cost?",
        "How many parameters has a table of 2,048 rows of width $d = 32$?",
        answers=[Number("Parameters", 2048 * 32, right="...", otherwise="...", mistakes={...})],
        hints=["A row for each position.", "A row is as wide as a token's vector."],
        solution="`2048 * 32`, for every position has a row of its own.",
    )

What a reader may write and what is said to it is `lib.answers`. Prompt, hints, solution and
everything that is said are Markdown, with formulas between dollar signs.

In JupyterLab the fields are ipywidgets. On a page they are a form, and a small script
(exercises.js, part of the output) reads and judges as Python does; what was answered stays
in the reader's browser. `Progress` shows how far the reader has come.
"""

import re
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from functools import lru_cache
from html import escape
from pathlib import Path
from types import UnionType
from typing import Any

import ipywidgets
import traitlets
from markdown_it import MarkdownIt
from mdit_py_plugins.dollarmath import dollarmath_plugin

from lib.answers import (
    DEEPEST,
    LONGEST,
    MORE_WRONG,
    NOTHING_CHOSEN,
    NOTHING_WRITTEN,
    PROBLEMS,
    ROUNDED,
    UNITS,
    Answer,
    Choice,
    Choices,
    Outcome,
    Verdict,
    Written,
)
from lib.checks import require_str
from lib.formulas import mathml
from lib.outputs import bundle, packed
from lib.theme import theme_css

SCRIPT, CSS = (
    Path(__file__).with_name(f"exercises.{kind}").read_text() for kind in ("js", "css")
)
STYLE = theme_css(":is(.answers,.progress-of-answers)") + CSS
LABELS = {
    Outcome.NOT_ATTEMPTED: "Not attempted.",
    Outcome.UNREADABLE: "Could not be read.",
    Outcome.WRONG: "Not right.",
    Outcome.RIGHT: "Right.",
}


class Exercise(traitlets.HasTraits):
    """A prompt, fields for its answers, hints, a worked solution, and a verdict on each answer.

    name: its place in a page's address, and the key of what the browser remembers.
    title, prompt, hints (the next one is found inside the one before), solution: Markdown.
    answers: what is asked, each a field of its own.
    Raises TypeError or ValueError that names the part which is none.

    `given` is what was checked last, and `verdicts` what became of it: one for each answer, or
    none when nothing was checked.
    """

    turns = traitlets.Int()  # how often it was checked or forgotten

    def __init__(
        self,
        name: str,
        title: str,
        prompt: str,
        answers: Sequence[Answer],
        hints: Sequence[str],
        solution: str,
    ) -> None:
        super().__init__()
        _require_name(name)
        require_str("title", title)
        require_str("prompt", prompt)
        require_str("solution", solution)
        _require_several("answers", answers, Answer)
        _require_several("hints", hints, str)
        self.name, self.title, self.prompt = name, title, prompt
        self.answers, self.hints, self.solution = answers, hints, solution
        self._widget = None
        self.forget()

    def check(self, given: Sequence[str | Sequence[str]]) -> list[Verdict]:
        """Judge one text, option or list of options for each answer, and remember it.

        Raises ValueError for another number of answers.
        """
        if len(given) != len(self.answers):
            raise ValueError(
                f"given: got {len(given)} answers, want {len(self.answers)}"
            )
        pairs: Iterator[tuple[Answer, Any]] = zip(self.answers, given, strict=True)
        verdicts = [answer.judge(one) for answer, one in pairs]
        self.given = [one if isinstance(one, str) else list(one) for one in given]
        self.verdicts = tuple(verdicts)
        self.turns += 1
        return verdicts

    def forget(self) -> None:
        """As if nothing had been answered."""
        self.given = [[] if isinstance(a, Choices) else "" for a in self.answers]
        self.verdicts = ()
        self.turns += 1

    @property
    def state(self) -> str:
        """How far the reader has come, in words."""
        outcomes = [verdict.outcome for verdict in self.verdicts]
        if set(outcomes) <= {Outcome.NOT_ATTEMPTED}:
            return "not answered yet"
        right = outcomes.count(Outcome.RIGHT)
        if right == len(outcomes):
            return "right"
        return f"{right} of {len(outcomes)} right"

    @property
    def widget(self) -> ipywidgets.Widget:
        """The exercise as one ipywidget, made on first use."""
        if self._widget is None:
            self._widget = _form_widget(self)
        return self._widget

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict:
        return bundle(self.widget, self.html(), self.prompt)

    # ---- Without a kernel ----

    def html(self) -> str:
        """The exercise as a piece of a page: a form, what it may say as data, and the script."""
        fields = "".join(
            _field(answer, f"{self.name}-{n}")
            for n, answer in enumerate(self.answers, 1)
        )
        data = {
            "name": self.name,
            "answers": [_data(answer) for answer in self.answers],
            "rules": {
                "longest": LONGEST,
                "deepest": DEEPEST,
                "rounded": ROUNDED,
                "units": UNITS,
                "problems": PROBLEMS,
                "moreWrong": MORE_WRONG,
                "nothing": {
                    "written": NOTHING_WRITTEN.feedback,
                    "chosen": NOTHING_CHOSEN.feedback,
                },
            },
            "labels": {outcome.value: label for outcome, label in LABELS.items()},
        }
        return (
            f"<style>{STYLE}</style>{NO_SCRIPT}"
            f'<div class="answers" role="form" aria-label="{escape(self.title)}">'
            f'<div class="prompt">{markdown(self.prompt)}</div>'
            f'{fields}<p class="buttons"><button type="button">Check</button>'
            '<button type="button">Clear</button></p>'
            f"{self._disclosures()}"
            f'<p class="code"><a href="#{self.name}-solution">Solution in code</a></p>'
            f'<script type="application/json">{packed(data)}</script>'
            f"</div><script>{SCRIPT}</script>"
        )

    def _disclosures(self) -> str:
        """Hints, each inside the one before so that they are opened in order, and the solution."""
        hints = ""
        for n, hint in reversed(list(enumerate(self.hints, 1))):
            number = f" {n} of {len(self.hints)}" if len(self.hints) > 1 else ""
            hints = _disclosure(f"Hint{number}", markdown(hint) + hints)
        return hints + _disclosure("Solution in words", markdown(self.solution))


class Progress:
    """How far the reader has come with some exercises, and a way to forget all of it.

    exercises: {exercise: the page it stands on, without `.html`}.
    functions: {name: the last verdict on it}, of exercises that need a kernel.
    on_function: a list of what is called when one of them was checked again.
    numbers: those that the book gives the exercises; 1, 2, 3 and so on unless given.
    """

    def __init__(
        self,
        exercises: Mapping[Exercise, str],
        functions: MutableMapping[str, Verdict] | None = None,
        on_function: list[Callable[[], None]] | None = None,
        numbers: Sequence[int] | None = None,
    ) -> None:
        self.exercises, self._widget = exercises, None
        self.numbers = numbers or range(1, len(exercises) + 1)
        self.functions = {} if functions is None else functions
        self.on_function = [] if on_function is None else on_function

    @property
    def widget(self) -> ipywidgets.Widget:
        """The summary of this kernel's answers, which follows them."""
        if self._widget is None:
            self._widget = _progress_widget(self)
        return self._widget

    def html(self) -> str:
        """The summary as a piece of a page, filled in by the script."""
        rows = "".join(
            f'<li value="{number}" data-name="{exercise.name}" data-answers="{len(exercise.answers)}">'
            f'<a href="{page}.html#{exercise.name}">{inline(exercise.title)}</a> <span class="state"></span></li>'
            for number, (exercise, page) in zip(
                self.numbers, self.exercises.items(), strict=True
            )
        )
        return (
            f"<style>{STYLE}</style>{NO_SCRIPT}"
            '<section class="progress-of-answers" aria-label="Your answers">'
            f'<p class="total" aria-live="polite"></p><ol>{rows}</ol>'
            '<button type="button">Forget all my answers</button>'
            f"</section><script>{SCRIPT}</script>"
        )

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict:
        titles = "\n".join(exercise.title for exercise in self.exercises)
        return bundle(self.widget, self.html(), titles)


def _require_name(name: str) -> None:
    if not (isinstance(name, str) and re.fullmatch("[a-z0-9-]+", name)):
        raise ValueError(f"name: got {name!r}, want small letters, digits and hyphens")


def _require_several(part: str, several: Sequence, kind: type | UnionType) -> None:
    is_list = isinstance(several, list | tuple) and len(several) > 0
    if not is_list or not all(isinstance(one, kind) for one in several):
        raise TypeError(f"{part}: got {several!r}, want a list of them")


# --- Markdown -------------------------------------------------------------------------


@lru_cache
def _renderer() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).use(
        dollarmath_plugin,
        renderer=lambda latex, options: mathml(latex, options["display_mode"]),
        double_inline=True,
    )


def markdown(text: str) -> str:
    """`text` as HTML paragraphs; HTML inside it stays text."""
    return _renderer().render(text)


def inline(text: str) -> str:
    """`text`, one paragraph of Markdown, as HTML without the paragraph."""
    return _renderer().renderInline(text)


# --- The page -------------------------------------------------------------------------

NO_SCRIPT = (
    "<noscript><style>.answers :is(input,.buttons),.progress-of-answers{display:none!important}"
    "</style><p>To answer here, let the page run its script, or run this cell in a "
    "notebook. Hints and solutions open without.</p></noscript>"
)


def _field(answer: Answer, name: str) -> str:
    says = f'<p class="says" id="{name}-says"></p>'
    if isinstance(answer, Written):
        return (
            f'<div class="part"><label for="{name}">{inline(answer.label)}</label>'
            f'<input type="text" id="{name}" aria-describedby="{name}-says" '
            f'autocomplete="off" autocapitalize="off" spellcheck="false">{says}</div>'
        )
    kind = "radio" if isinstance(answer, Choice) else "checkbox"
    options = "".join(
        f'<label><input type="{kind}" name="{name}" value="{escape(option)}" '
        f'autocomplete="off"><span>{inline(option)}</span></label>'
        for option in answer.options
    )
    return (
        f'<fieldset class="part" aria-describedby="{name}-says">'
        f"<legend>{inline(answer.label)}</legend>{options}{says}</fieldset>"
    )


def _data(answer: Answer) -> dict:
    """What the script needs to know of an answer; what is said is HTML already."""
    data = {"kind": answer.kind, "value": answer.value, "right": inline(answer.right)}
    if isinstance(answer, Written):
        return data | {
            "tolerance": answer.tolerance,
            "unit": answer.unit,
            "mistakes": [[m, inline(said)] for m, said in answer.mistakes.items()],
            "otherwise": inline(answer.otherwise),
            "wanted": inline(answer.wanted),
            "coarse": answer.coarse,
            "single": getattr(answer, "single", ""),
            "counted": getattr(answer, "counted", ""),
            "located": getattr(answer, "located", ""),
        }
    mistakes = {option: inline(said) for option, said in answer.mistakes.items()}
    return data | {"options": answer.options, "mistakes": mistakes}


def _disclosure(summary: str, content: str) -> str:
    return f"<details><summary>{summary}</summary>{content}</details>"


# --- The widgets ----------------------------------------------------------------------


def _answers_html(content: str) -> str:
    """As in a form; the style stands once, with the prompt."""
    return f'<div class="answers">{content}</div>'


def _form_widget(exercise: Exercise) -> ipywidgets.Widget:
    """The exercise as ipywidgets: the same fields, words, hints and solution."""
    fields = [_FieldWidget(answer) for answer in exercise.answers]
    check = ipywidgets.Button(description="Check", button_style="primary")
    clear = ipywidgets.Button(description="Clear")

    buttons = ipywidgets.HBox([check, clear])
    buttons.add_class("answers-buttons")

    def show(_: object = None) -> None:
        for field, given in zip(fields, exercise.given, strict=True):
            field.given = given
        for field, verdict in zip(fields, exercise.verdicts, strict=False):
            field.show(verdict)

    def on_check(_: object = None) -> None:
        exercise.check([field.given for field in fields])

    show()
    exercise.observe(show, "turns")  # whether the buttons or code turned it
    check.on_click(on_check)
    clear.on_click(lambda _: exercise.forget())
    prompt = f'<div class="prompt">{markdown(exercise.prompt)}</div>'
    for field in fields:
        field.on_enter(on_check)
    return ipywidgets.VBox(
        [
            ipywidgets.HTML(f"<style>{STYLE}</style>{_answers_html(prompt)}"),
            *(field.widget for field in fields),
            buttons,
            ipywidgets.HTML(_answers_html(exercise._disclosures())),
        ]
    )


class _FieldWidget:
    """The ipywidgets of one answer: a text, radio buttons or checkboxes, and what is said."""

    def __init__(self, answer: Answer) -> None:
        self._answer, self._says = answer, ipywidgets.HTML()
        label = _plain(answer.label)
        if isinstance(answer, Choices):
            self._inputs = [
                ipywidgets.Checkbox(description=_plain(option), indent=False)
                for option in answer.options
            ]
            shown = [ipywidgets.Label(label), *self._inputs]
        elif isinstance(answer, Choice):
            options = [(_plain(option), option) for option in answer.options]
            self._inputs = [
                ipywidgets.RadioButtons(options=options, description=label, index=None)
            ]
            shown = self._inputs
        else:
            self._inputs = [ipywidgets.Text(description=label)]
            shown = self._inputs
        for control in self._inputs:
            control.add_class("answers-field")
            control.style.description_width = "initial"
            control.layout.width = "auto"
            control.observe(lambda _: self.hush(), "value")
        self.widget = ipywidgets.VBox([*shown, self._says])
        self.widget.add_class("answers-part")

    @property
    def given(self) -> str | list[str]:
        if not isinstance(self._answer, Choices):
            return self._inputs[0].value or ""
        options = zip(self._answer.options, self._inputs, strict=True)
        return [option for option, box in options if box.value]

    @given.setter
    def given(self, given: str | list[str]) -> None:
        if isinstance(self._answer, Choices):
            for option, box in zip(self._answer.options, self._inputs, strict=True):
                box.value = option in given
        elif isinstance(self._answer, Choice):
            self._inputs[0].value = given or None
        else:
            self._inputs[0].value = given
        self.hush()

    def show(self, verdict: Verdict) -> None:
        self._says.value = _answers_html(
            f'<p class="says" role="status" data-outcome="{verdict.outcome.value}">'
            f"<strong>{LABELS[verdict.outcome]}</strong> {inline(verdict.feedback)}</p>"
        )

    def hush(self) -> None:
        """What was said no longer fits an answer that is being changed."""
        self._says.value = ""

    def on_enter(self, call: Callable[[], object]) -> None:
        """Call when Enter is pressed in a text."""
        if isinstance(self._inputs[0], ipywidgets.Text):
            self._inputs[0].on_msg(
                lambda _, content, __: content.get("event") == "submit" and call()
            )


def _plain(text: str) -> str:
    """Markdown of a label as an ipywidget shows it: as plain text."""
    return text.replace("`", "")


def _progress_widget(progress: Progress) -> ipywidgets.Widget:
    shown = ipywidgets.HTML()
    forget = ipywidgets.Button(
        description="Forget all my answers", layout={"width": "max-content"}
    )

    def show(_: object = None) -> None:
        rows = "".join(
            f'<li value="{number}">{inline(exercise.title)} '
            f'<span class="state">{exercise.state}</span></li>'
            for number, exercise in zip(
                progress.numbers, progress.exercises, strict=True
            )
        )
        states = [exercise.state for exercise in progress.exercises]
        functions = "".join(
            f'<li><code>{escape(name)}</code> <span class="state">'
            f"{verdict.outcome.value}</span></li>"
            for name, verdict in progress.functions.items()
        )
        shown.value = (
            f'<style>{STYLE}</style><section class="progress-of-answers">'
            f'<p role="status">{states.count("right")} of {len(states)} exercises are '
            f"right in this notebook.</p><ol>{rows}</ol>"
            f"<ul>{functions}</ul></section>"
        )

    def on_forget(_: object = None) -> None:
        progress.functions.clear()
        for exercise in progress.exercises:
            exercise.forget()
        show()

    forget.on_click(on_forget)
    progress.on_function.append(show)
    for exercise in progress.exercises:
        exercise.observe(show, "turns")
    show()
    return ipywidgets.VBox([shown, forget])
