"""Models and data that several tests share."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
import timm
import torch
import torchvision
import transformers
from torch import Tensor, nn

from tests.registry import randomise_zeros

HF_SMALL = dict(hidden_size=48, num_hidden_layers=2, num_attention_heads=3, image_size=64, patch_size=8)


@dataclass(frozen=True)
class Case:
    """A named model and the input it takes."""

    name: str
    make: Callable[[], nn.Module]
    size: tuple[int, int, int] = (3, 32, 32)

    def model(self) -> nn.Module:
        torch.manual_seed(0)
        model = self.make().eval()
        randomise_zeros(model)
        return model

    def images(self, count: int = 3) -> Tensor:
        return torch.randn(count, *self.size, generator=torch.Generator().manual_seed(1))


def timm_case(name: str, size: int, label: str | None = None, **arguments) -> Case:
    return Case(
        label or name, lambda: timm.create_model(name, pretrained=False, **arguments), (3, size, size)
    )


def tv_case(name: str, size: int, **arguments) -> Case:
    return Case(
        f"tv:{name}",
        lambda: torchvision.models.get_model(name, weights=None, **arguments),
        (3, size, size),
    )


def small_maxvit() -> nn.Module:
    """Torchvision's MaxViT for 64 pixels; `maxvit_t` takes no other windows than 7x7, which want 224."""
    return torchvision.models.MaxVit(
        input_size=(64, 64),
        stem_channels=16,
        partition_size=4,
        block_channels=[16, 32, 64],
        block_layers=[2, 2, 2],
        head_dim=8,
        stochastic_depth_prob=0.1,
    )


def small_torchvision_swin(version: int = 1) -> nn.Module:
    """Torchvision's Swin of two blocks, with and without a shift, in each of its four narrow stages."""
    swin = torchvision.models.swin_transformer
    block = [swin.SwinTransformerBlock, swin.SwinTransformerBlockV2][version - 1]
    merging = [swin.PatchMerging, swin.PatchMergingV2][version - 1]
    return torchvision.models.SwinTransformer(
        [4, 4], 48, [2, 2, 2, 2], [3, 6, 12, 24], [7 + version - 1] * 2, block=block, downsample_layer=merging
    )


def small_torchvision_convnext() -> nn.Module:
    """Torchvision's ConvNeXt of two blocks in each of its four narrow stages."""
    widths = (24, 48, 96, 192, None)
    setting = torchvision.models.convnext.CNBlockConfig
    return torchvision.models.ConvNeXt([setting(*pair, 2) for pair in pairwise(widths)])


def small_torchvision_vit() -> nn.Module:
    """Torchvision's ViT of few and narrow layers; `vit_b_32` has 88 million parameters."""
    return torchvision.models.VisionTransformer(
        image_size=64, patch_size=16, num_layers=4, num_heads=4, hidden_dim=96, mlp_dim=192
    )


def small_volo() -> nn.Module:
    """Timm's VOLO of few and narrow blocks; `volo_d1_224` takes no other number of them."""
    return timm.models.volo.VOLO(
        layers=(2, 1, 2, 1), img_size=64, embed_dims=(48, 96, 96, 96), num_heads=(3, 6, 6, 6)
    )


def small_mvit() -> nn.Module:
    """Timm's MViTv2 of few and narrow blocks; `mvitv2_tiny` takes no other number of them."""
    mvitv2 = timm.models.mvitv2
    return mvitv2.MultiScaleVit(mvitv2.MultiScaleVitCfg(depths=(1, 2, 2, 1), embed_dim=48), img_size=64)


def hf_case(name: str, config, cls, attention: str | None, size: int = 64) -> Case:
    arguments = {} if attention is None else {"attn_implementation": attention}
    return Case(f"hf:{name}-{attention}", lambda: cls._from_config(config, **arguments), (3, size, size))


