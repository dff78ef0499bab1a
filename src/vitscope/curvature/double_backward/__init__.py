"""Operations whose derivative can be differentiated again at about the cost of their arithmetic.

torch has a second derivative of most of them, but composes some out of many passes over memory, or calls a convolution
in a shape it is slow at. A product with a Hessian goes through three functions of an operation y = f(x, w):

    once, while the graph is built     y,  and  (gx, gw) = f'(gy; x, w)
    in each product                    the derivative of f' along (a, b), the vectors that belong to (gx, gw)
    in each product                    f'(gy'; x, w) again

Each file writes them out for some kinds of operations: the outer `autograd.Function` is f, its backward applies the
inner one, which is f', whose backward is the second line. What they do not cover goes to torch.
"""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
import torchvision  # registers its operations  # noqa: F401
from torch import Tensor

from vitscope.anatomy.watch.one_forward import OperationMode, scaled_dot_product_probabilities
from vitscope.curvature.double_backward.convolution import conv2d
from vitscope.curvature.double_backward.normalisation import batch_norm, layer_norm
from vitscope.curvature.double_backward.regions import roi_align


def attention(query: Tensor, key: Tensor, value: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """Scaled dot-product attention in its plain form: the fused ones have no second derivative."""
    if kwargs.get("enable_gqa") or kwargs.get("dropout_p") or len(args) > 1:
        return F.scaled_dot_product_attention(query, key, value, *args, **kwargs)
    return scaled_dot_product_probabilities(query, key, value, *args, **kwargs) @ value


REPLACED: dict[Any, Callable[..., Tensor]] = {
    torch.conv2d: conv2d,
    F.layer_norm: layer_norm,
    F.batch_norm: batch_norm,
    F.scaled_dot_product_attention: attention,
    torch.ops.torchvision.roi_align: roi_align,
}


class TwiceDifferentiable(OperationMode):
    """Inside this mode a forward pass leaves a graph whose gradient is cheap to differentiate."""

    def operation(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operation in its own form, if there is one."""
        return REPLACED.get(func, func)(*args, **kwargs)
