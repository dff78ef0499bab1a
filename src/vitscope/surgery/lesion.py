"""Lesion: leave one unit of a trained model out, and see what it was good for.

    branch        stream + branch(stream)          ->  stream
    convolution   1x1 -> KxK convolution -> 1x1    ->  1x1 -> 1x1    (its norm and activation stay)

An MSA or an MLP is left out whole. Of a bottleneck the spatial convolution is, as in the papers, and the 1x1
convolutions around it stay; of a conv unit without such a middle, the branch is.
"""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from vitscope.anatomy import Dissection, Unit, dissect
from vitscope.anatomy.graph import ModuleCall
from vitscope.anatomy.ports import silencing_port
from vitscope.anatomy.residual import CONVOLUTIONS, HEAVY, mixes_positions
from vitscope.anatomy.shared_modules import why_shared
from vitscope.surgery.branches import one_of
from vitscope.surgery.graft import graft, graft_at
from vitscope.surgery.record import CannotOperate, Done, operation

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
    """What a module is given, in the place of what it makes of it."""

    def forward(self, run: Any, x: Tensor) -> Tensor:
        """The input."""
        return x + silenced(run(x)) if self.training else x


@operation
def lesion(model: nn.Module, unit: str | Unit, part: Part | None = None, *, example: Any = None) -> Done:
    """Leave one unit out; `vs.surgery.undo(model)` puts it back.

    Args:
        model: Is changed in place; the weights of what is left out stay where they are.
        unit: Its name, as `vs.anatomy` gives it, or the unit.
        part: "branch", "convolution" (a bottleneck's spatial one), or None: as the formulas above say.
        example: As for `vs.anatomy`.
    """
    if part is not None:
        one_of("part", part, ("branch", "convolution"))
    body = dissect(model, example)
    chosen = body.parts[unit if isinstance(unit, str) else unit.name]
    middle = _spatial_convolutions(body, chosen)
    if part is None:
        part = "convolution" if _is_bottleneck(body, chosen, middle) else "branch"
    path = (
        _remove_branch(model, body, chosen)
        if part == "branch"
        else _remove_middle(model, body, chosen, middle)
    )
    options: dict[str, Any] = {"unit": chosen.name, "part": part}
    if example is not None:
        options["example"] = list(body.parts.input_shape)
    return Done(options, [chosen.name], [path])


def _remove_branch(model: nn.Module, body: Dissection, unit: Unit) -> str:
    if unit.obstacle is not None:
        raise CannotOperate(
            f"unit '{unit.name}' ({unit.kind}) cannot be left out: {unit.obstacle}; choose another unit"
        )
    return graft_at(model, silencing_port(body, unit), Silence(), "lesion")


def _remove_middle(model: nn.Module, body: Dissection, unit: Unit, middle: list[int]) -> str:
    if len(middle) != 1:
        instead = "use part='branch'" if unit.removable else "choose another unit"
        raise CannotOperate(
            f"unit '{unit.name}' ({unit.kind}) has {len(middle)} spatial convolutions, not one between 1x1s; {instead}"
        )
    node = body.graph[middle[0]]
    given = body.graph[node.inputs[0]].shape
    if given != node.shape:
        seen, wanted = ("x".join(map(str, shape[1:])) for shape in (given, node.shape))
        raise CannotOperate(
            f"the spatial convolution of unit '{unit.name}' cannot be left out: it makes {wanted} out of {seen}; "
            "choose a unit that keeps its shape"
        )
    call = _call_of(body, node.index)
    if call is None:
        shared = why_shared(body, unit)
        if shared is not None:
            raise CannotOperate(f"{shared}, or choose another unit")
        raise CannotOperate(
            f"the spatial convolution of unit '{unit.name}' is no module of its own; write it as an nn.Conv2d"
        )
    return graft(model, call.path, Bypass(), "lesion", "around")


def _spatial_convolutions(body: Dissection, unit: Unit) -> list[int]:
    nodes = [body.graph[i] for i in body.segment(unit).nodes]
    return [n.index for n in nodes if n.name in CONVOLUTIONS and mixes_positions(body.graph, n)]


def _is_bottleneck(body: Dissection, unit: Unit, middle: list[int]) -> bool:
    """One spatial convolution, and other linear maps that stay when it goes."""
    heavy = [i for i in body.segment(unit).nodes if body.graph[i].name in HEAVY]
    return unit.kind == "conv" and len(middle) == 1 and len(heavy) > 1


def _call_of(body: Dissection, node: int) -> ModuleCall | None:
    """The call of a module that does nothing but this convolution."""
    source = body.graph[node].inputs[0]
    calls = [
        c for c in body.graph.calls if node in c.outputs.values() and list(c.inputs.values()) == [source]
    ]
    paths = [call.path for call in body.graph.calls]
    single = [call for call in calls if paths.count(call.path) == 1 and call.path]
    return min(single, key=lambda call: call.end - call.begin) if single else None
