"""A chapter runs again when something has changed that its outputs rest on, and only then.

Its own code is the execution cache's matter. Here the files of lib/ that it uses, directly or by way of others, and
the installed packages join in: a digest of them becomes part of what the cache knows a notebook by, and tells Sphinx
which pages to read again. Nothing else is kept, so that a build that fails halfway leaves no wrong record.

Imports are read, not run. Where that is not enough to know, all of lib/ counts as used.
"""

import ast
import json
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from hashlib import sha256
from importlib.util import resolve_name
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.errors import ExtensionError

from tools.repository import ROOT
from tools.requirements import closure, listed

KEY = "rests_on"  # in a page's metadata and, for the cache, in a notebook's kernelspec
DYNAMIC = {"__import__", "eval", "exec", "importlib", "pkgutil", "runpy", "subprocess"}
DYNAMIC |= {"get_ipython", "os.system", "os.popen"}
WHOLE = {"lib", "lib.*"}  # `import lib`, `from lib import *`


class Library:
    """The files in a folder `lib`, and which of them a piece of code uses."""

    def __init__(self, folder: Path):
        self.root = folder.parent
        self.files = {path for path in folder.rglob("*") if self._counts(path)}
        self.modules = {
            self._dotted(path): path for path in self.files if path.suffix == ".py"
        }
        self.data = self.files - set(self.modules.values())
        self.direct = {
            path: self._used_by(path.read_text("utf-8"), self._package(path))
            for path in self.modules.values()
        }
        # A file that no module names is read in a way that is not seen here.
        self.unnamed = self.data - set().union(*self.direct.values())

    def used_by(self, code: str) -> set[Path]:
        """The files that `code` uses: directly, or because another file of them does."""
        found: set[Path] = set()
        waiting = self._used_by(code) | self.unnamed
        while waiting:
            path = waiting.pop()
            found.add(path)
            waiting |= self.direct.get(path, set()) - found
        return found

    def digest(self, code: str) -> str:
        """Another one when a file that `code` uses, its name or a package has changed."""
        parts = [_packages()]
        for path in sorted(self.used_by(code)):
            content = sha256(path.read_bytes()).hexdigest()
            parts.append(f"{path.relative_to(self.root)} {content}")
        return sha256("\n".join(parts).encode()).hexdigest()

    def _used_by(self, code: str, package: str = "") -> set[Path]:
        try:
            nodes = list(ast.walk(ast.parse(code)))
            imports = set(_imports(nodes, package))
        except (SyntaxError, ImportError):  # a magic, or nothing that Python can import
            return set(self.files)
        names = {node.id for node in nodes if isinstance(node, ast.Name)}
        names |= {
            ast.unparse(node) for node in nodes if isinstance(node, ast.Attribute)
        }
        imported = set(_with_parents(imports))
        if imports & WHOLE or (names | imported) & DYNAMIC:
            return set(self.files)
        modules = self.modules.keys() & imported
        return {self.modules[name] for name in modules} | self._data_of(nodes, names)

    def _data_of(self, nodes: list[ast.AST], names: set[str]) -> set[Path]:
        """What is not Python and named by a text in the code: "a.js", f"a.{kind}". All, for a folder of them."""
        texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
        ends = {Path(text).name for text in texts if isinstance(text, str)}
        named = {p for p in self.data if ends & {p.name, p.stem + "."}}
        folders = {path.parent.name for path in self.data}
        return named or (self.data if "__file__" in names or ends & folders else set())

    def _counts(self, path: Path) -> bool:
        parts = path.relative_to(self.root).parts
        hidden = any(part.startswith((".", "__pycache__")) for part in parts)
        return path.is_file() and not hidden

    def _dotted(self, path: Path) -> str:
        own = () if path.stem == "__init__" else (path.stem,)
        return ".".join((*path.parent.relative_to(self.root).parts, *own))

    def _package(self, path: Path) -> str:
        return ".".join(path.parent.relative_to(self.root).parts)


def _imports(nodes: list[ast.AST], package: str) -> Iterator[str]:
    """What is imported, with its module: `from lib.rope import BASE` is "lib.rope.BASE"."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = resolve_name("." * node.level + (node.module or ""), package)
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _with_parents(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        parts = name.split(".")
        yield from (".".join(parts[:n]) for n in range(1, len(parts) + 1))


@cache
def _packages() -> str:
    """Python and what the book requires: another version may compute or draw differently."""
    found = closure(listed(ROOT / "requirements.txt"))
    return "\n".join(
        [sys.version, *(f"{name} {found[name]}" for name in sorted(found))]
    )


@cache
def library(folder: Path) -> Library:
    return Library(folder)


def code_of(notebook: dict) -> str:
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    return "\n".join("".join(cell["source"]) for cell in cells)


def rests_on(app: Sphinx, notebook: dict) -> str:
    return library(Path(app.srcdir) / "lib").digest(code_of(notebook))


def parsed(text: str, docname: str) -> dict:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ExtensionError(
            f"{docname}: no notebook, for it is no JSON: {error}"
        ) from error


def is_notebook(env: BuildEnvironment, docname: str) -> bool:
    return env.doc2path(docname).endswith(".ipynb")


def mark(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the digest where the cache looks, and where the next build finds it once this page was read."""
    if is_notebook(app.env, docname):
        notebook = parsed(source[0], docname)
        digest = rests_on(app, notebook)
        kernel = {"display_name": "Python 3", "name": "python3"}
        notebook["metadata"].setdefault("kernelspec", kernel)[KEY] = digest
        source[0] = json.dumps(notebook)
        app.env.metadata[docname][KEY] = digest


def outgrown(
    app: Sphinx, env: BuildEnvironment, added: set, changed: set, removed: set
) -> list[str]:
    """The pages whose outputs rest on something that is no longer so."""
    known = set(filter(lambda docname: is_notebook(env, docname), env.found_docs))
    return [
        docname
        for docname in known - added - changed
        if env.metadata[docname].get(KEY)
        != rests_on(
            app, parsed(Path(env.doc2path(docname)).read_text("utf-8"), docname)
        )
    ]


def setup(app: Sphinx) -> dict:
    app.connect("source-read", mark)
    app.connect("env-get-outdated", outgrown)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
