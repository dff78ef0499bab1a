"""The way through models of which several stages are used: pyramids, decoders, lists of features."""

import pytest
import timm
import torch
import torch.nn.functional as F
import transformers
from torch import nn
from torchvision.models import resnet18, resnet34
from torchvision.models.detection.backbone_utils import mobilenet_backbone, resnet_fpn_backbone

import vitscope as vs
from tests.invariants import check_all
from tests.registry import NoInitialisation, randomise_zeros

STAGES = dict(hidden_sizes=[16, 32, 48, 64], depths=[1, 2, 1, 1])
SEGFORMER = transformers.SegformerConfig(**STAGES, num_attention_heads=[1, 2, 3, 4], decoder_hidden_size=32)
ALL_STAGES = ["stage1", "stage2", "stage3", "stage4"]


def on_meta(make):
    with torch.device("meta"), NoInitialisation():
        return make().eval()


def rows(model: nn.Module, size: int, prefix: str = "") -> list[tuple]:
    """Name, kind and map of every unit before the head."""
    parts = vs.anatomy(model, (3, size, size))
    return [(u.name.removeprefix(prefix), u.kind, u.map_shape) for u in parts if u.kind != "head"]


@pytest.mark.parametrize("make", [resnet18, resnet34])
def test_a_feature_pyramid_loses_no_unit_of_its_backbone(make):
    pyramid = on_meta(lambda: resnet_fpn_backbone(backbone_name=make.__name__, weights=None))
    assert rows(pyramid, 64, "body.") == rows(on_meta(make), 64)
    assert [(u.name, u.kind) for u in vs.anatomy(pyramid, (3, 64, 64))][-1] == ("fpn", "head")


def test_subsampling_between_the_stages_of_a_pyramid_stands_where_it_is_done():
    model = on_meta(lambda: mobilenet_backbone(backbone_name="mobilenet_v3_large", weights=None, fpn=True))
    found = [name for name, _, _ in rows(model, 64, "body.")]
    assert found == ["0.0", *(f"{i}.block" for i in range(1, 16)), "16.0"]


def test_segmentation_has_the_units_of_classification():
    torch.manual_seed(0)
    model = transformers.SegformerForSemanticSegmentation(SEGFORMER).eval()
    encoder = rows(on_meta(lambda: transformers.SegformerForImageClassification(SEGFORMER)), 64)
    assert [kind for _, kind, _ in encoder].count("subsample") == 3
    assert rows(model, 64)[: len(encoder)] == encoder
    assert [name for name, _, _ in rows(model, 64)][len(encoder) :] == ["decode_head"]
    check_all(model, vs.anatomy(model, (3, 64, 64)), torch.randn(2, 3, 64, 64))


@pytest.mark.parametrize(
    ("backbone", "classifier"),
    [
        (
            transformers.ConvNextConfig(**STAGES, out_features=ALL_STAGES),
            transformers.ConvNextForImageClassification,
        ),
        (
            transformers.SwinConfig(
                image_size=64,
                embed_dim=16,
                depths=[1] * 4,
                num_heads=[2] * 4,
                window_size=2,
                out_features=ALL_STAGES,
            ),
            transformers.SwinForImageClassification,
        ),
    ],
    ids=["convnext", "swin"],
)
def test_upernet_has_the_units_of_its_backbone(backbone, classifier):
    config = transformers.UperNetConfig(backbone_config=backbone, hidden_size=16, num_labels=5)
    whole = rows(on_meta(lambda: transformers.UperNetForSemanticSegmentation(config)), 64, "backbone.")
    alone = [(kind, shape) for _, kind, shape in rows(on_meta(lambda: classifier(backbone)), 64)]
    assert [(kind, shape) for _, kind, shape in whole[: len(alone)]] == alone
    assert {name.partition(".")[0].partition(":")[0] for name, _, _ in whole[len(alone) :]} <= {
        "decode_head",
        "other",
    }


