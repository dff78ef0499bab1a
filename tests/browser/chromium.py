"""A headless Chromium, driven through its DevTools pipe: no port, no driver, no other library.

The browser reads commands from file descriptor 3 and answers on 4; every message is JSON and ends with a zero byte.
"""

import base64
import fcntl
import json
import os
import select
import shlex
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--headless=new",
    "--no-sandbox",
    "--no-first-run",
    "--disable-background-networking",
    "--hide-scrollbars",
]
FLAGS += [
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--use-angle=swiftshader",
    "--enable-unsafe-swiftshader",
]
PATIENCE = 900.0  # seconds; a machine under load is slow, but not silent for so long


def find_chromium() -> str | None:
    """The browser's command, if there is one."""
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Chromium:
    """One browser with one page.

    `problems` collects what scripts and the policy complain of, `requests` the addresses that were asked for.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.events: list[dict[str, Any]] = []
        self._last, self._session, self._buffer = 0, "", b""
        (commands, self._out), (self._in, answers) = os.pipe(), os.pipe()
        given = [
            fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (commands, answers)
        ]  # out of the way of 3 and 4
        browser = find_chromium()
        assert browser is not None
        line = [
            browser,
            *FLAGS,
            "--remote-debugging-pipe",
            f"--user-data-dir={folder / 'profile'}",
            "about:blank",
        ]
        redirected = f"exec {shlex.join(line)} 3<&{given[0]} 4>&{given[1]}"
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(
            ["bash", "-c", redirected], pass_fds=given, stdout=quiet, stderr=quiet
        )
        for fd in (commands, answers, *given):
            os.close(fd)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.terminate()
        self.process.wait(PATIENCE)
        os.close(self._out)
        os.close(self._in)

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Send a command and wait for its answer."""
        self._last += 1
        number = self._last
        message = {"id": number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._receive()
            if answer.get("id") == number:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]

    def open(self, page: Path) -> None:
        """Load a page and wait until it is there."""
        self.problems.clear()
        self.requests.clear()
        self.events.clear()
        self.call("Page.navigate", url=page.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._receive()

    def run(self, expression: str) -> Any:
        """The value of a JavaScript expression, awaited if it is a promise."""
        found = self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def wait_for(self, expression: str) -> None:
        """Wait until an expression is true."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            if self.run(f"Boolean({expression})"):
                return
            time.sleep(0.05)
        raise TimeoutError(f"never true: {expression}")

    def look(self, width: int, height: int = 900, dark: bool = False) -> None:
        """Set the size of the window, and whether the reader wants dark pages."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.call("Emulation.setDeviceMetricsOverride", **size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])

    def pointer(self, x: float, y: float, kind: str = "mouseMoved", **more: Any) -> None:
        """Move the pointer, or press or release its button."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, name: str) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=name, code=name)

    def screenshot(self, path: Path) -> None:
        """What is in the window, as a PNG file."""
        path.write_bytes(base64.b64decode(self.call("Page.captureScreenshot")["data"]))

    def _receive(self) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], PATIENCE)[0]:
                raise TimeoutError(f"no word from the browser for {PATIENCE:g} s")
            piece = os.read(self._in, 1 << 20)
            assert piece, f"the browser ended with code {self.process.wait(PATIENCE)}"
            self._buffer += piece
        text, _, self._buffer = self._buffer.partition(b"\0")
        message = json.loads(text)
        if "method" in message:
            self._note(message)
        return message

    def _note(self, event: dict[str, Any]) -> None:
        self.events.append(event)
        method, said = event["method"], event["params"]
        if method == "Runtime.exceptionThrown":
            self.problems.append(str(said["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "assert"):
            self.problems.append(str(said["args"]))
        elif method == "Log.entryAdded" and said["entry"]["level"] == "error":
            self.problems.append(said["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])
