"""The server process: a socket that is bound before anything is said, and an end on Ctrl-C."""

import asyncio
import contextlib
import signal
import socket
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn

from vitscope.core.errors import VitscopeError
from vitscope.results.plain_files import is_shortage
from vitscope.serve.access import check_token, is_loopback, make_token, names_of
from vitscope.serve.app import make_app
from vitscope.serve.connections import IDLE_SECONDS, BoundedProtocol, most_connections
from vitscope.serve.index import Index
from vitscope.serve.pages import Pages

_BACKLOG = 16  # connections that are taken in one go, before any of them is counted


def run_server(root: Path, host: str, port: int, token: str | None = None) -> None:
    """Serve `root` until Ctrl-C or SIGTERM."""
    check_token(token)
    listening = _bind(host, port)
    if token is None and not is_loopback(listening):
        token = make_token()
    address, own_port = _address(host, listening), listening.getsockname()[1]
    pages = Pages(Index(root))
    BoundedProtocol.most = most_connections()
    config = uvicorn.Config(
        make_app(pages, names_of(listening), token, f"vitscope-token-{own_port}"),
        http=BoundedProtocol,
        ws="none",
        log_level="critical",  # what goes wrong is answered
        access_log=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=2,
    )
    secret = f"?token={token}" if token else ""
    print(f"serving {root} at http://{address}:{own_port}/{secret} (Ctrl-C ends it)", flush=True)
    with listening, pages, contextlib.suppress(KeyboardInterrupt), _terminates():
        _Server(config, pages).run([listening])


class _Server(uvicorn.Server):
    """Gives pages up that are being drawn when it is asked to end."""

    def __init__(self, config: uvicorn.Config, pages: Pages) -> None:
        super().__init__(config)
        self._pages = pages

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        asyncio.get_running_loop().set_exception_handler(_explain)
        await super().startup(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._pages.end()
        super().handle_exit(sig, frame)


def _explain(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Out of descriptors, connections wait until there are some again: nothing to say."""
    if not is_shortage(context.get("exception")):
        print(f"vitscope: {context.get('exception') or context.get('message')}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def _terminates() -> Any:
    """SIGTERM leaves through every `with`, and so cleans up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _address(host: str, listening: socket.socket) -> str:
    """What to type; a socket that listens everywhere is reached by this machine's name."""
    bound = str(listening.getsockname()[0])
    if bound in ("0.0.0.0", "::"):
        return socket.gethostname()
    return f"[{host}]" if ":" in host else host


def _bind(host: str, port: int) -> socket.socket:
    if not host.strip():
        raise VitscopeError(
            "the host is empty, which would listen on every network; expected an address: --host 127.0.0.1 for this "
            "machine only, --host 0.0.0.0 for every network, with a token"
        )
    if not 0 <= port <= 65535:
        raise VitscopeError(f"port is {port}; expected 0 (a free one) to 65535")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_BACKLOG)  # whoever reads the address may ask at once
    except (OSError, ValueError, TypeError) as error:  # a name may also be none
        listening.close()
        reason = error.strerror if isinstance(error, OSError) else error
        raise VitscopeError(
            f"cannot listen on {host!r} port {port} ({reason}); try another: --port 0 takes a free one, and "
            "--host 127.0.0.1 is this machine"
        ) from error
    return listening
