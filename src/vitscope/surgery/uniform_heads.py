"""Uniform attention among the heads of an MSA (UA Table 1).

    A   one head becomes uniform: the mean of its values takes the place of softmax(q kᵀ / √d) v. Its part of the
        query and the key projections is no longer needed and goes.
    B   as A, and the uniform head gets twice as many values, so that the number of parameters is what it was.
    C   a uniform head is appended, with 2d values in a model d wide.

The paper says no more than "one of the heads", "adjusted to be comparable", "an extra head", and the parameters of
ViT-S: 22 M become 21, 22 and 29 M. This reading gives 21.46, 22.05 and 29.14 M.

A and B keep every weight of the other heads, and the values of the head that becomes uniform, the last. What is new
counts for nothing at the start (`vitscope.surgery.tools.plain_attention`): B starts as A, and C as the model it was.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from vitscope.anatomy import Dissection, Unit, dissect
from vitscope.anatomy.structure.naming import is_list
from vitscope.anatomy.taps.ports import why_shared
from vitscope.anatomy.watch.graph import Slot
from vitscope.anatomy.watch.operations import HEAVY
from vitscope.surgery.tools.attention_replacement import StandIn, prove, refuse_grafted, run_and_see
from vitscope.surgery.tools.choose import Example, Layers, choose_units
from vitscope.surgery.tools.graft import graft
from vitscope.surgery.tools.image_tokens import image_tokens, tokens_off_the_grid
from vitscope.surgery.tools.map_source import MapNotes
from vitscope.surgery.tools.plain_attention import UniformHead, by_slot
from vitscope.surgery.tools.projections import read_projections
from vitscope.surgery.tools.record import CannotOperate, Done, operation

Variant = Literal["A", "B", "C"]


class AppendedHead(nn.Module):
    """Runs an attention module and adds what a uniform head makes of the same tokens: of the argument in `slot`, to the
    output in `output_slot` if there are several."""

    def __init__(self, head: UniformHead, slot: Slot, output_slot: Slot) -> None:
        super().__init__()
        self.head, self.slot, self.output_slot = head, slot, output_slot

    def forward(self, run: Any, *args: Any, **kwargs: Any) -> Any:
        """Call `run` with these arguments."""
        output = run(*args, **kwargs)
        added = self.head(by_slot(args, kwargs)[self.slot])
        if isinstance(output, Tensor):
            return output + added
        return tuple(value + added if i == self.output_slot else value for i, value in enumerate(output))


@operation
def uniform_heads(
    model: nn.Module, variant: Variant = "A", layers: Layers = "all", *, example: Example = None
) -> Done:
    """Give the MSAs of a model a head of uniform attention.

    Args:
        model: Is changed in place.
        variant: "A" (one head becomes uniform), "B" (and wider, to keep the parameters) or "C" (one more head).
        layers: "all", "upper" (the later half), "lower", or a list of unit names, patterns and positions.
        example: As for `vs.anatomy`.
    """
    body = dissect(model, example)
    units = choose_units(body.parts, ("msa",), layers)
    names = [unit.name for unit in units]
    if variant == "C":
        notes = MapNotes(body)
        places = [_place(body, unit, notes) for unit in units]
        grafts = [graft(model, path, head, "uniform_head", "around") for path, head in places]
        grafts += notes.graft(model)
    else:
        grafts = []
        _replace(model, example, _stand_ins(body, units, example), variant)
    options = {"variant": variant, "layers": names}
    return Done(options, names, grafts, why_none=f"there is no MSA unit in layers={layers!r}")


def _stand_ins(body: Dissection, units: Sequence[Unit], example: Any) -> list[StandIn]:
    for unit in units:
        sites = unit.attention.sites if unit.attention is not None else ()
        refuse_grafted(body, {unit.module, *(site.product.path for site in sites)})
    found = [read_projections(body, unit) for unit in units]
    seen = run_and_see(body.model, example, [one.call.path for one in found])
    proved = [prove(body, unit, one, seen[one.call.path]) for unit, one in zip(units, found, strict=True)]
    for unit, one in zip(units, proved, strict=True):
        if one.heads == 1:
            raise CannotOperate(
                f"unit '{unit.name}' has one head, without which it would not attend; use variant='C', "
                "which appends one"
            )
    return proved


def _replace(model: nn.Module, example: Any, places: list[StandIn], variant: Variant) -> None:
    """Put attention with a uniform head in place of attention."""
    for place in places:
        attention = place.build(place.heads - 1, _uniform(place, 2 if variant == "B" else 1))
        model.set_submodule(place.path, attention.train(model.get_submodule(place.path).training))
    try:
        run_and_see(model, example, [])
    except Exception as error:  # whatever the model asks of its attention besides calling it
        raise CannotOperate(
            f"{type(model).__name__} does more with its attention modules than to call them ({error}); "
            "use variant='C', which leaves them in place"
        ) from error


def _uniform(place: StandIn, times: int) -> UniformHead:
    """The last head with uniform attention; its values are kept, and `times` as many in all."""
    value, read = place.projections.value, place.projections.proj_weight
    weight, width = value.weight[-1], value.weight.shape[1]
    head = UniformHead(place.tokens, weight.shape[1], times * width, len(read), value.bias is not None)
    head.to(weight.device, weight.dtype)
    with torch.no_grad():
        head.value.weight[:width] = weight
        if value.bias is not None:
            head.value.bias[:width] = value.bias[-1]
        head.proj.weight[:, :width] = read[:, -1]
    return head


def _place(body: Dissection, unit: Unit, notes: MapNotes) -> tuple[str, AppendedHead]:
    """The path of the smallest module that takes a unit's tokens and does its attention with all that follows in its
    branch, and the head that is appended to it."""
    graph, addition = body.graph, body.segment(unit).addition
    assert addition is not None  # only residual units are chosen
    region = {*addition.region, addition.entry}
    sites = [site.product for site in unit.attention.sites] if unit.attention is not None else []
    attends = [i for i in addition.region if graph[i].site in sites]
    after = [i for i in addition.region if any(graph.descends(i, product) for product in attends)]
    heavy = [*attends, *(i for i in after if graph[i].name in HEAVY)]
    for call in sorted(graph.calls, key=lambda call: call.end - call.begin):
        outputs = [slot for slot, node in call.outputs.items() if node in region]
        inputs = [slot for slot, node in call.inputs.items() if node in region]
        if not call.path or not inputs or not outputs or not all(call.begin <= i < call.end for i in heavy):
            continue
        source, result = call.inputs[inputs[0]], call.outputs[outputs[0]]
        tokens = image_tokens(body, source, notes)
        padded = tokens_off_the_grid(body, source) > tokens_off_the_grid(body, addition.node)
        if sum(other.path == call.path for other in graph.calls) > 1:
            raise CannotOperate(f"{why_shared(body, unit)}, or choose layers without it")
        listed = is_list(body.model.get_submodule(call.path))
        if tokens is None or tokens != image_tokens(body, result) or padded or listed:
            break
        taken, given = (graph[node].shape[tokens.channel_axis] for node in (source, result))
        head = UniformHead(tokens, taken, 2 * taken, given)
        return call.path, AppendedHead(head, inputs[0], outputs[0])
    raise CannotOperate(
        f"no module of its own takes the tokens of unit '{unit.name}' and gives back what its attention makes of "
        "them; choose layers without it"
    )
