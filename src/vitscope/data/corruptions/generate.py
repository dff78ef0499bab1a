"""Corrupted images of a share, condition by condition: from the cache, or made by processes that work ahead.

They give back pieces of at most two megabytes, in order: memory does not grow with the number of images.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from vitscope.core import distributed
from vitscope.core.errors import VitscopeError
from vitscope.core.lost_loaders import LOST, is_lost_loader, let_go, reason_of
from vitscope.core.peers import loader_worker
from vitscope.data.corruptions.cache import Cache, CleanImages, Condition
from vitscope.data.corruptions.registry import corrupt, prepare

_PIECE = 2 << 20  # bytes
_FEW = 8 << 20  # bytes; so little is corrupted by the time that processes have started
_MOST_WORKERS = 8


class CorruptionFailed(VitscopeError):
    """A process that corrupts images has died."""


def corrupted(
    share: CleanImages,
    conditions: Sequence[Condition],
    seed: int,
    cache: Cache | None = None,
    workers: int | None = None,
) -> Iterator[tuple[Condition, Iterator[Tensor]]]:
    """Every condition in turn with its batches of bytes, which are to be read before the next condition is asked for.

    Read them inside `corrupting_explained`.

    Args:
        share: The images.
        conditions: Types and severities.
        seed: Of everything random.
        cache: Where images are found and kept; None: they are made each time.
        workers: Processes that corrupt images; 0: this one does. Default: one per core, none for a few images.
    """
    kept = {condition: cache.open(condition) if cache is not None else None for condition in conditions}
    pieces = _pieces(share, [condition for condition in conditions if kept[condition] is None], seed, workers)
    for condition in conditions:
        images = kept[condition]
        if images is not None:
            yield condition, (torch.from_numpy(np.array(images[rows])) for rows in share.batches)
        else:
            made = _joined(share, pieces)
            yield condition, made if cache is None else cache.keep(condition, made)


@contextmanager
def corrupting_explained() -> Iterator[None]:
    """Inside, the death of a process that corrupts images is raised as a `CorruptionFailed`."""
    try:
        yield
    except LOST as error:
        if not is_lost_loader(error):
            raise
        let_go(error)
        raise CorruptionFailed(
            f"a process that corrupts images has died ({reason_of(error)}): it ran out of memory, or was ended; "
            "try fewer workers, or workers=0 to see it happen here"
        ) from error


class _Jobs(Dataset[Tensor]):
    """A piece of a batch under a condition each."""

    def __init__(self, share: CleanImages, conditions: Sequence[Condition], seed: int) -> None:
        self._share, self._seed = share, seed
        self._pieces = [piece for rows in share.batches for piece in _cut(share, rows)]
        self._conditions = conditions

    def __len__(self) -> int:
        return len(self._conditions) * len(self._pieces)

    def __getitem__(self, number: int) -> Tensor:
        which, place = divmod(number, len(self._pieces))
        rows = self._pieces[place]
        return corrupt(
            self._share.read(rows), *self._conditions[which], self._seed, self._share.indices[rows]
        )


def _pieces(
    share: CleanImages, conditions: Sequence[Condition], seed: int, workers: int | None
) -> Iterator[Tensor]:
    jobs = _Jobs(share, conditions, seed)
    if not len(jobs):
        return
    count = _default_workers(share.n_bytes * len(conditions)) if workers is None else workers
    if count:
        prepare(conditions, min(share.size[1:]))
    loader = DataLoader(
        jobs, batch_size=None, num_workers=count, generator=torch.Generator(), worker_init_fn=loader_worker
    )
    yield from loader


def _joined(share: CleanImages, pieces: Iterator[Tensor]) -> Iterator[Tensor]:
    """The pieces of one condition as batches."""
    for rows in share.batches:
        found = list(islice(pieces, len(_cut(share, rows))))
        yield found[0] if len(found) == 1 else torch.cat(found)


def _cut(share: CleanImages, rows: slice) -> list[slice]:
    """A batch in pieces that are not too large."""
    at_once = max(1, _PIECE // int(np.prod(share.size)))
    return [slice(i, min(i + at_once, rows.stop)) for i in range(rows.start, rows.stop, at_once)]


def _default_workers(n_bytes: int) -> int:
    here = int(os.environ.get("LOCAL_WORLD_SIZE", "1")) if distributed.is_active() else 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    each = min(cores // here, _MOST_WORKERS)
    return each if n_bytes > _FEW and each > 1 else 0
