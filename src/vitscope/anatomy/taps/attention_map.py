"""Find where attention is computed, fused or by hand.

Attention is where probabilities over positions multiply values: a fused call, or a softmax whose result does so.
Probabilities formed by hand (exponentials divided by their sum, before the product or after it) are a softmax.
By hand, attention stands between two matrix products (the usual kind), before two (factorised attention), before
one that keeps several queries (outlook attention), or before one with a single query whose result, the context,
multiplies the activations of every position as it is (separable attention). Any of these products may be written as
a product element by element and a sum. A softmax that only pools to a single vector, from which layers then make
something else, is no attention.
"""

from dataclasses import dataclass

from vitscope.anatomy.structure.layout import Layouts
from vitscope.anatomy.structure.point_mixing import product_of_scores, summed_axis, weighted_sum
from vitscope.anatomy.watch.graph import Graph, Node
from vitscope.anatomy.watch.operations import (
    DIVISIONS,
    EXPONENTIALS,
    FUSED,
    HEAVY,
    MATRIX_PRODUCTS,
    MULTIPLICATIONS,
    SOFTMAX,
    SPREADS,
    mixes_positions,
)
from vitscope.anatomy.watch.places import constant_along

REACH = 16  # operations between the softmax and the product it feeds
NEAR = 4  # operations between parts of one formula


@dataclass(frozen=True)
class AttentionProduct:
    """The product of weights and values, as found in the graph."""

    node: int
    weights: int | None  # the factor that is the weights; None where fused
    softmax: int | None  # or what stands for one; None where fused, or where the result is divided by the sum
    query: int | None  # node of the queries, where one can tell
    key: int | None = None
    scores: int | None = None  # the product of queries and keys, where it is not fused
    context: bool = False  # one query, whose result goes to every position
    summed: int | None = None  # the sum over positions, where the product is element by element


def find_products(graph: Graph, layouts: Layouts) -> list[AttentionProduct]:
    """Every product of attention weights and values, in execution order."""
    products: dict[int, AttentionProduct] = {}
    for node in graph.nodes:
        if not node.dynamic or not graph.useful >> node.index & 1:
            continue
        product = None
        if node.name == FUSED:
            product = AttentionProduct(node.index, None, None, node.inputs[0], node.inputs[1])
        elif node.name in SOFTMAX or _is_division_by_sum(graph, node) or _is_of_logarithms(graph, node):
            axis = summed_axis(graph, node) if node.name in SOFTMAX else len(node.shape) - 1
            product = (
                _written_out(graph, layouts, node, axis)
                or _by_hand(graph, node)
                or _separable(graph, layouts, node, axis)
            )
        elif node.name in EXPONENTIALS:
            product = _divided_afterwards(graph, node)
        if product is not None:
            products.setdefault(product.node, product)
    return [products[i] for i in sorted(products)]


def _by_hand(graph: Graph, softmax: Node) -> AttentionProduct | None:
    product, weights = _next_product(graph, softmax.index)
    if product is None or weights is None or len(graph[weights].shape) < 3:  # no axis for images is left
        return None
    scores = _previous_product(graph, softmax)
    if scores is not None:
        return AttentionProduct(product.index, weights, softmax.index, *_factors(scores), scores=scores.index)
    again, _ = _next_product(graph, product.index)
    if again is not None or _queries(graph, product, weights) > 1:
        return AttentionProduct(product.index, weights, softmax.index, None)
    if _is_given_back(graph, product.index):
        values = next(i for i in _factors(product) if i != weights)
        return AttentionProduct(product.index, weights, softmax.index, None, values, context=True)
    return None


def _written_out(graph: Graph, layouts: Layouts, softmax: Node, axis: int | None) -> AttentionProduct | None:
    """Products of factors that are multiplied element by element (`point_mixing.py`)."""
    found = weighted_sum(graph, layouts, softmax, axis) if axis is not None else None
    if found is None or axis is None:
        return None
    product, weights, summed = found
    query = key = by_element = None
    scores = product_of_scores(graph, softmax)
    if scores is not None:
        factors, by_element = graph.dynamic_inputs(scores[0]), scores[0].index
        key_axis = axis + (axis >= scores[1])
        query, key = sorted(factors, key=lambda i: graph[i].shape[key_axis])  # queries are 1 along the keys
    return AttentionProduct(
        product.index, weights, softmax.index, query, key, scores=by_element, summed=summed.index
    )


def _is_of_logarithms(graph: Graph, node: Node) -> bool:
    """Exponentials of a log-softmax, or of scores less the logarithm of the sum of their exponentials."""
    if node.name not in EXPONENTIALS or not node.inputs:
        return False
    source = graph[node.inputs[0]]
    taken = source.inputs[-1:] if source.name in ("sub", "sub_", "__sub__", "subtract") else ()
    return source.name == "log_softmax" or any(_nearby(graph, i, {"logsumexp"}) is not None for i in taken)


def _is_division_by_sum(graph: Graph, node: Node) -> bool:
    """Exponentials divided by their sum: a softmax by hand."""
    if node.name not in DIVISIONS or len(node.inputs) != 2 or len(node.shape) < 3:
        return False
    above, below = node.inputs
    numerator = _nearby(graph, above, EXPONENTIALS)
    return numerator is not None and _is_sum_of(graph, below, numerator)


def _is_sum_of(graph: Graph, node: int, exponentials: int) -> bool:
    found = _nearby(graph, node, {"sum"})
    return found is not None and _nearby(graph, graph[found].inputs[0], EXPONENTIALS) == exponentials


