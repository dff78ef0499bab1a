"""What can go wrong while images are loaded, said in one line."""

import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from vitscope.core.errors import BadData, VitscopeError


@contextmanager
def loading_explained() -> Iterator[None]:
    """Turn what a `DataLoader` raises for its worker processes into an error without their tracebacks."""
    try:
        yield
    except VitscopeError as error:
        lines = str(error).strip().splitlines()
        if not lines or not lines[0].startswith("Caught "):
            raise
        raise type(error)(lines[-1].partition(": ")[2]) from error  # the worker's "module.Class: message"
    except (RuntimeError, ConnectionError, EOFError) as error:
        lost = isinstance(error, ConnectionError | EOFError)  # it died while it handed a batch over
        if not lost and "DataLoader worker" not in str(error):
            raise
        said = " ".join(str(error).split())
        reason = f"{type(error).__name__}: {said}" if said else type(error).__name__
        _let_go(error)
        raise BadData(
            f"a process that loads images has died ({reason}): it ran out of memory, or the data set crashes; "
            "try fewer --workers, or --workers 0 to see it happen here"
        ) from error


def _let_go(error: BaseException) -> None:
    """Make sure that the death of a process is reported once.

    torch raises an error whenever the system tells of a child's end, if one of its processes is among the dead: so hear
    of that end here, and then release the loader.
    """
    with suppress(RuntimeError):
        time.sleep(0.2)
    with suppress(RuntimeError):
        traceback.clear_frames(error.__traceback__)
