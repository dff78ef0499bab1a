"""The activation that follows an addition directly: what the next unit reads is its result.

    x -> branch -> + -> relu -> next unit          post-activation (ResNet, ResNeXt, RegNet): after the relu
    x -> branch -> + -> norm -> relu -> branch ... pre-activation: the sum, which the next addition reads, too

An activation counts only if nobody else reads the sum. One that is written out (x * sigmoid(x)) is followed to
its end. Is it the last step of the unit that ends with the addition, or the next one's first?

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

from vitscope.anatomy.structure.naming import is_container
from vitscope.anatomy.structure.residual import Addition
from vitscope.anatomy.watch.graph import Graph, ModuleCall, Node
from vitscope.anatomy.watch.operations import ACTIVATIONS, ARITHMETIC, CHOICES, COMPARISONS

LONGEST = 8  # operations of an activation that is written out


def own_activations(graph: Graph, model: nn.Module, additions: list[Addition]) -> dict[int, int]:
    """For the additions whose unit ends with an activation, that one's result; by node."""
    following = {a.node: end for a in additions if (end := _following_activation(graph, a.node)) is not None}
    read_on = {a.stream for a in additions if a.identity}
    read_twice = [a.node for a in additions if a.node in read_on and _is_activated(graph, a.node)]
    pre_activation = bool(read_twice) or any(
        _next_block(graph, model, node, end, additions) for node, end in following.items()
    )
    return {
        node: end
        for node, end in following.items()
        if not pre_activation or _is_put_out(graph, model, node, end, read_twice)
    }


def activation_name(graph: Graph, addition: int, end: int) -> str:
    """What to call it: its own name, or that of the first activation inside of one that is written out."""
    inside = [graph[i].name for i in graph.between(addition, end) if graph[i].name in ACTIVATIONS]
    return inside[0].rstrip("_")


def blocks_around(graph: Graph, model: nn.Module, node: int) -> list[ModuleCall]:
    """The calls in which a node was made, innermost first, without those of lists and of the model itself."""
    around = [call for call in graph.calls if call.path and node in call]
    return [call for call in around if not is_container(model.get_submodule(call.path))]


def _following_activation(graph: Graph, addition: int) -> int | None:
    """The node of the activation's result; None where the sum itself is read on."""
    inner, end = [addition], None
    for _ in range(LONGEST):
        readers = _outside_readers(graph, inner)
        if not readers or not _is_elementwise(graph, graph[readers[0]], inner):
            break
        if end is not None and graph[readers[0]].name in ACTIVATIONS:  # another one, which is not the sum's
            break
        inner.append(readers[0])
        if len(readers) == 1 and _passes_through(graph, inner):
            end = readers[0] if any(graph[i].name in ACTIVATIONS for i in inner[1:]) else None
    return end


def _is_activated(graph: Graph, addition: int) -> bool:
    """Whether an activation reads the sum directly, whoever else does."""
    inner = [addition]
    for _ in range(LONGEST):
        readers = _outside_readers(graph, inner)
        elementwise = [i for i in readers if _is_elementwise(graph, graph[i], inner)]
        if not elementwise or any(graph[i].name in ACTIVATIONS for i in elementwise):
            return bool(elementwise)
        inner.append(elementwise[0])
    return False


def _outside_readers(graph: Graph, inner: list[int]) -> list[int]:
    return sorted({i for node in inner for i in graph.readers(node)} - set(inner))


def _is_elementwise(graph: Graph, node: Node, inner: list[int]) -> bool:
    """Changes every number by itself: an activation, or arithmetic with nothing but the sum and plain numbers."""
    if node.shape != graph[inner[0]].shape:
        return False
    if node.name in CHOICES | COMPARISONS:
        return set(graph.dynamic_inputs(node)) <= set(inner)
    return node.name in ACTIVATIONS or (node.name in ARITHMETIC and set(node.inputs) <= set(inner))


def _passes_through(graph: Graph, inner: list[int]) -> bool:
    """Nobody reads what is inside but for the last one; the model does not put it out, either."""
    return all(set(graph.readers(i)) <= set(inner) and i not in graph.outputs for i in inner[:-1])


def _next_block(graph: Graph, model: nn.Module, node: int, end: int, additions: list[Addition]) -> bool:
    """Whether the activation runs in a block with the next addition, and apart from this one."""
    later = next((a.node for a in additions if a.node > end and graph.descends(a.node, end)), None)
    if later is None:
        return False
    return any(call.begin > node and end in call for call in blocks_around(graph, model, later))


def _is_put_out(graph: Graph, model: nn.Module, node: int, end: int, read_twice: list[int]) -> bool:
    """Whether the block that adds also activates, and hands that on."""
    blocks = blocks_around(graph, model, node)
    if not blocks or end not in blocks[0].outputs.values():
        return False
    return not any(blocks[0] in blocks_around(graph, model, other)[:1] for other in read_twice)
