"""Where the book's source is, for a browser and for git: what the CI says, else git's remote `origin`."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

ROOT = Path(__file__).parent.parent


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
