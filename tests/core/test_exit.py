"""Real processes that end with `run_program`: as Python would end them, but for what nobody waits for."""

import os
from pathlib import Path

import pytest

from tests.processes import ROOT, Done, alive, run

ENDS = """
import atexit, multiprocessing, os, sys, tempfile, threading, time
from vitscope.core.exit import run_program

class TakenApart:
    def __del__(self):
        os.write(1, b"taken apart\\n")

kept = TakenApart()

def main():
{body}

run_program(main)
"""


def ends(tmp_path: Path, body: str) -> Done:
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    (tmp_path / "ends.py").write_text(ENDS.format(body=lines))
    return run(tmp_path / "ends.py", cwd=tmp_path)


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [
        ("return 0", 0, ""),
        ("return None", 0, ""),
        ("return 2", 2, ""),
        ("sys.exit(3)", 3, ""),
        ("sys.exit()", 0, ""),
        ("sys.exit('in words')", 1, "in words\n"),
        ("raise KeyboardInterrupt", 130, ""),
        ("from vitscope.core.interrupt import Terminated\nraise Terminated", 143, ""),
    ],
)
def test_codes_are_those_of_python(tmp_path: Path, body: str, code: int, said: str) -> None:
    assert ends(tmp_path, body) == Done(code, "", said)


def test_an_error_is_shown_where_it_comes_from(tmp_path: Path) -> None:
    done = ends(tmp_path, "raise ValueError('of the program')")
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last)")
    assert done.stderr.endswith("ValueError: of the program\n")


ORDER = """
def late():
    time.sleep(0.2)
    print("thread")
folder = tempfile.TemporaryDirectory(dir=".", prefix="scratch")
threading.Thread(target=late).start()
atexit.register(print, "atexit")
child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(3600,), daemon=True)
child.start()
sys.unclosed = open("unclosed.txt", "w"), open("unclosed.bin", "wb"), folder
sys.unclosed[0].write("text")
sys.unclosed[1].write(b"bytes")
print(child.pid)
return 0
"""


def test_what_others_rely_on_is_done(tmp_path: Path) -> None:
    done = ends(tmp_path, ORDER)
    pid, *rest = done.stdout.splitlines()
    assert rest == ["thread", "atexit"]  # and nothing was taken apart
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "unclosed.txt").read_text() == "text"
    assert (tmp_path / "unclosed.bin").read_bytes() == b"bytes"
    assert not list(tmp_path.glob("scratch*"))
    assert not alive(int(pid))


WRITES = "sys.stdout = os.fdopen({descriptor}, 'w')\nprint('a line')\nreturn {code}"
FULL, GONE = "os.open('/dev/full', os.O_WRONLY)", "(lambda ends: (os.close(ends[0]), ends[1])[1])(os.pipe())"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no full device")
@pytest.mark.parametrize(
    ("descriptor", "code", "left", "said"),
    [
        (
            FULL,
            0,
            2,
            "vitscope: cannot write: the disk is full; free some room, or choose a place on another disk\n",
        ),
        (FULL, 1, 1, ""),  # which has been explained
        (GONE, 0, 0, ""),  # vitscope ... | head
        (GONE, 2, 2, ""),
    ],
)
def test_output_that_nobody_takes(tmp_path: Path, descriptor: str, code: int, left: int, said: str) -> None:
    done = ends(tmp_path, WRITES.format(descriptor=descriptor, code=code))
    assert (done.returncode, done.stderr) == (left, said)


@pytest.mark.parametrize("body", ["sys.stdout.close()\nreturn 0", "sys.stdout = sys.stderr = None\nreturn 0"])
def test_output_that_is_closed(tmp_path: Path, body: str) -> None:
    assert ends(tmp_path, body) == Done(0, "", "")


@pytest.mark.parametrize("watch", ["settrace", "setprofile"])
def test_who_watches_sees_the_end(tmp_path: Path, watch: str) -> None:
    """`python -m cProfile -m vitscope.cli.app ...` prints its table after that."""
    body = "".join(
        [
            "import vitscope.core.exit as exit_\n",
            f"sys.{watch}(lambda *_: None)\n",
            "exit_._leave = lambda code: print('left')\n",
            "return 4",
        ]
    )
    done = ends(tmp_path, body)
    assert done.returncode == 4
    assert "left" not in done.stdout


SHOWN = """
import runpy, sys
import vitscope.core.exit as exit_
exit_._leave = lambda code: print("left", code)
sys.argv = ["vitscope", "--version"]
runpy.run_module("vitscope.cli.app", run_name="__main__")
"""


def test_the_command_and_its_module_end_so(tmp_path: Path) -> None:
    (tmp_path / "shown.py").write_text(SHOWN)
    assert run(tmp_path / "shown.py").stdout.splitlines()[-1] == "left 0"
    assert 'vitscope = "vitscope.cli.app:program"' in (ROOT / "pyproject.toml").read_text()


def test_a_destructor_without_memory_is_not_heard_and_others_are(tmp_path: Path) -> None:
    body = """class Loader:
    def __init__(self, error):
        self.error = error
    def __del__(self):
        raise self.error
Loader(RuntimeError("can't start new thread"))
Loader(MemoryError())
Loader(RuntimeError("something else"))
return 2"""
    done = ends(tmp_path, body)
    assert done.returncode == 2
    assert done.stderr.count("Traceback") == 1
    assert "something else" in done.stderr
