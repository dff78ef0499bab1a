"""Ctrl-C (and SIGTERM, by which a cluster asks a job to leave): fulfilled between two steps, or inside one that can be
given up.

    with Interruptible() as interrupt:
        for batch in batches:
            with interrupt.at_once():       # a signal ends this at the next operation, and leaves as `Stopped`
                found = model(batch)
            total += found                  # a signal waits until this is done
"""

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType, TracebackType
from typing import Any, Self

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_deferring: ContextVar[bool] = ContextVar("deferring", default=False)


class Stopped(KeyboardInterrupt):
    """A first signal ended work that could be given up.

    Attributes:
        number: Of the signal.
    """

    def __init__(self, number: int = signal.SIGINT) -> None:
        super().__init__()
        self.number = number


class Terminated(KeyboardInterrupt):
    """SIGTERM, where nobody waits for it between steps."""

    number = signal.SIGTERM


def exit_code(asked: KeyboardInterrupt) -> int:
    """What a process ends with that was asked to: 130 after Ctrl-C, 143 after SIGTERM, wherever it was."""
    return 128 + int(getattr(asked, "number", signal.SIGINT))


class Interruptible:
    """While it is entered a first signal is noted in `asked`; a second one acts as it would have without this.

    `asked` is the number of that signal, 0 before one has come.

    A patient one takes no notice of further signals: `torchrun` passes on to its processes the Ctrl-C that they
    got from the terminal already, and puts an end to those that take too long by itself.
    """

    def __init__(self, patient: bool = False) -> None:
        self.asked = 0
        self._patient = patient
        self._can_give_up = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        # only there may handlers be set
        if threading.current_thread() is threading.main_thread() and not _deferring.get():
            self._before = {number: signal.signal(number, self._handle) for number in _SIGNALS}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Work that may be given up anywhere: if a signal comes, or came before, `Stopped` is raised in it."""
        try:
            self._can_give_up = True
            self.check()
            yield
        finally:
            self._can_give_up = False

    def check(self) -> None:
        """Raise `Stopped` if a signal has come."""
        if self.asked:
            raise Stopped(self.asked)

    @contextmanager
    def deferring(self) -> Iterator[None]:
        """Work that must be completed: others that are entered inside leave all signals to this one."""
        before = _deferring.set(True)
        try:
            yield
        finally:
            _deferring.reset(before)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        first, self.asked = not self.asked, self.asked or number
        if not self._patient:
            self._restore()
        if first and self._can_give_up:
            raise Stopped(number)

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}


@contextmanager
def termination_raises() -> Iterator[None]:
    """Inside, SIGTERM raises `Terminated` as Ctrl-C does KeyboardInterrupt, so that what is under way is left in order.

    While modules are imported either ends the process: libraries swallow what is raised there, or stay half made.
    Where somebody has said already what a signal is to do, that stays.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    outer = _imports(sys._getframe())

    def leave(number: int, frame: FrameType | None) -> None:
        if _imports(frame) > outer:
            os.write(2, b"\nvitscope: interrupted\n")
            os._exit(128 + number)
        raise KeyboardInterrupt if number == signal.SIGINT else Terminated

    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL}
    free = {number: handler for number, handler in usual.items() if signal.getsignal(number) is handler}
    for number in free:
        signal.signal(number, leave)
    try:
        yield
    finally:
        for number, handler in free.items():
            signal.signal(number, handler)


def _imports(frame: FrameType | None) -> int:
    """How many imports are under way, one inside the other, counted by their frames."""
    count = 0
    while frame is not None:
        count += frame.f_code.co_filename.startswith("<frozen importlib")
        frame = frame.f_back
    return count


@contextmanager
def signals_wait() -> Iterator[None]:
    """Inside, signals wait, and act when it is left: for a moment in which something is made that has to be ended."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    waiting: list[int] = []
    before = {
        number: signal.signal(number, lambda number, frame: waiting.append(number)) for number in _SIGNALS
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if waiting:
            os.kill(os.getpid(), waiting[0])


_stop: ContextVar[threading.Event | None] = ContextVar("stop", default=None)


@contextmanager
def stoppable(stop: threading.Event) -> Iterator[None]:
    """Inside, `check_stop` raises `Stopped` once `stop` is set: for threads, which no signal reaches."""
    before = _stop.set(stop)
    try:
        yield
    finally:
        _stop.reset(before)


def check_stop() -> None:
    """Called between small steps of long work (a figure each, for example) that may be done in a thread."""
    stop = _stop.get()
    if stop is not None and stop.is_set():
        raise Stopped
