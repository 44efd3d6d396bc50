"""Ways to run a page elsewhere: Binder, Colab, a JupyterHub. They appear when the repository's address is known.

It is what the CI says, else git's remote `origin`. A JupyterHub is known when the environment names it
(JUPYTERHUB_URL) or `_config.yml` does (html_theme_options, launch_buttons, jupyterhub_url).
"""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

ROOT = Path(__file__).parent.parent
BINDER, COLAB = "https://mybinder.org", "https://colab.research.google.com"
COLAB_BRANCH = "colab"  # its notebooks fetch what they share: tools/colab.py


class Repository(NamedTuple):
    """Where the book's source is: its address for a browser, and a branch."""

    address: str
    branch: str

    @property
    def is_on_github(self) -> bool:
        return urlsplit(self.address).hostname == "github.com"


def repository(
    environment: Mapping[str, str] = os.environ, folder: Path = ROOT
) -> Repository | None:
    """The book's repository, as the CI or git tells it; None when neither names an address that a browser can open."""
    if "GITHUB_REPOSITORY" in environment:
        host = environment.get("GITHUB_SERVER_URL", "https://github.com")
        address = f"{host}/{environment['GITHUB_REPOSITORY']}"
        # On a pull request the ref is a merge that no branch has.
        branch = environment.get("GITHUB_HEAD_REF") or environment["GITHUB_REF_NAME"]
    elif "CI_PROJECT_URL" in environment:
        address = environment["CI_PROJECT_URL"]
        branch = environment.get("CI_COMMIT_BRANCH") or environment["CI_DEFAULT_BRANCH"]
    else:
        address = web_address(_git(folder, "remote", "get-url", "origin"))
        branch = _git(folder, "branch", "--show-current") or "HEAD"
    return Repository(address, branch) if address else None


def web_address(remote: str) -> str:
    """A git remote as a browser's address, without a user's name or password; "" for one that has none, as a folder."""
    match = re.fullmatch(
        r"(?:(?:https|ssh|git)://(?:[^/@]*@)?([\w.-]+)(?::\d+)?/|(?:[^/@:]+@)([\w.-]+):)"
        r"([\w.~/-]+?)(?:\.git)?/?",
        remote,
    )
    if not match:
        return ""
    host, path = match[1] or match[2], match[3]
    is_public = "." in host and not re.fullmatch(r"[\d.]+", host)
    return f"https://{host}/{path}" if is_public and "/" in path else ""


def _git(folder: Path, *arguments: str) -> str:
    try:
        done = subprocess.run(
            ["git", "-C", folder, *arguments], capture_output=True, text=True
        )
    except FileNotFoundError:  # git is not there
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def name_repository(app, config) -> None:
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


def move_into_dialog(app, pagename, templatename, context, doctree) -> None:
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


def setup(app):
    app.connect("config-inited", name_repository)
    app.connect("html-page-context", move_into_dialog, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
