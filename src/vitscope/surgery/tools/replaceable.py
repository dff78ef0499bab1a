"""Which conv blocks of a model an MSA block can take the place of, stage by stage.

    stage = Conv x (n - 2m), then (Conv, MSA) x m

A stage is what anatomy calls one, if it has residual convolutions: a stem by itself is none. Its blocks are its
convolutions, subsampling and attention. From the end of a stage backwards a block is replaced if it can be and if the
block after it is no MSA; the first block of a stage stays, so that every MSA follows a convolution.

A block can be replaced if a module of its own takes one (N, C, H, W) map and gives one of the same shape, and holds
nothing but the residual unit and, in a post-activation network, what is done after the addition.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from torch import Tensor, nn

from vitscope.anatomy import Unit
from vitscope.anatomy.structure.dissect import Dissection
from vitscope.anatomy.taps.map_view import map_view
from vitscope.anatomy.taps.ports import block_call
from vitscope.anatomy.watch.graph import ModuleCall, Ref
from vitscope.anatomy.watch.operations import CONVOLUTIONS, mixes_positions
from vitscope.core.errors import UnsupportedModel

_BLOCKS = ("conv", "subsample", "msa")


@dataclass(frozen=True)
class Replaceable:
    """A conv block that an MSA block can take the place of."""

    unit: Unit
    path: str  # of the module
    channels: int  # of the map it takes and gives
    width: int  # of its spatial convolution, at most `channels`
    after: tuple[nn.Module, ...] = field(default=(), repr=False)  # copies of what follows the addition


@dataclass(frozen=True)
class ConvStage:
    """A stage, and its blocks that become MSAs, the first one to be replaced (the last of the stage) first."""

    number: int  # from 1
    blocks: int
    replaceable: tuple[Replaceable, ...]


class AppliedFunction(nn.Module):
    """A function that a block calls by itself, `F.relu` for one, as a module."""

    def __init__(
        self, function: Callable[..., Tensor], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        super().__init__()
        self.function = function
        self.args = args
        self.kwargs = kwargs

    def forward(self, x: Tensor) -> Tensor:
        """Apply it."""
        return self.function(x, *self.args, **self.kwargs)

    def extra_repr(self) -> str:
        """The function's name."""
        return getattr(self.function, "__name__", str(self.function))


def conv_stages(body: Dissection) -> list[ConvStage]:
    """The stages that have residual convolutions, in order."""
    units = [unit for unit in body.parts if unit.kind in _BLOCKS]
    stages: list[ConvStage] = []
    for _, members in groupby(units, key=lambda unit: unit.stage):
        blocks = list(members)
        if any(unit.kind == "conv" and unit.residual for unit in blocks):
            stages.append(ConvStage(len(stages) + 1, len(blocks), _alternating(body, blocks)))
    return stages


def _alternating(body: Dissection, blocks: list[Unit]) -> tuple[Replaceable, ...]:
    found: list[Replaceable] = []
    msa_follows = False
    for unit in reversed(blocks[1:]):
        block = None if msa_follows else _replaceable(body, unit)
        if block is not None:
            found.append(block)
        msa_follows = block is not None or unit.kind == "msa"
    return tuple(found)


def _replaceable(body: Dissection, unit: Unit) -> Replaceable | None:
    addition = body.segment(unit).addition
    if unit.kind != "conv" or addition is None:
        return None
    try:
        call = block_call(body, unit)
    except UnsupportedModel:
        return None
    others = {other.addition.node for other in body.segments if other.addition is not None} - {addition.node}
    if (
        list(call.inputs) != [0]
        or list(call.outputs) != [0]
        or any(call.begin <= n < call.end for n in others)
    ):
        return None
    taken, given = call.inputs[0], call.outputs[0]
    view = map_view(body.layouts[taken], body.graph.batch)
    shape = body.graph[taken].shape
    plain = view is not None and view.channel_axis == 1 and len(shape) == 4 and view.shape == shape[1:]
    after = _after(body, call, addition.node, given) if plain and shape == body.graph[given].shape else None
    if after is None:
        return None
    return Replaceable(unit, call.path, shape[1], min(shape[1], _spatial_width(body, addition.region)), after)


def _spatial_width(body: Dissection, region: Any) -> int:
    """Channels of the narrowest convolution that is larger than a point: what a bottleneck narrows to."""
    convolutions = (body.graph[i] for i in region if body.graph[i].name in CONVOLUTIONS)
    return min(node.shape[1] for node in convolutions if mixes_positions(body.graph, node))


def _after(body: Dissection, block: ModuleCall, node: int, end: int) -> tuple[nn.Module, ...] | None:
    """Copies of the steps from the addition to the block's output; None where they are no plain chain."""
    steps: list[nn.Module] = []
    while node != end:
        inner = [
            call
            for call in body.graph.calls
            if block.begin <= call.begin and call.end <= block.end and call.path != block.path
            if list(call.inputs.items()) == [(0, node)] and list(call.outputs) == [0]
            if call.outputs[0] != node and body.graph[call.outputs[0]].shape == body.graph[node].shape
        ]
        if inner:
            call = max(inner, key=lambda c: c.outputs[0])
            steps.append(copy.deepcopy(body.model.get_submodule(call.path)))
            node = call.outputs[0]
            continue
        readers = [body.graph[i] for i in body.graph.users[node] if i < block.end]
        if len(readers) != 1 or not readers[0].args or readers[0].args[0] != Ref(node):
            return None
        step = readers[0]
        if step.inputs != (node,) or step.function is None:
            return None
        steps.append(AppliedFunction(step.function, step.args[1:], step.kwargs))
        node = step.index
    return tuple(steps)
