"""What the next unit reads: block outputs after the activation, or sums where it is the next unit's own."""

import pytest
import timm
import torch
import torch.nn.functional as F
import torchvision
from torch import Tensor, nn

import vitscope as vs
from tests.registry import randomise_zeros
from vitscope.core.errors import VitscopeError

SIZE = (3, 32, 32)
POST_ACTIVATION = [
    "resnet18",
    "resnet26",
    "seresnet18",
    "resnext26ts",
    "regnetx_002",
    "regnety_002",
    "skresnet18",
]

BLOCKS = ("BasicBlock", "Bottleneck", "BottleneckBlock", "SelectiveKernelBasic")


def build(name: str) -> nn.Module:
    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=5).eval()
    randomise_zeros(model)
    return model


def block_outputs(model: nn.Module, images: Tensor) -> dict[str, Tensor]:
    """What every module puts out, by plain hooks: the reference."""
    found: dict[str, Tensor] = {}
    hooks = [
        module.register_forward_hook(lambda m, a, out, path=path: found.__setitem__(path, out.clone()))
        for path, module in model.named_modules()
        if path
    ]
    model(images)
    for hook in hooks:
        hook.remove()
    return found


@pytest.mark.parametrize("name", POST_ACTIVATION)
@torch.no_grad()
def test_a_feature_is_what_the_block_puts_out(name: str):
    model, images = build(name), torch.randn(2, *SIZE)
    parts = vs.anatomy(model, SIZE)
    outputs = block_outputs(model, images)
    with vs.Tap(model, parts, features=True) as tap:
        model(images)
    units = [unit for unit in parts if unit.residual]
    assert len(units) >= 4
    assert {unit.activation for unit in units} == {"silu" if name == "resnext26ts" else "relu"}
    blocks = [path for path, module in model.named_modules() if type(module).__name__ in BLOCKS]
    for unit, block in zip(units, blocks, strict=True):
        assert torch.equal(tap.features[unit.name], outputs[block]), unit.name


@torch.no_grad()
def test_the_sum_is_available_and_its_activation_is_the_feature():
    torch.manual_seed(0)
    model, images = torchvision.models.resnet18(num_classes=5).eval(), torch.randn(2, *SIZE)
    parts = vs.anatomy(model, SIZE)
    with vs.Tap(model, parts, features=True, stream="sum", streams=True) as sums:
        plain = model(images)
    with vs.Tap(model, parts, features=True) as read:
        assert torch.equal(model(images), plain)
    for unit in parts:
        if unit.residual:
            before, branch, after = sums.streams[unit.name]
            assert torch.equal(sums.features[unit.name], after)
            assert torch.allclose(after, before + branch)
            assert bool((after < 0).any())
            assert torch.equal(read.features[unit.name], after.relu())
    assert (
        torch.equal(read.features["maxpool"], sums.features["maxpool"])
        if "maxpool" in read.features
        else True
    )


@pytest.mark.parametrize(
    "name", ["resnetv2_50", "convnext_atto", "mobilenetv2_100", "vit_tiny_patch16_224", "preresnet_mini"]
)
def test_sums_that_are_read_as_they_are(name: str):
    """Pre-activation, linear bottlenecks, transformers: no activation follows directly."""
    if name.startswith("vit"):
        model = timm.create_model(name, img_size=32, patch_size=8, depth=2)
    else:
        model = vs.create_model(name)
    assert {unit.activation for unit in vs.anatomy(model, SIZE)} == {""}


class Tail(nn.Module):
    """Two residual convolutions with something between the addition and the next one."""

    def __init__(self, between) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.a, self.b = (nn.Conv2d(8, 8, 3, padding=1) for _ in range(2))
        self.between = between
        self.head = nn.Linear(8, 5)

    def forward(self, x: Tensor) -> Tensor:
        x = self.between(self._add(self.stem(x), self.a))
        x = self._add(x, self.b)
        return self.head(x.mean((2, 3)))

    def _add(self, x: Tensor, layer: nn.Module) -> Tensor:
        return x + layer(x)


