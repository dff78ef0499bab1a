"""Which operations carry something from one point of the map to another, element by element as well.

Convolutions, attention, pools over windows, shifts and Fourier transforms do by what they are. Of others the axis
decides that they sum, sort or accumulate along: the tokens, or the channels of each. Positions tell (`layout.py`):

    W @ t, einsum("ij,njc->nic", W, t), t.cumsum(1)      along the tokens: mixes
    t @ V, einsum("nic,cd->nid", t, V), t.cumsum(2)      along the channels: does not

A rearrangement mixes if elements do not come back to their own points: `t[:, order]`, `t.flip(1)`.

Attention whose products are written out: factors are multiplied element by element and summed over an axis.

    scores = (q[:, :, None] * k[:, None]).sum(-1)          (images, queries, keys)
    result = (scores.softmax(-1)[..., None] * v[:, None]).sum(2)

The axis that only the weights have runs over queries, the one that only the values have over channels; the sum runs
over the keys, which are points of the map.
"""

from vitscope.anatomy.structure.layout import Layouts
from vitscope.anatomy.structure.residual import Addition, ends_elsewhere
from vitscope.anatomy.watch import operations as ops
from vitscope.anatomy.watch.graph import Graph, Node
from vitscope.anatomy.watch.operations import CONVOLUTIONS, MATRIX_PRODUCTS, MULTIPLICATIONS, mixes_positions
from vitscope.anatomy.watch.places import constant_along

STEPS = 8  # operations between the softmax and the products around it


def mixes_points(graph: Graph, layouts: Layouts, node: Node) -> bool:
    """Whether each point of the result depends on several points, and that is what the operation is for."""
    if node.name in ops.WINDOW_POOLS | ops.TRANSFORMS | ops.RECURRENT:
        return True
    if node.name in MATRIX_PRODUCTS and mixes_positions(graph, node):
        return True
    if node.name in MATRIX_PRODUCTS or node.name == "tensordot":
        return any(_varies(layouts, i, axes) for i, axes in _summed_axes(graph, node))
    if node.name == "linear" or node.name in CONVOLUTIONS:
        return _varies(layouts, node.inputs[0], [-1 if node.name == "linear" else 1])
    if node.name in ops.ALONG_AN_AXIS:
        axes = _dimensions(node, len(graph[node.inputs[0]].shape))
        return _varies(layouts, node.inputs[0], axes or [-1])
    return False


def pools_points(graph: Graph, layouts: Layouts, node: Node, branch: list[int]) -> bool:
    """Whether points are averaged, added up or the like, and the result handed to all of them. That alone makes no
    mixer: a context in an MLP does it beside the MLP's own work. A gate, a factor of the points, is none."""
    if node.name not in ops.REDUCTIONS or not node.inputs or _gates(graph, node.index, branch):
        return False
    rank = len(graph[node.inputs[0]].shape)
    axes = _dimensions(node, rank)
    return _varies(layouts, node.inputs[0], axes if axes is not None else list(range(rank)))


def _gates(graph: Graph, pooled: int, branch: list[int]) -> bool:
    """Whether something else of the branch is multiplied by what comes of the pooled values."""
    for i in branch:
        own = [k == pooled or graph.descends(k, pooled) for k in graph.dynamic_inputs(graph[i])]
        if graph[i].name in ops.PRODUCTS_BY_ELEMENT and any(own) and not all(own):
            return True
    return False


def moves_points(graph: Graph, layouts: Layouts, addition: Addition) -> bool:
    """Whether what a branch makes out of the stream stands at other points at its end than it came from."""
    start, end = addition.stream, addition.branch
    if graph[start].shape != graph[end].shape or not any(graph[i].name in ops.MOVES for i in addition.region):
        return False
    return ends_elsewhere(layouts, start, end)


def _varies(layouts: Layouts, node: int, axes: list[int]) -> bool:
    """Whether positions change along one of the axes."""
    layout = layouts[node]
    return layout is not None and any(not constant_along(layout.positions, axis) for axis in axes)


def _dimensions(node: Node, rank: int) -> list[int] | None:
    """The axes an operation was told to work along; None if it was not told."""
    given = node.kwargs.get("dim", node.kwargs.get("axis", node.args[1] if len(node.args) > 1 else None))
    if isinstance(given, bool) or not isinstance(given, int | list | tuple):
        return None
    axes = [given] if isinstance(given, int) else [axis for axis in given if isinstance(axis, int)]
    return [axis % rank for axis in axes]


