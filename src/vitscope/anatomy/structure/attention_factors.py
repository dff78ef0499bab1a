"""The weights and values of an attention that is just being computed, whatever order their axes have."""

from dataclasses import dataclass

from torch import Tensor

from vitscope.anatomy.structure.unit import AttentionSite
from vitscope.anatomy.taps.intervene import Call
from vitscope.anatomy.watch.one_forward import scaled_dot_product_probabilities


@dataclass(frozen=True)
class Factors:
    """Weights and probabilities (..., queries, keys) and values (..., keys, channels) of one attention."""

    weights: Tensor
    probabilities: Tensor
    values: Tensor


def attention_factors(
    site: AttentionSite, call: Call, operands: list[Tensor] | None = None, softmax: Tensor | None = None
) -> Factors:
    """What is multiplied at a site.

    Args:
        site: Where attention is computed.
        call: The operation there.
        operands: Of the product, where that came before this operation; default: the operation's.
        softmax: The probabilities that were formed before.
    """
    if site.fused:
        return _fused_factors(call)
    operands = call.operands if operands is None else operands
    given = operands[site.weights_operand]
    others = operands[-1] if site.weights_operand != len(operands) - 1 else operands[-2]
    weights, values = oriented(site, given, "left"), oriented(site, others, "right")
    probabilities = weights
    if softmax is not None and softmax is not given:
        formed = _oriented_probabilities(site, softmax)
        probabilities = formed if formed.shape == weights.shape else weights
    elif site.softmax is None and site.formed is None:  # exponentials, whose product is divided by their sum
        probabilities = weights / weights.sum(-1, keepdim=True)
    return Factors(weights, probabilities, values)


def _fused_factors(call: Call) -> Factors:
    weights = scaled_dot_product_probabilities(*call.args, **call.kwargs)
    values = call.args[2] if len(call.args) > 2 else call.kwargs["value"]
    if call.kwargs.get("enable_gqa"):
        values = values.repeat_interleave(weights.shape[-3] // values.shape[-3], -3)
    return Factors(weights, weights, values)


def _oriented_probabilities(site: AttentionSite, softmax: Tensor) -> Tensor:
    if site.axes is not None and softmax.dim() == len(site.axes.left):
        return oriented(site, softmax, "left")
    return softmax.transpose(-2, -1) if site.formed_transposed else softmax


def oriented(site: AttentionSite, tensor: Tensor, part: str) -> Tensor:
    """The `left` factor (weights), the `right` one (values) or the `result` as a matrix product has them."""
    if site.axes is not None:
        return site.axes.in_order(tensor, part)
    return tensor.transpose(-2, -1) if site.weights_transposed else tensor


def as_given(site: AttentionSite, result: Tensor) -> Tensor:
    """Weights x values in the order in which the model has it."""
    if site.axes is not None:
        return site.axes.as_given(result)
    return result.transpose(-2, -1) if site.weights_transposed else result


def by_head(tensor: Tensor, site: AttentionSite) -> Tensor:
    """(images x windows, heads, rows, columns)."""
    if site.head_axis is None:
        return tensor.unflatten(0, (-1, site.heads)) if tensor.dim() == 3 else tensor
    tensor = tensor.movedim(site.head_axis, -3)
    return tensor.flatten(0, -4) if tensor.dim() > 4 else tensor
