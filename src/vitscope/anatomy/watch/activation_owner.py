"""Whose activation it is that follows an addition: the last step of the unit that ends there, or the next one's first.

    x -> branch -> + -> relu -> (projection, branch) -> +        which of the two units the relu is in does not show

Inside a stage of a pre-activation network the next addition reads the sum as well, which tells. Where the next unit
projects its shortcut out of the activation, nobody else reads the sum, and the network as a whole decides:

1. A block that puts the activation's result out owns it (ResNet).
2. Else, if any sum of the model is read both by an activation and as it is by the next unit, or an activation runs in
   the module of the next unit, the network is a pre-activation network: activations are the next units' own, also
   one at the end, in front of the head.
3. Else it is the last step of the unit before it.
"""

from torch import nn

from vitscope.anatomy.structure.following_activation import following_activation, is_activated
from vitscope.anatomy.structure.naming import is_container
from vitscope.anatomy.structure.residual import Addition
from vitscope.anatomy.watch.graph import Graph, ModuleCall


def own_activations(graph: Graph, model: nn.Module, additions: list[Addition]) -> dict[int, int]:
    """For the additions whose unit ends with an activation, that one's result; by node."""
    following = {a.node: end for a in additions if (end := following_activation(graph, a.node)) is not None}
    read_twice = [a.node for a in additions if _is_read_twice(graph, a.node, additions)]
    pre_activation = bool(read_twice) or any(
        _next_block(graph, model, node, end, additions) for node, end in following.items()
    )
    return {
        node: end
        for node, end in following.items()
        if not pre_activation or _is_put_out(graph, model, node, end, read_twice)
    }


def blocks_around(graph: Graph, model: nn.Module, node: int) -> list[ModuleCall]:
    """The calls in which a node was made, innermost first, without those of lists and of the model itself."""
    around = [call for call in graph.calls if call.path and call.begin <= node < call.end]
    return [call for call in around if not is_container(model.get_submodule(call.path))]


def _is_read_twice(graph: Graph, node: int, additions: list[Addition]) -> bool:
    """An activation reads the sum, and the next unit adds to it as it is."""
    return any(other.identity and other.stream == node for other in additions) and is_activated(graph, node)


def _next_block(graph: Graph, model: nn.Module, node: int, end: int, additions: list[Addition]) -> bool:
    """Whether the activation runs in a block with the next addition, and apart from this one."""
    later = [a.node for a in additions if a.node > end and graph.descends(a.node, end)]
    return bool(later) and any(
        call.begin > node and call.begin <= end < call.end for call in blocks_around(graph, model, later[0])
    )


def _is_put_out(graph: Graph, model: nn.Module, node: int, end: int, read_twice: list[int]) -> bool:
    """Whether the block that adds also activates, and hands that on."""
    blocks = blocks_around(graph, model, node)
    if not blocks or end not in blocks[0].outputs.values():
        return False
    return not any(blocks[0] in blocks_around(graph, model, other)[:1] for other in read_twice)
