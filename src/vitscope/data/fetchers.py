"""Random access to each form of data: given positions, the preprocessed images and the labels."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import ConcatDataset, Dataset, Subset, TensorDataset

from vitscope.core.errors import BadData
from vitscope.data.config import CHANNELS, DataConfig
from vitscope.data.decode import images_and_labels
from vitscope.data.images import NO_LABEL, ImageData, Indices
from vitscope.data.own_data import item_of, length_of, require_one_form, require_one_shape
from vitscope.data.preprocessing import Device, preprocess
from vitscope.data.task_data import TaskData

_DECODERS = 4  # PIL releases the interpreter lock while it decodes


class Fetcher(Protocol):
    """Random access to images and labels."""

    what: str  # what to call the data in a message
    labels: Indices | None  # of all images, if known without decoding
    shuffle: bool  # visit in a seeded random order
    as_given: bool  # images come as the model is shown them, not as pictures; known once one has been fetched

    def __len__(self) -> int: ...

    def fetch_all(self, pieces: Sequence[Indices]) -> Iterator[tuple[Tensor, Tensor]]:
        """Images and labels for each piece of positions in turn."""


def fetcher_for(data: Any, config: DataConfig | None, device: Device) -> Fetcher:
    """The fetcher for this form of data."""
    if isinstance(data, ImageData):
        return ImageFetcher(data, _needed(config, data.spec), device)
    if isinstance(data, TaskData):
        held: Tensor | None = getattr(data.reader, "held", None)
        if held is None:
            return TaskFetcher(data, _needed(config, data.spec), device)
        whole = None if config is None else config.whole()
        return PairFetcher(held[torch.from_numpy(data.positions)], None, whole, device)
    if isinstance(data, TensorDataset) and len(data.tensors) == 2:
        return PairFetcher(*data.tensors, config, device)
    if isinstance(data, tuple | list) and len(data) == 2:
        return PairFetcher(data[0], data[1], config, device)
    if is_unlabelled(data):
        return PairFetcher(data.tensors[0] if isinstance(data, TensorDataset) else data, None, config, device)
    if isinstance(data, Dataset) and hasattr(data, "__len__") and hasattr(data, "__getitem__"):
        return DatasetFetcher(data, config, device)
    raise BadData(
        f"data is a {type(data).__name__}; expected what load_data gives, a Dataset, a DataLoader, "
        f"a pair of tensors (images, labels), or images alone"
    )


def is_unlabelled(data: Any) -> bool:
    """Whether no image has a label: pictures without classes, one tensor or array, or data of another task."""
    if isinstance(data, TaskData):
        return True
    if isinstance(data, ImageData):
        return data.unlabelled
    if isinstance(data, TensorDataset):
        return len(data.tensors) == 1
    return isinstance(data, Tensor | np.ndarray)


def require_labels(data: Any, who: str = "this", is_exam: bool = True) -> None:
    """Refuse images alone where labels are needed; `who` needs them, in whose place an exam may do without."""
    if isinstance(data, TaskData):
        scored = {"vqa": "answers"}.get(data.task, data.task)
        raise BadData(
            f"{data.spec} is data of {data.task}, in which no picture has a class of its own, which this needs; "
            f"choose exams that need none: {scored}, noise, blur, corruption, occlusion, frequency_noise, fourier, "
            "variance, cka, attention, hessian, landscape ..."
        )
    if isinstance(data, ImageData) and data.unlabelled:
        raise BadData(
            f"{who} needs labels, and the images of {data.spec} ({data.split}) have none: they do not lie in two "
            f"folders or more, one per class{_deeper(data)}; put those of each class into a folder of its name"
            + (", or choose exams without labels: fourier, variance, cka, attention ..." if is_exam else "")
        )
    if is_unlabelled(data):
        raise BadData(
            "the images come without labels, which this needs; give a pair (images, labels), or choose exams that need "
            "none: fourier, variance, cka, attention ..."
        )


def _deeper(data: ImageData) -> str:
    """Where folders that look like classes lie further down."""
    folders = {Path(data.name(i)).parent for i in range(len(data))}
    above = {folder.parent for folder in folders}
    deep = len(folders) > 1 and len(above) == 1
    return f" (if those in {above.pop()} are classes, give that folder)" if deep else ""


class ImageFetcher:
    """`ImageData`: one slice of its array per batch, or pictures decoded by a few threads one batch ahead."""

    shuffle = True
    as_given = False

    def __init__(self, data: ImageData, config: DataConfig, device: Device) -> None:
        self._data, self._config, self._device = data, config, device
        self.what = f"{data.spec} ({data.split})"
        self.labels: Indices | None = None if data.unlabelled else data.labels

    def __len__(self) -> int:
        return len(self._data)

    def fetch_all(self, pieces: Sequence[Indices]) -> Iterator[tuple[Tensor, Tensor]]:
        """See `Fetcher`."""
        if self._data.images is not None:
            for indices in pieces:
                images = preprocess(self._data.images[indices], self._config, self._device)
                yield images, self._labels(indices)
            return
        assert self._data.reader is not None
        decoded = _decoded_ahead(self._one, pieces, self._data.reader.parallel)
        for indices, images in zip(pieces, decoded, strict=True):
            yield images.to(self._device), self._labels(indices)

    def _one(self, index: int) -> Tensor:
        picture, _ = self._data[index]
        return preprocess([picture], self._config)

    def _labels(self, indices: Indices) -> Tensor:
        return torch.from_numpy(self._data.labels[indices]).to(self._device)


class TaskFetcher:
    """The pictures of `TaskData`, whose labels are all -1."""

    shuffle = True
    as_given = False
    labels: Indices | None = None

    def __init__(self, data: TaskData, config: DataConfig, device: Device) -> None:
        self._data, self._config, self._device = data, config.whole(), device
        self.what = f"{data.spec} ({data.split})"

    def __len__(self) -> int:
        return len(self._data)

    def fetch_all(self, pieces: Sequence[Indices]) -> Iterator[tuple[Tensor, Tensor]]:
        """See `Fetcher`."""
        decoded = _decoded_ahead(self._one, pieces, self._data.reader.parallel)
        for indices, images in zip(pieces, decoded, strict=True):
            yield images.to(self._device), torch.full((len(indices),), NO_LABEL, device=self._device)

    def _one(self, index: int) -> Tensor:
        return preprocess([self._data.picture(index)], self._config)


def _decoded_ahead(
    one: Callable[[int], Tensor], pieces: Sequence[Indices], parallel: bool
) -> Iterator[Tensor]:
    """The images of each piece, decoded by a few threads while the piece before is in use."""
    with ThreadPoolExecutor(_DECODERS if parallel else 1) as pool:
        try:
            submitted = ([pool.submit(one, int(i)) for i in indices] for indices in pieces)
            ahead = next(submitted, [])
            for _ in pieces:
                current, ahead = ahead, next(submitted, [])
                yield torch.cat([future.result() for future in current])
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


class PairFetcher:
    """A pair (images, labels) of tensors or arrays, or images alone, whose labels are all -1."""

    shuffle = False

    def __init__(self, images: Any, labels: Any, config: DataConfig | None, device: Device) -> None:
        channels_last = isinstance(images, np.ndarray)
        known = labels is not None
        self.what = "the pair of tensors" if known else "the tensor of images"
        images = _one_tensor(images)
        labels = _whole_numbers(labels, len(images)) if known else torch.full((len(images),), NO_LABEL)
        if images.dtype == torch.uint8:
            images = nhwc(images, channels_last)
            _needed(config, self.what)
        elif images.is_sparse or images.device.type == "meta":
            raise BadData(
                "the images have no values in place (a sparse or a meta tensor); give a plain tensor"
            )
        elif not images.is_floating_point() or images.ndim != 4:
            raise BadData(
                f"images are {images.dtype} {tuple(images.shape)}; expected float (N, C, H, W) or uint8"
            )
        self._images, self._labels, self._config, self._device = images, labels, config, device
        self.as_given = is_prepared(images)
        self.labels: Indices | None = labels.numpy(force=True) if known else None

    def __len__(self) -> int:
        return len(self._labels)

    def fetch_all(self, pieces: Sequence[Indices]) -> Iterator[tuple[Tensor, Tensor]]:
        """See `Fetcher`."""
        for indices in pieces:
            chosen = torch.from_numpy(indices)
            images, labels = (t[chosen.to(t.device)] for t in (self._images, self._labels))
            if images.dtype == torch.uint8:
                images = preprocess(images, _needed(self._config, self.what), self._device)
            yield images.to(self._device, torch.float32), labels.to(self._device)


class DatasetFetcher:
    """Any map-style torch Dataset of (image, label)."""

    shuffle = True
    as_given = False

    def __init__(self, data: Dataset[Any], config: DataConfig | None, device: Device) -> None:
        self._data, self._config, self._device = data, config, device
        self.what = f"the {type(data).__name__}"
        self.labels = known_labels(data)

    def __len__(self) -> int:
        return length_of(self._data, self.what)

    def fetch_all(self, pieces: Sequence[Indices]) -> Iterator[tuple[Tensor, Tensor]]:
        """See `Fetcher`."""
        for indices in pieces:
            items = (images_and_labels(item_of(self._data, int(i), self.what), self.what) for i in indices)
            images, labels = zip(*items, strict=True)
            self.as_given = is_prepared(images)
            yield to_batch(images, labels, self._config, self._device, self.what)


def is_prepared(images: Any) -> bool:
    """Whether images are numbers that a model can be shown as they are: float tensors count as preprocessed."""
    first = images if isinstance(images, Tensor) else images[0]
    return isinstance(first, Tensor) and first.is_floating_point()


def to_batch(
    images: Any, labels: Any, config: DataConfig | None, device: Device, what: str = "the data"
) -> tuple[Tensor, Tensor]:
    """Images in whatever form, and their labels, as a batch (see `is_prepared`); `what` gives them."""
    labels = _whole_numbers(labels, len(images)).to(device)
    require_one_form(images, what)
    if is_prepared(images):
        if not isinstance(images, Tensor):
            require_one_shape(images, what)
        batch = images if isinstance(images, Tensor) else torch.stack(list(images))
        return batch.to(device, torch.float32), labels
    first = images[0]
    config = _needed(config, f"images of type {type(first).__name__}")
    if isinstance(first, Image.Image):
        return preprocess(images, config, device), labels
    pixels = [nhwc(torch.as_tensor(image)[None], isinstance(image, np.ndarray)) for image in images]
    if len({image.shape for image in pixels}) == 1:
        return preprocess(torch.cat(pixels), config, device), labels
    return torch.cat([preprocess(image, config, device) for image in pixels]), labels


def known_labels(data: Any) -> Indices | None:
    """The labels of a Dataset that can tell them without decoding its images."""
    if isinstance(data, Subset):
        inner = known_labels(data.dataset)
        return None if inner is None else inner[np.asarray(data.indices, dtype=np.int64)]
    if isinstance(data, ConcatDataset):
        parts = [part for d in data.datasets if (part := known_labels(d)) is not None]
        return np.concatenate(parts) if len(parts) == len(data.datasets) else None
    if isinstance(data, TensorDataset):
        return _class_numbers(data.tensors[1]) if len(data.tensors) > 1 else None
    for attribute in ("labels", "targets"):
        labels = getattr(data, attribute, None)
        told = isinstance(labels, list | tuple | np.ndarray | Tensor) and len(labels) == len(data)
        if told and (array := _class_numbers(labels)) is not None:
            return array
    return None


def _class_numbers(labels: Any) -> Indices | None:
    """Labels as an array, if they are one whole number per image."""
    array = labels.numpy(force=True) if isinstance(labels, Tensor) else np.asarray(labels)
    return array.astype(np.int64) if array.ndim == 1 and array.dtype.kind in "iu" else None


def _one_tensor(images: Any) -> Tensor:
    """The images of a pair."""
    try:
        return torch.as_tensor(images)
    except (TypeError, ValueError, RuntimeError) as error:
        several = isinstance(images, list | tuple)
        what = f"a {type(images).__name__} of {len(images)}" if several else f"a {type(images).__name__}"
        if isinstance(images, np.ndarray):
            what = f"an array of {images.dtype}"
        raise BadData(
            f"the images of the pair are {what}; expected one tensor or array (images, channels, height, width), "
            "which torch.stack makes of tensors of one size, beside one whole number per image"
        ) from error


def _whole_numbers(labels: Any, n: int) -> Tensor:
    """`n` labels as int64."""
    try:
        several = isinstance(labels, tuple | list) and any(isinstance(label, Tensor) for label in labels)
        numbers = torch.stack([torch.as_tensor(x) for x in labels]) if several else torch.as_tensor(labels)
    except (TypeError, ValueError, RuntimeError) as error:
        raise BadData(
            f"labels are {type(labels).__name__} ({error}); expected one whole number per image"
        ) from error
    if numbers.shape != (n,) or numbers.is_floating_point() or numbers.is_complex():
        seen = f"{numbers.dtype} labels of shape {tuple(numbers.shape)} for {n} images"
        raise BadData(f"{seen}; expected one whole number per image")
    return numbers.long()


def _needed(config: DataConfig | None, what: str) -> DataConfig:
    if config is None:
        raise BadData(
            f"{what} has to be preprocessed, and nothing says how; pass model=... or config=DataConfig(...)"
        )
    return config


def nhwc(pixels: Tensor, prefer_last: bool) -> Tensor:
    """uint8 pixels as (N, H, W, C); where both layouts are possible, arrays count as channels last."""
    if pixels.ndim == 3:
        return pixels[..., None]
    if pixels.ndim != 4 or pixels.dtype != torch.uint8:
        raise BadData(
            f"images are {pixels.dtype} {tuple(pixels.shape)}; expected uint8 (N, H, W, C) or (N, C, H, W)"
        )
    first, last = pixels.shape[1] in CHANNELS, pixels.shape[3] in CHANNELS
    if last and (prefer_last or not first):
        return pixels
    if first:
        return pixels.permute(0, 2, 3, 1)
    raise BadData(f"images of shape {tuple(pixels.shape)} have no axis of 1, 3 or 4 channels; expected one")
