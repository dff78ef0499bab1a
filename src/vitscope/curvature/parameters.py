"""Which parameters: those a Hessian is taken over, and those a landscape moves.

A Hessian is taken over all that learn, a module's, a pattern's, or those of a kind of unit.

A landscape moves the filters that the image's data is multiplied by: a parameter that meets what the model makes of the
image in a convolution, a linear map or another matrix product, as it is or after steps of its own (a reshape, weight
standardisation). All others stay where they are:

- biases, scales of norms and layers, and whatever has a single number per output;
- what is added: position embeddings, tables of relative positions, also those that networks make of coordinates;
- what stands beside the image's tokens: class, distillation and register tokens, learned queries;
- relative positions as factors of the queries: they too give a part of the scores of an attention, and nothing else;
- buffers.

A filter is what one output is made by: the numbers of a parameter that are summed over for it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import nn

from vitscope.anatomy import Anatomy, preserved
from vitscope.anatomy.structure.residual import HEAVY
from vitscope.anatomy.taps.attention_map import FUSED, SOFTMAX
from vitscope.anatomy.watch.example import example_batch
from vitscope.anatomy.watch.graph import Graph, Node, Ref
from vitscope.anatomy.watch.observe import observe
from vitscope.anatomy.watch.operations import CONVOLUTIONS, MATRIX_PRODUCTS
from vitscope.core.arguments import checked
from vitscope.core.errors import UnsupportedModel, VitscopeError

_KIND = "kind:"
_WEIGHT_PLACE = {"linear": 1, "bilinear": 2, **dict.fromkeys(CONVOLUTIONS, 1)}
_RECURRENT = frozenset(("lstm", "gru", "rnn_tanh", "rnn_relu"))
_SWAPS = frozenset(("t", "T", "mT", "H", "mH", "transpose", "swapaxes", "adjoint"))
_MASK_PLACE = 3  # of the scores' additional part among the arguments of fused attention


@checked
def select_parameters(
    model: nn.Module, params: str | None = None, parts: Anatomy | None = None
) -> dict[str, nn.Parameter]:
    """Parameters by name, in the model's order; one that is tied to another appears once.

    Args:
        model: The model.
        params: None takes every parameter that learns. Otherwise comma-separated choices, each a module or parameter
            ("layer4"), a pattern of one ("blocks.*.attn"), or "kind:msa" for every unit of a kind; those are taken
            whether they learn or not.
        parts: The model's anatomy; needed for "kind:" only.
    """
    if params is None:
        chosen = {name: p for name, p in model.named_parameters() if p.requires_grad}
        if not chosen:
            raise VitscopeError(
                f"no parameter of {type(model).__name__} learns (requires_grad); name those to take: params='*'"
            )
        return chosen
    taken: dict[int, tuple[str, nn.Parameter]] = {}
    for choice in (part.strip() for part in params.split(",")):
        modules = _modules_of_kind(choice[len(_KIND) :], parts) if choice.startswith(_KIND) else [choice]
        found = [
            (name, p)
            for name, p in model.named_parameters(remove_duplicate=False)
            if any(_belongs(name, module) for module in modules)
        ]
        if not found:
            tops = ", ".join(dict.fromkeys(name.split(".")[0] for name, _ in model.named_parameters()))
            raise VitscopeError(
                f"params='{choice}' matches no parameter of {type(model).__name__}; its modules are {tops}"
            )
        for name, parameter in found:
            taken.setdefault(id(parameter), (name, parameter))
    in_order = [id(p) for p in model.parameters() if id(p) in taken]
    return dict(taken[key] for key in in_order)


def _belongs(name: str, pattern: str) -> bool:
    """Whether the parameter's name, or that of a module around it, matches."""
    parts = name.split(".")
    return any(fnmatchcase(".".join(parts[:end]), pattern) for end in range(1, len(parts) + 1))


def _modules_of_kind(kind: str, parts: Anatomy | None) -> list[str]:
    if parts is None:
        raise VitscopeError(f"params='{_KIND}{kind}' needs the model's anatomy; give parts=vs.anatomy(model)")
    units = parts.of_kind(kind)
    if not units:
        there = ", ".join(dict.fromkeys(unit.kind for unit in parts))
        raise VitscopeError(f"{parts.model_name} has no unit of kind '{kind}'; it has {there}")
    owners = {unit.module for unit in units}
    for other in (part for part in parts if part.kind != kind):
        shared = [o for o in owners if _within(o, other.module) or _within(other.module, o)]
        if shared:
            raise VitscopeError(
                f"the {kind} unit in '{shared[0]}' shares its module with the {other.kind} unit '{other.name}'; "
                "name the parameters instead, such as params='blocks.*.attn'"
            )
    return sorted(owners)


def _within(inner: str, outer: str) -> bool:
    return inner == outer or outer == "" or inner.startswith(outer + ".")


@dataclass(frozen=True, eq=False)
class Moved:
    """A parameter that is moved, and the axes that run inside one of its filters."""

    name: str
    parameter: nn.Parameter
    inside: tuple[int, ...]


def moved_parameters(model: nn.Module, example: Any = None) -> list[Moved]:
    """The moved parameters in the model's order; `example` as for `vs.anatomy`."""
    with preserved(model), torch.inference_mode(False):
        graph = observe(model, example_batch(model, example), whole=True)
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
    factors = node.inputs[-2:]
    if operand not in factors or axes < 2:  # the term that addmm adds; a vector, which makes a single number
        return None
    reverse = node.name == "__rmatmul__"
    return (axes - 1,) if (operand == factors[0]) != reverse else (axes - 2,)


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
    turn = {axes - 1: axes - 2, axes - 2: axes - 1} if swapped else {}
    return tuple(sorted(turn.get(axis, axis) for axis in inside))
