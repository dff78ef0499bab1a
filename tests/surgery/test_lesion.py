import pytest
import torch
from torch import nn

import vitscope as vs
from tests.cases import AT_32, HAND_MADE, HUGGING_FACE, TORCHVISION, one_in
from tests.registry import randomise_zeros
from tests.surgery.checks import assert_equal, check_operated, outputs, short
from tests.surgery.fashion import fashion
from vitscope.anatomy.watch.one_forward import main_output
from vitscope.core.errors import UnsupportedModel, VitscopeError

QUICK = (
    "resnet50", "pre-activation resnet", "vit_tiny/2", "pit_ti/4", "coat_lite_tiny", "tv:convnext_tiny", "tv:vit",
    "hf:dinov2-sdpa", "hand-made",
)  # fmt: skip
CASES = {case.name: case for case in (*AT_32, *TORCHVISION, *HUGGING_FACE, HAND_MADE)}

# bottlenecks as in resnet50, fewer and narrower; the first one still widens what comes in
SMALL = {"num_classes": 10, "layers": (2, 2, 2, 1), "channels": (32, 48, 64, 96)}


def said_with_gradient(model: nn.Module, images: torch.Tensor) -> list[torch.Tensor]:
    """Without `no_grad`: nn.MultiheadAttention has another kernel there, that rounds otherwise."""
    return [t.detach() for t in main_output(model(images))]


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
)
def test_branch_is_left_out_as_a_tap_does_it(name: str) -> None:
    case = CASES[name]
    model, images = case.model(), case.images(1)
    parts = vs.anatomy(model, case.size)
    whole = said_with_gradient(model, images)
    removable = [unit for unit in parts if unit.removable and not unit.name.startswith("cpe")]
    for unit in dict.fromkeys((removable[0], removable[-1])):
        with vs.Tap(model, parts, units=[], remove=[unit]):
            wanted = said_with_gradient(model, images)
        vs.surgery.lesion(model, unit.name, "branch", example=case.size)
        assert_equal(said_with_gradient(model, images), wanted)
        vs.surgery.undo(model)
        assert_equal(said_with_gradient(model, images), whole)


def test_default_of_a_bottleneck_is_its_middle_convolution() -> None:
    model = vs.create_model("resnet50", img_size=32, **SMALL).eval()
    randomise_zeros(model)
    block = model.layer1[1]
    x = torch.randn(2, 128, 8, 8).relu()
    with torch.no_grad():
        inner = block.act2(block.bn2(block.act1(block.bn1(block.conv1(x)))))  # without conv2
        wanted = (block.bn3(block.conv3(inner)) + x).relu()
    vs.surgery.lesion(model, "layer1.1")
    assert vs.surgery.record(model)[0]["options"] == {"unit": "layer1.1", "part": "convolution"}
    with torch.no_grad():
        assert torch.equal(block(x), wanted)


def test_defaults_by_kind() -> None:
    def part(model: nn.Module, unit: str) -> str:
        vs.surgery.lesion(model, unit)
        chosen = vs.surgery.record(model)[-1]["options"]["part"]
        vs.surgery.undo(model)
        return chosen

    vit = vs.create_model("vit_mini", depth=2)
    assert {part(vit, unit.name) for unit in vs.anatomy(vit).of_kind("msa", "mlp")} == {"branch"}
    resnet = vs.create_model("resnet18", img_size=32)
    assert part(resnet, "layer1.0") == "branch"  # two 3x3 convolutions and nothing around them


def first_block(model: nn.Module, path: str, x: torch.Tensor, part: str) -> torch.Tensor:
    """A bottleneck of timm's ResNet, written out, without its branch or without its 3x3 convolution."""
    block = model.get_submodule(path)
    shortcut = x if block.downsample is None else block.downsample(x)
    if part == "branch":
        return shortcut.relu()
    inner = block.bn1(block.conv1(x)).relu()
    inner = inner[:, :, :: block.conv2.stride[0], :: block.conv2.stride[1]]
    return (block.bn3(block.conv3(block.bn2(inner).relu())) + shortcut).relu()


@pytest.mark.parametrize("part", ["branch", "convolution"])
@pytest.mark.parametrize(
    ("path", "shape"), [("layer1.0", (32, 8, 8)), ("layer1.1", (128, 8, 8)), ("layer2.0", (128, 9, 7))]
)
def test_bottlenecks_by_hand(path: str, shape: tuple[int, ...], part: str) -> None:
    model = vs.create_model("resnet50", img_size=32, **SMALL).eval().double()
    randomise_zeros(model)
    images = torch.randn(2, 3, 32, 32, dtype=torch.float64)
    said = outputs(model, images)
    x = torch.randn(2, *shape, dtype=torch.float64).relu()
    with torch.no_grad():
        wanted = first_block(model, path, x, part)
        vs.surgery.lesion(model, path, part)
        torch.testing.assert_close(model.get_submodule(path)(x), wanted, rtol=0, atol=1e-12)
    assert not torch.equal(outputs(model, images)[0], said[0])
    vs.surgery.undo(model)
    assert_equal(outputs(model, images), said)


