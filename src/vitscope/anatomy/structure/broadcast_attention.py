"""Attention whose products are written out: factors are multiplied element by element and summed over an axis.

    scores = (q[:, :, None] * k[:, None]).sum(-1)          (images, queries, keys)
    result = (scores.softmax(-1)[..., None] * v[:, None]).sum(2)

The axis that only the weights have runs over queries, the one that only the values have over channels; the sum runs
over the keys, which are points of the map.
"""

from vitscope.anatomy.structure.layout import Layouts
from vitscope.anatomy.structure.residual import HEAVY
from vitscope.anatomy.watch.graph import Graph, Node
from vitscope.anatomy.watch.positions import constant_along

ELEMENTWISE = frozenset(("mul", "mul_", "__mul__", "__rmul__", "__imul__", "multiply"))
CHEAP = frozenset(
    "unsqueeze __getitem__ view reshape unflatten expand transpose permute contiguous dropout to type_as float".split()
)
STEPS = 8  # operations between the softmax and the products around it


def weighted_sum(graph: Graph, layouts: Layouts, softmax: Node, axis: int) -> tuple[Node, int, Node] | None:
    """The product of probabilities and values, its factor that is the weights, and the sum over the keys.

    Args:
        graph: The watched pass.
        layouts: Of its tensors.
        softmax: What gives the probabilities.
        axis: Over which they sum to one.
    """
    frontier = [softmax.index]
    for _ in range(STEPS):
        users = [(source, graph[user]) for source in frontier for user in graph.users[source]]
        for weights, product in users:
            summed = _sum_over_keys(graph, layouts, product, weights, softmax.shape, axis)
            if summed is not None:
                return product, weights, summed
        frontier = [node.index for _, node in users if node.name in CHEAP]
    return None


def _sum_over_keys(
    graph: Graph, layouts: Layouts, product: Node, weights: int, probabilities: tuple[int, ...], axis: int
) -> Node | None:
    values = [i for i in product.inputs if i != weights and graph[i].dynamic]
    if product.name not in ELEMENTWISE or len(values) != 1:
        return None
    own, other = graph[weights].shape, graph[values[0]].shape
    if not len(own) == len(other) == len(product.shape):
        return None
    channels = [a for a, (w, v) in enumerate(zip(own, other, strict=True)) if w == 1 < v]
    queries = [a for a, (w, v) in enumerate(zip(own, other, strict=True)) if v == 1 < w]
    if len(channels) != 1 or len(queries) != 1:
        return None
    if own[: channels[0]] + own[channels[0] + 1 :] != probabilities:
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
        before = [i for i in node.inputs if graph[i].dynamic]
        if len(before) != 1 or graph[before[0]].name in HEAVY:
            return None
        node = graph[before[0]]
        axis = summed_axis(graph, node) if node.name == "sum" else None
        if axis is not None:
            product = graph[node.inputs[0]]
            two = sum(graph[i].dynamic for i in product.inputs) == 2
            fits = product.shape[:axis] + product.shape[axis + 1 :] == softmax.shape
            return (product, axis) if product.name in ELEMENTWISE and two and fits else None
    return None


def summed_axis(graph: Graph, node: Node) -> int | None:
    """The one axis that a softmax or a sum runs over."""
    given = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
    if isinstance(given, list | tuple) and len(given) == 1:
        given = given[0]
    return given % len(graph[node.inputs[0]].shape) if isinstance(given, int) else None
