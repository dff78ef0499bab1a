"""Images and masks that somebody has in memory, as data of segmentation.

    images    float (N, C, H, W), as the model is shown them; or uint8 (N, C, H, W) or (N, H, W, C), to be prepared
    masks     whole numbers (N, H, W): the class of every pixel, -1 where nobody has said

A pair of tensors or arrays, a `TensorDataset` of both, a `DataLoader` that gives such pairs, or a `Dataset` of an image
(PIL's, too) and its mask: the last two are read once, as far as they are needed, and what they give is kept in memory.
"""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, TensorDataset

from vitscope.core.errors import BadData
from vitscope.data.decode import images_and_labels
from vitscope.data.fetchers import known_labels, nhwc
from vitscope.data.images import Indices
from vitscope.data.own_data import length_of
from vitscope.data.task_data import NO_CLASS, Mask, TaskData

MOST = 2**15 - 1  # the largest number of a class


@dataclass(frozen=True, eq=False)
class TensorMasks:
    """Images and masks by place."""

    what: str  # what to call them in a message
    held: Tensor  # float (N, C, H, W), or uint8 (N, H, W, C)
    masks: npt.NDArray[np.int16]  # (N, H, W)
    step: int = 1  # from one of them to the next in what they were read from

    parallel = True

    def __len__(self) -> int:
        return len(self.held)

    def picture(self, index: int) -> Image.Image:
        """See `TaskReader`; images that were prepared already are no pictures any more."""
        if self.held.dtype != torch.uint8:
            raise BadData(
                f"{self.what} holds float images, which are shown to the model as they are, and this needs pictures; "
                "give images as uint8, or data by name such as masks:PATH"
            )
        return self.shown(index)

    def shown(self, index: int) -> Image.Image:
        """To be looked at: uint8 as it is, float images with their range stretched to that of a picture."""
        image = self.held[index : index + 1]
        if image.dtype == torch.uint8:
            pixels = image[0].numpy(force=True)
        else:
            values = image[0].movedim(0, -1).double().numpy(force=True)
            low, high = values.min(), values.max()
            pixels = np.round(255 * (values - low) / ((high - low) or 1.0)).astype(np.uint8)
        return Image.fromarray(pixels[..., 0] if pixels.shape[-1] == 1 else pixels[..., :3]).convert("RGB")

    def size(self, index: int) -> tuple[int, int]:
        """Height and width."""
        del index
        height, width = self.masks.shape[1:]
        return height, width

    def target(self, index: int) -> Mask:
        """See `TaskReader`."""
        return self.masks[index]

    def name(self, index: int) -> str:
        """See `TaskReader`."""
        return f"image {index * self.step} of {self.what}"

    def check(self, index: int) -> bool:
        """See `TaskReader`."""
        return bool((self.masks[index] != NO_CLASS).any())

    def digest(self, places: Indices) -> bytes:
        """See `TaskReader`."""
        digest = sha256(f"{self.held.dtype} {tuple(self.held.shape)}".encode())
        for place in places.tolist():
            for part in (self.held[place].numpy(force=True), self.masks[place]):
                digest.update(np.ascontiguousarray(part).tobytes())
        return digest.digest()


def with_masks(data: Any, limit: int | None = None) -> Any:
    """Images with masks in memory as `TaskData`; all other data as it is.

    Args:
        data: See the head of this file.
        limit: No more images than these are needed: of a DataLoader the first, of a Dataset some from all over it.
    """
    if isinstance(data, DataLoader):
        return _read("the DataLoader", _batches(data), limit) if _gives_masks(data.dataset) else data
    if isinstance(data, Dataset) and not isinstance(data, TensorDataset):
        return _from_all_over(data, limit) if _gives_masks(data) else data
    pair = data.tensors if isinstance(data, TensorDataset) else data
    if isinstance(pair, tuple | list) and len(pair) == 2 and _are_masks(pair[1]) and not _are_masks(pair[0]):
        return _joined("the pair of tensors", pair[0], pair[1])
    return data


def _are_masks(given: Any) -> bool:
    return isinstance(given, Tensor | np.ndarray) and given.ndim == 3


