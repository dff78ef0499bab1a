"""Calls that are watched: what they say, what they touch and run, and how long they take."""

import faulthandler
import os
import signal
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.fuzz.refusals import check_message
from tests.prove.record import Finding
from vitscope.core.errors import VitscopeError

SECONDS = 10  # CPU, of one case; more is a hang
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_CHANGES = (
    "os.rename",
    "os.remove",
    "os.rmdir",
    "os.mkdir",
    "os.link",
    "os.symlink",
    "os.truncate",
    "shutil.rmtree",
)
_RUNS = (
    "os.system",
    "os.exec",
    "os.posix_spawn",
    "os.spawn",
    "subprocess.Popen",
    "pickle.find_class",
    "ctypes.dlopen",
)
STRANGER = "strangers_code"  # a module that says when it is imported
_seen: list[str] | None = None  # what is noted now
_allowed: tuple[str, ...] = ()


class Hung(BaseException):
    """A case took too long; no `except Exception` catches it."""


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _seen is None:
        return
    if event == "open":
        path, _, flags = arguments
        if isinstance(flags, int) and flags & _WRITING and isinstance(path, str | bytes):
            _note("writes", path)
    elif event in _CHANGES:
        if isinstance(arguments[0], str | bytes | os.PathLike):
            folder = arguments[-1] if event in ("os.remove", "os.rmdir", "os.mkdir") else -1
            base = os.readlink(f"/proc/self/fd/{folder}") if isinstance(folder, int) and folder >= 0 else ""
            _note(event, os.path.join(base, os.fsdecode(arguments[0])))
    elif event in _RUNS:
        what = str(arguments[0])
        if event == "subprocess.Popen" and what.rpartition("/")[2] in ("git", "uname", "lscpu"):
            return  # where a number comes from
        if event == "ctypes.dlopen" and (arguments[0] is None or ".so" in what):
            return
        _seen.append(f"{event} {what}")
    elif event == "import" and arguments[0] == STRANGER:
        _seen.append(f"imports {STRANGER}")
    elif event == "socket.connect" and isinstance(arguments[1], tuple):
        _seen.append(f"connects to {arguments[1]}")


def _note(what: str, path: Any) -> None:
    whole = os.path.abspath(os.fsdecode(path))
    if not whole.startswith(_allowed):
        assert _seen is not None
        _seen.append(f"{what} {whole}")


sys.addaudithook(_watch)


@dataclass(frozen=True)
class Said:
    """How a call ended: its value or its refusal, and what was written on the console."""

    value: Any
    refusal: str | None
    shown: str


def watched(call: Callable[[], Any], allowed: Path, what: object, quoting: str = "\0") -> Said:
    """Do it; anything but a value or a refusal in one line of our own is a `Finding`.

    Args:
        call: What is tried.
        allowed: The only folder in which files may change.
        what: Describes the case.
        quoting: In a refusal with these words, the words of another library may follow.
    """
    global _seen, _allowed
    shown = ""
    _allowed = (os.path.abspath(allowed), "/dev/null", "/proc/self", tempfile.gettempdir() + "/vitscope")
    noted: list[str] = []
    try:
        with _console() as console, _limited():
            _seen = noted
            try:
                said = Said(call(), None, "")
            except VitscopeError as error:
                said = Said(None, str(error), "")
            except SystemExit as stop:
                said = Said(stop.code, None, "")
            finally:
                _seen = None
        shown = console()
    except Hung:
        raise Finding(f"more than {SECONDS} s for {what}") from None
    except (KeyboardInterrupt, Finding):
        raise
    except BaseException as error:
        place = error.__traceback__
        while place is not None and place.tb_next is not None:
            place = place.tb_next
        where = f"{place.tb_frame.f_code.co_filename}:{place.tb_lineno}" if place else ""
        raise Finding(f"{type(error).__name__}: {str(error)[:500]} (from {where}) for {what}") from error
    finally:
        _seen = None
    if noted:
        raise Finding(f"{what}: {'; '.join(noted[:3])}")
    if said.refusal is not None:
        try:
            check_message(said.refusal.partition(quoting)[0], what)
        except AssertionError as error:
            raise Finding(str(error)) from None
        if "\n" in said.refusal.strip():
            raise Finding(f"more than one line for {what}: {said.refusal}")
    return Said(said.value, said.refusal, shown)


def command(words: list[str], allowed: Path) -> tuple[int, str]:
    """A command as it is typed, here; its code is 0 or 2, and what it shows is checked."""
    from vitscope.cli.app import main

    said = watched(lambda: main(words), allowed, words)
    code = said.value if isinstance(said.value, int) else 2
    if code in (130, 143):  # the command has heard a Ctrl-C or SIGTERM that was meant for all of this
        raise KeyboardInterrupt
    if code not in (0, 2) or "Traceback" in said.shown or "--debug" in said.shown:
        raise Finding(f"{words} ended with {code}: {said.shown[-1500:]}")
    if code == 2:
        line = said.shown.rpartition("vitscope: ")[2]
        try:
            check_message(line, words)
        except AssertionError as error:
            raise Finding(str(error)) from None
    return code, said.shown


@contextmanager
def _console() -> Iterator[Callable[[], str]]:
    """What is written to the standard output and error, by Python or not, meanwhile."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept, text = [os.dup(1), os.dup(2)], ""
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default")
                yield lambda: text
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, handle in enumerate(kept, 1):
                os.dup2(handle, number)
                os.close(handle)
            file.seek(0)
            text = file.read().decode(errors="replace")


@contextmanager
def _limited() -> Iterator[None]:
    """A case that takes too long ends; one that does not even hear that ends the process, with a traceback."""

    def stop(*_: object) -> None:
        raise Hung

    before = signal.signal(signal.SIGPROF, stop)
    other = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of CPU time: others may be at work on this machine
    signal.setitimer(signal.ITIMER_REAL, 12 * SECONDS)  # who waits for something takes no CPU time
    faulthandler.dump_traceback_later(30 * SECONDS, exit=True)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGPROF, before)
        signal.signal(signal.SIGALRM, other)


def stranger(folder: Path) -> str:
    """Put the stranger's module where Python finds it; a model's name that would run it."""
    (folder / f"{STRANGER}.py").write_text("raise SystemExit('a stranger ran here')\n")
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
    return f"{STRANGER}:model"
