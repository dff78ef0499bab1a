"""Conv blocks replaced by MSA blocks, the extra block, and the stochastic depth that is taken over."""

import copy

import pytest
import timm
import torch
import torch.nn.functional as F
import transformers
from timm.layers import DropPath
from torch import Tensor, nn
from torchvision.ops import StochasticDepth
from transformers.models.convnext.modeling_convnext import ConvNextDropPath

import vitscope as vs
from tests.cases import (
    HUGGING_FACE,
    NARROW,
    Case,
    hf_case,
    one_in,
    small_torchvision_convnext,
    timm_case,
    tv_case,
)
from tests.surgery.checks import assert_close, assert_equal, check_operated, outputs, set_origin
from tests.surgery.measures import tiny
from vitscope.anatomy.structure.dissect import dissect
from vitscope.models.zoo.alternet import MSABlock
from vitscope.surgery import CannotOperate, NoEffectWarning, alternate, record
from vitscope.surgery.alternate import append_block, drop_probability
from vitscope.surgery.tools.proof import Snapshot
from vitscope.surgery.tools.replaceable import conv_stages


def small(blocks, **arguments) -> nn.Module:
    """A pre-activation ResNet-50 for 32 pixels and 100 classes."""
    return vs.create_model("preresnet50", img_size=32, num_classes=100, blocks=blocks, **arguments)


def msa_paths(model: nn.Module) -> list[str]:
    return [name for name, module in model.named_modules() if isinstance(module, MSABlock)]


@pytest.mark.parametrize(("blocks", "extra"), [((3, 4, 6, 4), False), ((3, 4, 6, 3), True)])
def test_gives_exactly_alternet_50(blocks, extra):
    """Same modules, same parameters, and with the same weights the same outputs, bit by bit."""
    operated = alternate(small(blocks, drop_path_rate=0.1), msa=(0, 1, 1, 2), extra_block=extra).eval()
    published = vs.create_model("alternet_50", img_size=32, num_classes=100, drop_path_rate=0.1).eval()
    tree = {name: type(module) for name, module in operated.named_modules() if name}
    assert tree == {name: type(module) for name, module in published.named_modules() if name}
    state = {name: tensor.shape for name, tensor in operated.state_dict().items()}
    assert list(state.items()) == [(name, tensor.shape) for name, tensor in published.state_dict().items()]
    assert sum(p.numel() for p in operated.parameters()) == pytest.approx(33.01e6, abs=5e3)
    operated.load_state_dict(published.state_dict())
    images = torch.randn(2, 3, 32, 32)
    assert_equal(outputs(operated, images), outputs(published, images))


def test_takes_the_stochastic_depth_of_the_replaced_block():
    model = vs.create_model("preresnet_mini", blocks=(3, 4, 6, 4), drop_path_rate=0.1)
    replaced = ["stages.1.blocks.3", "stages.2.blocks.5", "stages.3.blocks.1", "stages.3.blocks.3"]
    before = [model.get_submodule(path).drop_path.drop_prob for path in replaced]
    alternate(model, msa=(0, 1, 1, 2), heads=(1, 1, 1, 1))
    assert msa_paths(model) == replaced
    after = [model.get_submodule(path).drop_path.drop_prob for path in replaced]
    assert after == pytest.approx(before, abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "counts"),
    [
        ({"budget": 1}, [0, 0, 0, 1]),
        ({"budget": 3}, [0, 1, 1, 1]),
        ({"budget": 4}, [1, 1, 1, 1]),
        ({"budget": 6}, [1, 1, 2, 2]),
        ({"budget": 7}, [1, 2, 2, 2]),
        ({"budget": 99}, [1, 2, 3, 2]),
        ({"last": 1}, [0, 0, 0, 1]),
        ({"last": 3}, [0, 0, 1, 2]),
        ({"last": 6}, [0, 1, 3, 2]),
        ({"last": 8}, [1, 2, 3, 2]),
        ({}, [1, 1, 1, 1]),
    ],
)
def test_rules(arguments, counts):
    """Stages of 3, 4, 6 and 4 blocks hold 1, 2, 3 and 2 MSAs, each after a convolution."""
    model = tiny((3, 4, 6, 4))
    alternate(model, heads=(1, 1, 1, 1), **arguments)
    assert record(model)[0]["options"]["msa"] == counts
    wanted = [
        f"stages.{stage}.blocks.{n - 1 - 2 * i}"
        for stage, (n, count) in enumerate(zip((3, 4, 6, 4), counts, strict=True))
        for i in reversed(range(count))
    ]
    assert msa_paths(model) == wanted
    parts = vs.anatomy(model)
    assert len(parts.of_kind("msa")) == sum(counts)
    assert {unit.attention.pattern for unit in parts.of_kind("msa")} <= {"window", "global"}


