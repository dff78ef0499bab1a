"""FLOPs against closed forms and torchvision's published counts; and what is left behind."""

import pytest
import timm
import torch
import torchvision
from torch import Tensor, nn

from tests.cases import AT_32, ATTENTION_DESIGNS, Case
from tests.models.factories import NeedsValues
from vitscope.anatomy.flops import cheap_copy, count_flops
from vitscope.core.errors import VitscopeError
from vitscope.models import create_model


def test_convolution() -> None:
    plain = nn.Conv2d(3, 8, (3, 5), stride=2, padding=(1, 2))
    grouped = nn.Conv2d(6, 8, 3, groups=2)
    assert count_flops(plain, (3, 10, 12)) == 2 * (8 * 5 * 6) * (3 * 3 * 5)
    assert count_flops(grouped, (6, 10, 12)) == 2 * (8 * 8 * 10) * (3 * 3 * 3)


def vit_flops(width: int, depth: int, patches: int, patch: int, classes: int) -> int:
    tokens = patches + 1
    attention = tokens * width * 3 * width + 2 * tokens * tokens * width + tokens * width * width
    mlp = 2 * tokens * width * 4 * width
    return 2 * (patches * 3 * patch * patch * width + depth * (attention + mlp) + width * classes)


@pytest.mark.parametrize("fused", [False, True])
def test_vit_with_either_attention(fused: bool) -> None:
    model = create_model("vit_mini")
    for block in model.blocks:
        block.attn.fused_attn = fused
    assert count_flops(model, (3, 32, 32)) == vit_flops(96, 6, 64, 4, 10)


class Attending(nn.Module):
    """A transformer layer that looks at the values of its input, so that it cannot run without them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 32, batch_first=True)

    def forward(self, images: Tensor) -> Tensor:
        tokens = images.flatten(2).transpose(1, 2)
        return self.layer(tokens) if images.abs().max().item() >= 0 else tokens


def test_real_pass_counts_what_fused_layers_hide() -> None:
    tokens, width = 6, 8
    products = 4 * tokens * width * width + 2 * tokens * tokens * width + 2 * tokens * width * 32
    assert count_flops(Attending(), (8, 2, 3)) == 2 * products


@pytest.mark.parametrize("name", ["resnet50", "vit_b_16", "swin_t", "convnext_tiny", "efficientnet_b0"])
def test_torchvisions_counts(name: str) -> None:
    published = torchvision.models.get_model_weights(name)["IMAGENET1K_V1"].meta["_ops"]  # G multiply-adds
    with torch.device("meta"):
        model = torchvision.models.get_model(name)
    assert count_flops(model, (3, 224, 224)) / 2e9 == pytest.approx(published, abs=6e-4)


def test_resnet50_has_8_gigaflop() -> None:
    with torch.device("meta"):
        model = timm.create_model("resnet50")
    assert round(count_flops(model, (3, 224, 224)) / 1e9, 2) == 8.18


@pytest.mark.parametrize("make", [lambda: create_model("convit_mini"), NeedsValues])
def test_nothing_is_left_behind(make) -> None:
    torch.manual_seed(0)
    model = make().train()
    next(model.children()).eval()
    modes = [module.training for module in model.modules()]
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    random, fast_path = torch.get_rng_state(), torch.backends.mha.get_fastpath_enabled()
    count_flops(model, (3, 32, 32))
    assert [module.training for module in model.modules()] == modes
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.backends.mha.get_fastpath_enabled() == fast_path
    assert torch.backends.cuda.flash_sdp_enabled()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, state[name]), name
    assert (
        model.eval()(torch.randn(1, 3, 32, 32)).device.type == "cpu"
    )  # tensors kept as plain attributes too


def test_other_precision_and_after_a_pass() -> None:
    model = create_model("convit_mini").to(torch.float64).eval()
    before = count_flops(model, (3, 32, 32))
    model(torch.randn(1, 3, 32, 32, dtype=torch.float64))  # it keeps its relative positions from now on
    assert count_flops(model, (3, 32, 32)) == before


@pytest.mark.parametrize("case", [*ATTENTION_DESIGNS[:12:2], *AT_32[:7:3]], ids=lambda case: case.name)
def test_with_values_as_without(case: Case) -> None:
    """A small model makes its pass on the CPU, the same one on the meta device none of whose values are known."""
    model = case.model()
    assert next(cheap_copy(model, case.size).parameters()).device.type == "cpu"
    assert count_flops(model, case.size) == count_flops(model.to("meta"), case.size) > 0


def test_weights_of_a_small_model_are_not_copied_and_its_buffers_are() -> None:
    model = create_model("resnet_mini").train()
    double = cheap_copy(model, (3, 32, 32))
    for one, other in zip(model.parameters(), double.parameters(), strict=True):
        assert one is not other
        assert one.data_ptr() == other.data_ptr()
    for one, other in zip(model.buffers(), double.buffers(), strict=True):
        assert one.data_ptr() != other.data_ptr()
    large = cheap_copy(model, (3, 512, 512))
    assert all(parameter.is_meta for parameter in large.parameters())


def test_without_weights_and_in_need_of_them() -> None:
    with torch.device("meta"):
        model = NeedsValues()
    with pytest.raises(VitscopeError, match="NeedsValues does not run without weights"):
        count_flops(model, (3, 8, 8))


def test_no_image() -> None:
    with pytest.raises(VitscopeError, match=r"\(channels, height, width\), got \(1, 3, 8, 8\)"):
        count_flops(nn.Identity(), (1, 3, 8, 8))


def test_models_own_error_is_not_hidden() -> None:
    with pytest.raises(RuntimeError, match="channels"):
        count_flops(nn.Conv2d(3, 4, 3), (5, 8, 8))