def _summed_axes(graph: Graph, node: Node) -> list[tuple[int, list[int]]]:
    """The factors of a product that depend on the image, each with the axes it is summed over."""
    if node.name == "einsum":
        found = _summed_by_einsum(graph, node)
    elif node.name == "tensordot":
        found = _summed_by_tensordot(graph, node)
    else:
        left, right = node.inputs[-2:][::-1] if node.name == "__rmatmul__" else node.inputs[-2:]
        found = [(left, [-1]), (right, [-2 if len(graph[right].shape) > 1 else -1])]
    return [(i, axes) for i, axes in found if graph[i].dynamic]


def _summed_by_einsum(graph: Graph, node: Node) -> list[tuple[int, list[int]]]:
    equation = node.args[0]
    if not isinstance(equation, str) or "->" not in equation:
        return []
    terms, result = equation.replace(" ", "").split("->")
    found = []
    for term, operand in zip(terms.split(","), node.inputs, strict=True):
        front, _, back = term.partition("...")
        places = dict(enumerate(front))
        places |= {axis - len(back): letter for axis, letter in enumerate(back)}
        found.append((operand, [axis for axis, letter in places.items() if letter not in result]))
    return found


def _summed_by_tensordot(graph: Graph, node: Node) -> list[tuple[int, list[int]]]:
    given = node.kwargs.get("dims", node.args[2] if len(node.args) > 2 else 2)
    left, right = node.inputs[:2]
    if isinstance(given, int):
        return [(left, list(range(-given, 0))), (right, list(range(given)))]
    first, second = ([axes] if isinstance(axes, int) else list(axes) for axes in given)
    return [(left, first), (right, second)]


def weighted_sum(graph: Graph, layouts: Layouts, softmax: Node, axis: int) -> tuple[Node, int, Node] | None:
    """The product of values and probabilities over `axis`, its factor that is the weights, and the sum over keys."""
    frontier = [softmax.index]
    for _ in range(STEPS):
        users = [(source, graph[user]) for source in frontier for user in graph.users[source]]
        for weights, product in users:
            summed = _sum_over_keys(graph, layouts, product, weights, softmax.shape, axis)
            if summed is not None:
                return product, weights, summed
        frontier = [node.index for _, node in users if node.name in ops.CHEAP]
    return None


def _sum_over_keys(
    graph: Graph, layouts: Layouts, product: Node, weights: int, probabilities: tuple[int, ...], axis: int
) -> Node | None:
    values = [i for i in product.inputs if i != weights and graph[i].dynamic]
    if product.name not in MULTIPLICATIONS or len(values) != 1:
        return None
    weight_shape, value_shape = graph[weights].shape, graph[values[0]].shape
    if not len(weight_shape) == len(value_shape) == len(product.shape):
        return None
    channels = [a for a, (w, v) in enumerate(zip(weight_shape, value_shape, strict=True)) if w == 1 < v]
    queries = [a for a, (w, v) in enumerate(zip(weight_shape, value_shape, strict=True)) if v == 1 < w]
    if len(channels) != 1 or len(queries) != 1 or _without(weight_shape, channels[0]) != probabilities:
        return None
    key = axis + (axis >= channels[0])
    layout = layouts[values[0]]
    if layout is None or key == queries[0] or constant_along(layout.positions, key):
        return None  # over branches or channels, not over points
    sums = [graph[i] for i in graph.users[product.index] if graph[i].name == "sum"]
    return next((node for node in sums if summed_axis(graph, node) == key), None)


def product_of_scores(graph: Graph, softmax: Node) -> tuple[Node, int] | None:
    """The product of queries and keys that is summed over channels to give the scores, and the axis of the channels."""
    node = softmax
    for _ in range(STEPS):
        before = graph.dynamic_inputs(node)
        if len(before) != 1 or graph[before[0]].name in ops.HEAVY:
            return None
        node = graph[before[0]]
        axis = summed_axis(graph, node) if node.name == "sum" else None
        if axis is not None:
            product = graph[node.inputs[0]]
            two = len(graph.dynamic_inputs(product)) == 2
            fits = product.name in MULTIPLICATIONS and _without(product.shape, axis) == softmax.shape
            return (product, axis) if two and fits else None
    return None


def _without(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return shape[:axis] + shape[axis + 1 :]


def summed_axis(graph: Graph, node: Node) -> int | None:
    """The one axis that a softmax or a sum runs over."""
    given = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    if isinstance(given, list | tuple) and len(given) == 1:
        given = given[0]
    return given % len(graph[node.inputs[0]].shape) if isinstance(given, int) else None
