"""The death of a process that loads images: torch raises it in whatever its starter does at that moment.

So the whole work that such processes are for is watched, not only the place where it asks them for a batch.
"""

import time
import traceback
from contextlib import suppress

LOST = (RuntimeError, ConnectionError, EOFError)


def is_lost_loader(error: BaseException) -> bool:
    """Whether an error, one of `LOST`, says that a process which loads images is gone."""
    handing_over = isinstance(error, ConnectionError | EOFError)  # it died while it handed a batch over
    return handing_over or "DataLoader worker" in str(error)


def reason_of(error: BaseException) -> str:
    """What a process died of: of a traceback that it has sent, the last line."""
    lines = str(error).strip().splitlines()
    if lines and lines[0].startswith("Caught "):
        return lines[-1].strip()
    said = " ".join(" ".join(lines).split())
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


def let_go(error: BaseException) -> None:
    """Make sure that the death of a process is reported once.

    torch raises an error whenever the system tells of a child's end, if one of its processes is among the dead: so hear
    of that end here, and then release the loader.
    """
    with suppress(RuntimeError):
        time.sleep(0.2)
    with suppress(RuntimeError):
        traceback.clear_frames(error.__traceback__)
