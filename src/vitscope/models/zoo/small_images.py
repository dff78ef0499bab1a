"""timm's classes as small images need them, and how models of them are built.

A ResNet for 32 pixels begins with one 3x3 convolution of stride 1 and no max-pool, so that its first stage works at the
resolution of the image.
"""

from typing import Any

from timm.models import build_model_with_cfg
from timm.models.pit import PoolingVisionTransformer
from timm.models.resnet import ResNet
from timm.models.twins import Twins
from torch import nn

from vitscope.core.errors import VitscopeError
from vitscope.models.errors import UnknownArgument


class SmallStemResNet(ResNet):
    """timm's ResNet and ResNeXt with the stem for small images."""

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


def make_transformer(
    cls: type[nn.Module], name: str, pretrained: bool, arguments: dict[str, Any]
) -> nn.Module:
    """timm's builder; `features_only` takes the maps by the class's own `forward_intermediates`."""
    if arguments.get("features_only") and not hasattr(cls, "forward_intermediates"):
        raise VitscopeError(f"{name} cannot be built with features_only; take its maps with vitscope.Tap")
    features = {"feature_cls": "getter", "out_indices": 3}
    return build_model_with_cfg(cls, name, pretrained, feature_cfg=features, **arguments)


def make_resnet(name: str, pretrained: bool, arguments: dict[str, Any]) -> nn.Module:
    """timm's builder, with the small stem."""
    return build_model_with_cfg(SmallStemResNet, name, pretrained, **arguments)
