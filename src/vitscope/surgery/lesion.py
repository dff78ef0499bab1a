"""Lesion: leave one unit of a trained model out, and see what it was good for.

    branch        stream + branch(stream)          ->  stream
                  project(stream) + branch(stream) ->  project(stream)
    convolution   1x1 -> KxK convolution -> 1x1    ->  1x1 -> 1x1    (its norm and activation stay)

A convolution with stride s leaves behind every s-th point of what it is given, those it stood on.

An MSA or an MLP is left out whole. Of a bottleneck the spatial convolution is, as in the papers, and the 1x1
convolutions around it stay; of a conv unit without such a middle, the branch is.
"""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from vitscope.anatomy import Dissection, Unit, dissect
from vitscope.anatomy.taps.ports import silencing_port, why_shared
from vitscope.anatomy.watch.graph import ModuleCall, Node
from vitscope.anatomy.watch.operations import CONVOLUTIONS, HEAVY, mixes_positions
from vitscope.surgery.tools.choose import Example
from vitscope.surgery.tools.graft import graft, graft_at
from vitscope.surgery.tools.record import CannotOperate, Done, operation

Part = Literal["branch", "convolution"]


def silenced(x: Tensor) -> Tensor:
    """Zeros in the place of a tensor, also where it is infinite; its gradient is zero, not absent, because DDP waits
    for one of every parameter."""
    return x.masked_fill(torch.ones((), dtype=torch.bool, device=x.device), 0.0)


class Silence(nn.Module):
    """Zeros in the place of a branch."""

    def forward(self, x: Tensor) -> Tensor:
        """Zeros."""
        return silenced(x)


class Bypass(nn.Module):
    """What a module is given, in the place of what it makes of it: with a stride, the points of the map it stood on."""

    def __init__(self, stride: tuple[int, int] = (1, 1)) -> None:
        super().__init__()
        self.stride = stride

    def forward(self, run: Any, x: Tensor) -> Tensor:
        """The input."""
        kept = x if self.stride == (1, 1) else x[..., :: self.stride[0], :: self.stride[1]]
        return kept + silenced(run(x)) if self.training else kept

    def extra_repr(self) -> str:
        """The stride, if there is one."""
        return f"stride={self.stride}" if self.stride != (1, 1) else ""


@operation
def lesion(model: nn.Module, unit: str | Unit, part: Part | None = None, *, example: Example = None) -> Done:
    """Leave one unit out; `vs.surgery.undo(model)` puts it back.

    Args:
        model: Is changed in place; the weights of what is left out stay where they are.
        unit: Its name, as `vs.anatomy` gives it, or the unit.
        part: "branch", "convolution" (a bottleneck's spatial one), or None: as the formulas above say.
        example: As for `vs.anatomy`.
    """
    body = dissect(model, example)
    chosen = body.parts[unit if isinstance(unit, str) else unit.name]
    if part is None:
        part = "convolution" if _is_bottleneck(body, chosen) else "branch"
    remove = _remove_branch if part == "branch" else _remove_middle
    path = remove(model, body, chosen)
    return Done({"unit": chosen.name, "part": part}, [chosen.name], [path])


def middle_convolution(body: Dissection, unit: Unit) -> tuple[str, Bypass] | None:
    """The path of a bottleneck's spatial convolution and what takes its place; None: the unit is no bottleneck.

    Raises:
        CannotOperate: There is one that cannot be left out.
    """
    return _middle(body, unit) if _is_bottleneck(body, unit) else None


def _remove_branch(model: nn.Module, body: Dissection, unit: Unit) -> str:
    if unit.obstacle is not None:
        raise CannotOperate(
            f"unit '{unit.name}' ({unit.kind}) cannot be left out: {unit.obstacle}; choose another unit"
        )
    return graft_at(model, silencing_port(body, unit), Silence(), "lesion")


def _remove_middle(model: nn.Module, body: Dissection, unit: Unit) -> str:
    path, bypass = _middle(body, unit)
    return graft(model, path, bypass, "lesion", "around")


def _middle(body: Dissection, unit: Unit) -> tuple[str, Bypass]:
    middle = _spatial_convolutions(body, unit)
    if len(middle) != 1:
        instead = "use part='branch'" if unit.removable else "choose another unit"
        raise CannotOperate(
            f"unit '{unit.name}' ({unit.kind}) has {len(middle)} spatial convolutions, not one between 1x1s; {instead}"
        )
    node = body.graph[middle[0]]
    call = _call_of(body, node.index)
    if call is None:
        if shared := why_shared(body, unit):
            raise CannotOperate(f"{shared}, or choose another unit")
        raise CannotOperate(
            f"the spatial convolution of unit '{unit.name}' is no module of its own; write it as an nn.Conv2d"
        )
    return call.path, Bypass(_stride(body, unit, node, call))


def _stride(body: Dissection, unit: Unit, node: Node, call: ModuleCall) -> tuple[int, int]:
    """By which the points that stay lie apart; refuses a convolution that gives other channels than it takes."""
    given = body.graph[node.inputs[0]].shape
    said = getattr(body.model.get_submodule(call.path), "stride", (1, 1))
    stride = (said, said) if isinstance(said, int) else tuple(said)
    left = tuple(-(-side // step) for side, step in zip(given[2:], stride, strict=False))
    if given == node.shape:
        return 1, 1
    if len(stride) != 2 or given[:2] != node.shape[:2] or left != tuple(node.shape[2:]):
        seen, wanted = ("x".join(map(str, shape[1:])) for shape in (given, node.shape))
        raise CannotOperate(
            f"the spatial convolution of unit '{unit.name}' cannot be left out: it makes {wanted} out of {seen}; "
            "choose a unit that keeps its channels, or part='branch'"
        )
    return stride[0], stride[1]


def _spatial_convolutions(body: Dissection, unit: Unit) -> list[int]:
    nodes = [body.graph[i] for i in body.segment(unit).nodes]
    return [n.index for n in nodes if n.name in CONVOLUTIONS and mixes_positions(body.graph, n)]


def _is_bottleneck(body: Dissection, unit: Unit) -> bool:
    """One spatial convolution, and other linear maps that stay when it goes."""
    heavy = [i for i in body.segment(unit).nodes if body.graph[i].name in HEAVY]
    return unit.kind == "conv" and len(heavy) > 1 and len(_spatial_convolutions(body, unit)) == 1


def _call_of(body: Dissection, node: int) -> ModuleCall | None:
    """The call of a module that does nothing but this convolution."""
    source = body.graph[node].inputs[0]
    calls = [
        c for c in body.graph.calls if node in c.outputs.values() and list(c.inputs.values()) == [source]
    ]
    paths = [call.path for call in body.graph.calls]
    single = [call for call in calls if paths.count(call.path) == 1 and call.path]
    return min(single, key=lambda call: call.end - call.begin) if single else None
