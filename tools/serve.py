"""Serve a folder on this machine alone: python -m tools.serve FOLDER. A port that is taken moves on to the next.

Pages are sent with the policy of `tools.content_policy`, as a careful host sends them.
"""

import functools
import http.server
import sys
from collections.abc import Iterable
from pathlib import Path

from tools.content_policy import policy


class Handler(http.server.SimpleHTTPRequestHandler):
    """Files of a folder, each answer with a Content-Security-Policy."""

    def __init__(self, *arguments, policy: str, **options) -> None:
        self.policy = policy
        super().__init__(*arguments, **options)

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", self.policy)
        super().end_headers()


def server(
    folder: str, ports=range(8000, 8100), handler=Handler, connect: Iterable[str] = ()
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


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit(
            "usage: python -m tools.serve FOLDER, a folder that exists: build the book first"
        )
    try:
        book = server(sys.argv[1])
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
