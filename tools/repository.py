"""Where the book's source is, for a browser and for git: what the CI says, else git's remote `origin`."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

ROOT = Path(__file__).parent.parent
CHAPTERS = ROOT / "chapters"


class Repository(NamedTuple):
    """Where the book's source is: its address for a browser, and a branch."""

    address: str
    branch: str

    @property
    def host(self) -> str:
        return urlsplit(self.address).hostname or ""

    @property
    def path(self) -> str:
        """Owner and name, as in `owner/name`."""
        return urlsplit(self.address).path.strip("/")


def repository(
    environment: Mapping[str, str] = os.environ, folder: Path = ROOT
) -> Repository | None:
    """The book's repository, as the CI or git tells it; None when neither names an address that a browser can open."""
    return _of_github(environment) or _of_gitlab(environment) or _of_git(folder)


def _of_github(environment: Mapping[str, str]) -> Repository | None:
    name = environment.get("GITHUB_REPOSITORY")
    # On a pull request the ref is a merge that no branch has.
    branch = environment.get("GITHUB_HEAD_REF") or environment.get("GITHUB_REF_NAME")
    host = environment.get("GITHUB_SERVER_URL") or "https://github.com"
    return Repository(f"{host}/{name}", branch) if name and branch else None


def _of_gitlab(environment: Mapping[str, str]) -> Repository | None:
    names = ("MERGE_REQUEST_SOURCE_BRANCH_NAME", "COMMIT_BRANCH", "DEFAULT_BRANCH")
    branches = [environment.get(f"CI_{name}") for name in names]
    address, branch = (
        environment.get("CI_PROJECT_URL"),
        next(filter(None, branches), ""),
    )
    return Repository(address, branch) if address and branch else None


def _of_git(folder: Path) -> Repository | None:
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
    host, path = (
        (match[1] or match[2]).lower().removeprefix("ssh."),
        match[3].strip("/"),
    )
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
