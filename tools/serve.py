"""Serve a folder on this machine alone: python -m tools.serve FOLDER. A port that is taken moves on to the next."""

import functools
import http.server
import sys
from pathlib import Path


def server(folder: str, ports=range(8000, 8100)) -> http.server.ThreadingHTTPServer:
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    for port in ports:
        try:
            return http.server.ThreadingHTTPServer(("127.0.0.1", port), handler)
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
    with server(sys.argv[1]) as book:
        print(
            f"The book is at http://127.0.0.1:{book.server_port}/ (Ctrl+C ends this)",
            flush=True,
        )
        try:
            book.serve_forever()
        except KeyboardInterrupt:
            print()
