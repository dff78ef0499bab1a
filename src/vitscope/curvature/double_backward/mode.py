"""Sends the operations of a forward pass to their twice differentiable forms."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from vitscope.anatomy.watch.one_forward import OperationMode, scaled_dot_product_probabilities
from vitscope.curvature.double_backward.convolution import conv2d
from vitscope.curvature.double_backward.linear import gelu, linear
from vitscope.curvature.double_backward.normalisation import batch_norm, layer_norm


def attention(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Scaled dot-product attention in its plain form: the fused ones have no second derivative."""
    if kwargs.get("enable_gqa") or kwargs.get("dropout_p") or len(args) > 1:
        return F.scaled_dot_product_attention(query, key, value, *args, **kwargs)
    return scaled_dot_product_probabilities(query, key, value, *args, **kwargs) @ value


REPLACED: dict[Any, Callable[..., Tensor]] = {
    torch.conv2d: conv2d,
    F.linear: linear,
    F.gelu: gelu,
    F.layer_norm: layer_norm,
    F.batch_norm: batch_norm,
    F.scaled_dot_product_attention: attention,
}


class TwiceDifferentiable(OperationMode):
    """Inside this mode a forward pass leaves a graph whose gradient is cheap to differentiate."""

    def operation(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operation in its own form, if there is one."""
        return REPLACED.get(func, func)(*args, **kwargs)
