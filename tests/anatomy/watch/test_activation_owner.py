"""In a pre-activation network the map after a unit is the sum, also where the next unit projects its shortcut."""

import pytest
import timm
import torch
import torch.nn.functional as F
import torchvision
from torch import Tensor, nn

import vitscope as vs

SIZE = (3, 32, 32)


class PreActivation(nn.Module):
    """x + f(relu(x)); the shortcut is a projection of relu(x) where the shape changes, or everywhere."""

    def __init__(self, inputs: int, width: int, stride: int = 1, project: bool = False) -> None:
        super().__init__()
        first, second = nn.Conv2d(inputs, width, 3, stride, 1), nn.Conv2d(width, width, 3, 1, 1)
        self.conv = nn.Sequential(first, nn.ReLU(), second)
        self.shortcut = nn.Conv2d(inputs, width, 1, stride) if project or inputs != width else None

    def forward(self, x: Tensor) -> Tensor:
        active = F.relu(x)
        return self.conv(active) + (x if self.shortcut is None else self.shortcut(active))


class PostActivation(PreActivation):
    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.conv(x) + (x if self.shortcut is None else self.shortcut(x)))


def network(*blocks: nn.Module, width: int = 16) -> nn.Sequential:
    stem = nn.Conv2d(3, 8, 3, 1, 1)
    return nn.Sequential(stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 5)).eval()


@torch.no_grad()
def reads_module_outputs(model: nn.Sequential, modules: list[int]) -> None:
    """The features of the units with a map are what these modules of the sequence put out."""
    images = torch.randn(2, *SIZE)
    parts = vs.anatomy(model, SIZE)
    with vs.Tap(model, parts, features=True) as tap:
        model(images)
    outputs, x = [], images
    for module in model:
        x = module(x)
        outputs.append(x)
    units = [unit for unit in parts if unit.map_shape is not None]
    assert len(units) == len(modules)
    for unit, position in zip(units, modules, strict=True):
        assert torch.equal(tap.features[unit.name], outputs[position]), unit.name


def test_a_sum_is_read_at_the_end_of_a_stage_as_inside_of_it():
    torch.manual_seed(0)
    blocks = [PreActivation(8, 8), PreActivation(8, 8), PreActivation(8, 16, 2), PreActivation(16, 16)]
    model = network(*blocks, nn.ReLU())
    assert {unit.activation for unit in vs.anatomy(model, SIZE)} == {""}
    reads_module_outputs(model, [0, 1, 2, 3, 4])


def test_a_first_block_that_projects_does_not_lend_the_stem_its_activation():
    torch.manual_seed(0)
    model = network(PreActivation(8, 16, 2), PreActivation(16, 16), nn.ReLU())
    reads_module_outputs(model, [0, 1, 2])


def test_where_every_block_projects_the_module_of_the_activation_tells():
    torch.manual_seed(0)
    blocks = [PreActivation(8, 8, project=True), PreActivation(8, 16, 2), PreActivation(16, 16, project=True)]
    reads_module_outputs(network(*blocks, nn.ReLU()), [0, 1, 2, 3])


class Loop(nn.Module):
    """Pre-activation blocks written out in one forward, with the last activation in the same module."""

    def __init__(self) -> None:
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(8, 8, 3, 1, 1) for _ in range(3))

    def forward(self, x: Tensor) -> Tensor:
        for conv in self.convs:
            x = x + conv(F.relu(x))
        return F.relu(x)


def test_a_module_that_reads_its_sums_both_ways_does_not_own_its_last_activation():
    parts = vs.anatomy(network(Loop(), width=8), SIZE)
    assert [unit.activation for unit in parts if unit.residual] == ["", "", ""]


def test_blocks_that_put_out_their_activation_own_it_whatever_else_there_is():
    torch.manual_seed(0)
    blocks = [PostActivation(8, 8), PostActivation(8, 8), PreActivation(8, 8), PreActivation(8, 8)]
    model = network(*blocks, width=8)
    assert [unit.activation for unit in vs.anatomy(model, SIZE) if unit.residual] == ["relu", "relu", "", ""]
    reads_module_outputs(model, [0, 1, 2, 3, 4])


def test_activations_beside_the_blocks_belong_to_what_comes_before_them():
    class Sum(PreActivation):
        def forward(self, x: Tensor) -> Tensor:
            return x + self.conv(x)

    model = network(Sum(8, 8), nn.ReLU(), Sum(8, 8), nn.ReLU(), width=8)
    assert [unit.activation for unit in vs.anatomy(model, SIZE) if unit.residual] == ["relu", "relu"]


@pytest.mark.parametrize(
    "name", ["nf_resnet26", "nf_ecaresnet26", "nf_regnet_b0", "dm_nfnet_f0", "resnetv2_50"]
)
@torch.no_grad()
def test_timms_normaliser_free_networks(name: str):
    """What the blocks put out is what is measured, by plain hooks."""
    torch.manual_seed(0)
    model, images = timm.create_model(name, num_classes=5).eval(), torch.randn(2, 3, 64, 64)
    parts = vs.anatomy(model, (3, 64, 64))
    found: dict[str, Tensor] = {}
    for path, module in model.named_modules():
        module.register_forward_hook(lambda m, a, out, path=path: found.__setitem__(path, out.clone()))
    with vs.Tap(model, parts, features=True) as tap:
        model(images)
    units = [unit for unit in parts if unit.residual]
    assert len(units) >= 8
    for unit in [parts["stem"], *units]:
        assert torch.equal(tap.features[unit.name], found[unit.name]), unit.name


def test_post_activation_networks_are_as_they_were():
    parts = vs.anatomy(torchvision.models.resnet18(), SIZE)
    assert {unit.activation for unit in parts if unit.residual} == {"relu"}
