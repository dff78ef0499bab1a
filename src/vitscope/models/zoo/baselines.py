"""The baselines of the papers in their sizes for 32-pixel images: timm's classes, the published widths and depths.

| model | at 32 pixels | maps |
|---|---|---|
| ViT-Ti, ViT-S, ViT-B | patches of 2, 4 or 8 | 16, 8 or 4 |
| PiT-Ti, PiT-B | patches of 2 that do not overlap | 16, 8, 4 |
| Swin-Ti | patches of 1, windows of 4 | 32, 16, 8, 4 |
| Twins-SVT-S | patches of 1, windows of 4, keys pooled by 8, 4, 2, 1 to 4x4 | 32, 16, 8, 4 |
| Mixer-Ti, Mixer-S, Mixer-B | patches of 2; 8, 8, 12 blocks, 256, 512, 768 wide | 16 |
| ConViT-Ti | patches of 2 | 16 |
| ResNet, ResNeXt | 3x3 stem of stride 1, no max-pool | 32, 16, 8, 4 |

They are registered in timm, with 1000 classes unless told otherwise and CIFAR-100's normalisation.
"""

from typing import Any

from timm.models import generate_default_cfgs, register_model
from timm.models.convit import ConVit
from timm.models.mlp_mixer import MlpMixer
from timm.models.resnet import BasicBlock, Bottleneck
from timm.models.swin_transformer import SwinTransformer
from timm.models.vision_transformer import VisionTransformer
from torch import nn

from vitscope.models.input_configs import cifar_cfg
from vitscope.models.zoo.small_images import ReducedPiT, ReducedTwins, make_resnet, make_transformer

_RESNETS = ("resnet18_32", "resnet34_32", "resnet50_32", "resnet101_32", "resnext50_32x4d_32")
_VITS = tuple(f"vit_{size}_patch{patch}_32" for size in ("tiny", "small", "base") for patch in (2, 4, 8))

default_cfgs = generate_default_cfgs(
    {
        **{f"{name}.untrained": cifar_cfg("conv1", "fc", pool_size=(4, 4)) for name in _RESNETS},
        **{
            f"{name}.untrained": cifar_cfg("patch_embed.proj", "head", fixed_input_size=True)
            for name in (*_VITS, "convit_tiny_32")
        },
        **{
            f"mixer_{size}_patch2_32.untrained": cifar_cfg("stem.proj", "head", fixed_input_size=True)
            for size in ("tiny", "small", "base")
        },
        **{
            f"pit_{size}_patch2_32.untrained": cifar_cfg("patch_embed.conv", "head", fixed_input_size=True)
            for size in ("ti", "b")
        },
        "swin_tiny_patch1_window4_32.untrained": cifar_cfg(
            "patch_embed.proj", "head.fc", fixed_input_size=True
        ),
        "twins_svt_small_32.untrained": cifar_cfg("patch_embeds.0.proj", "head", fixed_input_size=True),
    }
)


_TINY = {"embed_dim": 192, "depth": 12, "num_heads": 3}
_SMALL = {"embed_dim": 384, "depth": 12, "num_heads": 6}
_BASE = {"embed_dim": 768, "depth": 12, "num_heads": 12}


@register_model
def vit_tiny_patch2_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """ViT-Ti on 16x16 patch tokens, the paper's on CIFAR: 5.4 M parameters with 100 classes."""
    return make_transformer(
        VisionTransformer, "vit_tiny_patch2_32", pretrained, {"patch_size": 2, **_TINY, **kwargs}
    )


@register_model
def vit_tiny_patch4_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """ViT-Ti on 8x8 patch tokens."""
    return make_transformer(
        VisionTransformer, "vit_tiny_patch4_32", pretrained, {"patch_size": 4, **_TINY, **kwargs}
    )


@register_model
def vit_tiny_patch8_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """ViT-Ti on 4x4 patch tokens."""
    return make_transformer(
        VisionTransformer, "vit_tiny_patch8_32", pretrained, {"patch_size": 8, **_TINY, **kwargs}
    )


@register_model
def vit_small_patch2_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """ViT-S on 16x16 patch tokens."""
    return make_transformer(
        VisionTransformer, "vit_small_patch2_32", pretrained, {"patch_size": 2, **_SMALL, **kwargs}
    )


@register_model
def vit_small_patch4_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """ViT-S on 8x8 patch tokens."""
    return make_transformer(
        VisionTransformer, "vit_small_patch4_32", pretrained, {"patch_size": 4, **_SMALL, **kwargs}
    )


@register_model
def vit_small_patch8_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """ViT-S on 4x4 patch tokens."""
    return make_transformer(
        VisionTransformer, "vit_small_patch8_32", pretrained, {"patch_size": 8, **_SMALL, **kwargs}
    )


@register_model
def vit_base_patch2_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """ViT-B on 16x16 patch tokens."""
    return make_transformer(
        VisionTransformer, "vit_base_patch2_32", pretrained, {"patch_size": 2, **_BASE, **kwargs}
    )


