"""Files are written whole or not at all."""

import errno
import os
import tempfile
from pathlib import Path


def require_writable(path: Path) -> None:
    """Raises OSError where `write_atomically` would, before there is a content that could be lost."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with tempfile.TemporaryFile(dir=path.parent):
        pass


def write_atomically(path: Path, content: str | bytes) -> None:
    """Put `content` in place of the file in one step; an interruption leaves the old one.

    The draft beside it has a name of its own, so that no other file is touched, and is
    removed when it cannot be finished.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, draft = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        os.chmod(draft, 0o644)  # mkstemp lets only its owner read
        os.replace(draft, path)
    except BaseException:
        os.unlink(draft)
        raise