def test_a_model_of_a_thousand_classes_gets_six():
    model = vs.create_model("preresnet_mini", blocks=(3, 4, 6, 4), num_classes=1000)
    assert sum(record(alternate(model, heads=(1, 1, 1, 1)))[0]["options"]["msa"]) == 6


HF_RESNET = hf_case(
    "resnet",
    transformers.ResNetConfig(embedding_size=8, hidden_sizes=[16, 32, 64], depths=[2, 2, 2]),
    transformers.ResNetForImageClassification,
    None,
)
HOSTS = [
    (timm_case("resnet18", 64, drop_path_rate=0.1, channels=NARROW), (1, 1, 1, 1), "ReLU"),
    (
        timm_case("resnetv2_50", 64, layers=(2, 2, 2, 2), channels=(64, 128, 256, 256)),
        (1, 1, 1, 1),
        None,
    ),
    (
        timm_case("resnext50_32x4d", 64, layers=(2, 2, 2, 2), channels=NARROW),
        (1, 1, 1, 1),
        "ReLU",
    ),
    (timm_case("regnety_002", 64, drop_path_rate=0.1), (0, 0, 2, 2), "ReLU"),
    (timm_case("convnext_atto", 64), (1, 1, 1, 1), None),
    (timm_case("efficientnet_b0", 64), (1, 1, 2, 2), None),
    (tv_case("resnet18", 64), (1, 1, 1, 1), "ReLU"),
    (tv_case("regnet_y_400mf", 64), (0, 1, 2, 3), "ReLU"),
    (Case("tv:convnext_tiny", small_torchvision_convnext, (3, 64, 64)), (1, 1, 1, 1), None),
    (HF_RESNET, (1, 1, 1), "ReLU"),
    (next(case for case in HUGGING_FACE if "convnext" in case.name), (0, 1, 1, 1), None),
]


@pytest.mark.parametrize(
    ("case", "counts", "activation"), one_in(2, HOSTS), ids=lambda value: getattr(value, "name", "")
)
def test_hosts_of_every_library(case: Case, counts, activation):
    """The wanted blocks are replaced, all other weights stay, and post-activation hosts keep their activation."""
    model = case.model()
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    alternate(model, msa=counts, heads=[1] * len(counts), example=case.size)
    places = record(model)[0]["places"]
    assert len(places) == len(msa_paths(model)) == sum(counts)
    assert all(unit.module.startswith(tuple(places)) for unit in vs.anatomy(model, case.size).of_kind("msa"))
    kept = [name for name in before if not name.startswith(tuple(f"{place}." for place in places))]
    assert all(torch.equal(model.state_dict()[name], before[name]) for name in kept)
    for place in places:
        block = model.get_submodule(place).eval()
        assert (type(block.after[0]).__name__ if hasattr(block, "after") else None) == activation
        with torch.no_grad():
            x = torch.randn(1, block.norm1.num_features, 5, 5)
            attended = MSABlock.forward(block, x)
            assert_close([block(x)], [attended.relu() if activation else attended])
    assert all(t.isfinite().all() for t in outputs(model, case.images()))


