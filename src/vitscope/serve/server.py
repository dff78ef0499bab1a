"""The server process: a socket that is bound before anything is said, and an end on Ctrl-C."""

import contextlib
import signal
import socket
import sys
from pathlib import Path

import uvicorn

from vitscope.errors import VitscopeError
from vitscope.serve.app import make_app
from vitscope.serve.index import Index
from vitscope.serve.pages import Pages


def run_server(root: Path, host: str, port: int, hosts: list[str]) -> None:
    """Serve `root` until Ctrl-C or SIGTERM."""
    listening = _bind(host, port)
    shown = f"[{host}]" if ":" in host else host
    pages = Pages(Index(root))
    config = uvicorn.Config(
        make_app(pages, hosts),
        log_level="warning",
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=2,
    )
    print(f"serving {root} at http://{shown}:{listening.getsockname()[1]}/ (Ctrl-C ends it)", flush=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leaves through the `with`, and so cleans up
    with pages, listening, contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run([listening])


def _bind(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(128)  # whoever reads the address may ask at once
    except OSError as error:
        listening.close()
        raise VitscopeError(
            f"cannot listen on {host} port {port} ({error.strerror}); try another: --port 0 takes a free one"
        ) from error
    return listening
