"""What a cell prints is one text, however the kernel sends it.

A busy kernel sends a cell's text in pieces, cut anywhere. myst-nb joins them with line
breaks, so that a line could come apart on the page. Here the pieces are joined as they
are when the cell runs, and myst-nb gets one.
"""

from functools import partialmethod

from nbclient import NotebookClient
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict:
    # The build makes its clients itself and passes no such setting on.
    made = partialmethod(NotebookClient.__init__, coalesce_streams=True)
    NotebookClient.__init__ = made  # type: ignore[method-assign, assignment]  # that is the point
    return {"parallel_read_safe": True, "parallel_write_safe": True}