@pytest.mark.parametrize(
    ("between", "name"),
    [
        (lambda x: x * torch.sigmoid(x), "sigmoid"),  # written out
        (lambda x: x * F.relu6(x + 3) / 6, "relu6"),
        (lambda x: F.leaky_relu(x, 0.1, inplace=True), "leaky_relu"),
        (torch.tanh, "tanh"),
        (lambda x: x.clamp(min=0), "clamp"),
        (lambda x: torch.maximum(x, torch.zeros(())), "maximum"),
        (lambda x: torch.maximum(torch.zeros(1, 8, 1, 1), x), "maximum"),
        (lambda x: torch.minimum(torch.maximum(x, torch.zeros(())), torch.tensor(6.0)), "maximum"),
        (lambda x: torch.fmax(x, 0.1 * x), "fmax"),
        (lambda x: torch.max(x, torch.zeros_like(x)), "max"),
        (lambda x: torch.where(x > 0, x, 0.0), "where"),
        (lambda x: torch.where(x > 0, x, 0.1 * x), "where"),
        (lambda x: x.masked_fill(x < 0, 0.0), "masked_fill"),
        (nn.PReLU(8), "prelu"),
        (lambda x: x.relu_(), "relu"),
        (lambda x: 0.5 * x, ""),  # a scale is no activation
        (lambda x: F.layer_norm(x, x.shape[1:]), ""),
        (lambda x: x + torch.relu(x), "relu"),  # all that is read comes through it
        (lambda x: x, ""),
        (lambda x: torch.relu(0.5 * x), "relu"),
    ],
)
@torch.no_grad()
def test_activations_of_ones_own(between, name):
    torch.manual_seed(0)
    model, images = Tail(between).eval(), torch.randn(2, *SIZE)
    parts = vs.anatomy(model, SIZE)
    unit = next(u for u in parts if u.residual)
    assert unit.activation == name
    total = model._add(model.stem(images), model.a)
    with vs.Tap(model, parts, units=[unit], features=True) as tap:
        model(images)
    wanted = between(total) if name else total
    assert torch.allclose(tap.features[unit.name], wanted, atol=1e-6)


class ReadTwice(Tail):
    def forward(self, x: Tensor) -> Tensor:
        x = self._add(self.stem(x), self.a)
        x = x + self.b(torch.relu(x))
        return self.head(x.mean((2, 3)))


def test_a_sum_that_the_next_addition_reads_too_is_the_feature():
    parts = vs.anatomy(ReadTwice(None), SIZE)
    assert [unit.activation for unit in parts if unit.residual] == ["", ""]


class PutsOutSums(Tail):
    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        total = self._add(self.stem(x), self.a)
        return self._add(torch.relu(total), self.b), total


def test_a_sum_that_a_backbone_puts_out_is_the_feature():
    parts = vs.anatomy(PutsOutSums(None), SIZE)
    assert all(unit.activation == "" for unit in parts)


@torch.no_grad()
def test_an_edit_replaces_what_the_feature_is():
    torch.manual_seed(0)
    model, images = torchvision.models.resnet18(num_classes=5).eval(), torch.randn(2, *SIZE)
    parts = vs.anatomy(model, SIZE)
    name = [unit.name for unit in parts if unit.residual][-1]
    with vs.Tap(model, parts, units=[name], features=True, edit={name: lambda x: x.neg()}) as tap:
        edited = model(images)
    assert bool((tap.features[name] <= 0).all())
    wanted = model.fc(tap.features[name].mean((2, 3)))
    assert torch.allclose(edited, wanted, atol=1e-6)


@torch.no_grad()
def test_a_lesion_leaves_the_activation_in_place():
    torch.manual_seed(0)
    model, images = torchvision.models.resnet18(num_classes=5).eval(), torch.randn(2, *SIZE)
    parts = vs.anatomy(model, SIZE)
    unit = next(u for u in parts if u.removable)
    before = parts[parts.units.index(unit) - 1]
    with vs.Tap(model, parts, units=[unit, before], features=True, remove=[unit]) as tap:
        model(images)
    assert torch.equal(tap.features[unit.name], tap.features[before.name])


def test_no_other_stream_is_known():
    model = torchvision.models.resnet18()
    with pytest.raises(VitscopeError, match="stream is 'branch'; expected read or sum"):
        vs.Tap(model, vs.anatomy(model, SIZE), stream="branch")


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
