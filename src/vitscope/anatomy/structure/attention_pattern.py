"""How attention looks at the map: heads, queries and keys, windows, and where in the pass its weights can be had."""

from collections.abc import Iterator
from itertools import takewhile

import torch

from vitscope.anatomy.structure.factors import Axes, broadcast_axes, einsum_axes, layout_in_order, summed_axes
from vitscope.anatomy.structure.layout import Layouts
from vitscope.anatomy.structure.neighbourhood import local_kernel
from vitscope.anatomy.structure.point_mixing import product_of_scores, summed_axis
from vitscope.anatomy.structure.unit import Attention, AttentionSite
from vitscope.anatomy.taps.attention_map import AttentionProduct
from vitscope.anatomy.watch.graph import Graph, Node, Ref
from vitscope.anatomy.watch.operations import SOFTMAX
from vitscope.anatomy.watch.places import Layout, constant_along, context_places, find_places

Pattern = tuple[str, tuple[int, int] | None, tuple[int, int], int]  # name, window, shift, windows
OfQueriesAndKeys = tuple[Layout | None, Layout | None]


def describe(graph: Graph, layouts: Layouts, products: list[AttentionProduct]) -> Attention:
    """What the attention of one unit is like; of several products (parallel windows, a pooled pair) the largest."""
    views = [_View(graph, layouts, product) for product in products]
    main = max(views, key=lambda view: view.queries * view.keys)
    heads, _ = main.heads()
    sites = tuple(view.site() for view in views)
    pattern, window, shift, windows = main.pattern()
    if pattern == "global" and main.query_layout is not None:
        window = local_kernel(graph, main.product.node, main.product.softmax, main.query_layout.grid)
        pattern = "local" if window is not None else "global"
    return Attention(pattern, heads, main.queries, main.keys, window, shift, windows, sites)


