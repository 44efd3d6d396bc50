"""Exercises and solutions as plain boxes.

sphinx-exercise puts what stands in them into sections that all have the same id, which no page may have. The
sections go, what is in them stays.
"""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx_exercise.nodes import is_extension_node


def unfold_sections(app: Sphinx, doctree: nodes.document) -> None:
    for box in doctree.findall(is_extension_node):
        for section in list(box.findall(nodes.section)):
            section.replace_self(section.children)


def setup(app: Sphinx) -> dict:
    app.connect("doctree-read", unfold_sections, priority=100)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
