"""Capture what flows through a model, and intervene, without touching the model.

    parts = vs.anatomy(model)
    with vs.Tap(model, parts, units=["blocks.3.attn"], features=True, attention=True) as tap:
        model(images)
    tap.features["blocks.3.attn"]              # (N, C, H, W)
    tap.attention["blocks.3.attn"][0].weights  # (N, heads, queries, keys)

With callbacks in the place of `features=True` nothing is stored. The operations tapped are those anatomy
watched: a pass in which another operation, another shape, or none is in their place raises `PathChanged`.
"""

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from torch import Tensor, nn

from vitscope.anatomy.structure.unit import Anatomy, AttentionSite, Unit
from vitscope.anatomy.taps.intervene import Call, TapWatch
from vitscope.anatomy.watch.one_forward import scaled_dot_product_probabilities, tensors_in
from vitscope.anatomy.watch.places import Places
from vitscope.core.arguments import checked
from vitscope.core.errors import VitscopeError

Stream = Literal["read", "sum"]  # after a unit: what the next unit reads, or the sum before an activation


@dataclass(frozen=True)
class AttentionMap:
    """What one MSA did in one pass.

    The first axis runs over images, and inside an image over windows where there are any.
    """

    weights: Tensor  # (N, heads, queries, keys): the matrix that multiplies the values
    probabilities: Tensor  # the same before heads are mixed, where a model does that: the softmax
    values: Tensor  # (N, heads, keys, channels)
    output: Tensor  # (N, heads, queries, channels): weights x values, before the module's own projection
    places: Places | None = None  # where the queries and keys lie on the map, where anatomy can tell


class Factors(NamedTuple):
    """Weights and probabilities (..., queries, keys) and values (..., keys, channels) of one attention."""

    weights: Tensor
    probabilities: Tensor
    values: Tensor


@dataclass(frozen=True)
class _Wanted:
    """What is wanted of one unit."""

    feature: bool
    stream: bool
    remove: bool
    edit: Callable[[Tensor], Tensor] | None


class Tap:
    """Context manager: inside it every forward pass of `model` is tapped; nothing of it stays when it is left.

    Args:
        model: The model that `parts` was made from.
        parts: Its anatomy.
        units: Names or units to tap; default: every unit with a map (for attention: every MSA).
        features: Store the stream after each unit in `.features`.
        attention: Store what each MSA does in `.attention`, a list per unit, in order.
        on_feature: Called with (unit, map); the map may be the live tensor: copy it to keep it.
        on_attention: Called with (unit, attention map).
        streams: Store (before, branch, after) of each residual unit, as the model lays them out.
        remove: Units whose branch is left out: the stream passes by.
        edit: By unit name, functions that replace the stream after it, as the model lays it out.
        explicit_attention: Compute every MSA as weights x values instead of by the model's own kernel.
        stream: Which tensor features and edits are of where an activation follows a unit's addition directly:
            "read", the activation's result, which is what the next unit reads, or "sum", what it is given.
    """

    @checked
    def __init__(
        self,
        model: nn.Module,
        parts: Anatomy,
        units: Iterable[str | Unit] | None = None,
        *,
        features: bool = False,
        attention: bool = False,
        on_feature: Callable[[Unit, Tensor], None] | None = None,
        on_attention: Callable[[Unit, AttentionMap], None] | None = None,
        streams: bool = False,
        remove: Iterable[str | Unit] = (),
        edit: dict[str, Callable[[Tensor], Tensor]] | None = None,
        explicit_attention: bool = False,
        stream: Stream = "read",
    ) -> None:
        self.features: dict[str, Tensor] = {}
        self.attention: dict[str, list[AttentionMap]] = {}
        self.streams: dict[str, tuple[Tensor, Tensor, Tensor]] = {}
        self._model, self._keep_features, self._keep_attention = model, features, attention
        self._on_feature, self._on_attention = on_feature, on_attention
        self._explicit, self._stream = explicit_attention, stream
        self._watch = TapWatch(parts)
        self._stack = ExitStack()
        chosen = {_find(parts, unit).name for unit in (parts if units is None else units)}
        removed = {_removable(_find(parts, unit)).name for unit in remove}
        edits = {_find(parts, name).name: function for name, function in (edit or {}).items()}
        wants_feature = features or on_feature is not None
        wants_attention = attention or on_attention is not None or explicit_attention
        for unit in parts:
            picked = unit.name in chosen
            asked = _Wanted(
                feature=picked and wants_feature and unit.map_shape is not None,
                stream=picked and streams and unit.residual,
                remove=unit.name in removed,
                edit=edits.get(unit.name),
            )
            self._tap_stream(unit, asked)
            if picked and wants_attention and unit.attention is not None:
                for site in unit.attention.sites:
                    self._tap_attention(unit, site)

    def __enter__(self) -> "Tap":
        self._stack.enter_context(self._watch.following(self._model, self._watch.paths()))
        self._stack.enter_context(self._watch)
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.close()

    def _tap_stream(self, unit: Unit, asked: _Wanted) -> None:
        later = unit.read_site if self._stream == "read" else None

        def finish(result: Any, after: Tensor) -> Any:
            if asked.edit is not None:
                result = after = asked.edit(after)
            if asked.feature:
                self._deliver_feature(unit, after)
            return result

        def handle(call: Call) -> Any:
            operands = call.operands
            kept = [operand.clone() for operand in operands[:2]] if asked.stream else []
            result = _leave_out(unit, operands) if asked.remove else call.run()
            outputs = list(tensors_in(result)) or operands[:1]  # an item assignment returns nothing
            after = outputs[unit.site.output]
            self._watch.check_shape(unit, after)
            if asked.stream:
                before, branch = kept[unit.stream_operand], kept[1 - unit.stream_operand]
                self.streams[unit.name] = (before, branch, after.clone())
            return finish(result, after) if later is None else result

        def handle_activation(call: Call) -> Any:
            result = call.run()
            self._watch.check_shape(unit, result)
            return finish(result, result)

        finishes = asked.feature or asked.edit is not None
        if asked.stream or asked.remove or (finishes and later is None):
            self._watch.expect(unit.site, unit, handle)
        if finishes and later is not None:
            self._watch.expect(later, unit, handle_activation)

    def _deliver_feature(self, unit: Unit, stream: Tensor) -> None:
        assert unit.view is not None
        feature = unit.view.read(stream)
        if self._on_feature is not None:
            self._on_feature(unit, feature)
        if self._keep_features:  # later in-place operations must not change what was captured
            self.features[unit.name] = feature.clone()

    def _tap_attention(self, unit: Unit, site: AttentionSite) -> None:
        kept: dict[str, Any] = {}

        def keep(call: Call) -> Any:
            kept["probabilities"] = result = call.run()
            return result

        def keep_factors(call: Call) -> Any:
            kept["operands"] = call.operands
            return call.run()

        def handle(call: Call) -> Any:
            seen = attention_factors(site, call, kept.pop("operands", None), kept.pop("probabilities", None))
            own = site.as_given(seen.weights @ seen.values) if self._explicit else call.run()
            weights, probabilities, values = map(site.by_head, seen)
            output = site.by_head(site.oriented(own, "result"))
            self._deliver_attention(unit, AttentionMap(weights, probabilities, values, output, site.places))
            return own

        formed = site.softmax or site.formed
        if formed is not None and formed != site.product:
            self._watch.expect(formed, unit, keep)
        if site.summed is not None:
            self._watch.expect(site.product, unit, keep_factors)
        self._watch.expect(site.summed or site.product, unit, handle)

    def _deliver_attention(self, unit: Unit, found: AttentionMap) -> None:
        if self._on_attention is not None:
            self._on_attention(unit, found)
        if self._keep_attention:
            self.attention.setdefault(unit.name, []).append(found)


