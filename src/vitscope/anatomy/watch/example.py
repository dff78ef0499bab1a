"""What to show a model so that its anatomy can be watched, and in words why it cannot be run on what it is shown."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from vitscope.core.errors import UnsupportedModel, VitscopeError

_COMPILED = "OptimizedModule"
DEFAULT_SIZE = (3, 224, 224)
_LONGEST_SIDE = 16_384
IMAGES = 2  # two, so that it shows which axis runs over images
# what torch and models raise of images, unless it is about memory
_OF_IMAGES = (RuntimeError, AssertionError, ValueError, TypeError, IndexError)
_OF_MEMORY = ("alloc", "out of memory")


def example_batch(model: nn.Module, example: Any = None) -> Tensor:
    """A batch of two images for `model`, on its device and in its precision.

    Args:
        model: The model that will be watched.
        example: A batch of images, a (C, H, W) shape, data whose first item is an image and a label, or
            nothing: the model's own input size.
    """
    reference = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    device, dtype = reference.device, reference.dtype
    if example is None:
        example = own_input_size(model)
    if isinstance(example, tuple | list | torch.Size) and all(isinstance(n, int) for n in example):
        if len(example) != 3 or not all(0 < n <= _LONGEST_SIDE and n is not True for n in example):
            raise VitscopeError(
                f"an example shape is (channels, height, width), got {tuple(example)}; e.g. (3, 224, 224)"
            )
        if device.type == "meta":
            return torch.empty((IMAGES, *example), device=device, dtype=dtype)
        generator = torch.Generator().manual_seed(0)
        return torch.randn((IMAGES, *example), generator=generator).to(device, dtype)
    images = _first_images(example)
    if images.dim() != 4 or not images.numel():
        raise VitscopeError(
            f"an example batch is (images, channels, height, width), got {tuple(images.shape)}"
        )
    return torch.cat([images] * IMAGES)[:IMAGES].to(device, dtype)


def _first_images(example: Any) -> Tensor:
    if isinstance(example, Tensor):
        return example
    if isinstance(example, tuple | list) and example and isinstance(example[0], Tensor):
        return example[0]
    if isinstance(example, torch.utils.data.DataLoader):
        return _first_images(next(iter(example)))
    try:
        image = example[0][0]
    except (TypeError, IndexError, KeyError) as error:
        raise VitscopeError(
            f"cannot take an example image from a {type(example).__name__}; give a batch or a (C, H, W) shape"
        ) from error
    if isinstance(image, Tensor):
        return image.unsqueeze(0)
    raise VitscopeError(
        f"the first item of the {type(example).__name__} is a {type(image).__name__}, not a tensor; "
        "give a (C, H, W) shape instead"
    )


def example_inputs(model: nn.Module, example: Mapping[str, Any]) -> dict[str, Tensor]:
    """Two of each named input, for a model that takes more than images.

    By argument name, `example` has a batch, or the shape of one item: (C, H, W) is an image, anything shorter is whole
    numbers (words, masks), for which ones stand.
    """
    device = next((p.device for p in model.parameters()), None)
    inputs: dict[str, Tensor] = {}
    for name, value in example.items():
        if isinstance(value, Tensor) and not _are_images(value):
            inputs[name] = torch.cat([value] * IMAGES)[:IMAGES].to(device or value.device)
        elif isinstance(value, Tensor) or len(value) == 3:
            inputs[name] = example_batch(model, value if isinstance(value, Tensor) else tuple(value))
        else:
            inputs[name] = torch.ones((IMAGES, *value), dtype=torch.long, device=device or "cpu")
    return inputs


def images_among(inputs: Mapping[str, Tensor]) -> Tensor:
    """The images of a model's named inputs."""
    images = next((tensor for tensor in inputs.values() if _are_images(tensor)), None)
    if images is None:
        raise VitscopeError(
            f"no images among the inputs {', '.join(inputs)}; expected a batch (images, channels, height, width)"
        )
    return images


def _are_images(tensor: Tensor) -> bool:
    return tensor.is_floating_point() and tensor.dim() == 4


def example_shapes(model: nn.Module, example: Any) -> list[int] | dict[str, list[int]]:
    """Plain values that stand for an example of the same shape."""
    if isinstance(example, Mapping):
        return {name: list(tensor.shape[1:]) for name, tensor in example_inputs(model, example).items()}
    return list(example_batch(model, example).shape[1:])


def own_input_size(model: nn.Module) -> tuple[int, int, int]:
    """(C, H, W) as the model's patch embedding or configuration says; 3x224x224 where they say nothing."""
    return _said_input_size(model) or DEFAULT_SIZE


