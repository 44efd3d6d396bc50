"""Serve the built book and a Jupyter server beside it, so that its pages run their cells: python -m tools.live FOLDER

Both listen on this machine alone. The Jupyter server wants a token, which the printed address hands to the browser,
and answers no page but the book's.
"""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, NamedTuple

from tools.repository import CHAPTERS
from tools.serve import Handler, folder_named, server

IDLE = 600  # seconds until a kernel whose page was closed is ended
PATIENCE = 60  # seconds for the Jupyter server to start


class JupyterError(Exception):
    """The Jupyter server did not start."""


class LiveBook(NamedTuple):
    """The book's address, what to put behind a page's address so that the page can run its cells, and the server."""

    address: str
    key: str
    jupyter: subprocess.Popen


@contextlib.contextmanager
def live_book(
    folder: str | Path,
    ports: Sequence[int] = range(8000, 8100),
    handler: type[Handler] = Handler,
) -> Iterator[LiveBook]:
    """A live book until the end of the `with` block.

    Raises ValueError when the folder has no pages, JupyterError when there is no Jupyter server.
    """
    port, token = free_port(), secrets.token_urlsafe(32)
    sources = [f"{scheme}://127.0.0.1:{port}" for scheme in ("http", "ws")]
    with server(folder, ports, handler, connect=sources) as book:
        address = f"http://127.0.0.1:{book.server_port}/"
        with jupyter_server(port, token, address.rstrip("/")) as process:
            threading.Thread(target=book.serve_forever, daemon=True).start()
            try:
                key = f"#jupyter={port}&token={token}"
                yield LiveBook(address, key, process)
            finally:
                book.shutdown()


@contextlib.contextmanager
def jupyter_server(
    port: int, token: str, allowed_origin: str
) -> Iterator[subprocess.Popen]:
    """A Jupyter server for the chapters that answers pages of one origin with the token, and its end."""
    options = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.root_dir": CHAPTERS,
        "ServerApp.allow_origin": allowed_origin,
        "ServerApp.allow_root": True,  # who started this may run code anyway
        "ServerApp.terminals_enabled": False,
        "MappingKernelManager.cull_idle_timeout": IDLE,
        "MappingKernelManager.cull_busy": True,  # connected ones are spared
        "MappingKernelManager.cull_interval": IDLE // 10,
    }
    command = [sys.executable, "-m", "jupyter_server", "--no-browser"]
    command += [f"--{name}={value}" for name, value in options.items()]
    # A command line can be read by everybody on this machine, an environment cannot.
    environment = {**os.environ, "JUPYTER_TOKEN": token}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    log = Log(process)
    try:
        wait_for(f"http://127.0.0.1:{port}/api/status?token={token}", process, log)
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE)


class Log:
    """The last lines that a process wrote, read all the time so that it never waits for a reader."""

    def __init__(self, process: subprocess.Popen) -> None:
        self.lines: list[str] = []
        self._reader = threading.Thread(
            target=self._read, args=[process.stdout], daemon=True
        )
        self._reader.start()

    def _read(self, stream: IO[bytes]) -> None:
        for line in stream:
            self.lines = [*self.lines[-19:], line.decode(errors="replace")]

    def __str__(self) -> str:
        self._reader.join(1)
        return "".join(self.lines)


def wait_for(address: str, process: subprocess.Popen, log: Log) -> None:
    """Return when the address answers. Raises JupyterError when the process ends or time is up."""
    end = time.monotonic() + PATIENCE
    while process.poll() is None and time.monotonic() < end:
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, TimeoutError, ConnectionError):
            time.sleep(0.1)
    raise JupyterError(f"The Jupyter server did not start. It said:\n{log}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def first_page(folder: Path) -> str:
    """The page that `index.html` sends its reader to; a fragment would be lost on the way."""
    door = (folder / "index.html").read_text("utf-8")
    return door.split("url=", 1)[1].split('"', 1)[0]


if __name__ == "__main__":
    folder = folder_named("tools.live")
    for reason in (signal.SIGTERM, signal.SIGHUP):  # end the Jupyter server too
        signal.signal(reason, lambda *_: sys.exit())
    try:
        with live_book(folder) as book:
            print(f"The book is at {book.address}{first_page(folder)}{book.key}")
            print('"Run this page" runs its cells here, until Ctrl+C.', flush=True)
            book.jupyter.wait()
            sys.exit("The Jupyter server has ended.")
    except KeyboardInterrupt:
        print()
    except (ValueError, JupyterError) as error:
        sys.exit(str(error))
