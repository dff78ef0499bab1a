"""The server process: a socket that is bound before anything is said, and an end on Ctrl-C.

Connections cannot hold it up: there are few at once, and none stays silent in the middle of a request.
"""

import asyncio
import socket
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from vitscope.core.errors import VitscopeError
from vitscope.core.interrupt import termination_raises
from vitscope.results.plain_files import is_shortage
from vitscope.serve.access import check_token, is_loopback, make_token, names_of
from vitscope.serve.app import make_app
from vitscope.serve.index import Index
from vitscope.serve.pages import Pages

MOST = 128
REQUEST_SECONDS = 10.0  # from the first byte of a request to its last
IDLE_SECONDS = 5  # between two requests
WRITE_SECONDS = 30.0  # in which a client reads nothing of its answer
_RESERVE = 40  # descriptors that are not for connections
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 2\r\nconnection: close\r\n"
    b"content-type: text/plain\r\ncontent-length: 21\r\n\r\ntoo many connections\n"
)
_BACKLOG = 16  # connections that are taken in one go, before any of them is counted


def run_server(root: Path, host: str, port: int, token: str | None = None) -> None:
    """Serve `root` until Ctrl-C or SIGTERM, which leave as a KeyboardInterrupt."""
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
    with listening, pages, termination_raises():
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


def most_connections() -> int:
    """So many that descriptors are left for the files of runs."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return MOST
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if allowed < 0 else min(MOST, max(4, (allowed - _RESERVE) // 2))


class _Alarm:
    """Calls `ring` once, so many seconds after it was first set, unless it is called off before."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, ring: Callable[[], None]) -> None:
        self._loop, self._seconds, self._ring = loop, seconds, ring
        self._handle: asyncio.TimerHandle | None = None

    def set(self) -> None:
        """Start to count the seconds; an alarm that is set goes on counting."""
        if self._handle is None:
            self._handle = self._loop.call_later(self._seconds, self._ring)

    def call_off(self) -> None:
        """Do not ring; until it is set again, nothing is counted."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class BoundedProtocol(H11Protocol):
    """uvicorn's protocol, with an end to waiting."""

    most = MOST

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._request_alarm = _Alarm(self.loop, REQUEST_SECONDS, self._give_up)
        self._write_alarm = _Alarm(self.loop, WRITE_SECONDS, self._give_up)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Answer that there are too many, if so."""
        super().connection_made(transport)
        if len(self.connections) > self.most:
            transport.write(_FULL)
            transport.close()
        else:
            self._watch_request()

    def data_received(self, data: bytes) -> None:
        """Take in a part of a request, which has to be complete in time."""
        super().data_received(data)
        self._watch_request()

    def pause_writing(self) -> None:
        """The client does not read: wait for it, but not for ever."""
        super().pause_writing()
        self._write_alarm.set()

    def resume_writing(self) -> None:
        """It reads again."""
        super().resume_writing()
        self._write_alarm.call_off()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._request_alarm.call_off()
        self._write_alarm.call_off()
        super().connection_lost(exc)

    def _watch_request(self) -> None:
        """Between requests uvicorn's own timer runs, this one from the first byte of a request to its last."""
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._request_alarm.set()
        else:
            self._request_alarm.call_off()

    def _give_up(self) -> None:
        bare = self.transport.get_extra_info("socket")
        if bare is not None:  # the system keeps nothing either of an answer that nobody reads
            bare.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()
