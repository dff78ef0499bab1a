"""Which parameters a landscape moves: the filters that the image's data is multiplied by.

Moved is a parameter that meets what the model makes of the image in a convolution, a linear map or another matrix
product, as it is or after steps of its own (a reshape, weight standardisation). All others stay where they are:

- biases, scales of norms and layers, and whatever has a single number per output;
- what is added: position embeddings, tables of relative positions, also those that networks make of coordinates;
- what stands beside the image's tokens: class, distillation and register tokens, learned queries;
- relative positions as factors of the queries: they too give a part of the scores of an attention, and nothing else;
- buffers.

A filter is what one output is made by: the numbers of a parameter that are summed over for it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vitscope.anatomy import preserved
from vitscope.anatomy.watch.example import example_batch
from vitscope.anatomy.watch.graph import Graph, Node, Ref
from vitscope.anatomy.watch.observe import observe
from vitscope.anatomy.watch.operations import CONVOLUTIONS, FUSED, HEAVY, MATRIX_PRODUCTS, SOFTMAX
from vitscope.core.errors import UnsupportedModel

_WEIGHT_PLACE = {"linear": 1, "bilinear": 2, **dict.fromkeys(CONVOLUTIONS, 1)}
_RECURRENT = frozenset(("lstm", "gru", "rnn_tanh", "rnn_relu"))
_SWAPS = frozenset(("t", "T", "mT", "H", "mH", "transpose", "swapaxes", "adjoint"))
_MASK_PLACE = 3  # of the scores' additional part among the arguments of fused attention


@dataclass(frozen=True, eq=False)
class Moved:
    """A parameter that is moved, and the axes that run inside one of its filters."""

    name: str
    parameter: nn.Parameter
    inside: tuple[int, ...]


def moved_parameters(model: nn.Module, example: Any = None) -> list[Moved]:
    """The moved parameters in the model's order; `example` as for `vs.anatomy`.

    Raises:
        UnsupportedModel: No parameter of the model multiplies what it is shown.
    """
    with preserved(model), torch.inference_mode(False):
        graph = observe(model, example_batch(model, example))
    leaves = {id(node.value): node.index for node in graph.nodes if node.name == "leaf"}
    found = []
    for name, parameter in model.named_parameters():
        if id(parameter) in leaves and parameter.is_floating_point():
            inside = _inside(graph, leaves[id(parameter)], parameter.ndim)
            if inside and any(parameter.shape[axis] > 1 for axis in inside):
                found.append(Moved(name, parameter, inside))
    if not found:
        raise UnsupportedModel(
            f"no parameter of {type(model).__name__} multiplies what it is shown; a landscape needs weights to move"
        )
    return found


def _inside(graph: Graph, leaf: int, axes: int) -> tuple[int, ...] | None:
    """The axes inside a filter of the parameter at `leaf`; None if it is no factor of the image's data."""
    reached, swapped = [leaf], {leaf: False}
    for index in reached:  # grows while it is read
        for user in graph.users[index]:
            node = graph[user]
            if node.dynamic:
                inside = _as_factor(graph, node, index)
                if inside is not None:
                    return _on_parameter(inside, len(graph[index].shape), axes, swapped[index])
            elif user not in swapped:
                swapped[user] = swapped[index] != (node.name in _SWAPS)
                reached.append(user)
    return None


def _as_factor(graph: Graph, node: Node, operand: int) -> tuple[int, ...] | None:
    """The axes of `operand` that `node` sums over; None if it is not what the data is multiplied by there."""
    axes = len(graph[operand].shape)
    if node.name in _RECURRENT:
        return tuple(range(1, axes))
    if node.name in _WEIGHT_PLACE:
        if _argument(node, _WEIGHT_PLACE[node.name], "weight") != Ref(operand):
            return None
        out = 1 if "transpose" in node.name else 0
        return tuple(axis for axis in range(axes) if axis != out)
    if node.name not in MATRIX_PRODUCTS or _gives_scores(graph, node.index):
        return None
    if node.name == "einsum":
        return _summed_by_einsum(node, operand)
    left = node.inputs[-2:].index(operand) == 0 if operand in node.inputs[-2:] else None
    if (
        left is None or axes < 2
    ):  # the term that addmm adds; a vector, of which a product makes a single number
        return None
    reverse = node.name == "__rmatmul__"
    return (axes - 1,) if left != reverse else (axes - 2,)


def _summed_by_einsum(node: Node, operand: int) -> tuple[int, ...] | None:
    equation, *operands = node.args
    refs = operands[0] if len(operands) == 1 and isinstance(operands[0], list | tuple) else operands
    if not isinstance(equation, str) or "->" not in equation or "." in equation:
        return None
    inputs, output = equation.replace(" ", "").split("->")
    letters = inputs.split(",")[list(refs).index(Ref(operand))]
    return tuple(axis for axis, letter in enumerate(letters) if letter not in output)


def _gives_scores(graph: Graph, product: int) -> bool:
    """Whether a product is a part of the scores of an attention: no other product lies between it and its softmax."""
    reached, seen = [product], {product}
    for index in reached:
        for node in (graph[user] for user in graph.users[index]):
            masks = node.name == FUSED and _argument(node, _MASK_PLACE, "attn_mask") == Ref(index)
            if node.name in SOFTMAX or masks:
                return any(graph[i].name in HEAVY for i in _after(graph, node.index)) or masks
            if node.name not in HEAVY and node.index not in seen:
                seen.add(node.index)
                reached.append(node.index)
    return False


def _after(graph: Graph, start: int) -> Iterator[int]:
    """Everything computed from `start`."""
    reached, seen = [start], {start}
    for index in reached:
        new = [user for user in graph.users[index] if user not in seen]
        seen.update(new)
        reached += new
        yield from new


def _argument(node: Node, place: int, keyword: str) -> Any:
    return node.args[place] if len(node.args) > place else node.kwargs.get(keyword)


def _on_parameter(inside: tuple[int, ...], shape: int, axes: int, swapped: bool) -> tuple[int, ...] | None:
    """Axes of the factor as axes of the parameter that it was made of; by first axis where it was reshaped."""
    if axes < 2:
        return None
    if shape != axes:
        return tuple(range(1, axes))
    last, before = axes - 1, axes - 2
    turn = {last: before, before: last} if swapped else {}
    return tuple(sorted(turn.get(axis, axis) for axis in inside))
