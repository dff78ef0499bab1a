"""One unit more at the end of the stream."""

import pytest
import timm
import torch
from torch import nn

import vitscope as vs
from tests.cases import HAND_MADE, TORCHVISION, Case
from tests.surgery.checks import assert_equal, check_operated, outputs, short
from vitscope.surgery import CannotOperate
from vitscope.surgery.extend import ExtraMlp, ExtraMsa
from vitscope.surgery.tools.image_tokens import ImageTokens

IMAGES = torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(1))


def randomised(module: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.3)
    return module.double()


def layer_norm(x, norm: nn.LayerNorm):
    centred = x - x.mean(-1, keepdim=True)
    return centred / (centred.pow(2).mean(-1, keepdim=True) + 1e-6).sqrt() * norm.weight + norm.bias


def test_msa_against_a_loop_over_heads() -> None:
    step = randomised(ExtraMsa(ImageTokens(3, 2), 6, heads=2))
    x = torch.randn(2, 5, 6, dtype=torch.float64)
    for image, seen in zip(x, step(x), strict=True):
        q, k, v = (layer_norm(image, step.norm) @ step.qkv.weight.T + step.qkv.bias).split(6, dim=-1)
        mixed = []
        for head in (slice(0, 3), slice(3, 6)):
            logits = q[:, head] @ k[:, head].T / 3**0.5
            weights = logits.exp() / logits.exp().sum(-1, keepdim=True)
            mixed.append(weights @ v[:, head])
        torch.testing.assert_close(seen, image + torch.cat(mixed, -1) @ step.proj.weight.T + step.proj.bias)
    assert torch.autograd.gradcheck(step, x.requires_grad_())


def test_mlp_formula() -> None:
    step = randomised(ExtraMlp(ImageTokens(4, 1), 6))
    x = torch.randn(2, 6, 2, 3, dtype=torch.float64)
    tokens = x.permute(0, 2, 3, 1)
    hidden = layer_norm(tokens, step.norm) @ step.fc1.weight.T + step.fc1.bias
    hidden = hidden * (1 + torch.erf(hidden / 2**0.5)) / 2
    wanted = tokens + hidden @ step.fc2.weight.T + step.fc2.bias
    torch.testing.assert_close(step(x), wanted.permute(0, 3, 1, 2))
    assert torch.autograd.gradcheck(step, x.requires_grad_())


@pytest.mark.parametrize("kind", ["msa", "mlp"])
def test_on_a_vit(kind: str, tmp_path) -> None:
    model = short("vit_mini", depth=2)
    was = outputs(model, IMAGES)
    heads = vs.anatomy(model)["blocks.1.attn"].heads
    vs.surgery.extend(model, kind)
    assert_equal(outputs(model, IMAGES), was)  # the last map starts at zero
    unit = [unit for unit in vs.anatomy(model) if unit.residual][-1]
    assert (unit.kind, unit.name, unit.map_shape) == (kind, f"blocks.1.extra_{kind}", (96, 8, 8))
    assert unit.heads == (heads if kind == "msa" else None)
    nn.init.normal_(model.get_parameter(f"blocks.1.extra_{kind}.{'proj' if kind == 'msa' else 'fc2'}.weight"))
    assert not torch.equal(outputs(model, IMAGES)[0], was[0])
    model(IMAGES).pow(2).sum().backward()
    new = {name: p for name, p in model.named_parameters() if "extra_" in name}
    assert len(new) == 6
    silent = [n for n, p in new.items() if p.grad is None or not p.grad.abs().max() > 0]
    assert silent == []
    check_operated(model, IMAGES, tmp_path)
    assert_equal(outputs(vs.surgery.undo(model), IMAGES), was)


def test_msa_and_mlp_cost_nearly_the_same() -> None:
    """As the paper's comparison wants it: an 8-layer ViT-S."""
    added = {}
    for kind in ("msa", "mlp"):
        model = timm.create_model("vit_small_patch16_224", depth=8, img_size=64)
        before = sum(p.numel() for p in model.parameters())
        vs.surgery.extend(model, kind)
        added[kind] = sum(p.numel() for p in model.parameters()) - before
    d = 384
    assert added == {"msa": 4 * d * d + 6 * d, "mlp": 4 * d * d + 5 * d}


@pytest.mark.parametrize("name", ["swin_mini", "pvt_mini", "resnet_mini", "tv:swin_t"])
def test_other_layouts(name: str) -> None:
    case = next((c for c in TORCHVISION if c.name == name), None) or Case(name, lambda: vs.create_model(name))
    model = case.model()
    was = outputs(model, case.images())
    vs.surgery.extend(model, "msa", heads=4, example=case.size)
    vs.surgery.extend(model, "mlp", example=case.size)
    assert_equal(outputs(model, case.images()), was)
    kinds = [unit.kind for unit in vs.anatomy(model, case.size) if unit.residual]
    assert kinds[-2:] == ["msa", "mlp"]


def test_refusals_leave_the_model_alone() -> None:
    model = vs.create_model("resnet_mini")
    with pytest.raises(CannotOperate, match="no MSA to take the number of heads from; say how many: heads=8"):
        vs.surgery.extend(model, "msa")
    with pytest.raises(CannotOperate, match="7 heads do not divide"):
        vs.surgery.extend(model, "msa", heads=7)
    hand_made = HAND_MADE.model()  # nobody but a mean takes its last stream
    with pytest.raises(CannotOperate, match="no module of this HandMade gives or takes the stream"):
        vs.surgery.extend(hand_made, "mlp", example=HAND_MADE.size)
    assert vs.surgery.record(model) == vs.surgery.record(hand_made) == []


@pytest.mark.parametrize("name", ["resnet18", "tv:resnet18"])
@torch.no_grad()
def test_after_the_activation_of_a_post_activation_network(name):
    """The new unit reads what a next block would."""
    torch.manual_seed(0)
    model = vs.create_model(name, num_classes=5, pretrained=False).eval()
    images = torch.randn(2, 3, 32, 32)
    seen = []
    model.layer4[1].register_forward_hook(lambda m, a, out: seen.append(out))
    plain = model(images)
    block_output = seen.pop()
    vs.surgery.extend(model, "mlp", example=(3, 32, 32))
    step = next(module for path, module in model.named_modules() if path.endswith("extra_mlp"))
    step.register_forward_pre_hook(lambda m, a: seen.append(a[0]))
    seen.clear()
    assert torch.equal(model(images), plain)
    assert torch.equal(seen[0], block_output)
