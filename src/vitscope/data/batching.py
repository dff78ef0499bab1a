"""`batches`: any form of data as preprocessed batches with a known length and a fixed order."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset, IterableDataset

from vitscope.core.errors import BadData
from vitscope.core.finite import all_finite, images_not_finite
from vitscope.core.interface import class_count
from vitscope.data.config import DataConfig, data_config
from vitscope.data.decode import images_and_labels
from vitscope.data.fetchers import Fetcher, fetcher_for, is_prepared, to_batch
from vitscope.data.images import ImageData, check_labels, check_limit, limit_indices
from vitscope.data.preprocessing import Device

Batch = tuple[Tensor, Tensor, Tensor]
Data = ImageData | Dataset[Any] | DataLoader[Any] | tuple[Any, Any]


class Batches:
    """Batches of (images float32 NCHW, labels int64, indices int64); iterate as often as you like.

    `len()` is the number of batches and `n_images` the number of images that this process will see, without those
    that are skipped. Batch b goes to process b mod world, so that batches do not depend on how many processes share
    the work. `as_given` tells whether images came as numbers, as the model is shown them, and not as pictures; it is
    known once a batch has been read.
    """

    n_images: int
    as_given: bool

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
        data: what `load_data` gives, a torch Dataset, a DataLoader (its batches are taken as they are), or a
            pair of tensors (images, labels): float images are taken as they are, uint8 ones preprocessed.
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
    n_classes = None if model is None else class_count(model)
    if isinstance(data, DataLoader | IterableDataset):
        return SequentialBatches(data, config, batch_size, limit, device, rank, world, n_classes, skip)
    fetcher = fetcher_for(data, config, device)
    return IndexedBatches(fetcher, batch_size, limit, seed, rank, world, n_classes, skip)


class IndexedBatches(Batches):
    """Batches of data with random access."""

    def __init__(
        self,
        fetcher: Fetcher,
        batch_size: int,
        limit: int | None,
        seed: int,
        rank: int,
        world: int,
        n_classes: int | None,
        skip: int = 0,
    ) -> None:
        total = len(fetcher)
        if total == 0:
            raise BadData(f"{fetcher.what} holds no images; expected at least one")
        if fetcher.labels is not None and n_classes is not None:
            check_labels(fetcher.labels, n_classes, fetcher.what)
        order = np.arange(total, dtype=np.int64)
        if limit is not None and limit < total:
            labels = fetcher.labels if fetcher.labels is not None else np.zeros(total, np.int64)
            order = limit_indices(labels, limit, seed)
        if fetcher.shuffle:
            order = np.random.default_rng(seed).permutation(order)
        self._fetcher = fetcher
        self._n_classes = n_classes
        self._pieces = [order[i : i + batch_size] for i in range(0, len(order), batch_size)][rank::world]
        self._pieces = self._pieces[skip:]
        self.n_images = sum(map(len, self._pieces))

    @property
    def as_given(self) -> bool:  # type: ignore[override]
        """See `Batches`."""
        return self._fetcher.as_given

    def __len__(self) -> int:
        return len(self._pieces)

    def __iter__(self) -> Iterator[Batch]:
        for indices, (images, labels) in zip(
            self._pieces, self._fetcher.fetch_all(self._pieces), strict=True
        ):
            if self._fetcher.labels is None and self._n_classes is not None:
                check_labels(labels.numpy(force=True), self._n_classes, self._fetcher.what)
            places = torch.from_numpy(indices).to(images.device)
            check_finite(images, places, self._fetcher.what)
            yield images, labels, places


class SequentialBatches(Batches):
    """Batches of data that can only be read from the beginning."""

    as_given = False

    def __init__(
        self,
        data: DataLoader[Any] | IterableDataset[Any],
        config: DataConfig | None,
        batch_size: int,
        limit: int | None,
        device: Device,
        rank: int,
        world: int,
        n_classes: int | None,
        skip: int = 0,
    ) -> None:
        self._data = data
        self._config = config
        self._device = device
        self._rank, self._world, self._skip = rank, world, skip
        self._n_classes = n_classes
        self._batch_size = (data.batch_size or 1) if isinstance(data, DataLoader) else batch_size
        total = _stated_length(data)
        if total is None and limit is None:
            raise BadData(
                f"a {type(data).__name__} of unknown length; say how many images to use with limit=N"
            )
        self._total = min(n for n in (total, limit) if n is not None)
        if self._total == 0:
            raise BadData(f"the {type(data).__name__} holds no images; expected at least one")
        sizes = [self._batch_size] * (self._total // self._batch_size)
        if self._total % self._batch_size:
            sizes.append(self._total % self._batch_size)
        self._sizes = sizes[rank::world][skip:]
        self.n_images = sum(self._sizes)

    def __len__(self) -> int:
        return len(self._sizes)

    def __iter__(self) -> Iterator[Batch]:
        start = 0
        for number, (images, labels) in enumerate(self._read()):
            keep = min(len(labels), self._total - start)
            if number % self._world == self._rank and number // self._world >= self._skip:
                self.as_given = is_prepared(images)
                images, labels = to_batch(images[:keep], labels[:keep], self._config, self._device)
                if self._n_classes is not None:
                    check_labels(
                        labels.numpy(force=True), self._n_classes, f"the {type(self._data).__name__}"
                    )
                places = torch.arange(start, start + keep, device=images.device)
                check_finite(images, places, f"the {type(self._data).__name__}")
                yield images, labels, places
            start += keep
            if start >= self._total:
                return
        raise BadData(
            f"the {type(self._data).__name__} ended after {start} of {self._total} images; "
            f"use limit={start} or less"
        )

    def _read(self) -> Iterator[tuple[Any, Any]]:
        if isinstance(self._data, DataLoader):
            for batch in self._data:
                yield images_and_labels(batch, "the DataLoader")
            return
        images: list[Any] = []
        labels: list[Any] = []
        for item in self._data:
            image, label = images_and_labels(item, f"the {type(self._data).__name__}")
            images.append(image)
            labels.append(label)
            if len(images) == self._batch_size:
                yield images, labels
                images, labels = [], []
        if images:
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
