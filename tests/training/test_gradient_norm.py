"""The norm of all gradients, and the quick look at whether they are finite."""

import math

import pytest
import timm
import torch
from torch import Tensor, nn

from vitscope.data import DataConfig
from vitscope.training.divergence import FiniteGradients, are_finite, gradient_norm
from vitscope.training.layout import lay_out


def plain_norm(model: nn.Module) -> float:
    return sum(float(p.grad.double().square().sum()) for p in model.parameters() if p.grad is not None) ** 0.5


def test_it_is_the_norm_of_everything() -> None:
    torch.manual_seed(0)
    model = timm.create_model("resnet18", num_classes=10)
    model.layer1.requires_grad_(False)
    lay_out("auto", model, DataConfig(input_size=(3, 32, 32)), torch.device("cpu"))
    model(torch.randn(4, 3, 32, 32)).square().mean().backward()
    expected = plain_norm(model)
    assert abs(float(gradient_norm(model)) - expected) < 1e-5 * expected


def test_one_number_that_is_none_is_seen_wherever_it_is() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    model(torch.randn(5, 3)).sum().backward()
    for parameter in model.parameters():
        kept = parameter.grad.clone()
        parameter.grad.view(-1)[-1] = torch.inf
        assert not bool(gradient_norm(model).isfinite())
        parameter.grad.copy_(kept)
    assert bool(gradient_norm(model).isfinite())


MODELS = {
    "resnet18": {"layers": (1, 1, 1, 1), "channels": (16, 32, 64, 128)},
    "vit_tiny_patch16_224": {"img_size": 32, "patch_size": 4, "depth": 4},
    "mixer_mini": {"num_blocks": 3},
    "convnext_atto": {"depths": (1, 1, 2, 1)},
    "mobilenetv2_035": {},
}


@pytest.mark.parametrize("name", MODELS)
def test_a_number_that_is_none_anywhere_on_the_way_back_is_seen_from_rows_and_columns(name: str) -> None:
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=10, **MODELS[name])
    lay_out("auto", model, DataConfig(input_size=(3, 32, 32)), torch.device("cpu"))
    are_finite = FiniteGradients(model)
    images = torch.randn(2, 3, 32, 32)
    generator = torch.Generator().manual_seed(0)
    where: nn.Module | None = None
    bad = 0.0

    def spoil(gradient: Tensor) -> Tensor:
        spoilt = gradient.clone()
        place = torch.stack([torch.randint(side, (), generator=generator) for side in gradient.shape])
        spoilt[tuple(place)] = bad
        return spoilt

    def watch(module: nn.Module, _: object, output: Tensor) -> None:
        if module is where and output.requires_grad:
            output.register_hook(spoil)

    leaves = [m for m in model.modules() if not list(m.children()) and not isinstance(m, nn.Identity)]
    for leaf in leaves:
        leaf.register_forward_hook(watch)

    def gradients() -> None:
        model.zero_grad()
        model(images).logsumexp(1).mean().backward()

    gradients()
    assert are_finite()
    seen = 0
    for number, leaf in enumerate(leaves):
        where, bad = leaf, (math.nan, math.inf)[number % 2]
        gradients()
        spoilt = not bool(gradient_norm(model).isfinite())
        assert are_finite() is not spoilt
        seen += spoilt
    assert seen > 0.5 * len(leaves)


def test_most_numbers_are_left_unread() -> None:
    model = timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=4, num_classes=10)
    model(torch.randn(2, 3, 32, 32)).sum().backward()
    are_finite = FiniteGradients(model)
    model.blocks[3].mlp.fc1.weight.grad[5, 5] = math.nan  # where no way back leaves one alone
    assert are_finite()
    assert not bool(gradient_norm(model).isfinite())


class Tied(nn.Module):
    """The same matrix as a table of rows and as a product."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(300, 100)
        self.read = nn.Linear(100, 300, bias=False)
        self.read.weight = self.table.weight

    def forward(self, rows: Tensor) -> Tensor:
        return self.read(self.table(rows))


def test_what_is_not_only_a_product_is_read_whole() -> None:
    model = nn.Sequential(Tied(), nn.Conv1d(8, 8, 3, groups=8), nn.Linear(298, 200, bias=False))
    are_finite = FiniteGradients(model)
    model(torch.arange(16).view(2, 8)).sum().backward()
    assert are_finite()
    for parameter in (model[0].table.weight, model[1].weight, model[1].bias):
        kept = parameter.grad.clone()
        parameter.grad.view(-1)[-1] = math.nan
        assert not are_finite()
        parameter.grad.copy_(kept)


def test_every_number_of_many_tensors_counts() -> None:
    tensors = [torch.full((3, 4), 3e38), torch.zeros(2, dtype=torch.long), torch.zeros(0)]
    assert are_finite(tensors)
    tensors[0][2, 3] = -math.inf
    assert not are_finite(tensors)
