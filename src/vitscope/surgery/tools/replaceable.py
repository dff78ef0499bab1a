"""Which conv blocks of a model an MSA block can take the place of, stage by stage.

    stage = Conv x (n - 2m), then (Conv, MSA) x m

A stage is what anatomy calls one, if it has residual convolutions: a stem by itself is none. Its blocks are its
convolutions, subsampling and attention. From the end of a stage backwards a block is replaced if it can be and if the
block after it is no MSA; the first block of a stage stays, so that every MSA follows a convolution.

A block can be replaced if a module of its own takes one (N, C, H, W) map and gives one of the same shape, and holds
nothing but the residual unit and, in a post-activation network, what is done after the addition.

How many MSA blocks each stage gets, by one of three rules:

    msa=(0, 1, 1, 2)    these counts
    budget=4            one at the end of each stage, from the last stage backwards, then another round, until 4 are
                        placed or nothing is left: the closed form of the build-up rule
    last=4              alternately from the end of the network: all that fits into the last stage, then the one before
"""

import copy
from collections.abc import Callable, Sequence
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
from vitscope.surgery.tools.record import CannotOperate

SMALL_DATA, LARGE_DATA = 4, 6  # MSAs for up to 50 thousand images, for a million and more
LARGE_HEAD = 1000  # classes of a model that is taken to be made for large data
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
        self.function, self.args, self.kwargs = function, args, kwargs

    def forward(self, x: Tensor) -> Tensor:
        """What the function makes of `x` and its other arguments."""
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
    alone = not any(call.begin <= n < call.end for n in others)
    if not alone or list(call.inputs) != [0] or list(call.outputs) != [0]:
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


def msa_counts(
    body: Dissection,
    stages: Sequence[ConvStage],
    msa: Sequence[int] | None = None,
    budget: int | None = None,
    last: int | None = None,
) -> list[int]:
    """Counts per stage by the rule that is given; without one, `budget` by the number of classes."""
    check_rules(msa, budget, last)
    name, room = body.parts.model_name, tuple(len(stage.replaceable) for stage in stages)
    if msa is not None:
        _check_room(name, stages, msa, room)
        return [int(count) for count in msa]
    if last is None:
        classes = body.graph[body.graph.outputs[0]].shape[-1]
        return closed_form(room, budget or (LARGE_DATA if classes >= LARGE_HEAD else SMALL_DATA))
    if last > sum(room):
        raise CannotOperate(
            f"{name} has {sum(room)} blocks that can be replaced alternately, {last} asked; "
            f"try last={sum(room)}, or extra_block=True"
        )
    return from_the_end(room, last)


def closed_form(room: Sequence[int], budget: int) -> list[int]:
    """One for each stage from the last to the first, then another round, up to `budget` in all."""
    counts = [0] * len(room)
    for _ in range(max(room)):
        for stage in reversed(range(len(room))):
            if sum(counts) < budget and counts[stage] < room[stage]:
                counts[stage] += 1
    return counts


def from_the_end(room: Sequence[int], number: int) -> list[int]:
    """The last stage filled first, then the one before it."""
    counts = [0] * len(room)
    for stage in reversed(range(len(room))):
        counts[stage] = min(room[stage], number - sum(counts))
    return counts


def check_rules(msa: Sequence[int] | None, budget: int | None, last: int | None) -> None:
    """Refuse two rules at once."""
    given = [name for name, value in (("msa", msa), ("budget", budget), ("last", last)) if value is not None]
    if len(given) > 1:
        raise CannotOperate(f"{' and '.join(given)} are different rules; give one of them")


def _check_room(name: str, stages: Sequence[ConvStage], msa: Sequence[int], room: tuple[int, ...]) -> None:
    if len(msa) != len(stages):
        raise CannotOperate(
            f"msa={tuple(msa)} is for {len(msa)} stages; {name} has {len(stages)}, "
            f"in which at most {room} blocks can be replaced"
        )
    for stage, wanted, most in zip(stages, msa, room, strict=True):
        if not 0 <= wanted <= most:
            more = ", or extra_block=True for one block more" if stage is stages[-1] else ""
            raise CannotOperate(
                f"stage {stage.number} has {most} block{'s' * (most != 1)} that can be replaced, {wanted} asked: "
                f"of its {stage.blocks} the first stays, and so does one before each MSA; "
                f"give at most msa={room}{more}"
            )
