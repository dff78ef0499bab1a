"""Ctrl-C (and SIGTERM, by which a cluster asks a job to leave) as a wish, fulfilled between two steps."""

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


class Interruptible:
    """While it is entered a first signal sets `asked`; a second one acts as it would have without this.

    A patient one takes no notice of further signals: `torchrun` passes on to its processes the Ctrl-C that they
    got from the terminal already, and puts an end to those that take too long by itself.
    """

    def __init__(self, patient: bool = False) -> None:
        self.asked = False
        self._patient = patient
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():  # only there may handlers be set
            self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self.asked = True
        if not self._patient:
            self._restore()

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}
