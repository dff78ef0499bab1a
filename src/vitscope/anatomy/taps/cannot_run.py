"""A model that cannot be run on the images it is shown, in words."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from vitscope.anatomy.watch.example import DEFAULT_SIZE, said_input_size
from vitscope.core.errors import UnsupportedModel, VitscopeError

_OF_IMAGES = (
    RuntimeError,
    AssertionError,
    ValueError,
    TypeError,
    IndexError,
)  # what torch and models raise of them
_OF_MEMORY = ("alloc", "out of memory")


@contextmanager
def runs_on(model: nn.Module, images: Tensor) -> Iterator[None]:
    """Around a model's own forward pass, and nothing else: what torch says of the images comes in words.

    Raises:
        UnsupportedModel: The pass fails; the message says what images the model expects, if it tells.
    """
    try:
        yield
    except VitscopeError:
        raise
    except _OF_IMAGES as error:
        if any(word in str(error) for word in _OF_MEMORY):
            raise
        raise UnsupportedModel(
            f"{_why(model, images, error)}; give it images of {_wanted(model, images)}"
        ) from error


def cannot_be_watched(model: nn.Module, images: Tensor, error: Exception) -> UnsupportedModel:
    """The same for whoever chooses an example to look at a model."""
    if images.device.type == "meta" and "meta" in str(error):
        return UnsupportedModel(
            f"{_what(model, images)} without weights, because it reads values ({error}). Build it on a real device."
        )
    if _channels(model) not in (None, images.shape[1]):
        return UnsupportedModel(f"{_why(model, images, error)}; give it images of {_wanted(model, images)}")
    size = said_input_size(model) or DEFAULT_SIZE
    return UnsupportedModel(
        f"{_why(model, images, error)}; give an example of the size it takes: "
        f"--img-size {size[-1]} (in Python vs.anatomy(model, {size}))"
    )


def _what(model: nn.Module, images: Tensor) -> str:
    return f"{type(model).__name__} cannot be run on a {_by(images.shape)} input"


def _why(model: nn.Module, images: Tensor, error: Exception) -> str:
    has, takes = images.shape[1], _channels(model)
    if takes not in (None, has):
        return f"{_what(model, images)}: the images have {has} channel{'s' if has != 1 else ''} and it takes {takes}"
    reason = (str(error).splitlines() or [""])[0].rstrip(".")
    why = f"{_what(model, images)}: {type(error).__name__}: {reason}"
    said = said_input_size(model)
    return (
        why if said in (None, tuple(images.shape[1:])) else f"{why}; it says that it takes {_by(said)} images"
    )


def _wanted(model: nn.Module, images: Tensor) -> str:
    if _channels(model) not in (None, images.shape[1]):
        return "as many channels"
    said = said_input_size(model)
    return "the shape it was made for" if said in (None, tuple(images.shape[1:])) else "that shape"


def _channels(model: nn.Module) -> int | None:
    """How many the model's images have: what it says, or what its first convolution takes."""
    said = said_input_size(model)
    if said is not None:
        return said[0]
    return next((module.in_channels for module in model.modules() if isinstance(module, nn.Conv2d)), None)


def _by(shape: tuple[int, ...] | torch.Size) -> str:
    return "x".join(map(str, shape))
