"""Formulas as MathML, for the book's pages and for what exercises say."""

from math_core import LatexToMathML

_converter = LatexToMathML(fancy_error=False)


def mathml(latex: str, display: bool) -> str:
    """LaTeX as a MathML element. Raises math_core.LatexError for what is no formula."""
    return _converter.convert_with_local_state(latex, displaystyle=display)
