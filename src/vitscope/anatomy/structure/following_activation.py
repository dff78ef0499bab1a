"""The activation that follows an addition directly: what the next unit reads is its result.

    x -> branch -> + -> relu -> next unit          post-activation (ResNet, ResNeXt, RegNet): after the relu
    x -> branch -> + -> norm -> relu -> branch ... pre-activation: the sum, which the next addition reads, too

An activation counts only if nobody else reads the sum. One that is written out (x * sigmoid(x)) is followed to
its end. Whether it is the unit's own or already the next one's, `activation_owner.py` decides.
"""

from vitscope.anatomy.watch.graph import Graph, Node

ACTIVATIONS = frozenset(
    "relu relu_ relu6 leaky_relu leaky_relu_ prelu rrelu rrelu_ elu elu_ selu selu_ celu celu_ gelu silu mish "
    "hardswish hardtanh hardtanh_ hardsigmoid softplus softsign logsigmoid tanh tanh_ sigmoid sigmoid_ clamp clamp_ "
    "clamp_min clamp_min_ clamp_max clamp_max_ threshold threshold_ hardshrink softshrink tanhshrink "
    "maximum minimum fmax fmin max min where masked_fill masked_fill_".split()
)
# of these, ones that choose between the sum and something else: an activation if that does not depend on the image
CHOICES = frozenset("maximum minimum fmax fmin max min where masked_fill masked_fill_".split())
COMPARISONS = frozenset("gt ge lt le __gt__ __ge__ __lt__ __le__ greater less".split())
# inside of an activation that is written out: products of what comes from the sum, shifts and scales by numbers
ARITHMETIC = frozenset(
    "mul mul_ __mul__ __rmul__ __imul__ add add_ __add__ __radd__ __iadd__ div div_ __truediv__ exp erf "
    "zeros_like ones_like full_like".split()
)
LONGEST = 8  # operations of an activation that is written out


def following_activation(graph: Graph, addition: int) -> int | None:
    """The node of the activation's result; None where the sum itself is read on."""
    inner, end = [addition], None
    for _ in range(LONGEST):
        readers = sorted({i for node in inner for i in _readers(graph, node)} - set(inner))
        if not readers or not _is_elementwise(graph, graph[readers[0]], inner):
            break
        if end is not None and graph[readers[0]].name in ACTIVATIONS:  # another one, which is not the sum's
            break
        inner.append(readers[0])
        if len(readers) == 1 and _passes_through(graph, inner):
            end = readers[0] if any(graph[i].name in ACTIVATIONS for i in inner[1:]) else None
    return end


def is_activated(graph: Graph, addition: int) -> bool:
    """Whether an activation reads the sum directly, whoever else does."""
    inner = [addition]
    for _ in range(LONGEST):
        readers = sorted({i for node in inner for i in _readers(graph, node)} - set(inner))
        elementwise = [i for i in readers if _is_elementwise(graph, graph[i], inner)]
        if any(graph[i].name in ACTIVATIONS for i in elementwise):
            return True
        if not elementwise:
            return False
        inner.append(elementwise[0])
    return False


def activation_name(graph: Graph, addition: int, end: int) -> str:
    """What to call it: its own name, or that of the first activation inside of one that is written out."""
    inside = [graph[i].name for i in graph.between(addition, end) if graph[i].name in ACTIVATIONS]
    return inside[0].rstrip("_")


def _readers(graph: Graph, node: int) -> list[int]:
    return [i for i in graph.users[node] if graph.useful >> i & 1]


def _is_elementwise(graph: Graph, node: Node, inner: list[int]) -> bool:
    """Changes every number by itself: an activation, or arithmetic with nothing but the sum and plain numbers."""
    if node.shape != graph[inner[0]].shape:
        return False
    if node.name in CHOICES | COMPARISONS:
        return all(i in inner for i in node.inputs if graph[i].dynamic)
    if node.name in ACTIVATIONS:
        return True
    return node.name in ARITHMETIC and all(i in inner for i in node.inputs)


def _passes_through(graph: Graph, inner: list[int]) -> bool:
    """Nobody reads what is inside but for the last one; the model does not put it out, either."""
    return all(set(_readers(graph, i)) <= set(inner) and i not in graph.outputs for i in inner[:-1])
