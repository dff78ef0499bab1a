"""timm's own classes for 32-pixel images, registered in timm.

The baselines of the papers with the published widths and depths, 1000 classes unless told otherwise, and CIFAR-100's
normalisation:

| model | at 32 pixels | maps |
|---|---|---|
| ViT-Ti, ViT-S, ViT-B | patches of 2, 4 or 8 | 16, 8 or 4 |
| PiT-Ti, PiT-B | patches of 2 that do not overlap | 16, 8, 4 |
| Swin-Ti | patches of 1, windows of 4 | 32, 16, 8, 4 |
| Twins-SVT-S | patches of 1, windows of 4, keys pooled by 8, 4, 2, 1 to 4x4 | 32, 16, 8, 4 |
| Mixer-Ti, Mixer-S, Mixer-B | patches of 2; 8, 8, 12 blocks, 256, 512, 768 wide | 16 |
| ConViT-Ti | patches of 2 | 16 |
| ResNet, ResNeXt | 3x3 stem of stride 1, no max-pool | 32, 16, 8, 4 |

One `mini` of every kind, for the ten classes of Fashion-MNIST: small enough to train on two cores, at most a million
parameters. `resnet_mini` and `vit_mini` (and `alternet_mini`, beside the other AlterNets), of about the same size, come
with weights: they were trained by `vitscope train`, and the card beside each file in `weights/` says how. The others
keep the layout of the model they are named after.
"""

from functools import partial
from typing import Any

from timm.models import build_model_with_cfg, generate_default_cfgs
from timm.models.convit import ConVit
from timm.models.mlp_mixer import MlpMixer
from timm.models.pit import PoolingVisionTransformer
from timm.models.resnet import BasicBlock, Bottleneck, ResNet
from timm.models.swin_transformer import SwinTransformer
from timm.models.twins import Twins
from timm.models.vision_transformer import Attention, Block, VisionTransformer, checkpoint_filter_fn
from torch import nn

from vitscope.models.errors import UnknownArgument
from vitscope.models.zoo.registration import cifar_cfg, fashion_cfg, make_transformer, register, weight_file


