"""Find where attention is computed, fused or by hand, and how it looks at the map.

Attention is a fused call, or a softmax whose result multiplies values: between two matrix products (the
usual kind), before two (factorised attention), or before one that keeps several queries (outlook
attention). A softmax that only pools to a single vector is not.
"""

from dataclasses import dataclass

import torch

from vitscope.anatomy.graph import Graph, Node, Ref
from vitscope.anatomy.layout import Layouts
from vitscope.anatomy.locality import local_kernel
from vitscope.anatomy.places import find_places
from vitscope.anatomy.positions import Layout, constant_along
from vitscope.anatomy.residual import MATRIX_PRODUCTS, mixes_positions
from vitscope.anatomy.unit import Attention, AttentionSite

SOFTMAX = frozenset(("softmax", "_softmax"))
FUSED = "scaled_dot_product_attention"
REACH = 16  # operations between the softmax and the product it feeds


@dataclass(frozen=True)
class AttentionProduct:
    """The product of weights and values, as found in the graph."""

    node: int
    weights: int | None  # the factor that is the weights; None where fused
    softmax: int | None
    query: int | None  # node of the queries, where one can tell
    key: int | None = None


def find_products(graph: Graph) -> list[AttentionProduct]:
    """Every product of attention weights and values, in execution order."""
    products: dict[int, AttentionProduct] = {}
    for node in graph.nodes:
        if not node.dynamic or not graph.useful >> node.index & 1:
            continue
        if node.name == FUSED:
            products[node.index] = AttentionProduct(node.index, None, None, *node.inputs[:2])
        elif node.name in SOFTMAX:
            found = _by_hand(graph, node)
            if found is not None:
                products.setdefault(found.node, found)
    return [products[i] for i in sorted(products)]


def _by_hand(graph: Graph, softmax: Node) -> AttentionProduct | None:
    product, weights = _next_product(graph, softmax.index)
    if product is None or weights is None or len(graph[weights].shape) < 3:  # no axis for images is left
        return None
    scores = _previous_product(graph, softmax)
    if scores is not None:
        return AttentionProduct(product.index, weights, softmax.index, *_factors(product_node=scores))
    again, _ = _next_product(graph, product.index)
    if again is not None or _queries(graph, product, weights) > 1:
        return AttentionProduct(product.index, weights, softmax.index, None)
    return None


def _factors(product_node: Node) -> tuple[int, ...]:
    return product_node.inputs[-2:]


def _is_product(graph: Graph, node: Node) -> bool:
    return node.name in MATRIX_PRODUCTS and mixes_positions(graph, node)


def _next_product(graph: Graph, start: int) -> tuple[Node | None, int | None]:
    """The first matrix product fed by `start` through cheap operations, and its factor that came that
    way."""
    frontier = [start]
    for _ in range(REACH):
        following = []
        for source in frontier:
            for user in graph.users[source]:
                node = graph[user]
                if _is_product(graph, node):
                    return node, source
                if node.name not in MATRIX_PRODUCTS and node.name != FUSED:
                    following.append(user)
        frontier = sorted(dict.fromkeys(following))[:8]
    return None, None


def _previous_product(graph: Graph, softmax: Node) -> Node | None:
    """The matrix product whose result, through cheap operations, is what the softmax is taken of."""
    frontier = list(softmax.inputs)
    for _ in range(REACH):
        before = []
        for index in frontier:
            node = graph[index]
            if _is_product(graph, node) or _is_product_with_static(graph, node):
                return node
            if node.name not in ("conv2d", "layer_norm") or _is_pointwise(graph, node):
                before += [i for i in node.inputs if graph[i].dynamic]
        frontier = sorted(dict.fromkeys(before), reverse=True)[:4]
    return None


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


def describe(graph: Graph, layouts: Layouts, products: list[AttentionProduct]) -> Attention:
    """What the attention of one unit is like; several products (parallel windows, a pooled pair) share the
    first one's description."""
    main = max(products, key=lambda p: _score_count(graph, p))
    heads, _ = _heads(graph, layouts, main)
    sites = tuple(_site(graph, layouts, p) for p in products)
    queries, keys = _size(graph, main)
    query = layouts[main.query] if main.query is not None else None
    pattern, window, shift, windows = _pattern(query, queries, keys, graph.batch)
    if pattern == "global" and query is not None:
        window = local_kernel(graph, main.node, main.softmax, query.grid)
        pattern = "local" if window is not None else "global"
    return Attention(pattern, heads, queries, keys, window, shift, windows, sites)


def _score_count(graph: Graph, product: AttentionProduct) -> int:
    queries, keys = _size(graph, product)
    return queries * keys


def _size(graph: Graph, product: AttentionProduct) -> tuple[int, int]:
    node = graph[product.node]
    if product.weights is None:
        return graph[node.inputs[0]].shape[-2], graph[node.inputs[1]].shape[-2]
    shape = graph[product.weights].shape
    return (shape[-1], shape[-2]) if _transposed(graph, product) else (shape[-2], shape[-1])


