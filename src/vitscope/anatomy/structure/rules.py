"""What makes a branch an MSA, an MLP, a convolution: all rules, in order, in this file.

What mixes positions decides. Attention, that is probabilities over positions that multiply values (`attention_map.py`
says in which forms), makes a branch an msa, whatever else is in it; that there is a single query, the context
(MobileViTv2), makes no difference. Attention without probabilities (two products of activations, no softmax) makes
it a mixer; else a spatial convolution makes it a conv, so a ConvNeXt block and an inverted residual are convs; else
mixing over the token axis (`point_mixing.py` says in which forms), recurrence along it (LSTM), pooling, shifting or
Fourier transforms make it a mixer; else linear maps make it an mlp; what is left is a mixer if it takes means over
points. One exception: a feed-forward with a depthwise convolution inside (PVTv2, LocalViT) is an mlp where it follows
the attention of its block.

A rule of your own goes before these:

    import vitscope as vs
    vs.add_rule("mixer", lambda branch: "MyTokenMixer" in branch.classes)
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch import nn

from vitscope.anatomy.structure.layout import Layouts
from vitscope.anatomy.structure.naming import own_class
from vitscope.anatomy.structure.point_mixing import mixes_points, pools_points
from vitscope.anatomy.structure.unit import KINDS
from vitscope.anatomy.watch.graph import Graph, Node
from vitscope.anatomy.watch.operations import CONVOLUTIONS, HEAVY, MATRIX_PRODUCTS, mixes_positions
from vitscope.core.errors import VitscopeError


@dataclass(frozen=True)
class Branch:
    """What is in a branch, as the rules see it."""

    operations: tuple[str, ...]  # names, in order: "layer_norm", "linear", "scaled_dot_product_attention" ...
    classes: frozenset[str]  # class names of the modules it runs through
    owner: str  # path of the module that owns it
    attention: bool  # probabilities multiply values
    spatial_convolutions: int  # convolutions with a kernel larger than one point
    depthwise_only: bool  # each of them acts on every channel by itself
    linear_maps: int  # linear layers and 1x1 convolutions
    token_mixing: (
        bool  # linear or recurrent over tokens, window pooling, shift, Fourier, product of activations
    )
    activation_products: int  # matrix products of two activations
    residual: bool  # it is added to a stream
    downsamples: bool  # the grid gets smaller
    follows_attention: bool  # the unit before it is the attention of the same block
    pools_points: bool = False  # it hands means, sums or maxima over points to all of them


Rule = Callable[[Branch], bool]


def _mlp_with_depthwise(branch: Branch) -> bool:
    return branch.residual and branch.follows_attention and branch.depthwise_only and branch.linear_maps >= 2


RULES: list[tuple[str, Rule]] = [
    ("msa", lambda branch: branch.attention),
    ("subsample", lambda branch: branch.downsamples and not branch.residual),
    ("mixer", lambda branch: branch.activation_products >= 2),
    ("mlp", _mlp_with_depthwise),
    ("conv", lambda branch: branch.spatial_convolutions > 0),
    ("mixer", lambda branch: branch.token_mixing),
    ("mlp", lambda branch: branch.linear_maps >= (1 if branch.residual else 2)),
    ("mixer", lambda branch: branch.residual and branch.pools_points),
    ("other", lambda branch: True),
]
_USER_RULES: list[tuple[str, Rule]] = []


def add_rule(kind: str, rule: Rule) -> None:
    """Call a branch a `kind` wherever `rule(branch)` is true; later rules of yours go before earlier ones."""
    if kind not in KINDS:
        raise VitscopeError(f"no kind '{kind}'; a rule can give one of: {', '.join(KINDS)}")
    _USER_RULES.insert(0, (kind, rule))


@contextmanager
def extra_rule(kind: str, rule: Rule) -> Iterator[None]:
    """`add_rule` for the length of a with block."""
    add_rule(kind, rule)
    added = _USER_RULES[0]
    try:
        yield
    finally:
        _USER_RULES.remove(added)


def kind_of(branch: Branch) -> str:
    """The kind the first matching rule gives."""
    return next(kind for kind, rule in (*_USER_RULES, *RULES) if rule(branch))


def summarise(
    graph: Graph,
    layouts: Layouts,
    model: nn.Module,
    nodes: list[int],
    owner: str,
    *,
    attention: bool,
    residual: bool,
    downsamples: bool,
    follows_attention: bool,
    moves_points: bool = False,
) -> Branch:
    """Look at the nodes of a branch and write down what the rules need."""
    parts = [graph[i] for i in nodes]
    mixing = [n for n in parts if mixes_positions(graph, n)]
    spatial = [n for n in mixing if n.name in CONVOLUTIONS]
    maps = CONVOLUTIONS | MATRIX_PRODUCTS | {"linear", "tensordot"}
    linear = [n for n in parts if n.name in maps and not mixes_positions(graph, n)]
    return Branch(
        operations=tuple(n.name for n in parts),
        classes=frozenset(own_class(model.get_submodule(path)).__name__ for path in _paths(parts)),
        owner=owner,
        attention=attention,
        spatial_convolutions=len(spatial),
        depthwise_only=bool(spatial) and all(_is_depthwise(graph, n) for n in spatial),
        linear_maps=len(linear) + sum(n.name == "opaque" for n in parts),
        token_mixing=not attention
        and not spatial
        and (moves_points or any(mixes_points(graph, layouts, n) for n in parts)),
        activation_products=sum(n.name in MATRIX_PRODUCTS for n in mixing),
        residual=residual,
        downsamples=downsamples,
        follows_attention=follows_attention,
        pools_points=not linear and any(pools_points(graph, layouts, n, nodes) for n in parts),
    )


def _paths(nodes: list[Node]) -> set[str]:
    around = {n.site.path.rpartition(".")[0] for n in nodes if n.name in HEAVY}
    return around | {n.site.path for n in nodes}


def _is_depthwise(graph: Graph, node: Node) -> bool:
    weight = graph[node.inputs[1]].shape
    return weight[1] == 1 and weight[0] > 1
