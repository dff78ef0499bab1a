"""`batches`: any form of data as preprocessed batches with a known length and a fixed order."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from vitscope.core.errors import BadData
from vitscope.core.interface import class_count
from vitscope.core.tensors import all_finite, images_not_finite
from vitscope.data.config import DataConfig, data_config
from vitscope.data.decode import images_and_labels
from vitscope.data.fetchers import Fetcher, fetcher_for, is_prepared, is_unlabelled, to_batch
from vitscope.data.images import ImageData, Indices, check_labels, check_limit, limit_indices
from vitscope.data.own_data import batches_of, count_of
from vitscope.data.preprocessing import Device
from vitscope.data.task_data import TaskData

Batch = tuple[Tensor, Tensor, Tensor]
Data = ImageData | TaskData | Dataset[Any] | DataLoader[Any] | tuple[Any, Any]


class Batches:
    """Batches of (images float32 NCHW, labels int64, indices int64); iterate as often as you like.

    `len()` is the number of batches and `n_images` the number of images that this process will see, without those
    that are skipped. Batch b goes to process b mod world, so that batches do not depend on how many processes share
    the work. `as_given` tells whether images came as numbers, as the model is shown them, and not as pictures; it is
    known once a batch has been read.
    """

    n_images: int
    as_given: bool
    places: Indices  # of the images of all processes, where they can be had by place

    def __len__(self) -> int:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Batch]:
        raise NotImplementedError


def batches(
    data: Data,
    model: nn.Module | None = None,
    config: DataConfig | None = None,
    batch_size: int = 128,
    limit: int | None = None,
    seed: int = 0,
    device: Device = None,
    rank: int = 0,
    world: int = 1,
    skip: int = 0,
) -> Batches:
    """Batches of `data` as `model` wants them.

    Args:
        data: what `load_data` gives (pictures without classes, and those of tasks, have label -1), a torch Dataset, a
            DataLoader (its batches are taken as they are), or a pair of tensors (images, labels): float images are
            taken as they are, uint8 ones preprocessed.
        model: gives the data configuration, and the number of classes that labels are checked against.
        config: used instead of the model's own configuration.
        batch_size: images per batch; a DataLoader keeps its own.
        limit: use a seeded subset of this many images with the class shares of the whole; the first ones of
            data that can only be read in sequence, random ones of a Dataset that does not tell its labels.
        seed: of the subset and of the order. Image data and Datasets are visited in a seeded random order,
            because files are usually sorted by class and a batch should not be; tensors keep their order.
        device: where the tensors go.
        rank: of this process.
        world: number of processes that share the data.
        skip: batches that this process has seen before, from the first on.
    """
    if batch_size < 1:
        raise BadData(f"batch_size is {batch_size}; expected at least 1")
    if limit is not None:
        check_limit(limit)
    if not 0 <= rank < world:
        raise BadData(f"rank is {rank} of {world}; expected 0 <= rank < world")
    if config is None and model is not None:
        config = data_config(model)
    n_classes = None if model is None or is_unlabelled(data) else class_count(model)
    share = _ImageShare(batch_size, limit, rank, world, skip, n_classes)
    if isinstance(data, DataLoader | IterableDataset):
        return SequentialBatches(data, config, device, share)
    return IndexedBatches(fetcher_for(data, config, device), seed, share)


@dataclass(frozen=True)
class _ImageShare:
    """Which images this process sees, and what their labels may be."""

    batch_size: int
    limit: int | None
    rank: int
    world: int
    skip: int
    n_classes: int | None

    def check(self, images: Tensor, labels: Tensor | None, places: Tensor, what: str) -> None:
        """Refuse labels that are no classes of the model, and images that hold NaN or infinity."""
        if labels is not None and self.n_classes is not None:
            check_labels(labels.numpy(force=True), self.n_classes, what)
        check_finite(images, places, what)


class IndexedBatches(Batches):
    """Batches of data with random access; `places` are those of all processes."""

    def __init__(self, fetcher: Fetcher, seed: int, share: _ImageShare) -> None:
        total, size = len(fetcher), share.batch_size
        if total == 0:
            raise BadData(f"{fetcher.what} holds no images; expected at least one")
        if fetcher.labels is not None and share.n_classes is not None:
            check_labels(fetcher.labels, share.n_classes, fetcher.what)
        order = np.arange(total, dtype=np.int64)
        if share.limit is not None and share.limit < total:
            labels = fetcher.labels if fetcher.labels is not None else np.zeros(total, np.int64)
            order = limit_indices(labels, share.limit, seed)
        if fetcher.shuffle:
            order = np.random.default_rng(seed).permutation(order)
        self._fetcher, self._share = fetcher, share
        self.places = order
        pieces = [order[i : i + size] for i in range(0, len(order), size)]
        self._pieces = pieces[share.rank :: share.world][share.skip :]
        self.n_images = sum(map(len, self._pieces))

    @property
    def as_given(self) -> bool:  # type: ignore[override]
        """See `Batches`."""
        return self._fetcher.as_given

    def __len__(self) -> int:
        return len(self._pieces)

    def __iter__(self) -> Iterator[Batch]:
        fetched = self._fetcher.fetch_all(self._pieces)
        for indices, (images, labels) in zip(self._pieces, fetched, strict=True):
            places = torch.from_numpy(indices).to(images.device)
            unchecked = labels if self._fetcher.labels is None else None
            self._share.check(images, unchecked, places, self._fetcher.what)
            yield images, labels, places


class SequentialBatches(Batches):
    """Batches of data that can only be read from the beginning."""

    as_given = False

    def __init__(
        self,
        data: DataLoader[Any] | IterableDataset[Any],
        config: DataConfig | None,
        device: Device,
        share: _ImageShare,
    ) -> None:
        self._data, self._config, self._device, self._share = data, config, device, share
        self._what = f"the {type(data).__name__}"
        self._batch_size = (data.batch_size or 1) if isinstance(data, DataLoader) else share.batch_size
        lengths = [n for n in (_stated_length(data), share.limit) if n is not None]
        if not lengths:
            raise BadData(
                f"a {type(data).__name__} of unknown length; say how many images to use with limit=N"
            )
        self._total = min(lengths)
        if self._total == 0:
            raise BadData(f"{self._what} holds no images; expected at least one")
        starts = range(0, self._total, self._batch_size)
        sizes = [min(self._batch_size, self._total - start) for start in starts]
        self._sizes = sizes[share.rank :: share.world][share.skip :]
        self.n_images = sum(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def __iter__(self) -> Iterator[Batch]:
        start, share = 0, self._share
        for number, (images, labels) in enumerate(self._read()):
            keep = min(count_of(images, labels, self._what), self._total - start)
            if number % share.world == share.rank and number // share.world >= share.skip:
                self.as_given = is_prepared(images)
                images, labels = to_batch(
                    images[:keep], labels[:keep], self._config, self._device, self._what
                )
                places = torch.arange(start, start + keep, device=images.device)
                share.check(images, labels, places, self._what)
                yield images, labels, places
            start += keep
            if start >= self._total:
                return
        raise BadData(f"{self._what} ended after {start} of {self._total} images; use limit={start} or less")

    def _read(self) -> Iterator[tuple[Any, Any]]:
        if isinstance(self._data, DataLoader):
            for batch in batches_of(self._data, self._what):
                yield images_and_labels(batch, self._what)
            return
        items = (images_and_labels(item, self._what) for item in self._data)
        while batch := list(islice(items, self._batch_size)):
            images, labels = map(list, zip(*batch, strict=True))
            yield images, labels


def check_finite(images: torch.Tensor, places: torch.Tensor, what: str) -> None:
    """Refuse images that hold NaN or infinity."""
    if all_finite(images):
        return
    bad = images_not_finite(images)
    first = int(places[bad][0])
    count = int((~images[bad][0].isfinite()).sum())
    raise BadData(
        f"image {first} of {what} holds {count} numbers that are not finite (NaN or infinity), and so do "
        f"{int(bad.sum()) - 1} others of its batch; mend the images, or leave them out"
    )


def _stated_length(data: DataLoader[Any] | IterableDataset[Any]) -> int | None:
    """Number of images, or None if the data does not say."""
    try:
        if not isinstance(data, DataLoader):
            return len(data) or None  # type: ignore[arg-type]  # timm's streams answer 0 for "unknown"
        if isinstance(data.dataset, IterableDataset):
            return len(data.dataset) or None  # type: ignore[arg-type]
        if data.batch_sampler is None or data.batch_size is None:
            return len(data)
        return len(data) * data.batch_size if data.drop_last else len(data.sampler)  # type: ignore[arg-type]
    except TypeError:
        return None
