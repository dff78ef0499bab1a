"""A real server process, and how to ask it."""

import contextlib
import http.client
import re
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Server:
    """`vitscope serve` on a free port, after the lines of Python in `before`; a context manager."""

    def __init__(self, root: Path, *options: str, before: str = "") -> None:
        arguments = ["serve", str(root), "--port", "0", *options]
        code = f"import sys\n{before}\nfrom vitscope.cli.app import main\nsys.exit(main({arguments!r}))"
        pipe = subprocess.PIPE
        self.process = subprocess.Popen([sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True)
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        found = re.search(r"http://[^/]*:(\d+)/(?:\?token=(\S+))?", self.line)
        assert found, self.line + self.process.communicate()[1]
        self.port, self.token = int(found[1]), found[2]

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *error: object) -> None:
        self.process.kill()
        self.process.communicate()

    def end(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """Its exit code, and what it said on the standard error."""
        self.process.send_signal(number)
        _, error = self.process.communicate(timeout=900)
        return self.process.returncode, error

    def connect(self) -> socket.socket:
        """A bare connection."""
        return socket.create_connection(("127.0.0.1", self.port), timeout=900)

    def ask(self, path: str, method: str = "GET", host: str | None = None, **headers: str) -> Answer:
        """Ask for a path exactly as it is written: a client would take `..` away."""
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=900)) as line:
            line.putrequest(method, path, skip_host=host is not None)
            if host is not None:
                line.putheader("Host", host)
            for name, value in headers.items():
                line.putheader(name, value)
            line.endheaders()
            answer = line.getresponse()
            headers = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, headers, answer.read())
