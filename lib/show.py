"""What a chapter's cells print: the code that runs, what a call answers, and claims that must hold."""

import inspect
import re
import textwrap
from collections.abc import Callable

from IPython.display import Markdown

WIDTH = 84  # characters in a line of output, as many as the page's column shows
NUMBER = re.compile(r"[-−+]?[\d,]*\.?\d+(e[-+]?\d+)?")
LABEL = 30  # of which what was tried takes so many


def show_source(*objects: Callable) -> Markdown:
    """The source of functions or classes as it runs, for a cell's output, highlighted by the page.

    Raises TypeError for an object without Python source.
    """
    return Markdown(
        "\n\n".join(
            f"```python\n{inspect.getsource(obj).rstrip()}\n```" for obj in objects
        )
    )


def attempt(label: str, call: Callable[[], object]) -> None:
    """Print what `call` answers beside its label: a shape or value, or the error's type and message."""
    try:
        answer = call()
    except Exception as error:
        outcome = f"{type(error).__name__}: {error}"
    else:
        shape = getattr(answer, "shape", None)
        outcome = (
            f"no error, {answer!r}"
            if shape is None
            else f"no error, shape {list(shape)}"
        )
    lines = textwrap.wrap(outcome, WIDTH - LABEL, break_long_words=False)
    print(f"{label:<{LABEL}}" + ("\n" + " " * LABEL).join(lines))


def claim(statement: str, holds: bool) -> None:
    """Print `statement` as one that holds, or raise AssertionError when it does not: the cell turns red."""
    if not holds:
        raise AssertionError(f"does not hold: {statement}")
    print(f"holds: {statement}")


def table(rows: list[tuple], header: tuple) -> None:
    """Print rows under a header, each column as wide as its widest entry, numbers to the right."""
    columns = [
        [str(cell) for cell in column] for column in zip(header, *rows, strict=True)
    ]
    set_columns = []
    for name, *cells in columns:
        width = max(map(len, (name, *cells)))
        side = ">" if all(NUMBER.fullmatch(cell) for cell in cells) else "<"
        set_columns.append(
            [f"{text:{side}{width}}" for text in (name, "-" * width, *cells)]
        )
    for line in zip(*set_columns, strict=True):
        print("  ".join(line).rstrip())