@register_model
def vit_base_patch4_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """ViT-B on 8x8 patch tokens."""
    return make_transformer(
        VisionTransformer, "vit_base_patch4_32", pretrained, {"patch_size": 4, **_BASE, **kwargs}
    )


@register_model
def vit_base_patch8_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """ViT-B on 4x4 patch tokens."""
    return make_transformer(
        VisionTransformer, "vit_base_patch8_32", pretrained, {"patch_size": 8, **_BASE, **kwargs}
    )


@register_model
def pit_ti_patch2_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """PiT-Ti, 64, 128 and 256 wide; its first map is 16x16."""
    sizes = {"patch_size": 2, "stride": 2, "base_dims": (32, 32, 32), "depth": (2, 6, 4), "heads": (2, 4, 8)}
    return make_transformer(ReducedPiT, "pit_ti_patch2_32", pretrained, {**sizes, **kwargs})


@register_model
def pit_b_patch2_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """PiT-B, 256, 512 and 1024 wide; its first map is 16x16."""
    sizes = {"patch_size": 2, "stride": 2, "base_dims": (64, 64, 64), "depth": (3, 6, 4), "heads": (4, 8, 16)}
    return make_transformer(ReducedPiT, "pit_b_patch2_32", pretrained, {**sizes, **kwargs})


@register_model
def swin_tiny_patch1_window4_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """Swin-Ti with a token per pixel; the last map is one window."""
    sizes = {"embed_dim": 96, "depths": (2, 2, 6, 2), "num_heads": (3, 6, 12, 24)}
    small = {"patch_size": 1, "window_size": 4}
    return make_transformer(
        SwinTransformer, "swin_tiny_patch1_window4_32", pretrained, {**sizes, **small, **kwargs}
    )


@register_model
def twins_svt_small_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """Twins-SVT-S (local windows and pooled global attention in turn) with a token per pixel."""
    sizes = {"embed_dims": (64, 128, 256, 512), "num_heads": (2, 4, 8, 16), "depths": (2, 2, 10, 4)}
    small = {"patch_size": 1, "wss": (4, 4, 4, 4), "sr_ratios": (8, 4, 2, 1)}
    return make_transformer(ReducedTwins, "twins_svt_small_32", pretrained, {**sizes, **small, **kwargs})


@register_model
def mixer_tiny_patch2_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """Mixer-Ti, half as wide as Mixer-S: 128 hidden units over the tokens, 1024 over the channels."""
    sizes = {"patch_size": 2, "num_blocks": 8, "embed_dim": 256}
    return make_transformer(MlpMixer, "mixer_tiny_patch2_32", pretrained, {**sizes, **kwargs})


@register_model
def mixer_small_patch2_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """Mixer-S: 256 hidden units over the tokens, 2048 over the channels."""
    sizes = {"patch_size": 2, "num_blocks": 8, "embed_dim": 512}
    return make_transformer(MlpMixer, "mixer_small_patch2_32", pretrained, {**sizes, **kwargs})


@register_model
def mixer_base_patch2_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """Mixer-B: 384 hidden units over the tokens, 3072 over the channels."""
    sizes = {"patch_size": 2, "num_blocks": 12, "embed_dim": 768}
    return make_transformer(MlpMixer, "mixer_base_patch2_32", pretrained, {**sizes, **kwargs})


@register_model
def convit_tiny_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """ConViT-Ti on 16x16 patch tokens: ten gated positional attentions, then two plain ones with a class token."""
    sizes = {"patch_size": 2, "embed_dim": 48, "num_heads": 4, "local_up_to_layer": 10}  # 48 per head
    return make_transformer(ConVit, "convit_tiny_32", pretrained, {**sizes, **kwargs})


@register_model
def resnet18_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """ResNet-18 with the small stem."""
    sizes = {"block": BasicBlock, "layers": (2, 2, 2, 2)}
    return make_resnet("resnet18_32", pretrained, {**sizes, **kwargs})


@register_model
def resnet34_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """ResNet-34 with the small stem."""
    sizes = {"block": BasicBlock, "layers": (3, 4, 6, 3)}
    return make_resnet("resnet34_32", pretrained, {**sizes, **kwargs})


@register_model
def resnet50_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """ResNet-50 with the small stem: 23.705 M parameters with 100 classes."""
    sizes = {"block": Bottleneck, "layers": (3, 4, 6, 3)}
    return make_resnet("resnet50_32", pretrained, {**sizes, **kwargs})


@register_model
def resnet101_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """ResNet-101 with the small stem."""
    sizes = {"block": Bottleneck, "layers": (3, 4, 23, 3)}
    return make_resnet("resnet101_32", pretrained, {**sizes, **kwargs})


@register_model
def resnext50_32x4d_32(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """ResNeXt-50 (32 groups) with the small stem."""
    sizes = {"block": Bottleneck, "layers": (3, 4, 6, 3), "cardinality": 32, "base_width": 4}
    return make_resnet("resnext50_32x4d_32", pretrained, {**sizes, **kwargs})
