"""Signals become a wish once, and keep their own meaning afterwards."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from vitscope.core.interrupt import Interruptible, Stopped, Terminated, termination_raises


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_first_signal_is_a_wish(number: int) -> None:
    before = signal.getsignal(number)
    with Interruptible() as interrupt:
        assert not interrupt.asked
        os.kill(os.getpid(), number)
        assert interrupt.asked
        assert signal.getsignal(number) is before
    assert signal.getsignal(number) is before


@pytest.fixture
def ctrl_c_raises() -> Iterator[None]:
    """A process that a shell starts in the background ignores Ctrl-C; not here."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c_raises")
def test_second_signal_acts_as_ever() -> None:
    def twice() -> None:
        with Interruptible():
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        twice()


def test_handlers_come_back_after_an_error() -> None:
    before = signal.getsignal(signal.SIGINT)

    def fail() -> None:
        with Interruptible():
            raise ValueError("inside")

    with pytest.raises(ValueError, match="inside"):
        fail()
    assert signal.getsignal(signal.SIGINT) is before


def test_other_threads_may_train_too() -> None:
    seen: list[bool] = []

    def work() -> None:
        with Interruptible() as interrupt:
            seen.append(interrupt.asked)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [False]


def test_a_patient_one_takes_every_signal() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with Interruptible(patient=True) as interrupt:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGTERM, signal.SIGINT):
            os.kill(os.getpid(), number)
        assert interrupt.asked
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("patient", [False, True])
def test_work_that_can_be_given_up_ends_where_the_signal_comes(patient: bool) -> None:
    done: list[str] = []

    def work(interrupt: Interruptible, name: str) -> None:
        with interrupt.at_once():
            os.kill(os.getpid(), signal.SIGTERM)
            done.append(name)

    with Interruptible(patient) as interrupt:
        for name in ("under way", "begun after the signal"):
            with pytest.raises(Stopped):
                work(interrupt, name)
    assert done == []


def test_outside_of_it_a_signal_waits() -> None:
    with Interruptible() as interrupt:
        with interrupt.at_once():
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        assert interrupt.asked


def test_a_patient_one_gives_up_once() -> None:
    """Ctrl-C comes from the terminal and from torchrun: the second must not disturb what the first set off."""
    left: list[str] = []

    def work(interrupt: Interruptible) -> None:
        with interrupt.at_once():
            try:
                os.kill(os.getpid(), signal.SIGINT)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)
                left.append("in order")

    with Interruptible(patient=True) as interrupt, pytest.raises(Stopped):
        work(interrupt)
    assert left == ["in order"]


def test_termination_leaves_in_order() -> None:
    before = signal.getsignal(signal.SIGTERM)
    left: list[str] = []

    def work() -> None:
        with termination_raises():
            try:
                os.kill(os.getpid(), signal.SIGTERM)
            finally:
                left.append("in order")

    with pytest.raises(Terminated):
        work()
    assert left == ["in order"]
    assert signal.getsignal(signal.SIGTERM) is before


SWALLOWS = """
import time
try:
    print("ready", flush=True)
    time.sleep(900)
except BaseException:  # as some libraries do while they are imported
    pass
"""
IMPORTS = """
from vitscope.core.interrupt import termination_raises
with termination_raises():
    import swallows
print("went on")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_import_cannot_swallow_a_signal(number: int, tmp_path: Path) -> None:
    (tmp_path / "swallows.py").write_text(SWALLOWS)
    script = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n{IMPORTS}"
    with subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, stdout=-1, stderr=-1, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(number)
        out, said = child.communicate(timeout=900)
    assert child.returncode == 128 + number
    assert said == "\nvitscope: interrupted\n"
    assert not out


def test_one_that_defers_takes_the_signals_of_those_inside() -> None:
    done: list[str] = []
    with Interruptible() as outer, outer.deferring(), Interruptible() as inner, inner.at_once():
        os.kill(os.getpid(), signal.SIGTERM)
        done.append("after the signal")
    assert done == ["after the signal"]
    assert outer.asked
    assert not inner.asked
