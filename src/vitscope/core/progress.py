"""Bars with an estimate: on a terminal, whatever is known of its size; in a log file a line now and then."""

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

from tqdm import tqdm

EVERY = 30.0  # seconds between two lines of a log file
_SOON = 1.0  # without a bar
_COLUMNS, _ROWS = 80, 24


class LogBar(tqdm):
    """A bar as single lines; all bars of a process together write one in `EVERY` seconds, however short each is."""

    told: ClassVar[float | None] = None  # when the last line was written, or the first bar begun

    def __init__(self, **options: Any) -> None:
        if LogBar.told is None:
            LogBar.told = time.monotonic()
        super().__init__(**{**options, "delay": _SOON, "leave": False, "mininterval": 1.0, "miniters": 1})

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        """Write a line, unless there was one a moment ago."""
        now = time.monotonic()
        if LogBar.told is not None and now - LogBar.told < EVERY:
            return
        LogBar.told = now
        self.fp.write(f"{self}\n")
        self.fp.flush()

    def close(self) -> None:
        """Leave the lines as they are."""
        if not self.disable:
            self.last_print_t = self.start_t  # as if there was nothing to be wiped away
        super().close()


def bar(total: int, heading: str, unit: str) -> tqdm:
    """A bar with an estimate, once there is something to wait for."""
    from vitscope.core import distributed  # needs torch, while pages are made without it

    told: dict[str, Any] = {
        "total": total,
        "desc": heading,
        "unit": unit,
        "disable": not distributed.is_main(),
    }
    if not sys.stderr.isatty():
        return LogBar(**told)
    return tqdm(**told, delay=_SOON, mininterval=0.2, leave=False, **size())


@contextmanager
def progress(n_images: int, heading: str) -> Iterator[Callable[[int], Any]]:
    """A bar over images; call what it gives with the number of those that are done."""
    with bar(n_images, heading, "image") as shown:
        yield shown.update


def size() -> dict[str, Any]:
    """What a bar is told of the terminal: nothing where it can ask; one that has no size would show no bar at all."""
    try:
        columns, rows = os.get_terminal_size(sys.stderr.fileno())
    except (OSError, ValueError):  # no terminal
        return {}
    return {} if columns and rows else {"ncols": columns or _COLUMNS, "nrows": rows or _ROWS}
