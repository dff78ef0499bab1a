"""Bars where people look: a terminal of a known size and of none, and a log file."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import time

import pytest

from vitscope.core import progress
from vitscope.core.progress import LogBar, bar

SHOWN = """
import time
from vitscope.core import progress
progress._SOON = 0.0
with progress.progress(4, "vit: hessian") as advance:
    for _ in range(3):
        time.sleep(0.3)
        advance(1)
"""


def on_a_terminal(columns: int, rows: int) -> str:
    """What stands on a terminal of this size while `SHOWN` runs."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    code = [sys.executable, "-c", SHOWN]
    with subprocess.Popen(code, stdin=theirs, stdout=theirs, stderr=theirs, close_fds=True) as process:
        os.close(theirs)
        read = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the other side is gone
                break
            if not piece:
                break
            read += piece
        assert process.wait() == 0
    os.close(ours)
    return read.decode()


@pytest.mark.parametrize(("columns", "rows"), [(100, 30), (0, 0)])
def test_a_terminal_shows_a_bar_even_if_it_does_not_know_its_size(columns: int, rows: int) -> None:
    assert "vit: hessian:  75%" in on_a_terminal(columns, rows)


def test_in_a_log_short_bars_write_a_line_together(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(progress, "_SOON", 0.0)
    monkeypatch.setattr(LogBar, "told", None)
    for exam in range(10):  # of 9 s each
        with bar(9, f"exam {exam}", "image") as shown:
            shown._time = lambda: clock[0]
            shown.start_t = shown.last_print_t = clock[0]
            for _ in range(9):
                clock[0] += 1.0
                shown.update(1)
    lines = capsys.readouterr().err.split("\n")
    assert [line.partition(":")[0] for line in lines] == ["exam 3", "exam 6", "exam 9", ""]
    assert "\r" not in "".join(lines)
    assert "3/9" in lines[0]


def test_other_processes_than_the_first_are_silent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vitscope.core.distributed.is_main", lambda: False)
    with bar(2, "exam", "image") as shown:
        shown.update(2)
    assert not capsys.readouterr().err
