"""Plain multi-head self-attention in one module, which can stand for any other that computes the same.

    out = concat_h(softmax(scale · q_h k_hᵀ) v_h) Wo + bo + uniform(x)        q_h = x Wq_h + bq_h, and so on

`uniform` is a head that attends to all tokens alike:

    uniform(x) = Wu (Wv m + bv)    m = 1/N Σ_j x_j, over all N tokens of the image; the same for every token

The mean is taken before the projections, which is the same (they are linear) and costs next to nothing.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitscope.anatomy.watch.graph import Slot
from vitscope.core.errors import VitscopeError
from vitscope.surgery.tools.image_tokens import ImageTokens
from vitscope.surgery.tools.projections import ByHead, Projections


class UniformHead(nn.Module):
    """What a head of uniform attention adds to every token.

    New values (`width` of them) start as in a ViT (normal, 0.02; biases 0), what reads them starts at 0.
    """

    def __init__(
        self, tokens: ImageTokens, channels: int, width: int, out_channels: int, bias: bool = True
    ) -> None:
        super().__init__()
        self.tokens = tokens
        self.value = nn.Linear(channels, width, bias=bias)
        self.proj = nn.Linear(width, out_channels, bias=False)
        nn.init.trunc_normal_(self.value.weight, std=0.02)
        if bias:
            nn.init.zeros_(self.value.bias)
        nn.init.zeros_(self.proj.weight)

    def forward(self, x: Tensor) -> Tensor:
        """One token per image, shaped so that it meets every token."""
        axis = self.tokens.channel_axis
        output: Tensor = self.proj(self.value(self.tokens.mean(x).movedim(axis, -1))).movedim(-1, axis)
        return output

    def masked(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Uniform among the tokens that a mask lets a token see: (N, L, C) and an additive (N or 1, 1, L or 1, L)."""
        found: Tensor = self.proj(self.value(mask.squeeze(1).softmax(-1) @ tokens))
        return found


class PlainAttention(nn.Module):
    """Attention with the first `heads` heads of given projections, which are copied, and a uniform one besides.

    It is called as the module that they were read off; where that returns several `outputs`, the others are None.
    Tokens lie as (N, L, C) or (L, N, C); `dropout` is of the attention weights, and of the output.
    """

    def __init__(
        self,
        projections: Projections,
        heads: int,
        tokens: ImageTokens,
        outputs: int | None = None,
        dropout: tuple[float, float] = (0.0, 0.0),
        uniform: UniformHead | None = None,
    ) -> None:
        super().__init__()
        self.heads, self.scale, self.outputs = heads, projections.scale, outputs
        self.slot, self.output_slot = projections.slot, projections.output_slot
        self.batch_axis, self.dropout = tokens.batch_axis, dropout
        self.query = _linear(projections.query, heads)
        self.key = _linear(projections.key, heads)
        self.value = _linear(projections.value, heads)
        self.proj = linear(projections.proj_weight[:, :heads].flatten(1), projections.proj_bias)
        self.uniform = uniform

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Called as the module it stands for was."""
        given = by_slot(args, kwargs)
        x = given[self.slot]
        mask = _mask([value for value in given.values() if isinstance(value, Tensor) and value is not x], x)
        tokens = x.transpose(0, 1) if self.batch_axis == 1 else x
        query, key, value = (
            part(tokens).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        on_weights, on_output = self.dropout if self.training else (0.0, 0.0)
        output = F.scaled_dot_product_attention(query, key, value, mask, on_weights, scale=self.scale)
        output = self.proj(output.transpose(1, 2).flatten(2))
        if self.uniform is not None and mask is not None:
            output = output + self.uniform.masked(tokens, mask)
        output = output.transpose(0, 1) if self.batch_axis == 1 else output
        if self.uniform is not None and mask is None:
            output = output + self.uniform(x)
        output = F.dropout(output, on_output, self.training)
        if self.outputs is None:
            return output
        return tuple(output if i == self.output_slot else None for i in range(self.outputs))

    def extra_repr(self) -> str:
        """Settings."""
        return f"heads={self.heads}, scale={self.scale:.4g}, dropout={self.dropout}"


def by_slot(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[Slot, Any]:
    """The arguments of a call by position and keyword."""
    return dict(enumerate(args)) | kwargs


def _mask(others: list[Tensor], x: Tensor) -> Tensor | None:
    """The additive mask among the tensors of a call; those of `F.scaled_dot_product_attention` are meant."""
    if not others:
        return None
    if len(others) > 1 or others[0].dim() != 4 or others[0].shape[1] != 1:
        shapes = " and ".join("x".join(map(str, other.shape)) for other in others)
        raise VitscopeError(
            f"attention with a uniform head was given a {shapes} tensor besides its tokens; it takes one mask for all "
            "heads, (images or 1, 1, tokens or 1, tokens), or none"
        )
    mask = others[0]
    if mask.dtype == torch.bool:
        return torch.zeros_like(mask, dtype=x.dtype).masked_fill(~mask, float("-inf"))
    return mask.to(x.dtype)


def linear(weight: Tensor, bias: Tensor | None) -> nn.Linear:
    """A linear map with copies of these weights, in their precision and on their device."""
    made = nn.Linear(
        weight.shape[1], weight.shape[0], bias is not None, device=weight.device, dtype=weight.dtype
    )
    with torch.no_grad():
        made.weight.copy_(weight)
        if bias is not None:
            made.bias.copy_(bias)
    return made


def _linear(part: ByHead, heads: int) -> nn.Linear:
    bias = None if part.bias is None else part.bias[:heads].flatten()
    return linear(part.weight[:heads].flatten(0, 1), bias)
