"""Which parameters a Hessian is taken over, and which a landscape moves."""

import itertools

import pytest
import timm
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from vitscope.anatomy import anatomy
from vitscope.core.errors import UnsupportedModel, VitscopeError
from vitscope.curvature.parameters import Moved, moved_parameters, select_parameters
from vitscope.models import create_model


@pytest.fixture(scope="module")
def vit():
    return create_model("vit_mini", depth=2)


@pytest.fixture(scope="module")
def resnet():
    return create_model("resnet_mini")


def test_a_module_a_pattern_a_list(vit, resnet) -> None:
    assert all(name.startswith("layer4.") for name in select_parameters(resnet, "layer4"))
    assert len(select_parameters(resnet, "layer4")) == len(list(resnet.layer4.parameters()))
    assert set(select_parameters(vit, "blocks.*.attn")) == {
        f"blocks.{i}.attn.{part}.{what}"
        for i in (0, 1)
        for part in ("qkv", "proj")
        for what in ("weight", "bias")
    }
    assert list(select_parameters(vit, "head, cls_token")) == ["cls_token", "head.weight", "head.bias"]
    assert list(select_parameters(vit, "*")) == [name for name, _ in vit.named_parameters()]


def test_a_kind_of_unit(vit, resnet) -> None:
    by_kind = select_parameters(vit, "kind:msa", anatomy(vit))
    assert list(by_kind) == list(select_parameters(vit, "blocks.*.attn"))
    mlp_and_head = select_parameters(vit, "kind:mlp, head", anatomy(vit))
    assert list(mlp_and_head) == list(select_parameters(vit, "blocks.*.mlp, head"))
    with pytest.raises(VitscopeError, match="no unit of kind 'msa'; it has"):
        select_parameters(resnet, "kind:msa", anatomy(resnet))
    with pytest.raises(VitscopeError, match="no kind 'attention'"):
        select_parameters(vit, "kind:attention", anatomy(vit))
    with pytest.raises(VitscopeError, match="needs the model's anatomy"):
        select_parameters(vit, "kind:msa")


def test_tied_weights_by_either_name_and_once() -> None:
    model = create_model("vit_mini", depth=2)
    model.blocks[1].mlp.fc1.weight = model.blocks[0].mlp.fc1.weight
    for place in (0, 1):
        chosen = select_parameters(model, f"blocks.{place}.mlp.fc1.weight")
        assert [id(p) for p in chosen.values()] == [id(model.blocks[0].mlp.fc1.weight)]
    assert len(select_parameters(model, "blocks.*.mlp.fc1.weight")) == 1


def names(model: nn.Module, size: tuple[int, int, int]) -> set[str]:
    return {m.name for m in moved_parameters(model, size)}


def test_of_a_vision_transformer_all_filters_and_nothing_else() -> None:
    model = timm.create_model(
        "deit_tiny_distilled_patch16_224", img_size=32, patch_size=8, embed_dim=24, depth=2, num_heads=2
    )
    filters = {f"{name}.weight" for name, m in model.named_modules() if isinstance(m, nn.Linear | nn.Conv2d)}
    assert names(model, (3, 32, 32)) == filters  # no class token, no position embedding, no norms, no biases


def test_tables_of_relative_positions_stay_whether_looked_up_or_made_by_a_network() -> None:
    options = {"img_size": 32, "patch_size": 2, "window_size": 4, "embed_dim": 12, "depths": (1, 1)}
    options |= {"num_heads": (2, 2), "num_classes": 5}
    looked_up = timm.create_model("swin_tiny_patch4_window7_224", **options)
    made = timm.create_model("swinv2_tiny_window8_256", **options)
    for model, part in ((looked_up, "relative_position_bias_table"), (made, "cpb_mlp")):
        left = {name for name, p in model.named_parameters() if p.ndim > 1} - names(model, (3, 32, 32))
        assert left
        assert all(part in name or "logit_scale" in name for name in left)


