"""Serve a folder on this machine alone: python -m tools.serve FOLDER. A port that is taken moves on to the next.

Pages are sent compressed, and with the policy of `tools.content_policy`, as a careful host sends them.
"""

import functools
import gzip
import http.server
import io
import re
import sys
from collections.abc import Iterable, Sequence
from email.utils import formatdate
from pathlib import Path
from typing import Any, BinaryIO

from tools.content_policy import policy

TEXT = re.compile(r"text/|image/svg\+xml|application/(?:javascript|json)")
GZIP = re.compile(r"\bgzip\b(?!\s*;\s*q=0(?:\.0*)?\s*(?:,|$))")  # q=0 refuses it


@functools.lru_cache(maxsize=128)
def compressed(path: str, changed: int) -> bytes:
    """A file's bytes, compressed once until it changes."""
    return gzip.compress(Path(path).read_bytes(), mtime=0)


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, each answer with a Content-Security-Policy, text compressed for those who take it."""

    def __init__(self, *arguments: Any, policy: str, **options: Any) -> None:
        self.policy = policy
        super().__init__(*arguments, **options)

    def log_request(self, *_: Any) -> None:
        """Nothing, so that the printed address stays in sight; errors are told."""

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", self.policy)
        self.send_header("Vary", "Accept-Encoding")
        super().end_headers()

    def send_head(self) -> BinaryIO | None:
        """Send the headers; the file to send after them. Folders, errors and "not modified" stay the base class's."""
        path = Path(self.translate_path(self.path))
        asks_again = "If-Modified-Since" in self.headers
        if asks_again or not path.is_file() or not self.goes_compressed(path):
            return super().send_head()
        changed = path.stat()
        body = compressed(str(path), changed.st_mtime_ns)
        self.send_response(http.HTTPStatus.OK)
        self.send_header("Content-Type", self.guess_type(path))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Last-Modified", formatdate(changed.st_mtime, usegmt=True))
        self.end_headers()
        return io.BytesIO(body)

    def goes_compressed(self, path: Path) -> bool:
        accepted = self.headers.get("Accept-Encoding", "")
        return bool(TEXT.match(self.guess_type(path)) and GZIP.search(accepted))


def server(
    folder: str | Path,
    ports: Sequence[int] = range(8000, 8100),
    handler: type[Handler] = Handler,
    connect: Iterable[str] = (),
) -> http.server.ThreadingHTTPServer:
    """A server of the folder at the first port that is free; its pages may also speak to `connect`.

    Raises ValueError when the folder has no pages.
    """
    header = policy(Path(folder), connect)
    answer = functools.partial(handler, directory=folder, policy=header)
    for port in ports:
        try:
            return http.server.ThreadingHTTPServer(("127.0.0.1", port), answer)
        except OSError:
            continue
    sys.exit(
        f"Every port from {ports[0]} to {ports[-1]} is taken. Open {folder}/index.html instead."
    )


def folder_named(command: str) -> Path:
    """The folder that a command's one argument names; without it, says how the command is used and ends it."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit(
            f"usage: python -m {command} FOLDER, a folder that exists: build the book first"
        )
    return Path(sys.argv[1])


if __name__ == "__main__":
    try:
        book = server(folder_named("tools.serve"))
    except ValueError as error:
        sys.exit(str(error))
    with book:
        print(
            f"The book is at http://127.0.0.1:{book.server_port}/ (Ctrl+C ends this)",
            flush=True,
        )
        try:
            book.serve_forever()
        except KeyboardInterrupt:
            print()
