"""Read the projections of an MSA off the watched pass, whatever its module calls them.

    out = concat_h(softmax(scale · q_h k_hᵀ) v_h) Wo + bo        q_h = x Wq_h + bq_h, and so on

From where the attention is computed, the tensors are followed back to the linear maps that made them, through views
and permutations only. What these do to the channels is found by doing them again on a tensor of channel numbers. So it
is known which rows of which matrix make which head, packed or not, and which columns of the output projection read it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vitscope.anatomy import Dissection, Unit
from vitscope.anatomy.structure.layout import REARRANGE
from vitscope.anatomy.structure.naming import is_list
from vitscope.anatomy.structure.unit import AttentionSite
from vitscope.anatomy.taps.ports import why_shared
from vitscope.anatomy.watch.graph import Graph, ModuleCall, Node, Ref, Slot
from vitscope.surgery.tools.record import CannotOperate

PASSED = REARRANGE | {"contiguous", "clone", "to", "type_as", "float"}
SCALED = frozenset(("mul", "__mul__", "__rmul__", "div", "__truediv__", "mul_", "div_"))
PRODUCTS = frozenset(("matmul", "__matmul__", "bmm", "baddbmm"))


@dataclass(frozen=True)
class ElementPath:
    """From one node to a later one, by steps that only move elements, and scale them."""

    start: int
    steps: tuple[int, ...]
    factor: float


class Obstacle(Exception):
    """An operation that does more than to move elements; the argument is its name."""


@dataclass(frozen=True)
class ByHead:
    """One projection to the heads."""

    weight: Tensor  # (heads, channels of a head, width)
    bias: Tensor | None  # (heads, channels of a head)


@dataclass(frozen=True)
class Projections:
    """All that plain self-attention consists of, and the call of the module that holds it."""

    call: ModuleCall
    slot: Slot  # the argument that is attended to
    output_slot: Slot
    query: ByHead
    key: ByHead
    value: ByHead
    proj_weight: Tensor  # (width, heads, channels of a head)
    proj_bias: Tensor | None
    scale: float


def read_projections(body: Dissection, unit: Unit) -> Projections:
    """The projections of a unit's attention, if it is plain self-attention in a module of its own."""
    graph = body.graph
    site = _only_site(unit)
    product = _node(graph, site)
    (query, key, value), scale, softmax = _operands(graph, unit, site, product)
    paths = [_back(graph, unit, node, lambda node: node.name == "linear") for node in (query, key, value)]
    by_head = [_by_head(graph, site, path, turned=index == 1 and softmax) for index, path in enumerate(paths)]
    proj, columns = _output_projection(body, unit, site, product)
    heads, width = by_head[2].weight.shape[:2]
    weight = _constant(graph, proj.inputs[1])
    if weight.shape[1] != heads * width or by_head[0].weight.shape[0] != heads:
        raise not_plain(unit, "its heads do not fill its output projection")
    order = torch.argsort(columns)
    scale *= paths[0].factor * paths[1].factor
    sources = {graph[path.start].inputs[0] for path in paths}
    call, slot, output_slot = _holder(body, unit, sources, [path.start for path in paths], proj.index)
    _check_nothing_else(body, unit, call, [graph[path.start] for path in paths] + [proj])
    read = weight[:, order].unflatten(1, (heads, width))
    bias = _constant(graph, proj.inputs[2]) if len(proj.inputs) > 2 else None
    return Projections(call, slot, output_slot, by_head[0], by_head[1], by_head[2], read, bias, scale)


def not_plain(unit: Unit, why: str) -> CannotOperate:
    """The refusal, with its reason."""
    return CannotOperate(
        f"the attention of unit '{unit.name}' is not plain self-attention: {why}; choose layers without it, "
        "or variant='C', which leaves it as it is"
    )


def _only_site(unit: Unit) -> AttentionSite:
    if unit.attention is None or len(unit.attention.sites) != 1:
        raise not_plain(unit, "it is computed in several places")
    site = unit.attention.sites[0]
    if site.head_axis not in (1, None):
        raise not_plain(unit, "its heads do not come right after the images")
    return site