def _nearby(graph: Graph, node: int, names: frozenset[str] | set[str]) -> int | None:
    """The node of one of these names that `node` is, up to constants and the way it is written."""
    for _ in range(NEAR):
        if graph[node].name in names:
            return node
        before = graph.dynamic_inputs(graph[node])
        if len(before) != 1 or graph[node].name in HEAVY:
            return None
        node = before[0]
    return None


def _divided_afterwards(graph: Graph, exponentials: Node) -> AttentionProduct | None:
    """Exponentials of scores multiply the values, and the result is divided by their sum."""
    product, weights = _next_product(graph, exponentials.index, NEAR)
    scores = _previous_product(graph, exponentials)
    if product is None or weights is None or scores is None or len(graph[weights].shape) < 3:
        return None
    following = [product.index]
    for _ in range(NEAR):
        following = [user for node in following for user in graph.users[node]]
        for node in following:
            divides = graph[node].name in DIVISIONS and len(graph[node].inputs) == 2
            if divides and _is_sum_of(graph, graph[node].inputs[1], exponentials.index):
                return AttentionProduct(product.index, weights, None, *_factors(scores), scores=scores.index)
    return None


def _separable(graph: Graph, layouts: Layouts, softmax: Node, axis: int | None) -> AttentionProduct | None:
    """Probabilities over positions multiply activations, channel by channel, and the result is summed over them."""
    for user in graph.users[softmax.index]:
        product = graph[user]
        others = [i for i in product.inputs if i != softmax.index and graph[i].dynamic]
        if (
            product.name not in MULTIPLICATIONS
            or len(others) != 1
            or len(product.shape) != len(softmax.shape)
        ):
            continue
        values, shape = others[0], product.shape
        layout = layouts[values]
        channels = [a for a in range(len(shape)) if softmax.shape[a] == 1 < shape[a]]
        if layout is None or graph[values].shape != shape or len(channels) != 1:
            continue
        if axis is None or (shape[axis] > 1 and constant_along(layout.positions, axis)):
            continue  # over branches or channels, not over positions
        for summed in graph.users[user]:
            over = graph[summed].name == "sum" and summed_axis(graph, graph[summed]) == axis
            if over and _is_given_back(graph, summed):
                return AttentionProduct(
                    user, softmax.index, softmax.index, None, values, context=True, summed=summed
                )
    return None


def _is_given_back(graph: Graph, context: int) -> bool:
    """Whether a context multiplies other activations without a layer in between."""
    frontier = [context]
    for _ in range(NEAR):
        users = [user for node in frontier for user in graph.users[node]]
        nodes = [graph[user] for user in users]
        if any(n.name in MULTIPLICATIONS and len(graph.dynamic_inputs(n)) == 2 for n in nodes):
            return True
        frontier = [user for user in users if graph[user].name in SPREADS]
    return False


def _factors(product: Node) -> tuple[int, int]:
    return product.inputs[-2], product.inputs[-1]


def _is_product(graph: Graph, node: Node) -> bool:
    return node.name in MATRIX_PRODUCTS and mixes_positions(graph, node)


def _next_product(graph: Graph, start: int, reach: int = REACH) -> tuple[Node | None, int | None]:
    """The first matrix product fed by `start` through cheap operations, and its factor that came that way."""
    frontier = [start]
    for _ in range(reach):
        following = []
        for source in frontier:
            for user in graph.users[source]:
                node = graph[user]
                if _is_product(graph, node):
                    return node, source
                if node.name not in MATRIX_PRODUCTS | {FUSED} or node.shape == graph[source].shape:
                    following.append(user)  # a product with a parameter that keeps the shape mixes heads
        frontier = sorted(dict.fromkeys(following))[:8]
    return None, None


def _previous_product(graph: Graph, softmax: Node) -> Node | None:
    """The matrix product whose result, through cheap operations, is what the softmax is taken of."""
    frontier = list(softmax.inputs)
    for _ in range(REACH):
        before = []
        for index in frontier:
            node = graph[index]
            if not _mixes_heads(graph, node):
                if _is_product(graph, node) or _is_product_with_static(graph, node):
                    return node
                if node.name == "layer_norm" or (node.name == "conv2d" and mixes_positions(graph, node)):
                    continue
            before += graph.dynamic_inputs(node)
        frontier = sorted(dict.fromkeys(before), reverse=True)[:4]
    return None


def _mixes_heads(graph: Graph, node: Node) -> bool:
    """A product of scores or weights with a parameter in which one axis, the heads, comes in the place of another
    (talking heads)."""
    if node.name != "einsum" or not isinstance(node.args[0], str) or "." in node.args[0]:
        return False
    operands, _, result = node.args[0].replace(" ", "").partition("->")
    small, large = sorted(operands.split(","), key=len) if operands.count(",") == 1 else ("", "")
    if len(small) != 2 or len(large) != len(result) or len(graph.dynamic_inputs(node)) != 1:
        return False
    changed = [{a, b} for a, b in zip(large, result, strict=True) if a != b]
    return changed == [set(small)]


def _is_product_with_static(graph: Graph, node: Node) -> bool:
    """Learned queries against keys of the image: one factor is a parameter."""
    return node.name in MATRIX_PRODUCTS and len(node.shape) >= 3 and bool(graph.dynamic_inputs(node))


def _queries(graph: Graph, product: Node, weights: int) -> int:
    shape = graph[weights].shape
    return shape[-2] if product.inputs[0] == weights or len(product.inputs) < 2 else shape[-1]
