"""One residual unit more at the end of the stream: another MSA, or an MLP with as many parameters.

    x + W_o MSA(LN(x))        4 d^2 + 4 d weights       over all N tokens of the image, prefix tokens among them
    x + W_2 GELU(W_1 LN(x))   4 d^2 + 3 d weights       W_1 is (2d, d): half of a ViT's MLP, to match the MSA

The layer norm adds 2 d to each. W_o and W_2 start at zero, where the model is what it was; the other weights start as
in a ViT (normal, 0.02; biases 0).
"""

from typing import Any, Literal

import torch.nn.functional as F
from torch import Tensor, nn

from vitscope.anatomy import Dissection, dissect
from vitscope.anatomy.taps.ports import Port, port_at
from vitscope.anatomy.watch.operations import RESHAPES
from vitscope.surgery.tools.choose import Example, Heads
from vitscope.surgery.tools.graft import graft_at
from vitscope.surgery.tools.image_tokens import ImageTokens, image_tokens
from vitscope.surgery.tools.map_source import MapNotes
from vitscope.surgery.tools.record import CannotOperate, Done, operation

MLP_RATIO = 2
EPSILON = 1e-6  # of the layer norm, as in ViT


class ExtraMsa(nn.Module):
    """A pre-norm residual self-attention over all tokens of an image, on a tensor of any layout."""

    def __init__(self, tokens: ImageTokens, channels: int, heads: int) -> None:
        super().__init__()
        self.tokens, self.heads = tokens, heads
        self.norm = nn.LayerNorm(channels, eps=EPSILON)
        self.qkv = _linear(channels, 3 * channels)
        self.proj = _linear(channels, channels, zero=True)

    def forward(self, x: Tensor) -> Tensor:
        """The stream with what attention adds to its tokens."""
        tokens = self.tokens.read(x)
        images, length, channels = tokens.shape
        qkv = self.qkv(self.norm(tokens)).reshape(images, length, 3, self.heads, channels // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(query, key, value)
        mixed = mixed.transpose(1, 2).reshape(images, length, channels)
        return x + self.tokens.write(self.proj(mixed), like=x)

    def extra_repr(self) -> str:
        """The number of heads."""
        return f"heads={self.heads}"


class ExtraMlp(nn.Module):
    """A pre-norm residual MLP, on a tensor of any layout."""

    def __init__(self, tokens: ImageTokens, channels: int) -> None:
        super().__init__()
        self.tokens = tokens
        self.norm = nn.LayerNorm(channels, eps=EPSILON)
        self.fc1 = _linear(channels, MLP_RATIO * channels)
        self.fc2 = _linear(MLP_RATIO * channels, channels, zero=True)

    def forward(self, x: Tensor) -> Tensor:
        """The stream with what the MLP adds to its tokens."""
        tokens = self.tokens.read(x)
        return x + self.tokens.write(self.fc2(F.gelu(self.fc1(self.norm(tokens)))), like=x)


@operation
def extend(
    model: nn.Module, kind: Literal["msa", "mlp"], *, heads: Heads | None = None, example: Example = None
) -> Done:
    """Add one residual unit after the last one.

    Args:
        model: Is changed in place.
        kind: msa or mlp.
        heads: Of the MSA; default: those of the model's last MSA.
        example: As for `vs.anatomy`.
    """
    body = dissect(model, example)
    port = _last_stream(body)
    notes = MapNotes(body)
    tokens = image_tokens(body, port.node, notes) if port is not None else None
    if port is None or tokens is None:
        raise CannotOperate(
            f"no module of this {body.parts.model_name} gives or takes the stream after its last residual unit; "
            "put that unit into an nn.Module of its own"
        )
    options: dict[str, Any] = {"kind": kind}
    step: nn.Module
    if kind == "msa":
        options["heads"] = heads = heads if heads is not None else _last_heads(body)
        if port.channels % heads:
            raise CannotOperate(
                f"{heads} heads do not divide the {port.channels} channels of the last stream; give heads="
            )
        step = ExtraMsa(tokens, port.channels, heads)
    else:
        step = ExtraMlp(tokens, port.channels)
    path = graft_at(model, port, step, f"extra_{kind}")
    return Done(options, [path], [path, *notes.graft(model)])


def _last_stream(body: Dissection) -> Port | None:
    """The stream after the last residual unit, or the same rearranged, where a module gives or takes it."""
    units = [unit for unit in body.parts.mapped if unit.residual]
    node = body.stream_after(units[-1]) if units else None
    while node is not None:
        port = port_at(body, node)
        if port is not None:
            return port
        readers = [i for i in body.graph.users[node] if body.graph.useful >> i & 1]
        node = readers[0] if len(readers) == 1 and body.graph[readers[0]].name in RESHAPES else None
    return None


def _last_heads(body: Dissection) -> int:
    heads = [unit.heads for unit in body.parts.of_kind("msa") if unit.heads]
    if not heads:
        raise CannotOperate(
            f"this {body.parts.model_name} has no MSA to take the number of heads from; say how many: heads=8"
        )
    return heads[-1]


def _linear(inputs: int, outputs: int, *, zero: bool = False) -> nn.Linear:
    linear = nn.Linear(inputs, outputs)
    if zero:
        nn.init.zeros_(linear.weight)
    else:
        nn.init.trunc_normal_(linear.weight, std=0.02)
    nn.init.zeros_(linear.bias)
    return linear
