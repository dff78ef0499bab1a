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
from vitscope.anatomy.structure.point_mixing import ELEMENTWISE, product_of_scores, summed_axis, weighted_sum
from vitscope.anatomy.structure.residual import HEAVY, MATRIX_PRODUCTS, mixes_positions
from vitscope.anatomy.watch.graph import Graph, Node
from vitscope.anatomy.watch.places import constant_along

SOFTMAX = frozenset(("softmax", "_softmax"))
FUSED = "scaled_dot_product_attention"
EXPONENTIALS = frozenset(("exp", "exp_", "exp2"))
DIVISIONS = frozenset("div div_ __truediv__ __itruediv__ true_divide divide".split())
SPREADS = frozenset(
    "expand expand_as broadcast_to repeat view reshape unsqueeze squeeze transpose permute flatten unflatten".split()
)
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
        if node.name == FUSED:
            products[node.index] = AttentionProduct(node.index, None, None, node.inputs[0], node.inputs[1])
            continue
        found = None
        if node.name in SOFTMAX or _is_division_by_sum(graph, node) or _is_of_logarithms(graph, node):
            found = (
                _written_out(graph, layouts, node)
                or _by_hand(graph, node)
                or _separable(graph, layouts, node)
            )
        elif node.name in EXPONENTIALS:
            found = _divided_afterwards(graph, node)
        if found is not None:
            products.setdefault(found.node, found)
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


def _written_out(graph: Graph, layouts: Layouts, softmax: Node) -> AttentionProduct | None:
    """Products of factors that are multiplied element by element (`point_mixing.py`)."""
    axis = summed_axis(graph, softmax) if softmax.name in SOFTMAX else len(softmax.shape) - 1
    found = weighted_sum(graph, layouts, softmax, axis) if axis is not None else None
    if found is None or axis is None:
        return None
    product, weights, summed = found
    scores = product_of_scores(graph, softmax)
    if scores is None:
        return AttentionProduct(product.index, weights, softmax.index, None, summed=summed.index)
    by_element, channels = scores
    key_axis = axis + (axis >= channels)
    dynamic = [i for i in by_element.inputs if graph[i].dynamic]
    query, key = sorted(
        dynamic, key=lambda i: graph[i].shape[key_axis]
    )  # queries do not change along the keys
    return AttentionProduct(
        product.index, weights, softmax.index, query, key, scores=by_element.index, summed=summed.index
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
        before = [i for i in graph[node].inputs if graph[i].dynamic]
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


def _separable(graph: Graph, layouts: Layouts, softmax: Node) -> AttentionProduct | None:
    """Probabilities over positions multiply activations, channel by channel, and the result is summed over them."""
    axis = summed_axis(graph, softmax) if softmax.name in SOFTMAX else len(softmax.shape) - 1
    for user in graph.users[softmax.index]:
        product = graph[user]
        others = [i for i in product.inputs if i != softmax.index and graph[i].dynamic]
        if product.name not in ELEMENTWISE or len(others) != 1 or len(product.shape) != len(softmax.shape):
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
        for user in users:
            node = graph[user]
            if node.name in ELEMENTWISE and sum(graph[i].dynamic for i in node.inputs) == 2:
                return True
        frontier = [user for user in users if graph[user].name in SPREADS]
    return False


def _factors(product: Node) -> tuple[int, int]:
    return product.inputs[-2], product.inputs[-1]


def _is_product(graph: Graph, node: Node) -> bool:
    return node.name in MATRIX_PRODUCTS and mixes_positions(graph, node)


def _next_product(graph: Graph, start: int, reach: int = REACH) -> tuple[Node | None, int | None]:
    """The first matrix product fed by `start` through cheap operations, and its factor that came that
    way."""
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
            if _mixes_heads(graph, node):
                before += [i for i in node.inputs if graph[i].dynamic]
            elif _is_product(graph, node) or _is_product_with_static(graph, node):
                return node
            elif node.name not in ("conv2d", "layer_norm") or _is_pointwise(graph, node):
                before += [i for i in node.inputs if graph[i].dynamic]
        frontier = sorted(dict.fromkeys(before), reverse=True)[:4]
    return None


def _mixes_heads(graph: Graph, node: Node) -> bool:
    """A product of scores or weights with a parameter in which one axis, the heads, comes in the place of another
    (talking heads)."""
    if node.name != "einsum" or not isinstance(node.args[0], str) or "." in node.args[0]:
        return False
    operands, _, result = node.args[0].replace(" ", "").partition("->")
    small, large = sorted(operands.split(","), key=len) if operands.count(",") == 1 else ("", "")
    if len(small) != 2 or len(large) != len(result) or sum(graph[i].dynamic for i in node.inputs) != 1:
        return False
    changed = [{a, b} for a, b in zip(large, result, strict=True) if a != b]
    return changed == [set(small)]


def _is_product_with_static(graph: Graph, node: Node) -> bool:
    """Learned queries against keys of the image: one factor is a parameter."""
    return (
        node.name in MATRIX_PRODUCTS and len(node.shape) >= 3 and any(graph[i].dynamic for i in node.inputs)
    )


def _is_pointwise(graph: Graph, node: Node) -> bool:
    return node.name == "conv2d" and all(k == 1 for k in graph[node.inputs[1]].shape[2:])


def _queries(graph: Graph, product: Node, weights: int) -> int:
    shape = graph[weights].shape
    return shape[-2] if product.inputs[0] == weights or len(product.inputs) < 2 else shape[-1]
