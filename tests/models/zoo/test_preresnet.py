"""Pre-activation ResNets: what they compute, parameter counts, both stems, timm's conventions."""

import pytest
import timm
import torch
import torch.nn.functional as F
from timm.models import group_parameters
from torch import Tensor, nn

import vitscope as vs
import vitscope.models.zoo.preresnet as preresnet

BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def count(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def expected_count(blocks: tuple[int, ...], bottleneck: bool, stem: int, classes: int) -> int:
    """Layer by layer: norms have two per channel, convolutions no bias."""
    total, before = 3 * 64 * stem**2, 64
    for stage, length in enumerate(blocks):
        after = (256 if bottleneck else 64) * 2**stage
        inside = after // 4 if bottleneck else after
        for _ in range(length):
            total += before * after if before != after else 0
            total += 2 * before + 2 * inside
            if bottleneck:
                total += before * inside + 9 * inside**2 + 2 * inside + inside * after
            else:
                total += 9 * before * inside + 9 * inside * after
            before = after
    return total + 2 * before + before * classes + classes


@pytest.mark.parametrize("depth", BLOCKS)
@pytest.mark.parametrize(("size", "stem"), [(32, 3), (224, 7)])
def test_parameters_add_up(depth: int, size: int, stem: int) -> None:
    with torch.device("meta"):
        model = timm.create_model(f"preresnet{depth}", img_size=size, num_classes=100)
    assert count(model) == expected_count(BLOCKS[depth], depth >= 50, stem, 100)


def test_published_size() -> None:
    model = vs.create_model("preresnet50", img_size=32, num_classes=100)
    assert round(count(model) / 1e6, 3) == 23.698


def test_blocks_can_be_given() -> None:
    model = timm.create_model("preresnet50", img_size=32, num_classes=100, blocks=(3, 4, 6, 4))
    assert [len(stage.blocks) for stage in model.stages] == [3, 4, 6, 4]
    assert count(model) == expected_count((3, 4, 6, 4), True, 3, 100)


@pytest.mark.parametrize("bottleneck", [False, True])
def test_computes_what_the_formula_says(bottleneck: bool) -> None:
    torch.manual_seed(0)
    model = preresnet.PreResNet(
        (1, 2), (16, 32), bottleneck, img_size=16, num_classes=3, stem_channels=8, drop_rate=0.5
    )
    model = model.double().eval()
    for name, buffer in model.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            buffer.uniform_(0.5, 1.5)
    state = model.state_dict()

    def activated(x: Tensor, at: str) -> Tensor:
        mean, var, weight, bias = (
            state[f"{at}.{n}"].view(-1, 1, 1) for n in ("running_mean", "running_var", "weight", "bias")
        )
        return ((x - mean) / (var + 1e-5).sqrt() * weight + bias).clamp(min=0)

    def block(x: Tensor, at: str, stride: int) -> Tensor:
        branch = start = activated(x, f"{at}.norm1")
        strides = {"conv1": 1, "conv2": stride, "conv3": 1} if bottleneck else {"conv1": stride, "conv2": 1}
        for conv, step in strides.items():
            weight = state[f"{at}.{conv}.weight"]
            branch = branch if conv == "conv1" else activated(branch, f"{at}.norm{conv[-1]}")
            branch = F.conv2d(branch, weight, stride=step, padding=weight.shape[-1] // 2)
        shortcut = state.get(f"{at}.downsample.conv.weight")
        return branch + (x if shortcut is None else F.conv2d(start, shortcut, stride=stride))

    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    y = F.conv2d(x, state["stem.conv.weight"], padding=1)
    for at, stride in (("stages.0.blocks.0", 1), ("stages.1.blocks.0", 2), ("stages.1.blocks.1", 1)):
        y = block(y, at, stride)
    pooled = activated(y, "norm").mean((2, 3))
    expected = pooled @ state["head.fc.weight"].flatten(1).T + state["head.fc.bias"]
    with torch.no_grad():
        torch.testing.assert_close(model(x), expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(
    ("size", "maps"),
    [
        (32, (32, 32, 16, 8, 4)),
        (64, (64, 64, 32, 16, 8)),
        (65, (33, 17, 9, 5, 3)),
        ((96, 64), (48, 24, 12, 6, 3)),
    ],
)
def test_stem_follows_the_images(size: int | tuple[int, int], maps: tuple[int, ...]) -> None:
    height, width = (size, size) if isinstance(size, int) else size
    with torch.device("meta"):
        model = timm.create_model("preresnet18", img_size=size)
        features = model.forward_intermediates(torch.empty(1, 3, height, width), intermediates_only=True)
    assert tuple(feature.shape[2] for feature in features) == maps


@pytest.mark.parametrize("size", [32, 96])
def test_features_are_as_large_as_timm_is_told(size: int) -> None:
    torch.manual_seed(0)
    whole = timm.create_model("preresnet18", img_size=size).eval()
    model = timm.create_model("preresnet18", img_size=size, features_only=True).eval()
    model.load_state_dict(
        {name.replace(".", "_", 1): value for name, value in whole.state_dict().items()}, strict=False
    )
    images = torch.randn(1, 3, size, size)
    with torch.no_grad():
        maps = model(images)
        final, intermediates = whole.forward_intermediates(images)
        assert torch.equal(final, whole.forward_features(images))
    assert [size // m.shape[-1] for m in maps] == model.feature_info.reduction()
    assert [m.shape[1] for m in maps] == model.feature_info.channels()
    for one, other in zip(maps, intermediates, strict=True):
        torch.testing.assert_close(one, other, rtol=0, atol=0)


def test_intermediates_on_request() -> None:
    model = timm.create_model("preresnet_mini").eval()
    images = torch.randn(1, 3, 32, 32)
    with torch.no_grad():
        early = model.forward_intermediates(images, [0, 2], stop_early=True, intermediates_only=True)
        last = model.forward_intermediates(images, 1, norm=True, intermediates_only=True)
        features = model.forward_features(images)
    assert [tuple(m.shape[1:]) for m in early] == [(16, 32, 32), (32, 16, 16)]
    assert torch.equal(last[0], features)


def test_head_as_timm_has_it() -> None:
    model = timm.create_model("preresnet_mini", in_chans=1, num_classes=7, drop_rate=0.1)
    features = model.forward_features(torch.randn(2, 1, 32, 32))
    assert features.shape == (2, model.num_features, 4, 4)
    assert model.forward_head(features, pre_logits=True).shape == (2, model.num_features)
    assert model.get_classifier().out_channels == 7
    model.reset_classifier(3)
    assert model(torch.randn(2, 1, 32, 32)).shape == (2, 3)
    model.reset_classifier(0, "")
    assert model(torch.randn(2, 1, 32, 32)).shape == features.shape


def test_checkpointing_gives_the_same_gradients() -> None:
    torch.manual_seed(0)
    model = timm.create_model("preresnet_mini").double()
    images = torch.randn(4, 3, 32, 32, dtype=torch.float64)
    plain = torch.autograd.grad(model(images).square().sum(), list(model.parameters()))
    model.set_grad_checkpointing()
    again = torch.autograd.grad(model(images).square().sum(), list(model.parameters()))
    torch.testing.assert_close(plain, again)


def test_parameters_are_grouped_by_depth() -> None:
    model = timm.create_model("preresnet_mini")
    groups = group_parameters(model, model.group_matcher())
    names = [name for group in groups.values() for name in group]
    assert sorted(names) == sorted(name for name, _ in model.named_parameters())
    assert len(groups) == 1 + 8 + 1  # stem, blocks, norm and head


def test_stochastic_depth_rises_to_the_rate() -> None:
    model = timm.create_model("preresnet_mini", drop_path_rate=0.7)
    rates = [getattr(block.drop_path, "drop_prob", 0.0) for stage in model.stages for block in stage.blocks]
    assert rates == pytest.approx([0.1 * i for i in range(8)])


def test_data_configuration_follows_the_images() -> None:
    large, small = (
        timm.create_model("preresnet18"),
        timm.create_model("preresnet18", img_size=(32, 48), in_chans=1),
    )
    assert large.pretrained_cfg["input_size"] == (3, 224, 224)
    assert small.pretrained_cfg["input_size"] == (1, 32, 48)
    assert small.pretrained_cfg["crop_pct"] == 1.0
    assert small.pretrained_cfg["mean"] != large.pretrained_cfg["mean"]
    mini = timm.create_model("preresnet_mini", img_size=40)
    assert mini.pretrained_cfg["mean"] == timm.create_model("preresnet_mini").pretrained_cfg["mean"]
    assert mini.pretrained_cfg["input_size"] == (3, 40, 40)


def test_minis_are_alike_in_size() -> None:
    sizes = [count(timm.create_model(name)) for name in ("preresnet_mini", "resnet_mini")]
    assert max(sizes) <= 1_000_000
    assert max(sizes) / min(sizes) < 1.1


def test_units() -> None:
    parts = vs.anatomy(timm.create_model("preresnet_mini"))
    assert [unit.kind for unit in parts] == ["stem", *["conv"] * 8, "head"]
    assert [unit.stage for unit in parts if unit.kind == "conv"] == [0, 0, 1, 1, 2, 2, 3, 3]
