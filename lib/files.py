"""Files are written whole or not at all."""

import os
from pathlib import Path


def write_atomically(path: Path, content: str | bytes) -> None:
    """Put `content` in place of the file in one step; an interruption leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".draft")
    draft.write_bytes(content.encode() if isinstance(content, str) else content)
    os.replace(draft, path)
