"""Which files of vitscope a command runs through, in the order in which they are entered.

python -m tests.files_run diagnose vit_mini --data fashion --exams fourier --limit 20 --out /tmp/run
"""

import importlib
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import vitscope

ROOT = Path(vitscope.__file__).parent


def files_run(arguments: list[str]) -> list[str]:
    """The files in which a function is called while the command works; what only defines something does not count."""
    from vitscope.cli.app import main

    for module in (
        f"vitscope.cli.{arguments[0]}",
        "vitscope.exams",
        "vitscope.report",
        "vitscope.report.console",
    ):
        importlib.import_module(module)  # not watched: what runs then only declares
    found: dict[str, None] = {}
    ours = str(ROOT)

    def watch(frame: FrameType, event: str, argument: Any) -> None:
        file = frame.f_code.co_filename
        if event != "call" or file in found or not file.startswith(ours):
            return
        if not frame.f_code.co_name.startswith("<") and not _importing(frame):
            found[file] = None

    sys.setprofile(watch)
    try:
        main(arguments)
    except SystemExit:
        pass
    finally:
        sys.setprofile(None)
    return [str(Path(file).relative_to(ROOT)) for file in found]


def _importing(frame: FrameType | None) -> bool:
    """Whether a module is being imported: what runs then only declares."""
    while frame is not None:
        if frame.f_code.co_filename == "<frozen importlib._bootstrap>":
            return True
        frame = frame.f_back
    return False


if __name__ == "__main__":
    for number, file in enumerate(files_run(sys.argv[1:]), 1):
        print(f"{number:3d} {file}")
