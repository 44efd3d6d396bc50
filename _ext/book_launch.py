"""Ways to run a page elsewhere: Binder, Colab, a JupyterHub. They appear when the repository's address is known.

A JupyterHub is known when the environment names it (JUPYTERHUB_URL) or `_config.yml` does (sphinx, config,
book_jupyterhub).
"""

import os
from urllib.parse import quote, urlencode

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.config import Config

from tools.repository import Repository, repository

BINDER, COLAB = "https://mybinder.org", "https://colab.research.google.com"
COLAB_BRANCH = "colab"  # its notebooks fetch what they share: tools/colab.py


def launch_links(source: Repository, hub: str, page: str) -> list[tuple[str, str]]:
    """Names and addresses of the ways to run the page `chapters/name`."""
    notebook = f"{page}.ipynb"
    links = [("Binder", _binder(source, notebook))]
    if source.host == "github.com":
        place = f"{quote(source.path)}/blob/{COLAB_BRANCH}/{notebook}"
        links.append(("Colab", f"{COLAB}/github/{place}"))
    if hub:
        links.append(("JupyterHub", _hub(source, hub, notebook)))
    return links


def _binder(source: Repository, notebook: str) -> str:
    kinds = {"github.com": ("gh", "/"), "gitlab.com": ("gl", "")}
    kind, kept = kinds.get(source.host, ("git", ""))
    place = quote(source.address if kind == "git" else source.path, safe=kept)
    opened = urlencode({"urlpath": f"lab/tree/{notebook}"}, safe="/")
    return f"{BINDER}/v2/{kind}/{place}/{quote(source.branch, safe='')}?{opened}"


def _hub(source: Repository, hub: str, notebook: str) -> str:
    """For a hub that has nbgitpuller."""
    folder = source.path.rsplit("/", 1)[-1]
    asked = {"repo": source.address, "branch": source.branch}
    asked["urlpath"] = f"lab/tree/{folder}/{notebook}"
    return f"{hub.rstrip('/')}/hub/user-redirect/git-pull?{urlencode(asked, safe='/')}"


def name_source(app: Sphinx, config: Config) -> None:
    """Find out where the source is. As a setting, for pages are written again when it changes."""
    config.book_repository = repository()
    config.book_jupyterhub = os.environ.get("JUPYTERHUB_URL") or config.book_jupyterhub


def link(
    app: Sphinx,
    pagename: str,
    templatename: str,
    context: dict,
    doctree: nodes.document | None,
) -> None:
    source = app.config.book_repository
    if source and doctree:
        context["repository"] = source.address
        hub = app.config.book_jupyterhub
        context["launch_links"] = launch_links(source, hub, pagename)


def setup(app: Sphinx) -> dict:
    app.add_config_value("book_repository", None, "html", types=[Repository])
    app.add_config_value("book_jupyterhub", "", "html", types=[str])
    app.connect("config-inited", name_source)
    app.connect("html-page-context", link)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
