"""Where each element of a tensor sits in the image: the way from any layout (NCHW, NLC, windows ...) to a map.

No layout is assumed. The grid position of every element is followed through the operations that made the
tensor: reshapes, permutations, rolls, slices and concatenations are simply done again on a tensor of
positions; convolutions and pools start a new grid; linear maps keep positions, or join several (patch
merging) into a coarser grid. What comes from parameters alone (class token, registers) or from padding has
no position. Positions are worked out on demand, for the few tensors somebody asks about.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from vitscope.anatomy.structure.factors import arranged
from vitscope.anatomy.watch.graph import Graph, Node, Ref
from vitscope.anatomy.watch.operations import FUSED, PICKS, REARRANGE, RECURRENT, RESHAPES
from vitscope.anatomy.watch.places import (
    NOWHERE,
    Layout,
    compacted,
    constant_along,
    image_layout,
    joined,
    thinned,
)

NEW_GRID = frozenset(
    "conv2d max_pool2d avg_pool2d adaptive_avg_pool2d adaptive_max_pool2d interpolate upsample "
    "conv_transpose2d _adaptive_avg_pool2d lp_pool2d grid_sample max_pool2d_with_indices "
    "boolean_dispatch fn".split()
)
LINEAR = RECURRENT | {"linear", "conv1d"}
PRODUCTS = frozenset(("matmul", "bmm", "baddbmm", "__matmul__", "__rmatmul__", "einsum"))
REDUCE = frozenset("mean sum amax amin max min std var var_mean logsumexp norm".split())


class Layouts:
    """The layouts of a graph's tensors, each worked out when first asked for."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self._known: dict[int, Layout | None] = {}
        self._rules: list[tuple[frozenset[str], Callable[[Node], Layout | None]]] = [
            (NEW_GRID, self._new_grid),
            (LINEAR, self._linear),
            (REARRANGE, self._rearranged),
            (frozenset(("einsum",)), self._einsum),
            (PRODUCTS, self._matmul),
            (frozenset((FUSED,)), self._attention),
            (REDUCE, self._reduced),
        ]

    def __getitem__(self, index: int) -> Layout | None:
        if index in self._known:
            return self._known[index]
        pending = [index]
        while pending:  # a deep model is deeper than Python's stack
            node = self.graph[pending[-1]]
            wanted = self._wanted(node)
            if wanted:
                pending += wanted
                continue
            self._known[node.index] = self._of(node)
            pending.pop()
        return self._known[index]

    def _wanted(self, node: Node) -> list[int]:
        """Inputs that must be known before `node`; of operations that keep the shape the earliest that has a layout."""
        if node.name in NEW_GRID | REDUCE | LINEAR or node.name == FUSED:
            sources = node.inputs[:1]
        elif node.name in REARRANGE or node.name in PRODUCTS:
            sources = node.inputs
        else:
            first = next(
                (i for i in self._alike(node) if i not in self._known or self._known[i] is not None), None
            )
            return [first] if first is not None and first not in self._known else []
        return [i for i in sources if i not in self._known and self.graph[i].dynamic]

    def _alike(self, node: Node) -> list[int]:
        """Dynamic inputs of the node's own shape, the earliest made first: of an addition that is the stream."""
        return sorted({i for i in self.graph.dynamic_inputs(node) if self.graph[i].shape == node.shape})

    def _of(self, node: Node) -> Layout | None:
        if node.name == "input":
            return image_layout(node.shape) if len(node.shape) == 4 else None
        if not node.dynamic:
            return None
        rule = next((rule for names, rule in self._rules if node.name in names), self._same_shape)
        try:
            return rule(node)
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError):
            return None  # an operation that positions cannot follow; whoever asks gets "no map"

    def _inputs(self, node: Node) -> list[Layout | None]:
        return [self._known.get(i) for i in node.inputs]

    def _same_shape(self, node: Node) -> Layout | None:
        return next((layout for i in self._alike(node) if (layout := self._known.get(i)) is not None), None)

    def _rearranged(self, node: Node) -> Layout | None:
        known = [layout for layout in self._inputs(node) if layout is not None]
        if not known:
            return None
        if node.name in RESHAPES:  # the recorded call may be a view, which positions need not allow
            return Layout(known[0].positions.reshape(node.shape), known[0].grid)
        grid = next((k for k in known if bool((thinned(k.positions) >= 0).any())), known[0]).grid
        args, kwargs = self._with_positions(node.args, grid), self._with_positions(node.kwargs, grid)
        if node.name == "pad":
            kwargs = {k: v for k, v in kwargs.items() if k not in ("mode", "value")} | {"value": NOWHERE}
            args = args[:2]
        if node.name in ("unfold", "fold") and node.function is not Tensor.unfold:
            args = (args[0].float() + 1, *args[1:])  # zero padding must stay tellable from position 0
            moved = (node.function(*args, **kwargs) - 1).to(torch.int32)
        else:
            moved = node.function(*args, **kwargs)
        if isinstance(moved, tuple | list):
            moved = moved[node.site.output]
        if tuple(moved.shape) != node.shape:
            return None
        moved = thinned(moved).expand(node.shape)  # so that what follows does not copy every channel
        if node.name in PICKS:
            return compacted(Layout(moved, grid), self.graph.batch)
        return Layout(moved, grid)

    def _with_positions(self, tree: Any, grid: tuple[int, int]) -> Any:
        """Recorded arguments with every activation replaced by its positions."""
        if isinstance(tree, Ref):
            node = self.graph[tree.node]
            layout = self._known.get(tree.node)
            if layout is not None and layout.grid == grid:
                return layout.positions
            if node.value is not None and not node.value.is_floating_point():
                return node.value.cpu()  # an index
            return torch.full(node.shape, NOWHERE, dtype=torch.int32)
        if isinstance(tree, dict):
            return {key: self._with_positions(value, grid) for key, value in tree.items()}
        if isinstance(tree, list | tuple):
            items = [self._with_positions(value, grid) for value in tree]
            return items if isinstance(tree, list) else tuple(items)
        return tree

    def _new_grid(self, node: Node) -> Layout | None:
        before = self._known.get(node.inputs[0])
        if before is None or len(node.shape) != 4:
            return None
        images, channels, height, width = node.shape
        source = self.graph[node.inputs[0]].shape
        if (height, width) == (1, 1) and node.name.startswith(("adaptive", "_adaptive")):
            return None  # global pooling: the map is gone
        folded = images == 1 and self.graph.batch > 1
        if len(source) == 4 and source[0] == images and source[2:] == (height, width) and not folded:
            return Layout(before.positions[:, :1].expand(node.shape), before.grid)
        if images == self.graph.batch:
            return image_layout(node.shape)
        if len(source) != 4 or source[0] != images:
            return None
        if folded and channels % self.graph.batch == 0:  # a group of channels for each image (CondConv)
            by_image = image_layout((self.graph.batch, channels // self.graph.batch, height, width))
            return Layout(by_image.positions.reshape(node.shape), by_image.grid)
        # patches or windows along the batch axis: each output point stands where its receptive field begins
        rows = torch.arange(height) * source[2] // height
        columns = torch.arange(width) * source[3] // width
        picked = before.positions[:, :1].index_select(2, rows).index_select(3, columns)
        return compacted(Layout(picked.expand(node.shape), before.grid), self.graph.batch)

    def _linear(self, node: Node) -> Layout | None:
        before = self._known.get(node.inputs[0])
        if before is None:
            return None
        axis = 1 if node.name == "conv1d" else -1
        positions = before.positions.movedim(axis, -1)
        rows = torch.empty(node.shape, device="meta").movedim(axis, -1).shape
        if rows[:-1] != positions.shape[:-1]:
            return None
        if constant_along(positions, -1):
            return Layout(positions[..., :1].expand(rows).movedim(-1, axis), before.grid)
        coarse = joined(positions, before.grid, self.graph.batch)
        if coarse is None:
            return None
        return Layout(coarse.positions.unsqueeze(-1).expand(rows).movedim(-1, axis), coarse.grid)

    def _matmul(self, node: Node) -> Layout | None:
        """Rows of the left factor keep their positions, or else columns of the right one."""
        left, right = self._inputs(node)[-2:]
        if left is not None and constant_along(left.positions, -1):
            return Layout(left.positions[..., :1].expand(node.shape), left.grid)
        if right is not None and constant_along(right.positions, -2):
            return Layout(right.positions[..., :1, :].expand(node.shape), right.grid)
        return None

    def _attention(self, node: Node) -> Layout | None:
        query = self._known.get(node.inputs[0])
        if query is None or not constant_along(query.positions, -1):
            return None
        return Layout(query.positions[..., :1].expand(node.shape), query.grid)

    def _einsum(self, node: Node) -> Layout | None:
        equation = node.args[0]
        if not isinstance(equation, str) or "." in equation or "->" not in equation:
            return None
        terms, result = equation.replace(" ", "").split("->")
        for term, layout in zip(terms.split(","), self._inputs(node), strict=True):
            if layout is None:
                continue
            positions, letters = layout.positions, term
            for letter in [x for x in term if x not in result]:
                if not constant_along(positions, letters.index(letter)):
                    break
                positions = positions.select(letters.index(letter), 0)
                letters = letters.replace(letter, "")
            else:
                return Layout(arranged(positions, letters, result).expand(node.shape), layout.grid)
        return None

    def _reduced(self, node: Node) -> Layout | None:
        before = self._known.get(node.inputs[0])
        source = self.graph[node.inputs[0]].shape
        if before is None:
            return None
        if node.shape == source:
            return before
        dims = node.kwargs.get("dim", node.args[1] if len(node.args) > 1 else None)
        if dims is None:
            return None
        dims = sorted({d % len(source) for d in ([dims] if isinstance(dims, int) else dims)})
        positions = before.positions.movedim(dims, tuple(range(-len(dims), 0))).flatten(-len(dims))
        if constant_along(positions, -1):
            reduced: Layout | None = Layout(positions[..., 0], before.grid)
        else:
            reduced = joined(positions, before.grid, self.graph.batch)  # a pool: several points become one
        if reduced is None:
            return None
        positions = reduced.positions
        if len(node.shape) == len(source):
            for d in dims:
                positions = positions.unsqueeze(d)
        return Layout(positions, reduced.grid) if tuple(positions.shape) == node.shape else None