def _transposed(graph: Graph, product: AttentionProduct) -> bool:
    """Whether the weights stand as (keys, queries): they are the right factor of the product."""
    node = graph[product.node]
    if node.name == "einsum" or product.weights is None:
        return False
    return _factors(node).index(product.weights) == 1


def _site(graph: Graph, layouts: Layouts, product: AttentionProduct) -> AttentionSite:
    node = graph[product.node]
    heads, head_axis = _heads(graph, layouts, product)
    query, key = (layouts[i] if i is not None else None for i in (product.query, product.key))
    folded = heads if head_axis is None else 1
    places = find_places(query, key, *_size(graph, product), folded, graph.batch)
    if product.weights is None:
        return AttentionSite(node.site, True, head_axis=head_axis, heads=heads, places=places)
    softmax = graph[product.softmax].site if product.softmax is not None else None
    operand = _tensor_arguments(node).index(product.weights)
    transposed = _transposed(graph, product)
    return AttentionSite(node.site, False, operand, transposed, softmax, head_axis, heads, places)


def _tensor_arguments(node: Node) -> list[int]:
    found: list[int] = []

    def collect(tree: object) -> None:
        if isinstance(tree, Ref):
            found.append(tree.node)
        elif isinstance(tree, list | tuple):
            for item in tree:
                collect(item)
        elif isinstance(tree, dict):
            for item in tree.values():
                collect(item)

    collect((node.args, node.kwargs))
    return found


def _heads(graph: Graph, layouts: Layouts, product: AttentionProduct) -> tuple[int, int | None]:
    """Number of heads and the axis they run along: the leading axis on which the queries' positions do not
    depend."""
    source = graph[product.node].inputs[0] if product.weights is None else product.weights
    shape = graph[source].shape
    leading = len(shape) - 2
    layout = layouts[product.query] if product.query is not None else layouts[source]
    if layout is not None and layout.positions.dim() == len(shape) and bool((layout.positions >= 0).any()):
        constant = [a for a in range(leading) if shape[a] > 1 and constant_along(layout.positions, a)]
        if constant:
            return shape[constant[-1]], constant[-1]
        if leading == 1 and shape[0] > graph.batch:
            heads = _repeats(layout)
            return heads, None
        if leading >= 2 and 1 in shape[1:leading]:
            return 1, shape.index(1, 1)
    if leading == 1:
        return (shape[0] // graph.batch or 1), None
    return shape[leading - 1], leading - 1


def _repeats(layout: Layout) -> int:
    """How often in a row the same positions come: heads folded into the batch axis."""
    first = layout.positions[0]
    count = 1
    while count < len(layout.positions) and torch.equal(layout.positions[count], first):
        count += 1
    return count


def _pattern(
    query: Layout | None, queries: int, keys: int, images: int
) -> tuple[str, tuple[int, int] | None, tuple[int, int], int]:
    nothing = (0, 0)
    if query is None:
        return "other", None, nothing, 1
    positions = query.positions
    if not constant_along(positions, -1):
        return ("channel" if constant_along(positions, -2) else "other"), None, nothing, 1
    height, width = query.grid
    rows = positions[..., 0].reshape(-1, positions.shape[-2])
    if not bool((rows >= 0).any()):
        return "class", None, nothing, 1
    first = rows[(rows[:, :] // (height * width) == 0).any(1)]
    first = first.unique(dim=0)
    windows = len(first)
    if windows <= 1 and int((rows[0] >= 0).sum()) == height * width:
        return ("pooled" if keys < queries else "global"), None, nothing, 1
    corner = first[(first >= 0).all(1)]
    if not len(corner):
        return "other", None, nothing, windows
    boxes = [_box(row, width) for row in corner]
    whole = [b for b in boxes if b is not None and b[4] == 1]
    if whole:
        top, left, tall, wide, _ = min(whole)
        return "window", (tall, wide), (top % tall, left % wide), windows
    spread = [b for b in boxes if b is not None]
    if spread:
        _, _, tall, wide, _ = spread[0]
        return "grid", (tall, wide), nothing, windows
    return "other", None, nothing, windows


def _box(row: torch.Tensor, width: int) -> tuple[int, int, int, int, int] | None:
    """(top, left, rows, columns, spacing) of a window's points, or None if they are no rectangle."""
    ys, xs = (row // width).unique(), (row % width).unique()
    if len(ys) * len(xs) != len(row):
        return None
    gaps = set(ys.diff().tolist()) | set(xs.diff().tolist())
    if len(gaps) > 2 or not gaps:
        return (int(ys[0]), int(xs[0]), len(ys), len(xs), 1) if not gaps else None
    return int(ys[0]), int(xs[0]), len(ys), len(xs), max(gaps)
