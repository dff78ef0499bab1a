"""Prove that a module is plain attention before another one takes its place.

What the module made in a pass of the model, `PlainAttention` with the projections that were read off it must make of
the same tokens, to rounding. How much the module drops is seen by running it in training mode.
"""

from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitscope.anatomy import Dissection, Unit, preserved
from vitscope.anatomy.watch.example import example_batch, example_inputs
from vitscope.anatomy.watch.one_forward import OperationMode
from vitscope.surgery.tools.graft import Grafted
from vitscope.surgery.tools.image_tokens import ImageTokens, image_tokens
from vitscope.surgery.tools.plain_attention import PlainAttention, UniformHead
from vitscope.surgery.tools.projections import Projections, not_plain
from vitscope.surgery.tools.record import CannotOperate


@dataclass(frozen=True)
class SeenCall:
    """One call of a module, with its tensors."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    output: Any


@dataclass(frozen=True)
class StandIn:
    """What is needed to build attention that computes what a module does."""

    projections: Projections
    tokens: ImageTokens
    outputs: int | None  # how many the module returns; None: the tensor alone
    dropout: tuple[float, float]  # of the weights, of the output

    @property
    def path(self) -> str:
        """The path of the module that is replaced."""
        return self.projections.call.path

    @property
    def heads(self) -> int:
        """How many heads it has."""
        return self.projections.query.weight.shape[0]

    def build(self, heads: int, uniform: UniformHead | None = None) -> PlainAttention:
        """Attention with the first `heads` heads, and a uniform one if given."""
        return PlainAttention(self.projections, heads, self.tokens, self.outputs, self.dropout, uniform)


def run_and_see(model: nn.Module, example: Any, paths: Iterable[str]) -> dict[str, SeenCall]:
    """Run the model on an example (as for `vs.anatomy`) and keep what some of its modules were given and gave."""
    seen: dict[str, SeenCall] = {}
    watched = {model.get_submodule(path): path for path in paths}

    def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
        seen[watched[module]] = SeenCall(args, kwargs, output)

    with preserved(model), torch.no_grad(), ExitStack() as hooks:
        for module in watched:
            hooks.callback(module.register_forward_hook(keep, with_kwargs=True).remove)
        if isinstance(example, Mapping):
            model(**example_inputs(model, example))
        else:
            model(example_batch(model, example))
    return seen


def refuse_grafted(body: Dissection, paths: Iterable[str]) -> None:
    """Refuse if anything was grafted to one of these modules: it would go with them."""
    for path in paths:
        if isinstance(body.model.get_submodule(path), Grafted):
            raise CannotOperate(
                f"'{path}' was operated on before, which would be lost; do uniform_heads first, the rest after it"
            )


def prove(body: Dissection, unit: Unit, projections: Projections, seen: SeenCall) -> StandIn:
    """Check that the projections make what the module makes, and that it does nothing besides."""
    call = projections.call
    module = body.model.get_submodule(call.path)
    refuse_grafted(body, [path for path, _ in module.named_modules(prefix=call.path)])
    tokens = image_tokens(body, call.inputs[projections.slot])
    if tokens is None or tokens.dimensions != 3 or tokens.channel_axis != 2 or tokens.parts_per_image != 1:
        raise not_plain(unit, "it works on something else than the tokens of an image")
    outputs = _outputs(unit, seen.output)
    wanted = seen.output if outputs is None else seen.output[projections.output_slot]
    with preserved(body.model):
        dropout = _dropout(unit, module, seen, wanted)
        stand_in = StandIn(projections, tokens, outputs, dropout)
        with torch.no_grad():
            made = stand_in.build(stand_in.heads).eval()(*seen.args, **seen.kwargs)
    made = made if outputs is None else made[projections.output_slot]
    allowed = torch.finfo(wanted.dtype).eps ** 0.5 * float(wanted.abs().max())
    if made.shape != wanted.shape or not float((made - wanted).abs().max()) <= allowed:
        raise not_plain(unit, "heads and projections alone do not give its output")
    return stand_in


def _outputs(unit: Unit, output: Any) -> int | None:
    if isinstance(output, Tensor):
        return None
    if type(output) is not tuple:
        raise not_plain(unit, f"it returns a {type(output).__name__}")
    return len(output)


def _dropout(unit: Unit, module: nn.Module, seen: SeenCall, output: Tensor) -> tuple[float, float]:
    """Of the attention weights and of the output, as the module does it in training."""
    module.train()
    with torch.no_grad(), _Drops() as drops:
        module(*seen.args, **seen.kwargs)
    on_output = {p for shape, p in drops.met if shape == output.shape}
    on_weights = {p for shape, p in drops.met if shape != output.shape}
    if len(on_output) > 1 or len(on_weights) > 1:
        raise not_plain(unit, "it drops in more than two places")
    return on_weights.pop() if on_weights else 0.0, on_output.pop() if on_output else 0.0


class _Drops(OperationMode):
    """Notes what is dropped out, and of what shape it is."""

    def __init__(self) -> None:
        super().__init__()
        self.met: list[tuple[torch.Size | None, float]] = []

    def operation(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Called in place of every torch operation."""
        if func is F.dropout:
            named = {**dict(zip(("input", "p", "training"), args, strict=False)), **kwargs}
            if named.get("training", True) and named.get("p", 0.5) > 0:
                self.met.append((named["input"].shape, float(named.get("p", 0.5))))
        elif func is F.scaled_dot_product_attention:
            rate = kwargs.get("dropout_p", args[4] if len(args) > 4 else 0.0)
            if rate > 0:
                self.met.append((None, float(rate)))  # of the weights, which nobody sees
        return func(*args, **kwargs)
