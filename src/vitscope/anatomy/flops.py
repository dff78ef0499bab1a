"""How much arithmetic one image costs a model.

    FLOPs = sum of 2 * multiply-adds of every convolution and matrix product, attention's two included

A multiply-add counts as two, as torch's counter has it: ResNet-50 at 224 pixels takes 8.18 GFLOP (papers that count
one say 4.1). Normalisations, activations, additions and pooling are not counted.
"""

import copy
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from vitscope.anatomy import preserved
from vitscope.core.arguments import checked
from vitscope.core.errors import VitscopeError

_SMALL = 1e11  # parameters times pixels: a ResNet-50 at 64 pixels


@checked
def count_flops(model: nn.Module, input_shape: Sequence[int]) -> int:
    """FLOPs of one forward pass over one image, in evaluation mode; the model is left as it was.

    The pass runs on a copy: of a small model as it is, of others without weights (meta device, no arithmetic). A model
    that needs values to find its way through its forward pass makes one real pass on its own device instead.

    Args:
        model: Takes a batch of images; its first floating-point parameter says in which precision.
        input_shape: (channels, height, width) of the image.

    Raises:
        VitscopeError: The shape is no image's, or the model is on the meta device and cannot run there.
    """
    shape = tuple(input_shape)
    if len(shape) != 3:
        raise VitscopeError(f"an input shape is (channels, height, width), got {shape}; e.g. (3, 224, 224)")
    try:
        return _count(cheap_copy(model, shape), shape)
    except Exception as error:  # whatever a foreign forward pass raises where there are no values
        if _first(model).is_meta:
            raise VitscopeError(
                f"{type(model).__name__} does not run without weights ({error}); "
                "make it outside `torch.device('meta')` to count its FLOPs"
            ) from error
    return _count(model, shape)


def _count(model: nn.Module, shape: Sequence[int]) -> int:
    first = _first(model)
    image = torch.zeros((1, *shape), dtype=first.dtype, device=first.device)
    # Fused kernels hide their products from the counter on some devices; the explicit ones are counted on all.
    with preserved(model), torch.no_grad(), _explicit_attention(), FlopCounterMode(display=False) as counter:
        model(image)
    return counter.get_total_flops()


def _first(model: nn.Module) -> Tensor:
    """The parameter that says where the model runs, and in which precision."""
    return next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))


@contextmanager
def _explicit_attention() -> Iterator[None]:
    fast_path = torch.backends.mha.get_fastpath_enabled()  # of nn.MultiheadAttention
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)


def cheap_copy(model: nn.Module, shape: Sequence[int]) -> nn.Module:
    """A copy to look at in one pass over an image of this shape; no parameter is copied.

    It is on the meta device, where nothing is computed, unless the model is small: the arithmetic of one image takes
    less time then than the way around it.
    """
    tensors = [*model.parameters(), *model.buffers()]
    plain = all(t.device.type == "cpu" and t.dtype != torch.float16 for t in tensors)
    small = plain and sum(t.numel() for t in tensors) * math.prod(shape[1:]) <= _SMALL
    memo: dict[int, Tensor] = {}
    for module in model.modules():
        held = {**module._parameters, **module._buffers, **vars(module)}  # vars: tensors as plain attributes
        for tensor in held.values():
            if isinstance(tensor, nn.Parameter):
                kept = tensor.detach() if small else tensor.detach().to("meta")
                memo[id(tensor)] = nn.Parameter(kept, requires_grad=False)
            elif isinstance(tensor, Tensor):
                memo[id(tensor)] = tensor.detach().clone() if small else tensor.detach().to("meta")
    return copy.deepcopy(model, memo)
