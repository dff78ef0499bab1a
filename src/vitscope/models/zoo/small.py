"""32-pixel models small enough to train on two cores, at most a million parameters each: one of every kind.

All are timm's own classes with small numbers in them, registered in timm, for the ten classes of Fashion-MNIST.
`resnet_mini` and `vit_mini` (and `alternet_mini`, beside the other AlterNets), of about the same size, come with
weights: they were trained by `vitscope train`, and the card beside each file in `weights/` says how. The others keep
the layout of the model they are named after.
"""

from typing import Any

from timm.models import build_model_with_cfg, generate_default_cfgs, register_model
from timm.models.convit import ConVit
from timm.models.mlp_mixer import MlpMixer
from timm.models.resnet import BasicBlock, Bottleneck
from timm.models.swin_transformer import SwinTransformer
from timm.models.vision_transformer import VisionTransformer, checkpoint_filter_fn
from torch import nn

from vitscope.models.input_configs import WEIGHTS, fashion_cfg
from vitscope.models.zoo.small_images import ReducedPiT, ReducedTwins, make_resnet, make_transformer


def _fixed_size(first_conv: str, classifier: str = "head") -> dict[str, Any]:
    return fashion_cfg(first_conv, classifier, fixed_input_size=True)


default_cfgs = generate_default_cfgs(
    {
        "resnet_mini.fashion": fashion_cfg(
            "conv1", "fc", pool_size=(4, 4), file=str(WEIGHTS / "resnet_mini" / "model.safetensors")
        ),
        "vit_mini.fashion": {
            **_fixed_size("patch_embed.proj"),
            "file": str(WEIGHTS / "vit_mini" / "model.safetensors"),
        },
        "resnext_mini.untrained": fashion_cfg("conv1", "fc", pool_size=(4, 4)),
        "pit_mini.untrained": _fixed_size("patch_embed.conv"),
        "swin_mini.untrained": _fixed_size("patch_embed.proj", "head.fc"),
        "mixer_mini.untrained": _fixed_size("stem.proj"),
        "twins_mini.untrained": _fixed_size("patch_embeds.0.proj"),
        "convit_mini.untrained": _fixed_size("patch_embed.proj"),
    }
)


@register_model
def vit_mini(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """ViT of 6 blocks, 96 wide, 3 heads, 8x8 patch tokens and a class token: 0.68 M parameters.

    The head averages the patch tokens, which learns faster in a short training; `global_pool="token"` makes it
    read the class token instead.
    """
    sizes = {"patch_size": 4, "embed_dim": 96, "depth": 6, "num_heads": 3}
    # timm's default initialisation is for wide models; at this width it learns more slowly
    ways = {"class_token": True, "global_pool": "avg", "weight_init": "jax"}
    return build_model_with_cfg(
        VisionTransformer,
        "vit_mini",
        pretrained,
        pretrained_filter_fn=checkpoint_filter_fn,
        feature_cfg={"out_indices": 3, "feature_cls": "getter"},
        **{**sizes, **ways, **kwargs},
    )


@register_model
def resnet_mini(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """ResNet-18's layout, 16 to 128 wide, with a 3x3 stem of stride 1 and no max-pool: 0.70 M parameters."""
    sizes = {"block": BasicBlock, "layers": (2, 2, 2, 2), "channels": (16, 32, 64, 128)}
    return make_resnet("resnet_mini", pretrained, {**sizes, **kwargs})


@register_model
def resnext_mini(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """ResNeXt of 8 bottlenecks with 8 groups, 64 to 512 wide, inside them half of that."""
    sizes = {"block": Bottleneck, "layers": (2, 2, 2, 2), "channels": (16, 32, 64, 128)}
    groups = {"cardinality": 8, "base_width": 16}
    return make_resnet("resnext_mini", pretrained, {**sizes, **groups, **kwargs})


@register_model
def pit_mini(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """PiT of 2, 4 and 2 blocks, 32, 64 and 128 wide, on 16x16, 8x8 and 4x4 tokens."""
    sizes = {"patch_size": 2, "stride": 2, "base_dims": (16, 16, 16), "depth": (2, 4, 2), "heads": (2, 4, 8)}
    return make_transformer(ReducedPiT, "pit_mini", pretrained, {**sizes, **kwargs})


@register_model
def swin_mini(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """Swin of four pairs of blocks, 16 to 128 wide, a token per pixel, windows of 4x4."""
    sizes = {"embed_dim": 16, "depths": (2, 2, 2, 2), "num_heads": (1, 2, 4, 8)}
    small = {"patch_size": 1, "window_size": 4}
    return make_transformer(SwinTransformer, "swin_mini", pretrained, {**sizes, **small, **kwargs})


@register_model
def mixer_mini(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """Mixer of 8 blocks, 96 wide, on 8x8 patch tokens."""
    sizes = {"patch_size": 4, "num_blocks": 8, "embed_dim": 96}
    return make_transformer(MlpMixer, "mixer_mini", pretrained, {**sizes, **kwargs})


@register_model
def twins_mini(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """Twins-SVT of four pairs (4x4 windows, then keys pooled to 4x4), 16 to 128 wide, a token per pixel."""
    sizes = {"embed_dims": (16, 32, 64, 128), "num_heads": (1, 2, 4, 8), "depths": (2, 2, 2, 2)}
    small = {"patch_size": 1, "wss": (4, 4, 4, 4), "sr_ratios": (8, 4, 2, 1)}
    return make_transformer(ReducedTwins, "twins_mini", pretrained, {**sizes, **small, **kwargs})


@register_model
def convit_mini(pretrained: bool = False, **kwargs: Any) -> nn.Module:
    """ConViT of five gated positional attentions and a plain one, 96 wide, 4 heads, on 8x8 patch tokens."""
    sizes = {
        "patch_size": 4,
        "embed_dim": 24,
        "num_heads": 4,
        "depth": 6,
        "local_up_to_layer": 5,
    }  # 24 per head
    return make_transformer(ConVit, "convit_mini", pretrained, {**sizes, **kwargs})