# claims A1 at 32 pixels; the baselines that timm has, narrow: to draw weights takes longer than to compute with them
NARROW = (64, 64, 96, 128)
AT_32 = [
    timm_case("resnet18", 32, channels=NARROW),
    timm_case("resnet34", 32, layers=(2, 2, 3, 2), channels=NARROW),
    timm_case("resnet50", 32, layers=(2, 2, 2, 2), channels=NARROW),
    timm_case("resnet101", 32, layers=(2, 2, 5, 2), channels=NARROW),
    timm_case("resnext50_32x4d", 32, layers=(2, 2, 2, 2), channels=NARROW),
    timm_case("resnetv2_50", 32, "pre-activation resnet", layers=(2, 2, 2, 2), channels=(64, 128, 256, 512)),
    timm_case("vit_tiny_patch16_224", 32, "vit_tiny/2", img_size=32, patch_size=2, depth=4),
    timm_case("vit_small_patch16_224", 32, "vit_small/4", img_size=32, patch_size=4, depth=4, embed_dim=192),
    timm_case("vit_base_patch16_224", 32, "vit_base/8", img_size=32, patch_size=8, depth=3, embed_dim=192),
    timm_case("pit_ti_224", 32, "pit_ti/4", img_size=32, patch_size=4, depth=(2, 2, 2)),
    timm_case("pit_b_224", 32, "pit_b/4", img_size=32, patch_size=4, depth=(2, 2, 2), base_dims=(16, 16, 16)),
    timm_case(
        "swin_tiny_patch4_window7_224",
        32,
        "swin_tiny/1",
        img_size=32,
        patch_size=1,
        window_size=4,
        embed_dim=48,
        depths=(2, 2, 2, 2),
    ),
    timm_case("twins_svt_small", 32, img_size=32, embed_dims=(32, 64, 128, 256), depths=(2, 2, 2, 2)),
    timm_case("mixer_s32_224", 32, img_size=32),
    timm_case("convit_tiny", 32, "convit_tiny/4", img_size=32, patch_size=4, depth=4, local_up_to_layer=3),
    timm_case("levit_128s", 32, img_size=32),
    timm_case("coat_lite_tiny", 32, img_size=32),
    timm_case("pvt_v2_b1", 32),
]

TORCHVISION = [
    tv_case("resnet18", 64),
    Case("tv:convnext_tiny", small_torchvision_convnext, (3, 64, 64)),
    Case("tv:vit", small_torchvision_vit, (3, 64, 64)),
    Case("tv:swin_t", small_torchvision_swin, (3, 64, 64)),
    Case("tv:swin_v2_t", lambda: small_torchvision_swin(2), (3, 64, 64)),
    Case("tv:maxvit", small_maxvit, (3, 64, 64)),
    tv_case("efficientnet_b0", 64),
    tv_case("regnet_y_400mf", 64),
]

HUGGING_FACE = [
    hf_case(
        "vit",
        transformers.ViTConfig(**HF_SMALL, intermediate_size=96),
        transformers.ViTForImageClassification,
        "sdpa",
    ),
    hf_case(
        "vit",
        transformers.ViTConfig(**HF_SMALL, intermediate_size=96),
        transformers.ViTForImageClassification,
        "eager",
    ),
    hf_case(
        "deit",
        transformers.DeiTConfig(**HF_SMALL, intermediate_size=96),
        transformers.DeiTForImageClassification,
        "sdpa",
    ),
    hf_case(
        "beit",
        transformers.BeitConfig(**HF_SMALL, intermediate_size=96),
        transformers.BeitForImageClassification,
        "sdpa",
    ),
    hf_case(
        "dinov2", transformers.Dinov2Config(**HF_SMALL), transformers.Dinov2ForImageClassification, "sdpa"
    ),
    hf_case(
        "swin",
        transformers.SwinConfig(
            image_size=64, patch_size=4, embed_dim=24, depths=[2, 2], num_heads=[2, 4], window_size=4
        ),
        transformers.SwinForImageClassification,
        "sdpa",
    ),
    hf_case(
        "dinov3",
        transformers.DINOv3ViTConfig(**HF_SMALL, intermediate_size=96, num_register_tokens=4),
        transformers.DINOv3ViTModel,
        "sdpa",
    ),
    hf_case(
        "convnext",
        transformers.ConvNextConfig(hidden_sizes=[16, 32, 48, 64], depths=[1, 1, 2, 1], image_size=64),
        transformers.ConvNextForImageClassification,
        None,
    ),
]