class _View:
    """One product, with its factors in the order (..., heads, queries, keys)."""

    def __init__(self, graph: Graph, layouts: Layouts, product: AttentionProduct) -> None:
        self.graph, self.layouts, self.product = graph, layouts, product
        self.node = graph[product.node]
        self.axes = self._axes()
        self.shape = self._weights_shape()
        self.queries, self.keys = self.shape[:-3:-1] if self.transposed else self.shape[-2:]
        if product.weights is None:
            self.keys = graph[self.node.inputs[1]].shape[-2]
        self.query_layout, self.key_layout = self._factor_layouts()

    def _axes(self) -> Axes | None:
        product, graph = self.product, self.graph
        if product.weights is None:
            return None
        if product.summed is None:
            return einsum_axes(self.node, _tensor_arguments(self.node).index(product.weights))
        key = summed_axis(graph, graph[product.summed])
        assert key is not None
        kept = len(graph[product.summed].shape) == len(self.node.shape)
        if not product.context:
            values = next(i for i in self.node.inputs if i != product.weights)
            return broadcast_axes(graph[product.weights].shape, graph[values].shape, key, kept)
        return summed_axes(graph[product.weights].shape, self.node.shape, key, kept)

    def _weights_shape(self) -> tuple[int, ...]:
        source = self.node.inputs[0] if self.product.weights is None else self.product.weights
        shape = self.graph[source].shape
        if self.axes is None:
            return shape
        return tuple(self.axes.in_order(torch.empty(shape, device="meta"), "left").shape)

    @property
    def transposed(self) -> bool:
        """Whether the weights stand as (keys, queries): they are the right factor of the product."""
        if self.node.name == "einsum" or self.product.weights is None or self.axes is not None:
            return False
        return self.node.inputs[-2:].index(self.product.weights) == 1

    def _factor_layouts(self) -> OfQueriesAndKeys:
        """Of queries and keys, as (..., tokens, channels), or as the model has them where that is not known."""
        product = self.product
        query, key = (self.layouts[i] if i is not None else None for i in (product.query, product.key))
        if product.summed is not None and not product.context:
            return self._written_out_layouts(query, key)
        if product.summed is not None and self.axes is not None and key is not None:
            return None, Layout(self.axes.in_order(key.positions, "right"), key.grid)
        if product.scores is None or self.axes is None:
            return query, key
        scores = self.graph[product.scores]
        for first in (0, 1):
            axes = einsum_axes(scores, first)
            if axes is None or len(axes.result) != len(self.axes.left):
                continue
            # an axis of the weights, as the scores name it
            named = dict(zip(self.axes.left, axes.result, strict=True))
            if named[self.axes.row] == axes.row and named[self.axes.inner] == axes.column:
                batch = "".join(named[letter] for letter in self.axes.batch)
                ordered = (query, key) if first == 0 else (key, query)
                return (
                    layout_in_order(ordered[0], axes.left, batch + axes.row + axes.inner),
                    layout_in_order(ordered[1], axes.right, batch + axes.column + axes.inner),
                )
        return query, key

    def _written_out_layouts(self, query: Layout | None, key: Layout | None) -> OfQueriesAndKeys:
        """Where queries and keys are multiplied element by element as well, the axes of their product tell."""
        axes = self.axes
        assert axes is not None
        assert self.product.softmax is not None
        scores = product_of_scores(self.graph, self.graph[self.product.softmax])
        if scores is None:
            return None, None
        letters = axes.left.replace("z", "")
        letters = f"{letters[: scores[1]]}y{letters[scores[1] :]}"
        return (
            layout_in_order(query, letters.replace(axes.inner, "z"), f"{axes.batch}{axes.row}y"),
            layout_in_order(key, letters.replace(axes.row, "z"), f"{axes.batch}{axes.inner}y"),
        )

    def site(self) -> AttentionSite:
        graph, product = self.graph, self.product
        heads, head_axis = self.heads()
        folded = heads if head_axis is None else 1
        query, key = self.query_layout, self.key_layout
        if product.context:
            places = context_places(key, self.keys, graph.batch)
        else:
            places = find_places(query, key, self.queries, self.keys, folded, graph.batch)
        if product.weights is None:
            return AttentionSite(self.node.site, True, head_axis=head_axis, heads=heads, places=places)
        formed = graph[product.softmax] if product.softmax is not None else None
        softmax = formed if formed is not None and formed.name in SOFTMAX else None
        over = summed_axis(graph, softmax) if softmax is not None else None
        return AttentionSite(
            self.node.site,
            False,
            _tensor_arguments(self.node).index(product.weights),
            self.transposed,
            softmax.site if softmax is not None else None,
            head_axis,
            heads,
            places,
            formed=formed.site if formed is not None and softmax is None else None,
            formed_transposed=self.transposed and over == len(self.shape) - 2,
            axes=self.axes,
            summed=graph[product.summed].site if product.summed is not None else None,
        )

    def heads(self) -> tuple[int, int | None]:
        """Number of heads and the axis they run along: a leading axis on which the queries' positions do not depend."""
        shape, leading = self.shape, len(self.shape) - 2
        layout = self._head_layout()
        known = layout is not None and layout.positions.dim() == len(shape)
        if layout is not None and known and bool((layout.positions >= 0).any()):
            constant = [a for a in range(leading) if shape[a] > 1 and constant_along(layout.positions, a)]
            if constant:
                return shape[constant[-1]], constant[-1]
            if leading == 1 and shape[0] > self.graph.batch:
                return _repeats(layout), None
            if leading >= 2 and 1 in shape[1:leading]:
                return 1, shape.index(1, 1)
        if leading == 1:
            return (shape[0] // self.graph.batch or 1), None
        return shape[leading - 1], leading - 1

    def _head_layout(self) -> Layout | None:
        product = self.product
        if product.query is not None:
            return self.query_layout
        if product.summed is not None:
            return self.key_layout
        return self.layouts[self.node.inputs[0] if product.weights is None else product.weights]

    def pattern(self) -> Pattern:
        if self.product.context:
            places = context_places(self.key_layout, self.keys, self.graph.batch)
            return "context", None, (0, 0), len(places.keys) if places is not None else 1
        found = _pattern(self.query_layout, self.queries, self.keys, self.graph.batch)
        if found[0] in ("global", "pooled"):
            # queries that are the same for every window (global tokens) do not show the windows; the keys do
            keys = _tokens_before_channels(self.key_layout, self.keys)
            of_keys = _pattern(keys, self.keys, self.keys, self.graph.batch)
            return of_keys if of_keys[3] > 1 else found
        return found


def _tokens_before_channels(layout: Layout | None, tokens: int) -> Layout | None:
    """The layout of keys as (..., tokens, channels)."""
    if layout is None or layout.positions.dim() < 2 or constant_along(layout.positions, -1):
        return layout
    turned = layout.positions.transpose(-2, -1)
    return Layout(turned, layout.grid) if turned.shape[-2] == tokens else layout


def _tensor_arguments(node: Node) -> list[int]:
    def refs(tree: object) -> Iterator[int]:
        if isinstance(tree, Ref):
            yield tree.node
        elif isinstance(tree, list | tuple | dict):
            for item in tree.values() if isinstance(tree, dict) else tree:
                yield from refs(item)

    return list(refs((node.args, node.kwargs)))


def _repeats(layout: Layout) -> int:
    """How often in a row the same positions come: heads folded into the batch axis."""
    same = (torch.equal(row, layout.positions[0]) for row in layout.positions)
    return sum(1 for _ in takewhile(bool, same))


def _pattern(query: Layout | None, queries: int, keys: int, images: int) -> Pattern:
    nothing = (0, 0)
    if query is None:
        return "other", None, nothing, 1
    positions = query.positions
    if not constant_along(positions, -1):
        return ("channel" if constant_along(positions, -2) else "other"), None, nothing, 1
    rows = positions[..., 0].reshape(-1, positions.shape[-2])
    if not bool((rows >= 0).any()):
        return "class", None, nothing, 1
    first = rows[(rows // query.points == 0).any(1)].unique(dim=0)
    windows = len(first)
    if windows <= 1 and int((rows[0] >= 0).sum()) == query.points:
        return ("pooled" if keys < queries else "global"), None, nothing, 1
    full = first[(first >= 0).all(1)]
    boxes = [box for row in full if (box := _box(row, query.grid[1])) is not None]
    whole = [box for box in boxes if box[4] == 1]
    if whole:
        top, left, tall, wide, _ = min(whole)
        return "window", (tall, wide), (top % tall, left % wide), windows
    return ("grid", boxes[0][2:4], nothing, windows) if boxes else ("other", None, nothing, windows)


def _box(row: torch.Tensor, width: int) -> tuple[int, int, int, int, int] | None:
    """(top, left, rows, columns, spacing) of a window's points, or None if they are no rectangle."""
    ys, xs = (row // width).unique(), (row % width).unique()
    if len(ys) * len(xs) != len(row):
        return None
    gaps = set(ys.diff().tolist()) | set(xs.diff().tolist())
    return None if len(gaps) > 2 else (int(ys[0]), int(xs[0]), len(ys), len(xs), max(gaps, default=1))
