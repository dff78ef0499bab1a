"""Clients that are slow, silent or many do not hold a server up."""

import select
import socket
from pathlib import Path

from tests.serve.server import Server

FAST = (
    "from vitscope.serve import server\n"
    "server.REQUEST_SECONDS = server.IDLE_SECONDS = server.WRITE_SECONDS = 0.5\n"
)
FEW = "from vitscope.serve import server\nserver.MOST, server.REQUEST_SECONDS = 3, 3600.0\n"
SHORT = "import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"


def closed(line: socket.socket) -> bytes:
    """What comes until the other side has closed the connection, which it must."""
    found = b""
    try:
        while piece := line.recv(65536):
            found += piece
    except ConnectionResetError:
        pass
    return found


def test_requests_that_are_not_completed_end(runs: Path) -> None:
    with Server(runs, before=FAST) as server:
        for begun in (
            b"",
            b"GET / HT",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nX: ",
            b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx",
        ):
            with server.connect() as line:
                line.sendall(begun)
                closed(line)
        with server.connect() as line:  # after an answer, in the middle of the next request
            line.sendall(b"GET /static/serve.css HTTP/1.1\r\nHost: localhost\r\n\r\nGET / ")
            assert closed(line).startswith(b"HTTP/1.1 200")
        assert server.ask("/").status == 200
        assert server.end() == (130, "")


def test_a_byte_now_and_then_does_not_help(runs: Path) -> None:
    with Server(runs, before=FAST) as server, server.connect() as line:
        line.settimeout(0.05)
        line.sendall(b"GET / HTTP/1.1\r\nX: ")
        ended = False
        while not ended:  # as long as it is open
            try:
                line.sendall(b"x")
                ended = line.recv(1) == b""
            except TimeoutError:
                continue
            except (ConnectionResetError, BrokenPipeError):
                ended = True
        assert server.ask("/").status == 200


def test_who_does_not_read_is_left(runs: Path) -> None:
    (runs / "train" / "large.csv").write_bytes(b"1,2\n" * 16_000_000)
    with Server(runs, before=FAST) as server:
        with socket.socket() as line:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.settimeout(900)
            line.connect(("127.0.0.1", server.port))
            line.sendall(b"GET /files/train/large.csv HTTP/1.1\r\nHost: localhost\r\n\r\n")
            left = select.poll()
            left.register(line, 0)  # errors and ends are told in any case
            assert left.poll(900_000)
        assert server.ask("/").status == 200
        assert server.end() == (130, "")


def test_too_many_connections_are_told_so(runs: Path) -> None:
    with Server(runs, before=FEW) as server:
        held = [server.connect() for _ in range(3)]
        for line in held:  # taken in, in this order
            line.sendall(b"GET / HTTP/1.1\r\n")
        with server.connect() as line:
            assert closed(line).startswith(b"HTTP/1.1 503 ")
        for line in held:
            line.close()
        while server.ask("/").status == 503:  # until it has noticed that they are gone
            pass
        assert server.end() == (130, "")


def test_without_descriptors_it_sheds_load_and_goes_on(runs: Path) -> None:
    with Server(runs, before=SHORT) as server:
        held = [server.connect() for _ in range(200)]
        for line in held:
            line.close()
        while server.ask("/").status == 503:
            pass
        assert server.ask("/runs.json").status == 200
        assert server.end() == (130, "")
