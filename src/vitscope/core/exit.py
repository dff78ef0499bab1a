"""The end of a process of ours: in order, but without taking Python and its libraries apart.

After torch that alone takes more than a second, in which nobody answers Ctrl-C and nothing is done that anybody waits
for. What others rely on is done as ever: threads are joined, `atexit` functions run (they end processes that load
images, leave a Ray cluster, remove temporary folders), and everything that was written reaches its file.
"""

import atexit
import gc
import io
import os
import signal
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NoReturn

from vitscope.core.arguments.files import in_words
from vitscope.core.errors import memory_in_words
from vitscope.core.interrupt import exit_code

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

_CANNOT_WRITE = 2


def run_program(main: Callable[[], Any]) -> NoReturn:
    """End this process with the exit code that `main` returns; never comes back."""
    sys.unraisablehook = _unless_for_want_of_memory
    try:
        code = _code(main())
    except SystemExit as stop:
        code = _code(stop.code)
    except KeyboardInterrupt as asked:
        code = exit_code(asked)
    except Exception:
        if _is_watched():
            raise
        sys.excepthook(*sys.exc_info())
        code = 1
    if _is_watched():
        sys.exit(code)
    _leave(code)


def _unless_for_want_of_memory(failure: Any) -> None:
    """Show what a destructor failed of; but that memory ran out has been said already."""
    if failure.exc_value is None or memory_in_words(failure.exc_value) is None:
        sys.__unraisablehook__(failure)


def _code(returned: Any) -> int:
    """The exit code for what a program returns, as Python has it: None is 0, a text is printed as an error and is 1."""
    if returned is None or isinstance(returned, int):
        return int(returned or 0)
    print(returned, file=sys.stderr)
    return 1


def _is_watched() -> bool:
    """Whether a debugger, a profiler or `python -i` wants to have a look when the program is over."""
    tools: Any = getattr(sys, "monitoring", None)  # since Python 3.12
    watching = tools is not None and any(tools.get_tool(number) is not None for number in range(6))
    return bool(watching or sys.gettrace() or sys.getprofile() or sys.flags.inspect)


def _leave(code: int) -> NoReturn:
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # who cannot wait for what follows need not
    with suppress(Exception):
        threading._shutdown()  # type: ignore[attr-defined]  # as `multiprocessing` ends its processes
    with suppress(Exception):
        atexit._run_exitfuncs()
    _flush_files()
    problem = _flush(sys.stdout)
    if problem is not None and not isinstance(problem, BrokenPipeError) and not code:
        code = _CANNOT_WRITE
        with suppress(OSError, ValueError, AttributeError):
            print(f"vitscope: {in_words(problem) or f'cannot write: {problem}'}", file=sys.stderr)
    _flush(sys.stderr)
    os._exit(code & 0xFF)


def _flush(stream: Any) -> OSError | None:
    """What the system has against what is left to be written; who has closed the stream wants nothing written."""
    try:
        if stream is not None:
            stream.flush()
    except OSError as error:
        return error
    except ValueError:
        pass
    return None


def _flush_files() -> None:
    """Files that nobody has closed, as a model's own code may leave them; and what libraries in C have not written."""
    if any(map(_is_written, _descriptors())):
        kinds = (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom)
        found = [thing for thing in gc.get_objects() if type(thing) in kinds]
        for file in sorted(
            found, key=lambda file: kinds.index(type(file))
        ):  # text goes through a buffer of bytes
            with suppress(OSError, ValueError):
                if _is_written(file.fileno()):
                    file.flush()
    if "ctypes" in sys.modules:
        with suppress(OSError, AttributeError):
            sys.modules["ctypes"].CDLL(None).fflush(None)


def _descriptors() -> list[int]:
    """Numbers of all files that are open, apart from the standard ones."""
    try:
        return [int(name) for name in os.listdir("/dev/fd") if int(name) > 2]
    except OSError:  # not every system has it
        return list(range(3, 256))


def _is_written(number: int) -> bool:
    """Whether this is a plain file that is open for writing: no pipe, which could keep us waiting."""
    try:
        plain = stat.S_ISREG(os.fstat(number).st_mode)
        return plain and (fcntl is None or fcntl.fcntl(number, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY)
    except OSError:
        return False