@pytest.mark.parametrize(
    ("name", "unit", "part"),
    one_in(
        3,
        [
            ("resnet18", "layer2.0", "branch"),
            ("resnet50", "layer2.0", "convolution"),
            ("resnet50d", "layer2.0", "branch"),
            ("resnext50_32x4d", "layer3.0", "convolution"),
            ("regnetx_002", "s3.b1", "convolution"),
            ("regnety_002", "s3.b1", "branch"),
            ("preresnet_mini", "stages.1.blocks.0", "branch"),
        ],
    ),
)
def test_the_first_block_of_a_stage(name: str, unit: str, part: str, tmp_path) -> None:
    settings = SMALL if name.startswith("resne") else {"num_classes": 10}
    model = vs.create_model(name, **({} if name == "preresnet_mini" else {"img_size": 64, **settings})).eval()
    randomise_zeros(model)
    images = torch.randn(2, *vs.anatomy(model).input_shape)
    vs.surgery.lesion(model, unit, part)
    said = outputs(model, images)
    check_operated(model, images, tmp_path, graph=False)
    vs.surgery.undo(model)
    if part == "branch":
        parts = vs.anatomy(model)
        assert parts[unit].downsamples
        with vs.Tap(model, parts, units=[], remove=[unit]):
            assert_equal(outputs(model, images), said)


def test_refusals() -> None:
    model = vs.create_model("vit_mini")
    unit = vs.anatomy(model).of_kind("msa")[0].name
    with pytest.raises(vs.surgery.CannotOperate, match=r"0 spatial convolutions.*part='branch'"):
        vs.surgery.lesion(model, unit, "convolution")
    with pytest.raises(vs.surgery.CannotOperate, match="everything passes through it"):
        vs.surgery.lesion(model, vs.anatomy(model)[0])
    with pytest.raises(VitscopeError, match=r"no unit 'blocks\.99'"):
        vs.surgery.lesion(model, "blocks.99")
    shared = CASES["coat_lite_tiny"]
    with pytest.raises(UnsupportedModel, match="cpe1"):
        vs.surgery.lesion(shared.model(), "cpe1", example=shared.size)


def test_a_lesion_silences_infinity_and_gives_every_parameter_a_gradient() -> None:
    model = vs.create_model("vit_mini", pretrained=True).eval()
    unit = vs.anatomy(model).of_kind("mlp")[1]
    images = torch.randn(2, *vs.anatomy(model).input_shape)
    vs.surgery.lesion(model, unit)
    model(images)[:, 0].sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in model.parameters())
    assert model.patch_embed.proj.weight.grad.any()
    own = list(model.get_submodule(unit.module).parameters())
    assert own
    assert not any(p.grad.any() for p in own)
    with torch.no_grad():
        own[-1].fill_(float("inf"))
    assert outputs(model, images)[0].isfinite().all()


def test_a_bypassed_convolution_has_a_gradient_in_training() -> None:
    model = vs.create_model("resnet50", img_size=32, **SMALL).train()
    randomise_zeros(model)
    vs.surgery.lesion(model, "layer1.1")
    model(torch.randn(2, 3, 32, 32)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    assert not model.layer1[1].conv2.weight.grad.any()


@pytest.mark.parametrize("name", ["vit_mini", "resnet_mini"])
def test_operated(name: str, tmp_path) -> None:
    model = short(name, **({"depth": 2} if name == "vit_mini" else {"layers": (1, 2, 2, 1)}))
    parts = vs.anatomy(model)
    images = torch.randn(2, *parts.input_shape)
    said = outputs(model, images)
    for unit in [u for u in parts if u.removable][-2:]:
        vs.surgery.lesion(model, unit)
    assert not torch.equal(outputs(model, images)[0], said[0])
    check_operated(model, images, tmp_path, graph=name == "resnet_mini")
    vs.surgery.undo(vs.surgery.undo(model))
    assert_equal(outputs(model, images), said)


def test_changes_accuracy_on_real_images() -> None:
    model = vs.create_model("vit_mini", pretrained=True).eval()
    images, labels = fashion(model, 128)

    def accuracy() -> float:
        with torch.no_grad():
            return float((model(images).argmax(1) == labels).float().mean())

    whole = accuracy()
    without = []
    for unit in vs.anatomy(model).of_kind("msa"):
        vs.surgery.lesion(model, unit)
        without.append(accuracy())
        vs.surgery.undo(model)
    assert accuracy() == whole > 0.7
    assert min(without) < whole - 0.02