def _node(graph: Graph, site: AttentionSite) -> Node:
    return next(node for node in graph.nodes if node.site == site.product and node.dynamic)


def _back(graph: Graph, unit: Unit, node: int, wanted: Callable[[Node], bool]) -> ElementPath:
    try:
        return trace_back(graph, node, wanted)
    except Obstacle as obstacle:
        raise not_plain(unit, f"'{obstacle}' stands between its projections and its heads") from obstacle


def _operands(
    graph: Graph, unit: Unit, site: AttentionSite, product: Node
) -> tuple[tuple[int, int, int], float, bool]:
    """Queries, keys (the other way round if by hand) and values, what scales the scores, and whether it is by hand."""
    if site.fused:
        names = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal", "scale")
        given = {**dict(zip(names, product.args, strict=False)), **product.kwargs}
        if given.get("attn_mask") is not None or given.get("is_causal") or given.get("enable_gqa"):
            raise not_plain(unit, "it has a mask or a position bias")
        query, key, value = (given[name].node for name in names[:3])
        scale = given.get("scale")
        return (query, key, value), graph[query].shape[-1] ** -0.5 if scale is None else scale, False
    if site.softmax is None:
        raise not_plain(unit, "its probabilities are not formed by a softmax")
    softmax = next(node for node in graph.nodes if node.site == site.softmax and node.dynamic)
    path = _back(graph, unit, softmax.inputs[0], lambda node: node.name in PRODUCTS)
    scores = graph[path.start]
    if product.name not in PRODUCTS or site.weights_operand or site.weights_transposed:
        raise not_plain(unit, f"weights and values are multiplied by {product.name}")
    if len(scores.inputs) != 2:
        raise not_plain(unit, "it has a mask or a position bias")
    return (scores.inputs[0], scores.inputs[1], product.inputs[1]), path.factor, True


def _split_heads(tensor: Tensor, site: AttentionSite) -> Tensor:
    """(images, heads, tokens, channels)."""
    return tensor.unflatten(0, (-1, site.heads)) if tensor.dim() == 3 else tensor


def _by_head(graph: Graph, site: AttentionSite, path: ElementPath, turned: bool) -> ByHead:
    linear = graph[path.start]
    channels = torch.arange(linear.shape[-1]).expand(linear.shape).contiguous()
    heads = moved(graph, path, channels)
    heads = _split_heads(heads.transpose(-2, -1) if turned else heads, site)
    rows = heads[0, :, 0]  # of every image and token alike, or the comparison of outputs will tell
    bias = _constant(graph, linear.inputs[2])[rows] if len(linear.inputs) > 2 else None
    return ByHead(_constant(graph, linear.inputs[1])[rows], bias)


def _constant(graph: Graph, node: int) -> Tensor:
    value = graph[node].value
    assert value is not None  # weights do not depend on the image
    return value.detach()


def _output_projection(
    body: Dissection, unit: Unit, site: AttentionSite, product: Node
) -> tuple[Node, Tensor]:
    """The linear map that reads the heads, and which channel of the heads each of its columns reads."""
    graph = body.graph
    addition = body.segment(unit).addition
    assert addition is not None  # only residual units are chosen
    after = [i for i in addition.region if graph[i].name == "linear" and graph.descends(i, product.index)]
    if not after:
        raise not_plain(unit, "no linear map reads its heads")
    proj = graph[min(after)]
    path = _back(graph, unit, proj.inputs[0], lambda node: node.index == product.index)
    channels = _split_heads(torch.zeros(product.shape, dtype=torch.long), site)
    heads, width = channels.shape[1], channels.shape[-1]
    channels = channels + torch.arange(heads * width).view(heads, 1, width)
    columns = moved(graph, path, channels.reshape(product.shape)).flatten(0, -2)[0]
    return proj, columns


