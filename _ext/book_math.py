"""Formulas as MathML, made when the book is built: no script, no remote font, nothing that moves on load.

A formula that cannot be converted is a warning that quotes it, and the build runs with warnings as errors.
"""

from docutils import nodes
from math_core import LatexError
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

from lib.formulas import mathml

logger = logging.getLogger(__name__)


def converted(node: nodes.math | nodes.math_block, display: bool) -> str:
    latex = node.astext().strip()
    try:
        return mathml(latex, display)
    except LatexError as error:
        logger.warning(
            "formula %r: %s", latex, error, location=node, type="math", subtype="latex"
        )
        return f"<code>{nodes.unescape(latex)}</code>"


def visit_inline(self: HTML5Translator, node: nodes.math) -> None:
    self.body.append(
        self.starttag(node, "span", "", CLASS="math notranslate nohighlight")
    )
    self.body.append(converted(node, display=False) + "</span>")
    raise nodes.SkipNode


def visit_display(self: HTML5Translator, node: nodes.math_block) -> None:
    # A formula wider than the screen scrolls in a box of its own; its number stays beside it.
    self.body.append(self.starttag(node, "div", CLASS="math notranslate nohighlight"))
    self.body.append(f'<div class="formula">{converted(node, display=True)}</div>')
    if node["number"]:
        self.body.append(f'<span class="eqno">({get_node_equation_number(self, node)})')
        self.add_permalink_ref(node, "Link to this equation")
        self.body.append("</span>")
    self.body.append("</div>")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
