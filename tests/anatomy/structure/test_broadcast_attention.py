"""Attention written with products element by element is the attention it is."""

import pytest
import timm
import torch
from torch import Tensor, nn

import vitscope as vs

WIDTH, HEADS, SIZE = 16, 4, (3, 32, 32)


def plain(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    a = ((q[:, :, None] * k[:, None]).sum(-1) / 4).softmax(-1)
    return (a[..., None] * v[:, None]).sum(2)


def keys_before_queries(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    a = torch.softmax((k[:, :, None] * q[:, None]).sum(dim=-1) / 4, dim=1)
    return (v[:, :, None] * a.unsqueeze(-1)).sum(dim=1, keepdim=True).squeeze(1)


def matrix_scores(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    a = (q @ k.mT / 4).softmax(-1)
    return (a[..., None] * v[:, None]).sum(2)


def several_heads(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k, v = (x.unflatten(-1, (HEADS, -1)).transpose(1, 2) for x in (q, k, v))
    a = ((q[:, :, :, None] * k[:, :, None]).sum(-1) / 2).softmax(-1)
    return (a[..., None] * v[:, :, None]).sum(3).transpose(1, 2).flatten(2)


class Attends(nn.Module):
    def __init__(self, attend) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, WIDTH, 8, 8)
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.head = nn.Linear(WIDTH, 5)
        self._attend = attend

    def qkv(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        t = self.embed(x).flatten(2).transpose(1, 2)
        return t, self.q(t), self.k(t), self.v(t)

    def forward(self, x: Tensor) -> Tensor:
        t, q, k, v = self.qkv(x)
        return self.head((t + self._attend(q, k, v)).mean(1))


@pytest.mark.parametrize(
    ("attend", "heads"),
    [(plain, 1), (keys_before_queries, 1), (matrix_scores, 1), (several_heads, HEADS)],
)
@torch.no_grad()
def test_probabilities_are_captured(attend, heads: int):
    torch.manual_seed(0)
    model, images = Attends(attend).eval(), torch.randn(3, *SIZE)
    parts = vs.anatomy(model, SIZE)
    assert [unit.kind for unit in parts] == ["stem", "msa", "head"]
    unit = parts[1]
    assert unit.heads == heads
    if attend is not matrix_scores:
        assert unit.attention.pattern == "global"
    with vs.Tap(model, parts, attention=True, explicit_attention=True) as tap:
        explicit = model(images)
    assert torch.allclose(explicit, model(images), atol=1e-6)
    (seen,) = tap.attention[unit.name]
    _, q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in model.qkv(images))
    wanted = (q @ k.mT / (WIDTH // heads) ** 0.5).softmax(-1)
    assert torch.allclose(seen.probabilities, wanted, atol=1e-6)
    assert torch.allclose(seen.weights @ seen.values, wanted @ v, atol=1e-6)
    assert torch.allclose(seen.output, wanted @ v, atol=1e-6)


def test_a_choice_between_branches_is_no_attention():
    """Selective kernels weigh branches by a softmax, multiply and sum."""
    parts = vs.anatomy(timm.create_model("skresnet18"), (3, 64, 64))
    assert not parts.of_kind("msa")