def attention_factors(
    site: AttentionSite, call: Call, operands: list[Tensor] | None = None, softmax: Tensor | None = None
) -> Factors:
    """What is multiplied by the operation that is `call`ed at a site, whatever order the axes have there.

    `operands` are those of the product, where that came before this operation; `softmax`, probabilities formed before.
    """
    if site.fused:
        weights = scaled_dot_product_probabilities(*call.args, **call.kwargs)
        values = call.args[2] if len(call.args) > 2 else call.kwargs["value"]
        if call.kwargs.get("enable_gqa"):
            values = values.repeat_interleave(weights.shape[-3] // values.shape[-3], -3)
        return Factors(weights, weights, values)
    operands = call.operands if operands is None else operands
    given = operands[site.weights_operand]
    others = operands[-1] if site.weights_operand != len(operands) - 1 else operands[-2]
    weights, values = site.oriented(given, "left"), site.oriented(others, "right")
    probabilities = weights
    if softmax is not None and softmax is not given:
        if site.axes is not None and softmax.dim() == len(site.axes.left):
            softmax = site.oriented(softmax, "left")
        elif site.formed_transposed:
            softmax = softmax.transpose(-2, -1)
        probabilities = softmax if softmax.shape == weights.shape else weights
    elif site.softmax is None and site.formed is None:  # exponentials, whose product is divided by their sum
        probabilities = weights / weights.sum(-1, keepdim=True)
    return Factors(weights, probabilities, values)


def _find(parts: Anatomy, unit: str | Unit) -> Unit:
    return parts[unit] if isinstance(unit, str) else unit


def _removable(unit: Unit) -> Unit:
    if unit.obstacle is not None:
        raise VitscopeError(f"unit '{unit.name}' ({unit.kind}) cannot be removed: {unit.obstacle}")
    return unit


def _leave_out(unit: Unit, operands: list[Tensor]) -> Tensor:
    """The stream in place of the sum; written into the first operand where the addition is in place."""
    stream = operands[unit.stream_operand]
    if unit.site.name.endswith("_") and unit.stream_operand == 1:
        return operands[0].copy_(stream)
    return stream
