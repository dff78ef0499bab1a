"""What to show a model so that its anatomy can be watched."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from vitscope.core.errors import UnsupportedModel, VitscopeError

DEFAULT_SIZE = (3, 224, 224)
_LONGEST_SIDE = 16_384
IMAGES = 2  # two, so that it shows which axis runs over images


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
        generator = torch.Generator().manual_seed(0)
        if device.type == "meta":
            return torch.empty((IMAGES, *example), device=device, dtype=dtype)
        return torch.randn((IMAGES, *example), generator=generator).to(device, dtype)
    images = _first_images(example)
    if images.dim() != 4 or not images.numel():
        raise VitscopeError(
            f"an example batch is (images, channels, height, width), got {tuple(images.shape)}"
        )
    return torch.cat([images] * IMAGES)[:IMAGES].to(device, dtype)


def example_inputs(model: nn.Module, example: Mapping[str, Any]) -> dict[str, Tensor]:
    """Two of each named input, for a model that takes more than images.

    Args:
        model: The model that will be watched.
        example: By argument name, a batch, or the shape of one item: (C, H, W) is an image, anything shorter is
            whole numbers (words, masks), for which ones stand.
    """
    inputs: dict[str, Tensor] = {}
    for name, value in example.items():
        if isinstance(value, Tensor) and value.is_floating_point() and value.dim() == 4:
            inputs[name] = example_batch(model, value)
        elif isinstance(value, Tensor):
            device = next((p.device for p in model.parameters()), value.device)
            inputs[name] = torch.cat([value] * IMAGES)[:IMAGES].to(device)
        elif len(value) == 3:
            inputs[name] = example_batch(model, tuple(value))
        else:
            device = next((p.device for p in model.parameters()), torch.device("cpu"))
            inputs[name] = torch.ones((IMAGES, *value), dtype=torch.long, device=device)
    return inputs


def images_among(inputs: Mapping[str, Tensor]) -> Tensor:
    """The images of a model's named inputs."""
    for tensor in inputs.values():
        if tensor.is_floating_point() and tensor.dim() == 4:
            return tensor
    raise VitscopeError(
        f"no images among the inputs {', '.join(inputs)}; expected a batch (images, channels, height, width)"
    )


def example_shapes(model: nn.Module, example: Any) -> list[int] | dict[str, list[int]]:
    """Plain values that stand for an example of the same shape."""
    if isinstance(example, Mapping):
        return {name: list(tensor.shape[1:]) for name, tensor in example_inputs(model, example).items()}
    return list(example_batch(model, example).shape[1:])


def own_input_size(model: nn.Module) -> tuple[int, int, int]:
    """(C, H, W) as the model's patch embedding or configuration says; 3x224x224 where they say nothing."""
    return said_input_size(model) or DEFAULT_SIZE


def said_input_size(model: nn.Module) -> tuple[int, int, int] | None:
    """The same; None where they say nothing."""
    size = _entry(getattr(model, "pretrained_cfg", None), "input_size")
    built_for = getattr(getattr(model, "patch_embed", None), "img_size", None)
    if (
        size and isinstance(built_for, tuple) and len(built_for) == 2
    ):  # timm keeps the configuration of the weights
        return (int(size[0]), int(built_for[0]), int(built_for[1]))
    if size:
        return (int(size[0]), int(size[1]), int(size[2]))
    config = getattr(model, "config", None)
    pixels = _entry(config, "image_size")
    if pixels:
        height, width = (pixels, pixels) if isinstance(pixels, int) else (pixels[0], pixels[1])
        return (int(_entry(config, "num_channels") or 3), int(height), int(width))
    side = getattr(model, "image_size", None)  # torchvision's ViT
    return (3, side, side) if isinstance(side, int) else None


def _entry(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, dict) else getattr(config, name, None)


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


def refuse_wrapped(model: nn.Module) -> None:
    """Compiled and parallel wrappers hide the modules; say what to pass instead."""
    inner = {"OptimizedModule": "_orig_mod", "DistributedDataParallel": "module", "DataParallel": "module"}
    attribute = inner.get(type(model).__name__)
    if attribute is not None:
        raise UnsupportedModel(f"this is a {type(model).__name__}; pass what it wraps: model.{attribute}")
    compiled = next((path for path, m in model.named_modules() if m._compiled_call_impl is not None), None)
    if compiled is not None:
        what = f"its module '{compiled}'" if compiled else "it"
        raise UnsupportedModel(
            f"{what} was compiled in place, and compiled code cannot be watched; pass the model as it was before "
            f"{'model.' + compiled if compiled else 'model'}.compile(), or build it again"
        )
    if isinstance(model, torch.jit.ScriptModule):
        raise UnsupportedModel("a scripted model cannot be watched; pass the nn.Module it was made from")
