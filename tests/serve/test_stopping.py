"""Ctrl-C and SIGTERM while a page is being drawn: not one figure more, no traceback, nothing left behind."""

import signal
import tempfile
import threading
import time
from pathlib import Path

import pytest

from tests.serve.server import Server

WATCHED = """
import time
from vitscope.interrupt import _stop
from vitscope.report import page
draw = page.inline_svg
def drawn(*arguments):
    print("figure", flush=True)
    while not _stop.get().is_set():  # until the signal has come
        time.sleep(0.01)
    return draw(*arguments)
page.inline_svg = drawn
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 0), (signal.SIGTERM, 143)])
def test_a_page_is_given_up_after_the_figure_under_way(
    runs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, number: int, code: int
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    tempfile.tempdir = None
    with Server(runs, before=WATCHED) as server:
        asked = threading.Thread(target=ask, args=(server,))
        asked.start()
        assert server.process.stdout is not None
        assert server.process.stdout.readline() == "figure\n"
        server.process.send_signal(number)
        shown, error = server.process.communicate(timeout=900)
        asked.join()
    assert server.process.returncode == code
    assert shown == ""  # no other figure was begun
    assert error == ""
    assert list(scratch.iterdir()) == []


def ask(server: Server) -> None:
    try:
        server.ask("/run/a/exam")
    except OSError:
        time.sleep(0)  # it may be gone before it could answer