@pytest.mark.parametrize(
    ("name", "arguments", "graph"),
    [
        ("preresnet_mini", {"msa": (0, 0, 1, 1), "extra_block": True, "window": 3}, False),
        pytest.param(
            "preresnet_mini",
            {"msa": (0, 0, 1, 1), "extra_block": True, "window": 3},
            True,
            marks=pytest.mark.slow,
        ),
        ("resnet_mini", {"example": (3, 32, 32)}, False),
        ("tv:resnet18", {"budget": 2, "example": (3, 40, 56)}, False),
    ],
)
def test_saves_copies_exports_and_compiles(name, arguments, graph, tmp_path):
    torch.manual_seed(0)
    host = tiny((1, 1, 2, 2)) if name == "preresnet_mini" else vs.create_model(name)
    model = alternate(host, heads=(1, 2, 4, 8), **arguments).eval()
    check_operated(model, torch.randn(2, *arguments.get("example", (3, 32, 32))), tmp_path, graph=graph)


def test_new_parameters_all_learn():
    model = alternate(vs.create_model("preresnet_mini"), msa=(0, 1, 1, 1), heads=(1, 1, 1, 1)).train()
    model(torch.randn(4, 3, 32, 32)).square().sum().backward()
    for path in msa_paths(model):
        for name, parameter in model.get_submodule(path).named_parameters():
            assert parameter.grad.abs().max() > 0, f"{path}.{name}"


