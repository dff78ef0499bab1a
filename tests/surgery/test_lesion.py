import pytest
import torch
from torch import nn

import vitscope as vs
from tests.cases import AT_32, HAND_MADE, HUGGING_FACE, TORCHVISION
from tests.registry import randomise_zeros
from tests.surgery.checks import assert_equal, check_operated, outputs
from tests.surgery.fashion import fashion
from vitscope.anatomy.watch import main_output
from vitscope.errors import UnsupportedModel, VitscopeError

QUICK = (
    "resnet18", "resnet50", "pre-activation resnet", "vit_tiny/2", "pit_ti/4", "levit_128s", "coat_lite_tiny",
    "pvt_v2_b1", "tv:convnext_tiny", "tv:vit_b_32", "tv:efficientnet_b0", "hf:vit-sdpa", "hf:dinov2-sdpa",
    "hf:swin-sdpa", "hand-made",
)  # fmt: skip
CASES = {case.name: case for case in (*AT_32, *TORCHVISION, *HUGGING_FACE, HAND_MADE)}


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
    model = vs.create_model("resnet50", num_classes=10, img_size=32).eval()
    randomise_zeros(model)
    block = model.layer1[1]
    x = torch.randn(2, 256, 8, 8).relu()
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

    vit = vs.create_model("vit_mini")
    assert {part(vit, unit.name) for unit in vs.anatomy(vit).of_kind("msa", "mlp")} == {"branch"}
    resnet = vs.create_model("resnet18", img_size=32)
    assert part(resnet, "layer1.0") == "branch"  # two 3x3 convolutions and nothing around them


def test_a_projection_shortcut_keeps_only_the_convolution_from_going() -> None:
    model = vs.create_model("resnet50", num_classes=10, img_size=32)
    randomise_zeros(model)
    images = torch.randn(2, 3, 32, 32)
    said = outputs(model, images)
    vs.surgery.lesion(model, "layer1.0")  # projects its shortcut, but its 3x3 convolution keeps its shape
    assert not torch.equal(outputs(model, images)[0], said[0])
    vs.surgery.undo(model)
    assert_equal(outputs(model, images), said)
    with pytest.raises(vs.surgery.CannotOperate, match="shortcut does work of its own"):
        vs.surgery.lesion(model, "layer1.0", "branch")
    with pytest.raises(vs.surgery.CannotOperate, match="makes 128x16x16 out of 128x32x32"):
        vs.surgery.lesion(model, "layer2.0")
    assert vs.surgery.record(model) == []
    assert_equal(outputs(model, images), said)


def test_refusals() -> None:
    model = vs.create_model("vit_mini")
    unit = vs.anatomy(model).of_kind("msa")[0].name
    with pytest.raises(vs.surgery.CannotOperate, match=r"0 spatial convolutions.*part='branch'"):
        vs.surgery.lesion(model, unit, "convolution")
    with pytest.raises(vs.surgery.CannotOperate, match="everything passes through it"):
        vs.surgery.lesion(model, vs.anatomy(model)[0])
    with pytest.raises(vs.surgery.CannotOperate, match="part='middle'"):
        vs.surgery.lesion(model, unit, "middle")
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
    model = vs.create_model("resnet50", num_classes=10, img_size=32).train()
    randomise_zeros(model)
    vs.surgery.lesion(model, "layer1.1")
    model(torch.randn(2, 3, 32, 32)).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    assert not model.layer1[1].conv2.weight.grad.any()


@pytest.mark.parametrize("name", ["vit_mini", "resnet_mini"])
def test_operated(name: str, tmp_path) -> None:
    model = vs.create_model(name, pretrained=True)
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