def _holder(
    body: Dissection, unit: Unit, sources: set[int], linears: list[int], proj: int
) -> tuple[ModuleCall, Slot, Slot]:
    """The smallest module that takes the tokens and gives back what the output projection makes of them."""
    graph = body.graph
    inside = [*linears, proj]
    for call in sorted(graph.calls, key=lambda call: call.end - call.begin):
        if not call.path or not all(call.begin <= i < call.end for i in inside):
            continue
        if sum(other.path == call.path for other in graph.calls) > 1:
            raise CannotOperate(f"{why_shared(body, unit)}, or choose layers without it")
        slots = [slot for slot, node in call.inputs.items() if all(moves(graph, node, s) for s in sources)]
        outputs = [slot for slot, node in call.outputs.items() if moves(graph, proj, node)]
        if slots and outputs and not is_list(body.model.get_submodule(call.path)):
            return call, slots[0], outputs[0]
        break
    raise not_plain(unit, "no module of its own takes its tokens and gives back what they become")


def _check_nothing_else(body: Dissection, unit: Unit, call: ModuleCall, linears: list[Node]) -> None:
    """Every parameter of the module must be in one of the projections: others may do nothing now and learn to."""
    graph = body.graph
    mine = {i for node in linears for i in node.inputs[1:]}
    mine |= {i for node in mine for i in range(node) if graph.descends(node, i)}
    known = {id(graph[i].value) for i in mine}
    module = body.model.get_submodule(call.path)
    others = [name for name, parameter in module.named_parameters() if id(parameter) not in known]
    if others:
        raise not_plain(unit, f"it has more parameters than its projections ({', '.join(others[:3])})")


def trace_back(graph: Graph, node: int, wanted: Callable[[Node], bool]) -> ElementPath:
    """Back from a node to the nearest one that is wanted; raises `Obstacle` where that is not to be had."""
    steps: list[int] = []
    factor = 1.0
    while not wanted(graph[node]):
        here = graph[node]
        dynamic = [i for i in here.inputs if graph[i].dynamic]
        number = _number(here)
        if len(dynamic) != 1 or not (here.name in PASSED or (here.name in SCALED and number is not None)):
            raise Obstacle(here.name)
        if here.name in SCALED and number is not None:
            factor *= 1 / number if "div" in here.name else number
        else:
            steps.append(node)
        node = dynamic[0]
    return ElementPath(node, tuple(reversed(steps)), factor)


def _number(node: Node) -> float | None:
    """What a tensor is multiplied with or divided by, if that is a number."""
    others = [value for value in node.args if not isinstance(value, Ref)]
    return float(others[0]) if len(others) == 1 and isinstance(others[0], int | float) else None


def moved(graph: Graph, path: ElementPath, tensor: Tensor) -> Tensor:
    """What becomes of a tensor at the start of a path."""
    for step in path.steps:
        node = graph[step]
        args, kwargs = _with(graph, node.args, tensor), _with(graph, node.kwargs, tensor)
        moved = tensor if node.name in ("to", "type_as", "float") else node.function(*args, **kwargs)
        tensor = moved[node.site.output] if isinstance(moved, tuple | list) else moved
    return tensor


def _with(graph: Graph, tree: Any, tensor: Tensor) -> Any:
    """Recorded arguments with a tensor in the place of the one that depends on the image."""
    if isinstance(tree, Ref):
        return tensor if graph[tree.node].dynamic else graph[tree.node].value
    if isinstance(tree, dict):
        return {key: _with(graph, value, tensor) for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        items = [_with(graph, value, tensor) for value in tree]
        return items if isinstance(tree, list) else tuple(items)
    return tree


def moves(graph: Graph, start: int, end: int) -> bool:
    """Whether a node is another one with its elements in other places."""
    while end != start:
        dynamic = [i for i in graph[end].inputs if graph[i].dynamic]
        if graph[end].name not in PASSED or len(dynamic) != 1:
            return False
        end = dynamic[0]
    return True
