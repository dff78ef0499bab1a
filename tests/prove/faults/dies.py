"""A process that ends itself, as a SIGKILL does, inside its writing: `dies.py AT PHASE COUNT_FILE WORDS ...`.

Python tells of every file that is opened for writing, renamed or removed. At the AT-th time, or PHASE seconds after it,
the process is gone. With AT 0 it lives, and how many there were is written into COUNT_FILE.
"""

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

WRITING = os.O_WRONLY | os.O_RDWR
_seen, _inside = 0, False


def main() -> int:
    """Become the command, and die in time."""
    at, phase, count = int(sys.argv[1]), float(sys.argv[2]), Path(sys.argv[3])
    folder = os.fspath(count.parent)
    sys.argv = ["vitscope", *sys.argv[4:]]

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        global _seen, _inside
        if event not in ("open", "os.rename", "os.remove") or _inside or os.getpid() != owner:
            return
        path = arguments[0]
        if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & WRITING):
            return
        if not isinstance(path, str | bytes | os.PathLike) or not os.path.abspath(
            os.fsdecode(path)
        ).startswith(folder):
            return
        _seen += 1
        if _seen == at and phase == 0.0:
            os.kill(os.getpid(), signal.SIGKILL)
        elif _seen == at:
            _inside = True
            threading.Timer(phase, os.kill, (os.getpid(), signal.SIGKILL)).start()

    owner = os.getpid()
    sys.addaudithook(watch)
    from vitscope.cli.app import main as command

    code = command(sys.argv[1:])
    _inside = True
    if at == 0:
        count.write_text(str(_seen))
    return int(code or 0)


if __name__ == "__main__":
    sys.exit(main())
