"""What goes wrong in a Dataset or DataLoader of somebody's own, in words: its length, items, shapes."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader

from vitscope.core.errors import BadData, VitscopeError, memory_in_words
from vitscope.core.lost_loaders import reason_of


def length_of(data: Any, what: str) -> int:
    """How many items a data set says that it has."""
    try:
        return len(data)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadData(
            f"{what} does not tell how many images it has ({error}); expected __len__ to return a whole number"
        ) from error


def item_of(data: Any, place: int, what: str) -> Any:
    """An item of a data set."""
    try:
        return data[place]
    except Exception as error:
        if isinstance(error, VitscopeError) or memory_in_words(error):
            raise
        raise BadData(
            f"{what} gives no image {place}, although it says that it has {len(data)}: {reason_of(error)}; correct its "
            "__getitem__ or its __len__, or leave the image out"
        ) from error


def batches_of(loader: DataLoader[Any], what: str) -> Iterator[Any]:
    """What a loader gives, batch by batch."""
    batches, number = iter(loader), 0
    while True:
        try:
            batch = next(batches)
        except StopIteration:
            return
        except Exception as error:
            if isinstance(error, VitscopeError) or memory_in_words(error):
                raise
            raise BadData(
                f"{what} cannot put together batch {number}: {reason_of(error)}; expected (images, labels) of "
                "images of one shape and one whole number per image: correct its data set or its collate_fn"
            ) from error
        yield batch
        number += 1


def count_of(images: Any, labels: Any, what: str) -> int:
    """How many images a batch has."""
    for given, name in ((images, "images"), (labels, "labels")):
        if given is None or not hasattr(given, "__len__") or getattr(given, "ndim", 1) == 0:
            one = getattr(given, "ndim", None) == 0 or isinstance(given, int | Image.Image)
            seen = f"one {type(given).__name__}" if one else f"{type(given).__name__}"
            raise BadData(
                f"{what} gives {seen} as {name}; expected batches of images with one whole number per image, such as a "
                "DataLoader with batch_size=32 gives; for exams that need no labels, give a tensor of images alone"
            )
    return len(labels)


def require_one_form(images: Any, what: str) -> None:
    """Refuse images that are of different forms, or that have no pixels."""
    if isinstance(images, Tensor | np.ndarray):
        return
    forms = [_form(image) for image in images]
    unknown = next((form for form, image in zip(forms, images, strict=True) if not _is_image(image)), None)
    if unknown is not None:
        raise BadData(f"{what} gives {unknown} as an image; expected {_EXPECTED}")
    if len(set(forms)) > 1:
        raise BadData(f"{what} gives {' and '.join(sorted(set(forms)))}; expected one of them for all images")


_EXPECTED = "a float tensor (channels, height, width), 8-bit pixels or a PIL image"


def _is_image(image: Any) -> bool:
    return isinstance(image, Tensor | np.ndarray | Image.Image | list)


def _form(image: Any) -> str:
    if isinstance(image, Image.Image):
        return "PIL images"
    if isinstance(image, Tensor) and image.is_floating_point():
        return "float tensors"
    if isinstance(image, Tensor | np.ndarray | list):
        return "8-bit arrays"
    return f"{type(image).__name__}s"


def require_one_shape(images: Sequence[Tensor], what: str) -> None:
    """Refuse float tensors of several shapes: they are shown as they are, and nobody cuts them."""
    shapes = sorted({tuple(image.shape) for image in images})
    if len(shapes) > 1:
        raise BadData(
            f"{what} gives float tensors of shapes {' and '.join(map(str, shapes[:3]))}; expected one shape: bring "
            "them to it in its transform, or give PIL images, which are resized and cut here"
        )
