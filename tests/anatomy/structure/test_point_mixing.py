"""Mixing of points is seen however it is written, and no residual addition is lost."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import vitscope as vs

TOKENS, WIDTH = 16, 12


class Tokens(nn.Module):
    """A residual unit of some kind, then a feed-forward, on 4 x 4 tokens."""

    def __init__(self, branch) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, WIDTH, 8, 8)
        self.over_tokens = nn.Parameter(torch.randn(TOKENS, TOKENS) * 0.1)
        self.over_channels = nn.Parameter(torch.randn(WIDTH, WIDTH) * 0.1)
        self.linear = nn.Linear(TOKENS, TOKENS)
        self.pointwise = nn.Conv2d(TOKENS, TOKENS, 1)
        self.gate = nn.Linear(WIDTH, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.register_buffer("order", torch.randperm(TOKENS), persistent=False)
        self.head = nn.Linear(WIDTH, 5)
        self._branch = branch

    def forward(self, x: Tensor) -> Tensor:
        t = self.embed(x).flatten(2).transpose(1, 2)
        t = t + self._branch(self, t)
        t = t + self.norm(t) @ self.over_channels
        return self.head(t.mean(1))


def kinds(branch) -> list[str]:
    torch.manual_seed(0)
    parts = vs.anatomy(Tokens(branch), (3, 32, 32))
    assert all(unit.map_shape == (WIDTH, 4, 4) for unit in parts if unit.kind != "head")
    return [unit.kind for unit in parts]


BY_A_PARAMETER = {
    "matmul": lambda m, t: torch.matmul(m.over_tokens, t),
    "operator": lambda m, t: m.over_tokens @ t,
    "einsum": lambda m, t: torch.einsum("ij,njc->nic", m.over_tokens, t),
    "einsum, the other order": lambda m, t: torch.einsum("njc,ij->nic", t, m.over_tokens),
    "einsum with dots": lambda m, t: torch.einsum("...jc,ij->...ic", t, m.over_tokens),
    "turned": lambda m, t: (t.mT @ m.over_tokens).mT,
    "bmm": lambda m, t: torch.bmm(m.over_tokens.expand(len(t), -1, -1), t),
    "baddbmm": lambda m, t: torch.baddbmm(t * 0, m.over_tokens.expand(len(t), -1, -1), t),
    "tensordot": lambda m, t: torch.tensordot(t, m.over_tokens, ([1], [1])).mT,
    "softmax of the parameter": lambda m, t: m.over_tokens.softmax(-1) @ t,
    "gate": lambda m, t: t * (m.over_tokens @ t),
    "linear": lambda m, t: m.linear(t.mT).mT,
    "pointwise convolution": lambda m, t: m.pointwise(t[..., None])[..., 0],
}
WITHOUT_ONE = {
    "permutation": lambda m, t: t[:, m.order],
    "permutation, then a layer": lambda m, t: m.gate(t[:, m.order]),
    "flip": lambda m, t: t.flip(1),
    "sort": lambda m, t: t.sort(1).values,
    "cumsum": lambda m, t: t.cumsum(1),
    "shift by slices": lambda m, t: F.pad(t[:, :-1], (0, 0, 1, 0)),
    "mean": lambda m, t: t.mean(1, True).expand_as(t),
    "mean of neighbours": lambda m, t: (
        F.unfold(t.mT.unflatten(-1, (4, 4)), 3, padding=1).unflatten(1, (-1, 9)).mean(2).mT
    ),
}
PER_POINT = {
    "matmul": lambda m, t: t @ m.over_channels,
    "turned": lambda m, t: (m.over_channels @ t.mT).mT,
    "einsum": lambda m, t: torch.einsum("cd,nic->nid", m.over_channels, t),
    "tensordot": lambda m, t: torch.tensordot(t, m.over_channels, 1),
    "baddbmm": lambda m, t: torch.baddbmm(t, t, m.over_channels.expand(len(t), -1, -1)),
    "a gate from the mean": lambda m, t: t * m.gate(t.mean(1, True)).sigmoid(),
}
OTHER = {
    "norm": lambda m, t: m.norm(t),
    "a gate": lambda m, t: t * t.norm(dim=1, keepdim=True),  # global response norm
    "sort of channels": lambda m, t: t.sort(2).values,
    "cumprod of channels": lambda m, t: t.cumprod(2),
}


@pytest.mark.parametrize("form", BY_A_PARAMETER)
def test_a_parameter_over_the_tokens(form: str):
    assert kinds(BY_A_PARAMETER[form]) == ["stem", "mixer", "mlp", "head"]


@pytest.mark.parametrize("form", WITHOUT_ONE)
def test_mixing_without_a_parameter(form: str):
    assert kinds(WITHOUT_ONE[form]) == ["stem", "mixer", "mlp", "head"]


@pytest.mark.parametrize("form", PER_POINT)
def test_a_parameter_over_the_channels(form: str):
    assert kinds(PER_POINT[form]) == ["stem", "mlp", "mlp", "head"]


@pytest.mark.parametrize("form", OTHER)
def test_what_neither_mixes_points_nor_has_weights_is_a_unit_too(form: str):
    assert kinds(OTHER[form]) == ["stem", "other", "mlp", "head"]


@pytest.mark.parametrize(
    "branch",
    [
        lambda m, t: torch.relu(t),
        lambda m, t: 0.044715 * t**3,
        lambda m, t: t.flip(1).flip(1),
        lambda m, t: t.mT.contiguous().mT,
        lambda m, t: torch.cat([-t[..., 6:], t[..., :6]], -1) * 0.5,  # as rotary embeddings turn channels
    ],
)
def test_formulas_are_no_units(branch):
    assert kinds(branch) == ["stem", "mlp", "head"]
