"""Ctrl-C and SIGTERM while a page is being drawn: not one figure more, no traceback, nothing left behind."""

import signal
import threading
import time
from pathlib import Path

import pytest

from tests.serve.server import Server

WATCHED = """
import tempfile, time
tempfile.tempdir = None  # as TMPDIR says
from vitscope.core.interrupt import _stop
from vitscope.report import page
draw = page.inline_svg
def drawn(*arguments):
    print("figure", flush=True)
    while not _stop.get().is_set():  # until the signal has come
        time.sleep(0.01)
    return draw(*arguments)
page.inline_svg = drawn
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_page_is_given_up_after_the_figure_under_way(
    runs: Path, tmp_path: Path, number: signal.Signals, code: int
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with Server(runs, before=WATCHED, environment={"TMPDIR": str(scratch)}) as server:
        asked = threading.Thread(target=ask, args=(server,))
        asked.start()
        server.job.wait_for("figure\n")
        assert server.end(number) == (code, "")
        asked.join()
        assert server.job.shown[0] == f"{server.line}figure\n"  # no other figure was begun
    assert list(scratch.iterdir()) == []


def ask(server: Server) -> None:
    try:
        server.ask("/run/a/exam")
    except OSError:
        time.sleep(0)  # it may be gone before it could answer
