"""Waiting for the other processes of a job, with a word about who is waited for.

A process that dies is noticed by the network. One that hangs is not: it is waited for until the time is up. So whoever
waits for more than a moment leaves a note in the store that all processes of the job share, and after some
seconds says whose note is missing. Waiting goes on in short pieces, so that Ctrl-C is heard in between.

Processes that load images end with the one that started them, however that one came to its end: otherwise they go on
for seconds after a kill, with their memory and their share of the machine.
"""

import ctypes
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from multiprocessing import queues
from typing import TypeVar

import torch.distributed as dist

from vitscope.core.errors import VitscopeError

NOTE_AFTER = 0.5  # seconds of waiting
SAY_AFTER = 5.0
SAY_LESS = 4.0  # each word comes after so many times the wait of the one before
_PIECE = timedelta(seconds=0.25)
_SIGNS = (
    "connection closed",
    "connection reset",
    "broken pipe",
    "timed out",
    "timeout",
    "gloo",
    "nccl",
    "socket",
)
_KEY = "vitscope/waits"
_STORE_SECONDS = 2.0

T = TypeVar("T")


class LostProcess(VitscopeError):
    """Another process of this job has died or does not answer."""


_left_waiting = False


def is_left_waiting() -> bool:
    """Whether a meeting was given up that others may still come to: the network layer then blocks a plain end."""
    return _left_waiting


def finish(work: "dist.Work | None") -> None:
    """Wait for what all processes have to take part in, begun with `async_op=True`.

    Raises:
        LostProcess: Some did not come in the time that the group allows, and the message names them; or one died.
    """
    global _left_waiting
    if work is None:
        return
    began, say_after, noted = time.monotonic(), SAY_AFTER, False
    try:
        while not _is_done(work, began):
            waited = time.monotonic() - began
            if waited > NOTE_AFTER and not noted:
                _note(waiting=True)
                noted = True
            if waited > say_after:
                say_after *= SAY_LESS
                _say_who(waited)
    except BaseException:
        _left_waiting = _left_waiting or not work.is_completed()
        raise
    if noted:
        _note(waiting=False)


def _is_done(work: dist.Work, began: float) -> bool:
    try:
        work.wait(_PIECE)
    except RuntimeError:
        if not work.is_completed():
            return False
        try:
            work.wait()  # the error was that the piece is over; this one is of the work, or there is none
        except RuntimeError as error:
            raise lost(error, time.monotonic() - began) from error
    return True


def lost(error: RuntimeError, waited: float | None = None) -> Exception:
    """What to raise in the place of an error of the network layer; other errors stay what they are."""
    said = " ".join(str(error).split())[:160]
    if not any(sign in said.lower() for sign in _SIGNS):
        return error
    me, world = dist.get_rank(), dist.get_world_size()
    missing = _missing() if waited is not None and waited > NOTE_AFTER else []
    if missing and "timed out" in said.lower():
        return LostProcess(
            f"{_named(missing, world)} did not answer for {waited:.0f} s: it hangs, or needs more time; "
            "see what it does, then the same command, perhaps with a longer --timeout-minutes"
        )
    among = f": {_named(missing, world)}" if missing else ""
    return LostProcess(
        f"process {me} of {world} has lost another one, which died or does not answer{among} ({said}); "
        "see what that one said, then: the same command and --resume"
    )


@contextmanager
def network_errors_explained() -> Iterator[None]:
    """Inside, an error of the network layer because another process is gone is raised as a `LostProcess`."""
    try:
        yield
    except VitscopeError:
        raise
    except RuntimeError as error:  # torch's network errors are all of this type
        if not dist.is_available() or not dist.is_initialized():
            raise
        if (found := lost(error)) is error:
            raise
        raise found from error


def _note(waiting: bool) -> None:
    _ask_store(lambda store: store.set(f"{_KEY}/{dist.get_rank()}", str(int(waiting))))


def _missing() -> list[int]:
    """Ranks of the processes that wait for nobody."""
    world = dist.get_world_size()

    def missing(store: dist.Store) -> list[int]:
        keys = [f"{_KEY}/{rank}" for rank in range(world)]
        return [rank for rank, key in enumerate(keys) if not store.check([key]) or store.get(key) == b"0"]

    found = _ask_store(missing)
    return [0] if found is None else found  # where there is no `torchrun`, process 0 keeps the store


def _ask_store(question: Callable[[dist.Store], T]) -> T | None:
    """Its answer; None if there is none soon: whoever keeps the store may be the one that hangs."""
    answers: list[T] = []

    def ask() -> None:
        with suppress(RuntimeError):
            answers.append(question(dist.distributed_c10d._get_default_store()))

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(_STORE_SECONDS)
    return answers[0] if answers else None


def _say_who(waited: float) -> None:
    """The first of those who wait says it for all."""
    missing, world = _missing(), dist.get_world_size()
    waiting = [rank for rank in range(world) if rank not in missing]
    if missing and waiting and waiting[0] == dist.get_rank():
        since = time.strftime("%H:%M:%S", time.localtime(time.time() - waited))
        said = f"vitscope: waiting for {_named(missing, world)} since {since} ({waited:.0f} s)"
        print(said, file=sys.stderr, flush=True)


def _named(ranks: list[int], world: int) -> str:
    return f"process{'es' if len(ranks) > 1 else ''} {', '.join(map(str, ranks))} of {world}"


_SET_PARENT_DEATH_SIGNAL = 1  # of prctl(2)


def end_with_parent() -> None:
    """Called in a process that `multiprocessing` started: end it when the process that asked for it has ended."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return
    if sys.platform == "linux" and os.getppid() == parent.pid:
        ctypes.CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, int(signal.SIGKILL), 0, 0, 0)
        if os.getppid() != parent.pid:  # it ended before that was said
            os._exit(1)
        return

    def watch() -> None:  # another system, or a server that forks for others and outlives them
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def loader_worker(number: int) -> None:
    """The `worker_init_fn` of a DataLoader: such a process ends with its parent, which alone hears Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()
    # what cannot be handed over, for lack of memory, would be dropped, and waited for by the parent for ever
    queues.Queue._on_queue_feeder_error = staticmethod(_end_at_once)  # type: ignore[attr-defined]


def _end_at_once(error: Exception, batch: object) -> None:
    os._exit(1)
