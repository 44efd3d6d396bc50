"""What a chapter's cells print: the code that runs, what a call answers, and claims that must hold."""

import inspect
from collections.abc import Callable

from IPython.display import Markdown


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
    """Print what `call` answers on one line: its shape (or value), or its error's type and message."""
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
    print(f"{label:<34}{outcome}")


def claim(statement: str, holds: bool) -> None:
    """Print `statement` as one that holds, or raise AssertionError when it does not: the cell turns red."""
    if not holds:
        raise AssertionError(f"does not hold: {statement}")
    print(f"holds: {statement}")


def table(rows: list[tuple], header: tuple) -> None:
    """Print rows of text and numbers under a header, in columns as wide as their widest entry."""
    lines = [[str(cell) for cell in row] for row in (header, *rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    rule = ["-" * width for width in widths]
    for line in (lines[0], rule, *lines[1:]):
        print(
            "  ".join(
                cell.ljust(width) for cell, width in zip(line, widths, strict=True)
            ).rstrip()
        )
