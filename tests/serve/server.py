"""A real server process, and how to ask it."""

import contextlib
import http.client
import re
import signal
import socket
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.processes import Job


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()


class Server:
    """`vitscope serve` on a free port, after the lines of Python in `before`; a context manager.

    Args:
        root: The folder of runs.
        options: What is typed after it.
        before: Lines of Python that its process runs first.
        environment: What its environment has besides ours.
        anew: In a new interpreter, which imports everything itself.
    """

    def __init__(
        self,
        root: Path,
        *options: str,
        before: str = "",
        environment: Mapping[str, str] | None = None,
        anew: bool = False,
    ) -> None:
        arguments = ["serve", str(root), "--port", "0", *options]
        code = f"import sys\n{before}\nfrom vitscope.cli.app import main\nsys.exit(main({arguments!r}))"
        if anew:
            code = f"import os, sys\nos.execv(sys.executable, [sys.executable, '-c', {code!r}])"
        with tempfile.TemporaryDirectory(prefix="server") as folder:
            script = Path(folder) / "serve.py"
            script.write_text(code)
            self.job = Job(script, environment=environment)
            self.job.wait_for("\n")
        self.line = self.job.shown[0].splitlines(keepends=True)[0]
        found = re.search(r"http://[^/]*:(\d+)/(?:\?token=(\S+))?", self.line)
        assert found, self.job.shown
        self.port, self.token = int(found[1]), found[2]

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *error: object) -> None:
        if self.job.running:
            self.job.send(signal.SIGKILL)
            self.job.finish()

    def end(self, number: signal.Signals = signal.SIGINT) -> tuple[int, str]:
        """Its exit code, and what it said on the standard error."""
        self.job.send(number)
        done = self.job.finish()
        return done.returncode, done.stderr

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