class HandMade(nn.Module):
    """What somebody writes in an afternoon: a conv stem, residual convolutions, one attention block on
    tokens, a linear head."""

    def __init__(self, width: int = 12, classes: int = 5) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.conv = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1))
        self.down = nn.Conv2d(width, width, 2, stride=2)
        self.attention = nn.MultiheadAttention(width, 3, batch_first=True)
        self.feed_forward = nn.Sequential(
            nn.LayerNorm(width), nn.Linear(width, 24), nn.GELU(), nn.Linear(24, width)
        )
        self.head = nn.Linear(width, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        x = x + self.conv(x)
        x = self.down(x).flatten(2).transpose(1, 2)
        x = x + self.attention(x, x, x, need_weights=False)[0]
        x = x + self.feed_forward(x)
        return self.head(x.mean(1))


HAND_MADE = Case("hand-made", HandMade, (3, 16, 24))


class EncoderViT(nn.Module):
    """A ViT of PyTorch's own encoder layers, which have a fused kernel for evaluation without gradients."""

    def __init__(
        self, norm_first: bool = True, activation: str = "gelu", depth: int = 3, num_classes: int = 5
    ) -> None:
        super().__init__()
        width = 16
        self.patches = nn.Conv2d(3, width, 8, stride=8)
        self.class_token = nn.Parameter(torch.randn(1, 1, width))
        layer = nn.TransformerEncoderLayer(
            width, 2, 32, 0.0, activation, batch_first=True, norm_first=norm_first
        )
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=not norm_first)
        for parameter in self.encoder.parameters():  # the layers are copies of one
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.3)
        self.head = nn.Linear(width, num_classes)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.class_token.expand(len(x), -1, -1), x), 1)
        return self.head(self.encoder(x)[:, 0])


NORM_FIRST, NORM_LAST = (
    Case(f"encoder layers, norm {name}", lambda first=name == "first": EncoderViT(first))
    for name in ("first", "last")
)

# one of each way to compute attention
ATTENTION_DESIGNS = [
    timm_case("vit_tiny_patch16_224", 32, "fused", img_size=32, patch_size=8, depth=4),
    timm_case(
        "swin_tiny_patch4_window7_224",
        64,
        "shifted windows, relative bias",
        img_size=64,
        window_size=4,
        embed_dim=48,
        depths=(2, 2, 2, 2),
    ),
    timm_case(
        "swinv2_tiny_window8_256",
        64,
        "cosine windows",
        img_size=64,
        window_size=4,
        embed_dim=48,
        depths=(2, 2, 2, 2),
    ),
    timm_case("cait_xxs24_224", 64, "talking heads and class attention", img_size=64, depth=3),
    timm_case("xcit_nano_12_p16_224", 64, "across channels", img_size=64, depth=3),
    timm_case("convit_tiny", 64, "gated positional", img_size=64, depth=4, local_up_to_layer=3),
    timm_case("coat_lite_tiny", 64, "factorised", img_size=64),
    timm_case("levit_128s", 64, "attention bias, downsampling", img_size=64),
    timm_case("pvt_v2_b0", 64, "pooled keys"),
    timm_case(
        "twins_svt_small",
        64,
        "locally grouped and global",
        img_size=64,
        embed_dims=(32, 64, 128, 256),
        depths=(2, 2, 2, 2),
    ),
    timm_case("maxvit_pico_rw_256", 64, "blocks and grids", img_size=64, depths=(1, 1, 2, 1)),
    Case("outlook", small_volo, (3, 64, 64)),
    Case("pooled queries", small_mvit, (3, 64, 64)),
    timm_case("hiera_tiny_224", 64, "mask units", img_size=(64, 64), embed_dim=48, stages=(1, 2, 2, 2)),
    timm_case("eva02_tiny_patch14_224", 56, "rotary", img_size=56, depth=3),
    timm_case("beit_base_patch16_224", 64, "relative bias, fused", img_size=64, embed_dim=192, depth=2),
    timm_case("edgenext_xx_small", 64, "inside a convolution block"),
    Case("tv:vit", small_torchvision_vit, (3, 64, 64)),
    *HUGGING_FACE[:6],
    HAND_MADE,
]


def one_in(step: int, values: Iterable[Any]) -> list[Any]:
    """Parameters of a test, of which one in so many is tried in `make test`, the others in `make test-slow`."""
    return [
        value
        if number % step == 0
        else pytest.param(*(value if isinstance(value, tuple) else (value,)), marks=pytest.mark.slow)
        for number, value in enumerate(values)
    ]
