"""Ways to run a page elsewhere: Binder, Colab, a JupyterHub. They appear when the repository's address is known.

A JupyterHub is known when the environment names it (JUPYTERHUB_URL) or `_config.yml` does (html_theme_options,
launch_buttons, jupyterhub_url).
"""

import os
import re

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

from tools.repository import repository

BINDER, COLAB = "https://mybinder.org", "https://colab.research.google.com"
COLAB_BRANCH = "colab"  # its notebooks fetch what they share: tools/colab.py


def name_repository(app: Sphinx, config: Config) -> None:
    """Tell the theme, which makes the links, where the source is."""
    found = repository()
    if not found:
        return
    options = config.html_theme_options
    options["repository_url"] = found.address
    options["repository_branch"] = found.branch
    hub = os.environ.get("JUPYTERHUB_URL")
    options["launch_buttons"] = {
        "notebook_interface": "jupyterlab",
        "binderhub_url": BINDER,
        **({"colab_url": COLAB} if found.is_on_github else {}),
        **({"jupyterhub_url": hub} if hub else {}),
        **options.get("launch_buttons", {}),
    }
    config.html_context["repository"] = found.address


def move_into_dialog(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict,
    doctree: nodes.document | None,
) -> None:
    """The links stand where "Run this page" tells how, for the header of a phone is full."""
    buttons = context.get("header_buttons", [])
    groups = [group for group in buttons if group.get("label") == "launch-buttons"]
    context["header_buttons"] = [b for b in buttons if b not in groups]
    context["launch_links"] = [
        (link["text"], _with_colab_branch(link["url"]))
        for group in groups
        for link in group["buttons"]
    ]


def _with_colab_branch(address: str) -> str:
    if not address.startswith(COLAB):
        return address
    return re.sub(r"(/github/[^/]+/[^/]+/blob)/.*?/(?=chapters/)", rf"\1/{COLAB_BRANCH}/", address)  # fmt: skip


def setup(app: Sphinx) -> dict:
    app.connect("config-inited", name_repository)
    app.connect("html-page-context", move_into_dialog, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
