"""32-pixel models small enough to train on two cores: `resnet_mini` and `vit_mini`, of about the same size.

Both are timm's own classes with small numbers in them, registered in timm. Their weights were trained by
`vitscope train` on Fashion-MNIST and ship with the package; the card beside each file in `weights/` says how.
The normalisation constants are the mean and standard deviation of the 32x32 Fashion-MNIST training images
(grey: the same for the three channels).
"""

from pathlib import Path
from typing import Any

from timm.models import build_model_with_cfg, generate_default_cfgs, register_model
from timm.models.resnet import BasicBlock, ResNet
from timm.models.vision_transformer import VisionTransformer, checkpoint_filter_fn
from torch import nn

from vitscope.data.catalog import CATALOG

WEIGHTS = Path(__file__).parent / "weights"
FASHION_MEAN = 0.2190
FASHION_STD = 0.3318
FASHION_CLASSES = CATALOG["fashion"].classes


def _fashion_cfg(name: str, first_conv: str, classifier: str, **more: Any) -> dict[str, Any]:
    return {
        "file": str(WEIGHTS / name / "model.safetensors"),
        "input_size": (3, 32, 32),
        "num_classes": len(FASHION_CLASSES),
        "mean": (FASHION_MEAN,) * 3,
        "std": (FASHION_STD,) * 3,
        "interpolation": "bicubic",
        "crop_pct": 1.0,
        "label_names": FASHION_CLASSES,
        "first_conv": first_conv,
        "classifier": classifier,
        "license": "apache-2.0",
        **more,
    }


default_cfgs = generate_default_cfgs(
    {
        "resnet_mini.fashion": _fashion_cfg("resnet_mini", "conv1", "fc", pool_size=(4, 4)),
        "vit_mini.fashion": _fashion_cfg("vit_mini", "patch_embed.proj", "head", fixed_input_size=True),
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
    return build_model_with_cfg(_ResNetSmallStem, "resnet_mini", pretrained, **{**sizes, **kwargs})


class _ResNetSmallStem(ResNet):
    """timm's ResNet with the stem that images of 32 pixels need: 3x3, stride 1, no max-pool."""

    def __init__(self, channels: tuple[int, ...], in_chans: int = 3, **kwargs: Any) -> None:
        width = channels[0]
        # the "deep" stem is the one whose width timm lets us choose; its three convolutions become one below
        super().__init__(
            channels=channels, in_chans=in_chans, stem_type="deep", stem_width=width // 2, **kwargs
        )
        stem = nn.Conv2d(in_chans, width, 3, padding=1, bias=False)
        nn.init.kaiming_normal_(stem.weight, mode="fan_out", nonlinearity="relu")
        self.add_module("conv1", stem)
        self.add_module("maxpool", nn.Identity())
        for info, reduction in zip(self.feature_info, (1, 1, 2, 4, 8), strict=True):
            info["reduction"] = reduction