def _said_input_size(model: nn.Module) -> tuple[int, int, int] | None:
    size = _entry(getattr(model, "pretrained_cfg", None), "input_size")
    built_for = getattr(getattr(model, "patch_embed", None), "img_size", None)
    if size:
        # timm keeps the configuration of the weights, whatever size the model was built for
        sides = built_for if isinstance(built_for, tuple) and len(built_for) == 2 else size[1:]
        height, width = sides
        return (int(size[0]), int(height), int(width))
    config = getattr(model, "config", None)
    pixels = _entry(config, "image_size")
    if pixels:
        height, width = (pixels, pixels) if isinstance(pixels, int) else pixels[:2]
        return (int(_entry(config, "num_channels") or 3), int(height), int(width))
    side = getattr(model, "image_size", None)  # torchvision's ViT
    return (3, side, side) if isinstance(side, int) else None


def _entry(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, dict) else getattr(config, name, None)


def refuse_wrapped(model: nn.Module) -> None:
    """Compiled and parallel wrappers hide the modules; say what to pass instead."""
    inner = {"DistributedDataParallel": "module", "DataParallel": "module"}
    attribute = inner.get(type(model).__name__)
    if attribute is not None:
        raise UnsupportedModel(f"this is a {type(model).__name__}; pass what it wraps: model.{attribute}")
    refuse_compiled(model)
    if isinstance(model, torch.jit.ScriptModule):
        raise UnsupportedModel("a scripted model cannot be watched; pass the nn.Module it was made from")


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
        raise UnsupportedModel(f"{_why(model, images, error)}; {_advice(model, images)}") from error


def cannot_be_watched(model: nn.Module, images: Tensor, error: Exception) -> UnsupportedModel:
    """The same for whoever chooses an example to look at a model."""
    if images.device.type == "meta" and "meta" in str(error):
        return UnsupportedModel(
            f"{_what(model, images)} without weights, because it reads values ({error}). Build it on a real device."
        )
    size = own_input_size(model)
    if tuple(images.shape[1:]) == size:  # it was only assumed, or what it says of itself is wrong
        other = (size[0], 64, 64) if size[-1] != 64 else (size[0], 32, 32)
        assumed = "" if _said_input_size(model) else f"it does not say its size, and {size[-1]} was assumed; "
        given = f"{assumed}give the size it takes, such as --img-size {other[-1]}; {not_square(size[0])}"
    else:
        other, given = size, f"give an example of the size it takes: --img-size {size[-1]}"
    advice = (
        f"{given} (in Python vs.anatomy(model, {other}))"
        if _channels(model) in (None, images.shape[1])
        else _advice(model, images)
    )
    return UnsupportedModel(f"{_why(model, images, error)}; {advice}")


def not_square(channels: int = 3) -> str:
    """What to do for images that one side does not describe."""
    return (
        "a size that is not square stands in the model, and --img-size is left out: "
        f"model.pretrained_cfg = {{'input_size': ({channels}, HEIGHT, WIDTH)}}"
    )


def _what(model: nn.Module, images: Tensor) -> str:
    return f"{type(model).__name__} cannot be run on a {'x'.join(map(str, images.shape))} input"


def _why(model: nn.Module, images: Tensor, error: Exception) -> str:
    has, takes = images.shape[1], _channels(model)
    if takes not in (None, has):
        return f"{_what(model, images)}: the images have {has} channel{'s' if has != 1 else ''} and it takes {takes}"
    reason = (str(error).splitlines() or [""])[0].rstrip(".")
    why = f"{_what(model, images)}: {type(error).__name__}: {reason}"
    said = _said_input_size(model)
    if said is None or said == tuple(images.shape[1:]):
        return why
    return f"{why}; it says that it takes {'x'.join(map(str, said))} images"


def _advice(model: nn.Module, images: Tensor) -> str:
    if _channels(model) not in (None, images.shape[1]):
        return "give it images of as many channels"
    unsaid = _said_input_size(model) in (None, tuple(images.shape[1:]))
    return f"give it images of {'the shape it was made for' if unsaid else 'that shape'}"


def _channels(model: nn.Module) -> int | None:
    """How many the model's images have: what it says, or what its first convolution takes."""
    said = _said_input_size(model)
    if said is not None:
        return said[0]
    return next((module.in_channels for module in model.modules() if isinstance(module, nn.Conv2d)), None)


def refuse_compiled(model: nn.Module) -> None:
    """Nothing inside compiled code can be watched or replaced, be it the model or a module of it."""
    for path, module in model.named_modules():
        what = f"its module '{path}'" if path else "this"
        if type(module).__name__ == _COMPILED:
            instead = (
                f"put what it wraps there: model.{path}._orig_mod"
                if path
                else "pass what it wraps: model._orig_mod"
            )
            raise UnsupportedModel(
                f"{what} is an {_COMPILED}, and compiled code cannot be watched; {instead}"
            )
        if module._compiled_call_impl is not None:
            raise UnsupportedModel(
                f"{what} was compiled in place, and compiled code cannot be watched; pass the model as it was before "
                f"{'model.' + path if path else 'model'}.compile(), or build it again"
            )
