"""Who is near whom on a grid: the points a k x k kernel sees, as a mask, and the kernel of such a mask.

    allowed[i, j]  =  -(k - 1) // 2  <=  y(j) - y(i)  <=  k // 2,  and the same for x

An odd kernel reaches equally far to both sides, an even one a point further down and right, as a convolution with
"same" padding does. Outside of the grid there is nothing. Along a side that is no longer than the kernel every point
sees all of it, whatever the other side is. Prefix tokens (class token, registers) stand before the grid's points, see
everybody and are seen by everybody. Attention on a whole map whose constant mask is such a one is local.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from vitscope.anatomy.watch.graph import Graph, Node, Ref
from vitscope.anatomy.watch.operations import ADDITIONS

Grid = tuple[int, int]


def neighbours(size: int, kernel: int, device: torch.device | None = None) -> Tensor:
    """Which points of a line each of its points sees, (size, size), true where seen."""
    if kernel >= size:
        return torch.ones(size, size, dtype=torch.bool, device=device)
    points = torch.arange(size, device=device)
    step = points - points[:, None]
    return (step >= -((kernel - 1) // 2)) & (step <= kernel // 2)


def neighbourhood(grid: Grid, kernel: Grid, prefix: int = 0, device: torch.device | None = None) -> Tensor:
    """Which tokens each token sees, (tokens, tokens), true where seen; tokens are the prefix, then the grid by rows."""
    rows, columns = (neighbours(size, reach, device) for size, reach in zip(grid, kernel, strict=True))
    near = rows[:, None, :, None] & columns[None, :, None, :]
    points = grid[0] * grid[1]
    return F.pad(near.reshape(points, points), (prefix, 0, prefix, 0), value=True)


def kernel_of(seen: Tensor, grid: Grid, prefix: int) -> Grid | None:
    """The kernel whose neighbourhood a (tokens, tokens) mask is; None if it is none, or hides nothing."""
    points = grid[0] * grid[1]
    if seen.shape != (prefix + points, prefix + points) or bool(seen.all()):
        return None
    near = seen[prefix:, prefix:].reshape(*grid, *grid)
    kernel = int(near.any(3).any(1).sum(1).max()), int(near.any(2).any(0).sum(1).max())
    same = torch.equal(seen, neighbourhood(grid, kernel, prefix, seen.device))
    return kernel if same else None


MASK_ARGUMENT = 3  # of scaled_dot_product_attention
REACH = 3  # operations between the addition of a mask and the softmax


def local_kernel(graph: Graph, product: int, softmax: int | None, grid: Grid) -> Grid | None:
    """Rows and columns of the neighbourhood that every point sees; None if it sees everything, or something else.

    `product` is the fused attention, or that of weights and values, with its `softmax` then.
    """
    mask = _fused_mask(graph, graph[product]) if softmax is None else _added_mask(graph, graph[softmax])
    if mask is None or mask.device.type == "meta" or mask.dim() < 2:
        return None
    seen = mask if not mask.is_floating_point() else mask > float("-inf")
    seen = seen.bool().reshape(-1, *seen.shape[-2:])
    if not bool((seen == seen[:1]).all()):
        return None
    return kernel_of(seen[0], grid, len(seen[0]) - grid[0] * grid[1])


def _fused_mask(graph: Graph, fused: Node) -> Tensor | None:
    given = fused.args[MASK_ARGUMENT] if len(fused.args) > MASK_ARGUMENT else fused.kwargs.get("attn_mask")
    return graph[given.node].value if isinstance(given, Ref) else None


def _added_mask(graph: Graph, softmax: Node) -> Tensor | None:
    """The constant that is added to the scores, the last one if there are several."""
    node = softmax
    for _ in range(REACH):
        dynamic = graph.dynamic_inputs(node)
        if len(dynamic) != 1:
            return None
        node = graph[dynamic[0]]
        constants = [graph[i].value for i in node.inputs if not graph[i].dynamic]
        if node.name in ADDITIONS and constants:
            return constants[0]
    return None
