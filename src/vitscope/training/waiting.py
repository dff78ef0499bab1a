"""How long a training waits for its images."""

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

from vitscope.training.checkpoint import Progress

T = TypeVar("T")


def timed(batches: Iterable[T], progress: Progress) -> Iterator[T]:
    """The batches; the time until each of them is there is added to `progress.waited`."""
    iterator = iter(batches)
    while True:
        began = time.monotonic()
        try:
            batch = next(iterator)
        except StopIteration:
            return
        finally:
            progress.waited += time.monotonic() - began
        yield batch