@pytest.mark.parametrize("name", ["resnet18", "mobilenetv3_small_050", "convnext_atto", "pvt_v2_b0", "vgg11"])
def test_lists_of_features_come_from_the_units_of_the_classifier(name):
    features = on_meta(lambda: timm.create_model(name, features_only=True))
    classifier = on_meta(lambda: timm.create_model(name))
    wanted = [(kind, shape) for _, kind, shape in rows(classifier, 64)]
    found = [(kind, shape) for _, kind, shape in rows(features, 64)]
    assert found[:-1] == wanted[: len(found) - 1]  # features may end before the classifier's last unit does
    assert len(found) >= len(wanted) - 1


def stage(before: int, after: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.ReLU())


class UNet(nn.Module):
    """Without residual additions: skips are concatenated."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.ModuleList([stage(3, 4), stage(4, 8), stage(8, 16)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(16, 8, 2, 2), nn.ConvTranspose2d(8, 4, 2, 2)])
        self.join = nn.ModuleList([stage(16, 8), stage(8, 4)])
        self.head = nn.Conv2d(4, 2, 1)

    def forward(self, x):
        a = self.down[0](x)
        b = self.down[1](F.max_pool2d(a, 2))
        c = self.down[2](F.max_pool2d(b, 2))
        b = self.join[0](torch.cat([b, self.up[0](c)], 1))
        return self.head(self.join[1](torch.cat([a, self.up[1](b)], 1)))


def test_a_u_net_is_followed_down_and_up_again():
    model = UNet().eval()
    assert rows(model, 16) == [
        ("down.0.0", "stem", (4, 16, 16)),
        ("subsample", "subsample", (4, 8, 8)),
        ("down.1.0", "conv", (8, 8, 8)),
        ("subsample#2", "subsample", (8, 4, 4)),
        ("down.2.0", "conv", (16, 4, 4)),
        ("up.0", "conv", (16, 8, 8)),
        ("join.0.0", "conv", (8, 8, 8)),
        ("up.1", "conv", (8, 16, 16)),
        ("join.1.0", "conv", (4, 16, 16)),
        ("head", "other", (2, 16, 16)),
    ]
    check_all(model, vs.anatomy(model, (3, 16, 16)), torch.randn(2, 3, 16, 16))


class Pyramid(nn.Module):
    """A residual backbone of one block a stage, a top-down and a bottom-up way (PANet)."""

    def __init__(self, bottom_up: bool) -> None:
        super().__init__()
        self.bottom_up = bottom_up
        self.stem = nn.Conv2d(3, 8, 1)
        self.subsample = nn.ModuleList([nn.Conv2d(8, 8, 2, 2), nn.Conv2d(8, 8, 2, 2)])
        self.block = nn.ModuleList([nn.Conv2d(8, 8, 3, padding=1) for _ in range(3)])
        self.lateral = nn.ModuleList([nn.Conv2d(8, 6, 1) for _ in range(3)])
        self.again = nn.ModuleList([nn.Conv2d(6, 6, 3, 2, 1) for _ in range(2)])

    def forward(self, x):
        x = self.stem(x)
        maps = [x := x + self.block[0](x)]
        for subsample, block in zip(self.subsample, self.block[1:], strict=True):
            x = subsample(x)
            maps.append(x := x + block(x))
        a, b, c = (lateral(m) for lateral, m in zip(self.lateral, maps, strict=True))
        b = b + F.interpolate(c, scale_factor=2)
        a = a + F.interpolate(b, scale_factor=2)
        if self.bottom_up:
            b = b + self.again[0](a)
            c = c + self.again[1](b)
        return [a, b, c]


@pytest.mark.parametrize("bottom_up", [False, True])
def test_a_pyramid_of_ones_own(bottom_up):
    model = Pyramid(bottom_up).eval()
    backbone = ["stem", "block.0", "subsample.0", "block.1", "subsample.1", "block.2"]
    assert [name for name, _, _ in rows(model, 16)][:6] == backbone
    randomise_zeros(model)
    check_all(model, vs.anatomy(model, (3, 16, 16)), torch.randn(2, 3, 16, 16))
