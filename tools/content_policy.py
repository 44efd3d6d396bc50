"""The Content-Security-Policy that a host of the built book can send: python -m tools.content_policy FOLDER

It allows what the pages hold and nothing else: their own files, the scripts that are
written into them, each by its hash, and styles. No other host, no eval, no script in an
attribute, no frame around a page.
"""

import base64
import hashlib
import re
import sys
from collections.abc import Iterable
from pathlib import Path

SCRIPT = re.compile(r"<script\b([^>]*)>(.*?)</script>", re.DOTALL | re.IGNORECASE)
DATA = re.compile(r"""type=["'](?:application/json|[^"']*\+json)["']""")


def policy(folder: Path, connect: Iterable[str] = ()) -> str:
    """The header's value for all pages in the folder, which may also speak to the addresses in `connect`.

    Raises ValueError when the folder has no page.
    """
    pages = sorted(folder.rglob("*.html"))
    if not pages:
        raise ValueError(f"folder: got {folder}, want one with pages: build the book")
    hashes = sorted(
        {
            f"'sha256-{_digest(script)}'"
            for page in pages
            for script in inline_scripts(page.read_text("utf-8"))
        }
    )
    return "; ".join(
        [
            "default-src 'none'",
            " ".join(["script-src 'self'", *hashes]),
            "style-src 'self' 'unsafe-inline'",  # figures and formulas carry style attributes
            "img-src 'self' data:",
            "font-src 'self' data:",
            " ".join(["connect-src 'self'", *connect]),
            "form-action 'self'",
            "base-uri 'none'",
            "frame-ancestors 'none'",
        ]
    )


def inline_scripts(page: str) -> list[str]:
    """What runs of a page and is no file; JSON in a script element does not."""
    return [
        code
        for attributes, code in SCRIPT.findall(page)
        if "src=" not in attributes and not DATA.search(attributes)
    ]


def _digest(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m tools.content_policy FOLDER")
    try:
        print(policy(Path(sys.argv[1])))
    except ValueError as error:
        sys.exit(str(error))
