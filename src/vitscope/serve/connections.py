"""Connections that cannot hold the server up: few at once, and none that stays silent in the middle of a request."""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST = 128
REQUEST_SECONDS = 10.0  # from the first byte of a request to its last
IDLE_SECONDS = 5  # between two requests
WRITE_SECONDS = 30.0  # in which a client reads nothing of its answer
_RESERVE = 40  # descriptors that are not for connections
_FULL = (
    b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 2\r\nconnection: close\r\n"
    b"content-type: text/plain\r\ncontent-length: 21\r\n\r\ntoo many connections\n"
)


def most_connections() -> int:
    """So many that descriptors are left for the files of runs."""
    try:
        import resource
    except ImportError:  # not a POSIX system
        return MOST
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if allowed < 0 else min(MOST, max(4, (allowed - _RESERVE) // 2))


class _Alarm:
    """Rings once, so many seconds after it was first set, unless it is put off in between."""

    def __init__(self, loop: asyncio.AbstractEventLoop, seconds: float, ring: Callable[[], None]) -> None:
        self._loop, self._seconds, self._ring = loop, seconds, ring
        self._handle: asyncio.TimerHandle | None = None

    def set(self) -> None:
        """One that is set stays as it is."""
        if self._handle is None:
            self._handle = self._loop.call_later(self._seconds, self._ring)

    def put_off(self) -> None:
        """There is nothing to ring for."""
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
        self._write_alarm.put_off()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is waited for any more."""
        self._request_alarm.put_off()
        self._write_alarm.put_off()
        super().connection_lost(exc)

    def _watch_request(self) -> None:
        """Between requests uvicorn's own timer runs, this one from the first byte of a request to its last."""
        if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
            self._request_alarm.set()
        else:
            self._request_alarm.put_off()

    def _give_up(self) -> None:
        bare = self.transport.get_extra_info("socket")
        if bare is not None:  # the system keeps nothing either of an answer that nobody reads
            bare.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()
