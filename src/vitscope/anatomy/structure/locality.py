"""Find out that attention on a whole map sees neighbourhoods only: a constant mask hides the rest."""

from torch import Tensor

from vitscope.anatomy.structure.neighbourhood import Grid, kernel_of
from vitscope.anatomy.watch.graph import Graph, Node, Ref

MASK_ARGUMENT = 3  # of scaled_dot_product_attention
REACH = 3  # operations between the addition of a mask and the softmax


def local_kernel(graph: Graph, product: int, softmax: int | None, grid: Grid) -> Grid | None:
    """Rows and columns of the neighbourhood that every point sees; None if it sees everything, or something else.

    Args:
        graph: The watched pass.
        product: The fused attention, or the product of weights and values.
        softmax: The softmax, if not fused.
        grid: Of the queries and keys.
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
        dynamic = [i for i in node.inputs if graph[i].dynamic]
        if len(dynamic) != 1:
            return None
        node = graph[dynamic[0]]
        constants = [graph[i].value for i in node.inputs if not graph[i].dynamic]
        if node.name in ("add", "__add__", "add_", "__iadd__", "__radd__") and constants:
            return constants[0]
    return None
