"""In which order images and maps lie in memory, and how convolutions over small maps are computed.

Convolutions and batch normalisation are faster with channels last: on a CPU up to 1.3 times for whole steps. Attention
and linear maps do not care. Where maps have shrunk to a few points, as in a model made for 224 pixels that is shown 32,
a CPU computes a convolution several times as fast as a matrix product.
"""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from vitscope.core.memory import arrange, crashes_with_channels_last
from vitscope.data import DataConfig
from vitscope.training.matrix_convolution import MatrixConv2d

_FEW_POINTS = 4  # of a map: up to here a matrix product is the faster way for every kernel
_FEW_POINTS_OF_PRODUCTS = 64  # and for kernels of one tap, which need no patches


def lay_out(
    wish: str, model: nn.Module, config: DataConfig, device: torch.device, sharded: bool = False
) -> tuple[torch.memory_format, Callable[[], None]]:
    """Arrange a model's weights as a recipe's `channels_last` wishes: "always", "never" or "auto".

    What would crash with the channels last never has them last.

    Returns:
        The memory format for the images, and what to call when the training is over: it makes the convolutions over
        small maps plain ones again.
    """
    last = wish == "always" or (wish == "auto" and not sharded and device.type != "mps")
    last = last and not (device.type == "cpu" and crashes_with_channels_last(model))
    layout = torch.channels_last if last else torch.contiguous_format
    if not sharded:
        arrange(model, layout)
    small = convolutions_over_few_points(model, config) if last and device.type == "cpu" else []
    for convolution in small:
        MatrixConv2d.replace(convolution)
    return layout, partial(_make_plain, small)


def convolutions_over_few_points(model: nn.Module, config: DataConfig) -> list[nn.Conv2d]:
    """The convolutions that a CPU computes faster as matrix products, on images of this size."""
    found: dict[nn.Conv2d, None] = {}

    def look(module: nn.Conv2d, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        one_tap = module.kernel_size == (1, 1)
        if output.shape[-2:].numel() <= (_FEW_POINTS_OF_PRODUCTS if one_tap else _FEW_POINTS):
            found[module] = None

    hooks = [m.register_forward_hook(look) for m in model.modules() if MatrixConv2d.can_replace(m)]
    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            model(torch.zeros(1, *config.input_size, device=next(model.parameters()).device))
    finally:
        model.train(training)
        for hook in hooks:
            hook.remove()
    return list(found)


def _make_plain(convolutions: list[nn.Conv2d]) -> None:
    for convolution in convolutions:
        if isinstance(convolution, MatrixConv2d):
            convolution.restore()
