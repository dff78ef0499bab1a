"""Projections read off the watched pass, and the paths back through operations that only move elements."""

import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from vitscope.anatomy import dissect
from vitscope.anatomy.watch.observe import observe
from vitscope.surgery import CannotOperate
from vitscope.surgery.tools.projections import Obstacle, moved, moves, read_projections, trace_back

HEADS, WIDTH, CHANNELS = 3, 4, 8


class Attend(nn.Module):
    """Attention whose packing is one of several that people write."""

    def __init__(self, packing: str) -> None:
        super().__init__()
        self.packing = packing
        inner = HEADS * WIDTH
        if packing == "separate":
            self.q, self.k, self.v = (nn.Linear(CHANNELS, inner, bias=i != 1) for i in range(3))
        else:
            self.qkv = nn.Linear(CHANNELS, 3 * inner, bias=False)
        self.out = nn.Linear(inner, CHANNELS)

    def forward(self, x: Tensor) -> Tensor:
        if self.packing == "separate":
            q, k, v = (
                part(x).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2) for part in (self.q, self.k, self.v)
            )
            scores = q @ k.transpose(-2, -1) / 3.0
            return self.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
        if self.packing == "qkv, heads, channels":
            q, k, v = self.qkv(x).unflatten(-1, (3, HEADS, WIDTH)).permute(2, 0, 3, 1, 4)
        elif self.packing == "heads, qkv, channels":
            q, k, v = self.qkv(x).unflatten(-1, (HEADS, 3, WIDTH)).permute(3, 0, 2, 1, 4).unbind(0)
        else:  # channels, heads, qkv; and the output has its heads inside
            q, k, v = self.qkv(x).unflatten(-1, (WIDTH, HEADS, 3)).permute(4, 0, 3, 1, 2)
            found = nn.functional.scaled_dot_product_attention(q * 0.5, k, v, scale=0.2)
            return self.out(found.permute(0, 2, 3, 1).flatten(2))
        return self.out(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2))


class Model(nn.Module):
    def __init__(self, attend: nn.Module) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, CHANNELS, 4, stride=4)
        self.attend = attend
        self.head = nn.Linear(CHANNELS, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        return self.head((x + self.attend(x)).mean(1))


PACKINGS = ["separate", "qkv, heads, channels", "heads, qkv, channels", "channels, heads, qkv"]


@pytest.mark.parametrize("packing", PACKINGS)
def test_packings(packing: str) -> None:
    torch.manual_seed(0)
    model = Model(Attend(packing)).double()
    body = dissect(model, (3, 16, 20))
    [unit] = body.parts.of_kind("msa")
    found = read_projections(body, unit)
    assert (found.call.path, found.slot, found.output_slot) == ("attend", 0, 0)
    x = torch.randn(2, 20, CHANNELS, dtype=torch.float64)
    out = torch.zeros(2, 20, CHANNELS, dtype=torch.float64)
    for h in range(HEADS):
        q, k, v = (
            x @ part.weight[h].T + (0 if part.bias is None else part.bias[h])
            for part in (found.query, found.key, found.value)
        )
        out += (q @ k.mT * found.scale).softmax(-1) @ v @ found.proj_weight[:, h].T
    torch.testing.assert_close(out + found.proj_bias, model.attend(x))
    assert (found.key.bias is None) == (found.query.bias is None) or packing == "separate"


@pytest.mark.parametrize("packing", PACKINGS)
def test_operated_whatever_the_packing(packing: str) -> None:
    torch.manual_seed(0)
    model = Model(Attend(packing))
    vs.surgery.uniform_heads(model, "A", example=(3, 16, 20))
    assert model.attend.heads == HEADS - 1


class Scaled(Attend):
    """A factor that does nothing yet and may learn to."""

    def __init__(self) -> None:
        super().__init__("separate")
        self.gamma = nn.Parameter(torch.ones(CHANNELS))

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x * self.gamma)


class Normed(Attend):
    """The queries are normed."""

    def __init__(self) -> None:
        super().__init__("separate")
        self.q = nn.Sequential(self.q, nn.LayerNorm(HEADS * WIDTH, elementwise_affine=False))


@pytest.mark.parametrize(("attend", "why"), [(Scaled, "no module of its own"), (Normed, "'layer_norm'")])
def test_what_is_not_plain_is_refused(attend: type[Attend], why: str) -> None:
    model = Model(attend())
    body = dissect(model, (3, 16, 20))
    with pytest.raises(CannotOperate, match=why):
        read_projections(body, body.parts.of_kind("msa")[0])


def test_parameters_that_do_nothing_yet_are_noticed() -> None:
    model = Model(Attend("separate"))
    model.attend.gamma = nn.Parameter(torch.zeros(1))
    body = dissect(model, (3, 16, 20))
    with pytest.raises(CannotOperate, match="gamma"):
        read_projections(body, body.parts.of_kind("msa")[0])


class Steps(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(6, 12)

    def forward(self, x: Tensor) -> Tensor:
        a, _ = self.linear(x).chunk(2, -1)
        a = a.unflatten(-1, (3, 2)).transpose(1, 2) * 0.5
        return (a / 4).contiguous().flatten(2)


def test_back_and_forth() -> None:
    model, x = Steps(), torch.randn(2, 5, 6)
    graph = observe(model, x)
    [out] = graph.outputs
    path = trace_back(graph, out, lambda node: node.name == "linear")
    assert path.factor == 0.125
    torch.testing.assert_close(moved(graph, path, model.linear(x)) * path.factor, model(x))
    scaled = next(node.index for node in graph.nodes if node.name == "mul")
    before = graph[scaled].inputs[0]
    assert moves(graph, path.start, before)
    assert not moves(graph, path.start, out)  # it was scaled as well


def test_an_obstacle_is_named() -> None:
    model = nn.Sequential(nn.Linear(6, 6), nn.Tanh(), nn.Flatten())
    graph = observe(model, torch.randn(2, 5, 6))
    with pytest.raises(Obstacle, match="tanh"):
        trace_back(graph, graph.outputs[0], lambda node: node.name == "linear")