def _gives_masks(data: Any) -> bool:
    """Told by the first item of a data set that can be read by place, unless it tells labels."""
    if isinstance(data, TensorDataset):
        return len(data.tensors) == 2 and data.tensors[1].ndim == 3
    by_place = hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, TaskData)
    if not by_place or not length_of(data, f"the {type(data).__name__}") or known_labels(data) is not None:
        return False
    with _as_drawn():
        try:
            _, mask = images_and_labels(data[0], "the Dataset")
        except Exception:  # whatever it is, reading all of it says it better
            return False
    return isinstance(mask, Image.Image) or (isinstance(mask, Tensor | np.ndarray) and mask.ndim == 2)


@contextmanager
def _as_drawn() -> Iterator[None]:
    """What is drawn inside is drawn again afterwards."""
    numbers, words = np.random.get_state(), random.getstate()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            np.random.set_state(numbers)
            random.setstate(words)


def _from_all_over(data: Any, limit: int | None) -> TaskData:
    step = max(1, len(data) // limit) if limit else 1
    items = (images_and_labels(data[place], "the Dataset") for place in range(0, len(data), step))
    batches = ((_batch_of_one(_in_colours(image)), _batch_of_one(mask)) for image, mask in items)
    return _read("the Dataset", batches, limit, step)


def _in_colours(image: Any) -> Any:
    return np.array(image.convert("RGB")).transpose(2, 0, 1) if isinstance(image, Image.Image) else image


def _batch_of_one(given: Any) -> Tensor:
    return torch.as_tensor(np.array(given) if isinstance(given, Image.Image) else given)[None]


def _read(what: str, batches: Iterator[tuple[Tensor, Tensor]], limit: int | None, step: int = 1) -> TaskData:
    images, masks = [], []
    for some, own in batches:
        images.append(some)
        masks.append(own)
        if limit is not None and sum(map(len, images)) >= limit:
            break
    for given, name in ((images, "images"), (masks, "masks")):
        shapes = {tuple(one.shape[1:]) for one in given}
        if len(shapes) != 1:
            raise BadData(
                f"{what} gives {name} of {' and '.join(map(str, sorted(shapes))) or 'no shape at all'}; expected "
                "at least one, and all of one size: bring them to it, or give data by name such as masks:PATH"
            )
    return _joined(what, torch.cat(images)[:limit], torch.cat(masks)[:limit], step)


def _batches(loader: DataLoader[Any]) -> Iterator[tuple[Tensor, Tensor]]:
    for batch in loader:
        images, masks = images_and_labels(batch, "the DataLoader")
        yield torch.as_tensor(images), torch.as_tensor(masks)


def _joined(what: str, images: Any, masks: Any, step: int = 1) -> TaskData:
    last = isinstance(images, np.ndarray)
    pixels, classes = torch.as_tensor(images), torch.as_tensor(masks)
    if pixels.dtype == torch.uint8:
        pixels = nhwc(pixels, last)
        height, width = pixels.shape[1:3]
    elif pixels.ndim == 4 and pixels.is_floating_point():
        height, width = pixels.shape[2:]
    else:
        raise BadData(
            f"images are {pixels.dtype} {tuple(pixels.shape)}; expected float (N, C, H, W) or uint8"
        )
    seen = (
        f"masks are {classes.dtype} {tuple(classes.shape)} for images {tuple(torch.as_tensor(images).shape)}"
    )
    if classes.is_floating_point() or classes.is_complex() or classes.dtype == torch.bool:
        raise BadData(f"{seen}; expected whole numbers, the class of every pixel (-1: nobody has said)")
    if tuple(classes.shape) != (len(pixels), height, width):
        raise BadData(f"{seen}; expected ({len(pixels)}, {height}, {width}), a class for every pixel")
    known = classes.numpy(force=True)
    if known.size and (known.min() < NO_CLASS or known.max() > MOST):
        raise BadData(
            f"masks hold numbers from {known.min()} to {known.max()}; expected classes from 0 on, and -1 where nobody "
            "has said (in masks that use 255 for it: masks[masks == 255] = -1)"
        )
    name = what.removeprefix("the ") if what.startswith("the Data") else "tensors"
    reader = TensorMasks(what, pixels, known.astype(np.int16), step)
    return TaskData("segmentation", name, "given", (), reader)
