"""What a refusal has to be: one message of our own, soon, without a traceback, and with nothing touched."""

import os
import re
from pathlib import Path

# What Python and its libraries say when nobody has looked at a value before.
RAW = re.compile(
    r"Traceback|Error:|Exception|<class|<function|object at 0x|NoneType|positional argument|"
    r"unexpected keyword|not supported between|embedded null|invalid literal|could not convert|must be real|"
    r"cannot be interpreted|has no attribute|not subscriptable|not iterable|not callable|unhashable|out of range|"
    r"\[Errno|Expected one of cpu|codec can't|--debug"
)


def check_message(text: str, what: object) -> None:
    """One or two lines of our own."""
    assert text.strip(), f"refused without a word: {what}"
    assert not RAW.search(text), f"a raw message for {what}:\n{text}"
    assert len(text) < 1500, f"too long for {what}:\n{text}"


def files_below(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file and folder, with its size and time."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = os.lstat(path)
        found[str(path.relative_to(folder))] = (status.st_size if path.is_file() else 0, status.st_mtime_ns)
    return found
