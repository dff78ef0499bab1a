"""Several processes do the same thing at the same time, or none of them does.

A process that fails alone would leave the others waiting for it. Here failures and requests to stop are shared at
fixed points, and a peer that has vanished becomes an error that says so.

How long a training waits for its images.
"""

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
import torch.distributed as dist

from vitscope.core import distributed
from vitscope.core.errors import VitscopeError
from vitscope.training.checkpoint import Progress


class EndedElsewhere(VitscopeError):
    """Another process has met an error and says which; this one has nothing to add."""


@contextmanager
def together() -> Iterator[None]:
    """Every process enters; an error that one meets inside ends all, and the first to have one tells it."""
    if not distributed.is_active():
        yield
        return
    failure: VitscopeError | None = None
    try:
        yield
    except VitscopeError as error:
        failure = error
    reports = distributed.gather(None if failure is None else str(failure))
    speaker = next((rank for rank, report in enumerate(reports) if report is not None), None)
    if speaker is None:
        return
    if failure is not None and speaker == distributed.rank():
        raise failure
    raise EndedElsewhere(f"process {speaker} stopped: {reports[speaker]}")


def any_process(asks: bool) -> bool:
    """Whether any process asks for it; all of them call this, and all get the same answer."""
    if not distributed.is_active():
        return asks
    flag = torch.tensor([int(asks)])
    distributed.all_reduce(flag, op=dist.ReduceOp.MAX, group=distributed.cpu_group())
    return bool(flag)


@contextmanager
def errors_said_once() -> Iterator[None]:
    """Say at once why a process ends, since `torchrun` ends it as soon as another has gone; others leave quietly."""
    try:
        yield
    except EndedElsewhere:
        raise SystemExit(2) from None
    except VitscopeError as error:
        print(f"vitscope: {error}", file=sys.stderr, flush=True)
        raise SystemExit(2) from error
    except KeyboardInterrupt:
        if distributed.is_main():
            raise
        raise SystemExit(130) from None


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
