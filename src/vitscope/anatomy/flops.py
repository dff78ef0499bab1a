"""How much arithmetic one image costs a model.

    FLOPs = sum of 2 * multiply-adds of every convolution and matrix product, attention's two included

A multiply-add counts as two, as torch's counter has it: ResNet-50 at 224 pixels takes 8.18 GFLOP (papers that count
one say 4.1). Normalisations, activations, additions and pooling are not counted.
"""

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from vitscope.anatomy import preserved
from vitscope.core.arguments import checked
from vitscope.core.errors import VitscopeError


@checked
def count_flops(model: nn.Module, input_shape: Sequence[int]) -> int:
    """FLOPs of one forward pass over one image, in evaluation mode; the model is left as it was.

    The pass runs on a copy without weights (meta device, no arithmetic). A model that needs values to find its way
    through its forward pass makes one real pass on its own device instead.

    Args:
        model: Takes a batch of images; its first floating-point parameter says in which precision.
        input_shape: (channels, height, width) of the image.

    Raises:
        VitscopeError: The shape is no image's, or the model is on the meta device and cannot run there.
    """
    shape = tuple(input_shape)
    if len(shape) != 3:
        raise VitscopeError(f"an input shape is (channels, height, width), got {shape}; e.g. (3, 224, 224)")
    parameter = next((p for p in model.parameters() if p.is_floating_point()), torch.empty(0))
    try:
        skeleton = without_weights(model).eval()
        return _count(skeleton, torch.empty((1, *shape), dtype=parameter.dtype, device="meta"))
    except Exception as error:  # whatever a foreign forward pass raises where there are no values
        if parameter.is_meta:
            raise VitscopeError(
                f"{type(model).__name__} does not run without weights ({error}); "
                "make it outside `torch.device('meta')` to count its FLOPs"
            ) from error
    with preserved(model):
        return _count(model, torch.zeros((1, *shape), dtype=parameter.dtype, device=parameter.device))


def _count(model: nn.Module, image: Tensor) -> int:
    # Fused kernels hide their products from the counter on some devices; the explicit ones are counted on all.
    with torch.no_grad(), _explicit_attention(), FlopCounterMode(display=False) as counter:
        model(image)
    return counter.get_total_flops()


@contextmanager
def _explicit_attention() -> Iterator[None]:
    fast_path = torch.backends.mha.get_fastpath_enabled()  # of nn.MultiheadAttention
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with sdpa_kernel(SDPBackend.MATH):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fast_path)


def without_weights(model: nn.Module) -> nn.Module:
    """A copy on the meta device, made without copying a single weight."""
    memo: dict[int, Tensor] = {}
    for module in model.modules():
        held = {**module._parameters, **module._buffers, **vars(module)}  # vars: tensors as plain attributes
        for tensor in held.values():
            if isinstance(tensor, nn.Parameter):
                memo[id(tensor)] = nn.Parameter(tensor.detach().to("meta"), requires_grad=False)
            elif isinstance(tensor, Tensor):
                memo[id(tensor)] = tensor.detach().to("meta")
    return copy.deepcopy(model, memo)
