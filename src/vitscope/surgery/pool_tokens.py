"""A head that reads the mean of the patch tokens where it read the class token.

    c = 1/N sum_j x_j    over the N patch tokens after the final norm; stands in the place of every prefix token

With class_token="drop" the prefix tokens are also taken out of the stream before the first unit that has them, so that
no attention sees them, and the means are put in front again where the head reads. No parameters are added.
"""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from vitscope.anatomy import Dissection, Unit, dissect
from vitscope.anatomy.structure.layout import PICKS
from vitscope.anatomy.taps.ports import Port, port_at, why_shared
from vitscope.core.errors import UnsupportedModel
from vitscope.surgery.tools.choose import Example
from vitscope.surgery.tools.graft import graft_at
from vitscope.surgery.tools.image_tokens import Readout, head_reads, tokens_off_the_grid
from vitscope.surgery.tools.record import CannotOperate, Done, operation


class PooledPrefix(nn.Module):
    """The patch tokens with their mean in front, once for every prefix token; `dropped` ones are not there any more."""

    def __init__(self, axis: int, prefix: int, dropped: bool) -> None:
        super().__init__()
        self.axis, self.prefix, self.dropped = axis, prefix, dropped

    def forward(self, x: Tensor) -> Tensor:
        """All tokens, the first ones being means."""
        patches = x if self.dropped else _without(x, self.axis, self.prefix)
        mean = patches.mean(self.axis, keepdim=True)
        return torch.cat((*[mean] * self.prefix, patches), self.axis)

    def extra_repr(self) -> str:
        """How many prefix tokens, and whether they were dropped."""
        return f"prefix={self.prefix}, dropped={self.dropped}"


class WithoutPrefix(nn.Module):
    """The patch tokens alone."""

    def __init__(self, axis: int, prefix: int) -> None:
        super().__init__()
        self.axis, self.prefix = axis, prefix

    def forward(self, x: Tensor) -> Tensor:
        """All tokens but the first ones."""
        return _without(x, self.axis, self.prefix)

    def extra_repr(self) -> str:
        """How many prefix tokens go."""
        return f"prefix={self.prefix}"


@operation
def pool_tokens(
    model: nn.Module, class_token: Literal["keep", "drop"] = "keep", *, example: Example = None
) -> Done:
    """Let the head read the mean of the patch tokens instead of its class token.

    Args:
        model: Is changed in place.
        class_token: "keep": it stays in the stream, only the head does without it. "drop": it goes altogether.
        example: As for `vs.anatomy`.
    """
    body = dissect(model, example)
    readout = head_reads(body, model, example)
    options = {"class_token": class_token}
    if readout is None or not readout.read:
        why = "its head reads no class token" if readout else "its last stream has no prefix tokens"
        return Done(options, [], why_none=why)
    if readout.prefix != tuple(range(len(readout.prefix))):
        raise CannotOperate(
            f"the prefix tokens of this {body.parts.model_name} do not stand first but at {list(readout.prefix)}; "
            "only leading ones can be replaced"
        )
    axis, prefix = readout.tokens.token_axes[0], len(readout.prefix)
    last = _before_head(body, readout)
    grafts = []
    if class_token == "drop":
        _refuse_if_taken_apart(body, readout)
        grafts.append(graft_at(model, _entrance(body), WithoutPrefix(axis, prefix), "without_prefix"))
    pooled = PooledPrefix(axis, prefix, dropped=class_token == "drop")
    grafts.append(graft_at(model, last, pooled, "pooled_prefix"))
    _check(model, body, example, class_token)
    return Done(options, [path.rpartition(".")[0] for path in grafts], grafts)


def _without(x: Tensor, axis: int, prefix: int) -> Tensor:
    return x.narrow(axis, prefix, x.shape[axis] - prefix)


def _before_head(body: Dissection, readout: Readout) -> Port:
    """The last port through which all tokens go; after the final norm, if there is one."""
    end = body.segment(readout.unit).end
    for node in reversed(list(body.graph.trunk())):
        whole = node >= end and body.graph[node].shape == body.graph[end].shape
        if whole and tokens_off_the_grid(body, node) == len(readout.prefix) and (port := port_at(body, node)):
            return port
    raise CannotOperate(
        f"no module of this {body.parts.model_name} gives or takes the tokens that its head reads; "
        "put an nn.Identity where it picks the class token"
    )


def _entrance(body: Dissection) -> Port:
    """Where the stream comes to the first unit that has prefix tokens in it."""
    unit = _units_with_prefix(body)[0]
    entry = body.segment(unit).start
    port = port_at(body, entry, sides=("input", "output"))  # after whatever else is done to all tokens
    if port is None:
        if shared := why_shared(body, unit):
            raise CannotOperate(f"{shared}, or use class_token='keep'")
        raise CannotOperate(
            f"no module of this {body.parts.model_name} gives or takes the stream before unit '{unit.name}'; "
            "use class_token='keep'"
        )
    return port


def _refuse_if_taken_apart(body: Dissection, readout: Readout) -> None:
    """Without its prefix tokens a unit that picks them from the stream would pick patches, and nobody would notice."""
    first = body.segment(_units_with_prefix(body)[0]).start
    for node in body.graph.between(first, body.segment(readout.unit).end):
        if body.graph[node].name not in PICKS:
            continue
        before, after = (_kinds_of_tokens(body, i) for i in (body.graph[node].inputs[0], node))
        if len(before) == 2 and len(after) == 1:
            raise CannotOperate(
                f"this {body.parts.model_name} takes its prefix tokens from the others in "
                f"'{body.graph[node].site.path}'; use class_token='keep'"
            )


def _kinds_of_tokens(body: Dissection, node: int) -> set[bool]:
    """True if points of the map are in a tensor, False if other tokens are."""
    layout = body.layouts[node]
    return set((layout.positions >= 0).unique().tolist()) if layout is not None else set()


def _units_with_prefix(body: Dissection) -> list[Unit]:
    return [unit for unit in body.parts.mapped if unit.residual and unit.prefix_tokens]


def _check(model: nn.Module, before: Dissection, example: Any, class_token: str) -> None:
    """The head must read no prefix token any more, and units without them be what they were."""
    try:
        after = dissect(model, example)
        readout = head_reads(after, model, example)
        if readout is not None and readout.read:
            raise UnsupportedModel(f"its head still reads token {readout.read[0]}")
        for unit in _units_with_prefix(before) if class_token == "drop" else ():
            now = next((u for u in after.parts if u.name == unit.name), None)
            if now is None or (now.map_shape, now.prefix_tokens) != (unit.map_shape, 0):
                raise UnsupportedModel(f"unit '{unit.name}' has no {unit.map_shape} map without them")
    except UnsupportedModel as error:
        remedy = "use class_token='keep'" if class_token == "drop" else "its head cannot be changed this way"
        what = f"this {before.parts.model_name} does not do without its prefix tokens"
        raise CannotOperate(f"{what} ({error.__cause__ or error}); {remedy}") from error