class Relative(nn.Module):
    """Attention whose scores have a part q . r, as BoTNet has it, and a learned query that reads the tokens out."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused
        self.qkv = nn.Linear(3, 12)
        self.table = nn.Parameter(torch.randn(16, 4))
        self.query = nn.Parameter(torch.randn(1, 1, 4))
        self.to_query = nn.Linear(4, 4)
        self.head = nn.Linear(4, 5)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x.flatten(2).transpose(1, 2)).chunk(3, -1)
        bias = q @ self.table.T
        if self.fused:
            x = F.scaled_dot_product_attention(q, k, v, attn_mask=bias)
        else:
            x = (q @ k.transpose(1, 2) + bias).softmax(-1) @ v
        pooled = (self.to_query(self.query) @ x.transpose(1, 2)).softmax(-1) @ x
        return self.head(pooled[:, 0])


@pytest.mark.parametrize("fused", [True, False])
def test_relative_positions_as_factors_and_learned_queries_stay(fused: bool) -> None:
    assert names(Relative(fused), (3, 4, 4)) == {"qkv.weight", "head.weight"}


class Products(nn.Module):
    """Every way to multiply by weights; the filters of each differ in their axes."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.ConvTranspose2d(3, 4, 2, stride=2)
        self.grouped = nn.Conv2d(4, 6, 3, groups=2)
        self.right = nn.Parameter(torch.randn(6, 5))
        self.turned = nn.Parameter(torch.randn(7, 5))
        self.left = nn.Parameter(torch.randn(8, 36))
        self.heads = nn.Parameter(torch.randn(2, 7, 3))
        self.standard = nn.Parameter(torch.randn(9, 8))
        self.scale = nn.Parameter(torch.rand(9, 1))
        self.added = nn.Parameter(torch.randn(36, 7))

    def forward(self, x: Tensor) -> Tensor:
        x = self.grouped(self.up(x)).flatten(2).transpose(1, 2)
        x = x @ self.right @ self.turned.T + self.added
        x = torch.einsum("ntc,hcd->nhtd", self.left @ x, self.heads).sum((1, 3))
        weight = self.standard - self.standard.mean(1, keepdim=True)
        return F.linear(x, weight * self.scale)


@pytest.fixture(scope="module")
def products() -> dict[str, Moved]:
    torch.manual_seed(0)
    return {m.name: m for m in moved_parameters(Products().double(), (3, 4, 4))}


def test_every_kind_of_product_counts(products: dict[str, Moved]) -> None:
    weights = {"up.weight", "grouped.weight", "right", "turned", "left", "heads", "standard"}
    assert set(products) == weights  # neither what is added nor a scale per output


@pytest.mark.parametrize(
    ("name", "output"),
    [
        ("up.weight", lambda p: F.conv_transpose2d(torch.ones(1, 3, 1, 1).double(), p)[0, 1, 0, 0]),
        ("grouped.weight", lambda p: F.conv2d(torch.ones(1, 4, 3, 3).double(), p, groups=2)[0, 1, 0, 0]),
        ("right", lambda p: (torch.ones(1, 6).double() @ p)[0, 1]),
        ("turned", lambda p: (torch.ones(1, 5).double() @ p.T)[0, 1]),
        ("left", lambda p: (p @ torch.ones(36, 1).double())[1, 0]),
        ("heads", lambda p: torch.einsum("tc,hcd->htd", torch.ones(1, 7).double(), p)[1, 0, 1]),
        ("standard", lambda p: F.linear(torch.ones(1, 8).double(), p)[0, 1]),
    ],
)
def test_a_filter_is_what_one_output_depends_on(products: dict[str, Moved], name: str, output) -> None:
    moved = products[name]
    weight = moved.parameter.detach().clone().requires_grad_()
    depends = torch.autograd.grad(output(weight), weight)[0] != 0
    inside = [range(size) if axis in moved.inside else [None] for axis, size in enumerate(weight.shape)]
    start = depends.nonzero()[0]
    one = torch.zeros_like(depends)
    for place in itertools.product(*inside):
        one[tuple(int(start[axis]) if i is None else i for axis, i in enumerate(place))] = True
    if name == "up.weight":  # a kernel's other points make other points of the same output map
        depends = depends.any(-1, keepdim=True).any(-2, keepdim=True).expand_as(one)
    torch.testing.assert_close(depends, one)


def test_a_model_without_filters_is_refused() -> None:
    with pytest.raises(UnsupportedModel, match="no parameter of Sequential multiplies what it is shown"):
        moved_parameters(nn.Sequential(nn.BatchNorm2d(3), nn.Flatten()), (3, 4, 4))
