"""Clean environments, made without a network: links to what the tests' own environment has installed."""

import json
import os
import subprocess
import sys
from importlib.metadata import PackagePath, distribution
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from tests.book import ROOT, project_files
from tools.requirements import closure

PROJECT = "where-a-token-stands"


def environment(folder: Path, requirements: list[str]) -> Path:
    """A new virtual environment that holds these and what they need, and nothing else; its Python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in closure(requirements):
        for file in distribution(name).files or []:
            if ".." not in file.parts:
                _link(file, site)
    return folder / "bin" / "python"


def _link(file: PackagePath, site: Path) -> None:
    place = site / file
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.is_symlink():
        place.symlink_to(Path(file.locate()))


def run_in(python: Path, notebook: Path, **variables: str) -> nbformat.NotebookNode:
    """The notebook, run where it lies by a kernel of that environment. Raises CellExecutionError."""
    shared = python.parent.parent / "share" / "jupyter"
    spec = shared / "kernels" / "clean" / "kernel.json"
    spec.parent.mkdir(parents=True, exist_ok=True)
    command = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    about = {"argv": command, "display_name": "clean", "language": "python"}
    spec.write_text(json.dumps({**about, "env": {"PYTHONPATH": "", **variables}}))
    client = NotebookClient(
        nbformat.read(notebook, as_version=4),
        kernel_name="clean",
        timeout=600,
        resources={"metadata": {"path": str(notebook.parent)}},
    )
    client.create_kernel_manager()
    client.km.kernel_spec_manager.kernel_dirs.insert(0, str(spec.parent.parent))
    return client.execute()


def clone(folder: Path) -> str:
    """The project as it stands, alone in a git repository of its own; the commit."""
    for name in project_files():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((ROOT / name).read_bytes())
    author = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    for command in (["init", "-q"], ["add", "-A"], [*author, "commit", "-qm", "all"]):
        subprocess.run(["git", *command], cwd=folder, check=True)
    done = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=folder, check=True, capture_output=True
    )
    return done.stdout.decode().strip()


WITHOUT_NETWORK = {
    "PIP_NO_INDEX": "1",
    "PIP_NO_BUILD_ISOLATION": "0",  # pip's way to say: build with what is installed
    "PIP_ROOT_USER_ACTION": "ignore",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PATH": os.environ["PATH"],
}