class SmallStemResNet(ResNet):
    """timm's ResNet and ResNeXt with one 3x3 convolution of stride 1 for a stem and no max-pool, so that the first
    stage works at the resolution of the image."""

    def __init__(
        self, channels: tuple[int, ...] = (64, 128, 256, 512), in_chans: int = 3, **kwargs: Any
    ) -> None:
        for argument in ("stem_type", "stem_width", "replace_stem_pool"):
            if argument in kwargs:
                raise UnknownArgument(
                    f"a ResNet for small images takes no '{argument}', its stem is one 3x3 convolution; "
                    "leave it away, or build it for more than 64 pixels",
                    argument,
                )
        width = channels[0]
        # the "deep" stem is the one whose width timm lets us choose; its three convolutions become one below
        super().__init__(
            channels=channels, in_chans=in_chans, stem_type="deep", stem_width=width // 2, **kwargs
        )
        where = {key: kwargs[key] for key in ("device", "dtype") if key in kwargs}
        stem = nn.Conv2d(in_chans, width, 3, padding=1, bias=False, **where)
        nn.init.kaiming_normal_(stem.weight, mode="fan_out", nonlinearity="relu")
        self.add_module("conv1", stem)
        self.add_module("maxpool", nn.Identity())
        for info in self.feature_info:
            large: Any = info["reduction"]
            info["reduction"] = max(large // 4, 1)


class ReducedPiT(PoolingVisionTransformer):
    """timm's PiT, which tells how much smaller its maps are."""

    def __init__(self, stride: int = 2, **kwargs: Any) -> None:
        super().__init__(stride=stride, **kwargs)
        for stage, info in enumerate(self.feature_info):
            info["reduction"] = stride * 2**stage  # timm's own entry holds for overlapping patches only


class ReducedTwins(Twins):
    """timm's Twins, which tells how much smaller its maps are."""

    def __init__(self, patch_size: int = 1, **kwargs: Any) -> None:
        super().__init__(patch_size=patch_size, **kwargs)
        for stage, info in enumerate(self.feature_info):
            info["reduction"] = patch_size * 2**stage  # timm's own entry holds for patches of 4 only


def _pit(width: int, depth: tuple[int, ...], heads: tuple[int, ...]) -> dict[str, Any]:
    return {"patch_size": 2, "stride": 2, "base_dims": (width,) * 3, "depth": depth, "heads": heads}


_SWIN = {"patch_size": 1, "window_size": 4}  # a token per pixel; the last map is one window
_TWINS = {"patch_size": 1, "wss": (4, 4, 4, 4), "sr_ratios": (8, 4, 2, 1)}
_MINI_STAGES = {"channels": (16, 32, 64, 128), "layers": (2, 2, 2, 2)}

MODELS: dict[str, tuple[type[nn.Module], dict[str, Any]]] = {
    **{
        f"vit_{size}_patch{patch}_32": (
            VisionTransformer,
            {"patch_size": patch, "embed_dim": 64 * heads, "depth": 12, "num_heads": heads},
        )
        for size, heads in {"tiny": 3, "small": 6, "base": 12}.items()
        for patch in (2, 4, 8)
    },
    "pit_ti_patch2_32": (ReducedPiT, _pit(32, (2, 6, 4), (2, 4, 8))),  # 64, 128 and 256 wide
    "pit_b_patch2_32": (ReducedPiT, _pit(64, (3, 6, 4), (4, 8, 16))),  # 256, 512 and 1024 wide
    "swin_tiny_patch1_window4_32": (
        SwinTransformer,
        {"embed_dim": 96, "depths": (2, 2, 6, 2), "num_heads": (3, 6, 12, 24), **_SWIN},
    ),
    "twins_svt_small_32": (
        ReducedTwins,
        {"embed_dims": (64, 128, 256, 512), "num_heads": (2, 4, 8, 16), "depths": (2, 2, 10, 4), **_TWINS},
    ),
    "mixer_tiny_patch2_32": (MlpMixer, {"patch_size": 2, "num_blocks": 8, "embed_dim": 256}),
    "mixer_small_patch2_32": (MlpMixer, {"patch_size": 2, "num_blocks": 8, "embed_dim": 512}),
    "mixer_base_patch2_32": (MlpMixer, {"patch_size": 2, "num_blocks": 12, "embed_dim": 768}),
    # ten gated positional attentions, then two plain ones with a class token; 48 wide per head
    "convit_tiny_32": (ConVit, {"patch_size": 2, "embed_dim": 48, "num_heads": 4, "local_up_to_layer": 10}),
    "resnet18_32": (SmallStemResNet, {"block": BasicBlock, "layers": (2, 2, 2, 2)}),
    "resnet34_32": (SmallStemResNet, {"block": BasicBlock, "layers": (3, 4, 6, 3)}),
    "resnet50_32": (SmallStemResNet, {"block": Bottleneck, "layers": (3, 4, 6, 3)}),
    "resnet101_32": (SmallStemResNet, {"block": Bottleneck, "layers": (3, 4, 23, 3)}),
    "resnext50_32x4d_32": (
        SmallStemResNet,
        {"block": Bottleneck, "layers": (3, 4, 6, 3), "cardinality": 32, "base_width": 4},
    ),
    # 0.68 M parameters on 8x8 patch tokens. The head averages them, which learns faster in a short training;
    # timm's default initialisation is for wide models, and learns more slowly at this width.
    "vit_mini": (
        VisionTransformer,
        {
            **{"patch_size": 4, "embed_dim": 96, "depth": 6, "num_heads": 3},
            **{"class_token": True, "global_pool": "avg", "weight_init": "jax"},
        },
    ),
    "resnet_mini": (SmallStemResNet, {"block": BasicBlock, **_MINI_STAGES}),  # 0.70 M parameters
    "resnext_mini": (
        SmallStemResNet,
        {"block": Bottleneck, "cardinality": 8, "base_width": 16, **_MINI_STAGES},
    ),
    "pit_mini": (ReducedPiT, _pit(16, (2, 4, 2), (2, 4, 8))),
    "swin_mini": (
        SwinTransformer,
        {"embed_dim": 16, "depths": (2, 2, 2, 2), "num_heads": (1, 2, 4, 8), **_SWIN},
    ),
    "twins_mini": (
        ReducedTwins,
        {"embed_dims": (16, 32, 64, 128), "num_heads": (1, 2, 4, 8), "depths": (2, 2, 2, 2), **_TWINS},
    ),
    "mixer_mini": (MlpMixer, {"patch_size": 4, "num_blocks": 8, "embed_dim": 96}),
    "convit_mini": (
        ConVit,
        {"patch_size": 4, "embed_dim": 24, "num_heads": 4, "depth": 6, "local_up_to_layer": 5},
    ),
}
_ENDS: dict[type[nn.Module], tuple[str, str]] = {  # first convolution, classifier
    VisionTransformer: ("patch_embed.proj", "head"),
    ReducedPiT: ("patch_embed.conv", "head"),
    SwinTransformer: ("patch_embed.proj", "head.fc"),
    ReducedTwins: ("patch_embeds.0.proj", "head"),
    MlpMixer: ("stem.proj", "head"),
    ConVit: ("patch_embed.proj", "head"),
    SmallStemResNet: ("conv1", "fc"),
}
_TRAINED = ("resnet_mini", "vit_mini")


def _configuration(name: str, cls: type[nn.Module]) -> dict[str, Any]:
    more: dict[str, Any] = {"pool_size": (4, 4)} if cls is SmallStemResNet else {"fixed_input_size": True}
    if name in _TRAINED:
        more["file"] = weight_file(name)
    first_conv, classifier = _ENDS[cls]
    return (fashion_cfg if name.endswith("_mini") else cifar_cfg)(first_conv, classifier, **more)


def _block(head_dim: int, **given: Any) -> Block:
    """A block whose heads are of this width, whatever the embedding is; else they share that out."""
    block = Block(**given)
    kept = {key: given[key] for key in _OF_ATTENTION if key in given}
    block.attn = Attention(given["dim"], given["num_heads"], head_dim, **kept)
    return block


_OF_ATTENTION = (
    "qkv_bias",
    "qk_norm",
    "proj_bias",
    "attn_drop",
    "proj_drop",
    "norm_layer",
    "device",
    "dtype",
)


def _build(name: str, pretrained: bool, given: dict[str, Any]) -> nn.Module:
    cls, sizes = MODELS[name]
    if cls is SmallStemResNet:
        return build_model_with_cfg(cls, name, pretrained, **{**sizes, **given})
    if cls is not VisionTransformer:
        return make_transformer(cls, name, pretrained, {**sizes, **given})
    width = given.pop("head_dim", None)
    if width is not None:
        given["block_fn"] = partial(_block, width)
    filtered = {"pretrained_filter_fn": checkpoint_filter_fn}
    return make_transformer(cls, name, pretrained, {**sizes, **given}, **filtered)


default_cfgs = generate_default_cfgs(
    {
        f"{name}.{'fashion' if name in _TRAINED else 'untrained'}": _configuration(name, cls)
        for name, (cls, _) in MODELS.items()
    }
)
for _name in MODELS:
    register(__name__, _name, partial(_build, _name))