class Block(nn.Module):
    """As in many a tutorial: post-activation, the ReLU a function."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return F.leaky_relu(x + self.conv(F.relu(x)), 0.3)


class ChannelsLastBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


class Tutorial(nn.Module):
    def __init__(self, block: type[nn.Module], depth: int = 4, channels_last: bool = False) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 8, 3, padding=1)
        self.blocks = nn.ModuleList([block(8) for _ in range(depth)])
        self.head = nn.Linear(8, 5)
        self.channels_last = channels_last

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        if self.channels_last:
            x = x.permute(0, 2, 3, 1)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((1, 2) if self.channels_last else (2, 3)))


def tutorial(num_classes: int = 5) -> nn.Module:
    return Tutorial(Block)


def test_an_activation_that_is_a_function_is_kept(tmp_path):
    model = tutorial()
    set_origin(model, f"{__name__}:tutorial", {})
    alternate(model, last=2, heads=(1,), example=(3, 12, 12))
    assert msa_paths(model) == ["blocks.1", "blocks.3"]
    x = torch.randn(2, 8, 6, 6)
    finished = model.blocks[3].eval()
    with torch.no_grad():
        assert_equal([finished(x)], [F.leaky_relu(MSABlock.forward(finished, x), 0.3)])
    check_operated(model.eval(), torch.randn(2, 3, 12, 12), tmp_path)


def unchanged(model: nn.Module, **arguments) -> str:
    """What the refusal says; the model must be what it was."""
    before = copy.deepcopy(model)
    with pytest.raises(CannotOperate) as caught:
        alternate(model, **arguments)
    assert list(model.state_dict()) == list(before.state_dict())
    assert [type(m) for m in model.modules()] == [type(m) for m in before.modules()]
    assert record(model) == []
    return str(caught.value)


def test_refusals_say_what_would_do():
    model = vs.create_model("preresnet_mini", blocks=(1, 2, 4, 3))
    assert "stage 1 has 0 blocks" in unchanged(model, msa=(1, 0, 0, 0))
    said = unchanged(model, msa=(0, 0, 0, 2))
    assert "stage 4 has 1 block that can be replaced, 2 asked" in said
    assert "msa=(0, 1, 2, 1), or extra_block=True" in said
    assert "stage 3 has 2 blocks that can be replaced, 3 asked" in unchanged(
        model, msa=(0, 1, 3, 1), extra_block=True
    )
    assert "is for 3 stages" in unchanged(model, msa=(0, 1, 1))
    assert "try last=4" in unchanged(model, last=5)
    assert "msa and last are different rules" in unchanged(model, msa=(0, 0, 0, 1), last=1)
    assert "heads=(3, 6)" in unchanged(model, heads=(3, 6))
    vit = vs.create_model("vit_mini")
    assert "no residual conv blocks" in unchanged(vit)


class ReadingBlock(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.scale = 1.0

    def forward(self, x: Tensor) -> Tensor:
        return x + self.conv(x)


class Reading(Tutorial):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * self.blocks[-1].scale


def test_a_host_that_needs_more_of_a_block_is_put_back():
    said = unchanged(Reading(ReadingBlock), last=1, example=(3, 12, 12))
    assert "does not run with MSA blocks" in said
    assert "scale" in said


def test_maps_with_channels_last_are_left_alone():
    model = Tutorial(ChannelsLastBlock, channels_last=True)
    with pytest.warns(NoEffectWarning, match="takes and gives a map of one shape"):
        alternate(model, example=(3, 12, 12))


def test_alternating_again_goes_on_where_there_is_room():
    model = vs.create_model("preresnet_mini", blocks=(2, 2, 4, 4))
    alternate(model, msa=(0, 0, 0, 1), heads=(1, 1, 1, 1))
    alternate(model, last=1, heads=(1, 1, 1, 1))
    assert msa_paths(model) == ["stages.3.blocks.1", "stages.3.blocks.3"]


def test_keeps_precision_and_mode():
    model = vs.create_model("preresnet_mini").double().eval()
    alternate(model, last=1, heads=(1, 1, 1, 1))
    assert {p.dtype for p in model.parameters()} == {torch.float64}
    assert not any(module.training for module in model.modules())


def test_appends_a_fresh_copy_that_runs_and_can_be_removed():
    model = vs.create_model("preresnet_mini").eval()
    images = torch.randn(2, 3, 32, 32)
    before = model(images)
    convs = len(vs.anatomy(model).of_kind("conv"))
    before_it = Snapshot(model)
    path = append_block(model, conv_stages(dissect(model))[-1])
    assert path == "stages.3.blocks.2"
    old, new = model.stages[3].blocks[1:]
    assert [p.shape for p in new.parameters()] == [p.shape for p in old.parameters()]
    assert not torch.equal(old.conv1.weight, new.conv1.weight)
    assert len(vs.anatomy(model).of_kind("conv")) == convs + 1
    assert not torch.equal(model(images), before)
    before_it.restore()
    assert torch.equal(model(images), before)


def test_needs_an_ordered_container():
    model = timm.create_model("regnety_002")  # its stages are modules that run through their children
    with pytest.raises(CannotOperate, match="not the last one of an nn"):
        append_block(model, conv_stages(dissect(model, (3, 64, 64)))[-1])


def test_needs_a_block_that_keeps_its_shape():
    model = vs.create_model("preresnet_mini", blocks=(2, 2, 2, 1))
    with pytest.raises(CannotOperate, match="stage 4 has no block that keeps the shape"):
        append_block(model, conv_stages(dissect(model))[-1])


@pytest.mark.parametrize(
    "module",
    [DropPath(0.2), StochasticDepth(0.2, "row"), ConvNextDropPath(0.2)],
    ids=["timm", "torchvision", "transformers"],
)
def test_finds_it_in_every_library(module):
    assert drop_probability(nn.Sequential(nn.Conv2d(3, 3, 3), module)) == pytest.approx(0.2, abs=1e-6)


@pytest.mark.parametrize(
    "module",
    [
        nn.Dropout(0.2),
        nn.Dropout2d(0.2),
        nn.Identity(),
        nn.ReLU(),
        nn.Hardtanh(0, 3),
        DropPath(0.0),
        nn.Flatten(),
    ],
    ids=lambda module: type(module).__name__,
)
def test_nothing_else_is_one(module):
    assert drop_probability(nn.Sequential(nn.Conv2d(3, 3, 3), module)) == 0.0


def test_leaves_random_state_and_mode():
    block = nn.Sequential(DropPath(0.5)).eval()
    before = torch.get_rng_state()
    drop_probability(block)
    assert torch.equal(torch.get_rng_state(), before)
    assert not block[0].training
