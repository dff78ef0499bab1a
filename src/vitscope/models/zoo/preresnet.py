"""Pre-activation ResNets (norm and activation before every convolution) for large and for small images.

    x + conv(act(norm(conv(act(norm(x))))))        and where the shape changes, a 1x1 convolution of act(norm(x)) for x

timm's `ResNetV2` with batch norm, and the stem that the images need: 7x7 of stride 2 and a max-pool, or, for images of
64 pixels or less, 3x3 of stride 1. The stem has no norm, the first block brings its own. They are registered in timm as
`preresnet18`, `34`, `50`, `101`, `152` and, ten classes of 32 pixels, `preresnet_mini`.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, cast

from timm.layers import BatchNormAct2d, create_conv2d, to_2tuple
from timm.models import build_model_with_cfg, generate_default_cfgs
from timm.models._features import feature_take_indices
from timm.models.resnetv2 import ResNetV2
from torch import Tensor, nn

from vitscope.models.zoo.registration import cifar_cfg, fashion_cfg, imagenet_cfg, is_small, register

LARGE = (224, 224)
FIRST_CONV, CLASSIFIER = "stem.conv", "head.fc"

_Arguments = Mapping[str, Any]
BASIC: _Arguments = {"channels": (64, 128, 256, 512), "bottleneck": False}
BOTTLENECK: _Arguments = {"channels": (256, 512, 1024, 2048), "bottleneck": True}
MINI: _Arguments = {"channels": (16, 32, 64, 128), "bottleneck": False, "stem_channels": 16, "img_size": 32}
MODELS: dict[str, _Arguments] = {
    "preresnet18": {"blocks": (2, 2, 2, 2), **BASIC},
    "preresnet34": {"blocks": (3, 4, 6, 3), **BASIC},
    "preresnet50": {"blocks": (3, 4, 6, 3), **BOTTLENECK},  # 23.70 M parameters for 32 pixels and 100 classes
    "preresnet101": {"blocks": (3, 4, 23, 3), **BOTTLENECK},
    "preresnet152": {"blocks": (3, 8, 36, 3), **BOTTLENECK},
    "preresnet_mini": {"blocks": (2, 2, 2, 2), **MINI},  # 0.70 M
}


def configuration(name: str, **more: Any) -> dict[str, Any]:
    """What timm is told of a variant: a mini is for 32 pixels and ten classes, the others for 224 and 1000."""
    if name.endswith("_mini"):
        return fashion_cfg(FIRST_CONV, CLASSIFIER, pool_size=(4, 4), **more)
    return imagenet_cfg(FIRST_CONV, CLASSIFIER, pool_size=(7, 7), **more)


default_cfgs = generate_default_cfgs({f"{name}.untrained": configuration(name) for name in MODELS})


class PreResNet(ResNetV2):
    """A pre-activation ResNet.

    Args:
        blocks: Number of blocks in each stage.
        channels: What comes out of each stage.
        bottleneck: 1x1, 3x3 and 1x1 convolutions in a block, a quarter as wide inside; else two of 3x3.
        img_size: Side or (height, width) of the images; chooses the stem.
        num_classes: Size of the head.
        in_chans: Channels of the images.
        global_pool: How the head pools, as timm calls it.
        stem_channels: Width of the stem.
        act_layer: Makes the activation, from `inplace=True`.
        drop_rate: Dropout before the classifier.
        drop_path_rate: Stochastic depth of the last block; it rises linearly from 0.
    """

    def __init__(
        self,
        blocks: Sequence[int] = (3, 4, 6, 3),
        channels: Sequence[int] = (256, 512, 1024, 2048),
        bottleneck: bool = True,
        img_size: int | tuple[int, int] = 224,
        num_classes: int = 1000,
        in_chans: int = 3,
        global_pool: str = "avg",
        stem_channels: int = 64,
        act_layer: Callable[..., nn.Module] = nn.ReLU,
        drop_rate: float = 0.0,
        drop_path_rate: float = 0.0,
    ) -> None:
        super().__init__(
            layers=list(blocks),
            channels=tuple(channels),
            num_classes=num_classes,
            in_chans=in_chans,
            global_pool=global_pool,
            stem_chs=stem_channels,
            basic=not bottleneck,
            bottle_ratio=0.25 if bottleneck else 1.0,
            act_layer=act_layer,
            norm_layer=BatchNormAct2d,
            conv_layer=create_conv2d,
            drop_rate=drop_rate,
            drop_path_rate=drop_path_rate,
        )
        if is_small(img_size):
            self._make_stem_small(in_chans, stem_channels)

    def _make_stem_small(self, in_chans: int, out_chans: int) -> None:
        conv = nn.Conv2d(in_chans, out_chans, 3, padding=1, bias=False)
        nn.init.kaiming_normal_(conv.weight, mode="fan_out", nonlinearity="relu")
        self.stem = nn.Sequential(OrderedDict(conv=conv, pool=nn.Identity()))
        for info in self.feature_info:
            info["reduction"] = max(cast(int, info["reduction"]) // 4, 1)

    def forward_intermediates(
        self,
        x: Tensor,
        indices: int | list[int] | None = None,
        norm: bool = False,
        stop_early: bool = False,
        output_fmt: str = "NCHW",
        intermediates_only: bool = False,
    ) -> list[Tensor] | tuple[Tensor, list[Tensor]]:
        """timm's protocol: the stem's convolution and each stage are what `indices` counts.

        timm's own finds the stem's by its size, half of the image's, which the small stem's is not.
        """
        assert output_fmt == "NCHW", "Output shape must be NCHW."
        taken, last_taken = feature_take_indices(1 + len(self.stages), indices)
        last = len(self.stages)
        conv, pool = self.stem
        x = conv(x)
        intermediates = [x] if 0 in taken else []
        x = pool(x)
        for index, stage in enumerate(self.stages, start=1):
            if stop_early and index > last_taken:
                return intermediates if intermediates_only else (x, intermediates)
            x = stage(x)
            if index in taken:
                intermediates.append(self.norm(x) if norm and index == last else x)
        return intermediates if intermediates_only else (self.norm(x), intermediates)


def build(
    cls: type[PreResNet], variant: str, sizes: _Arguments, pretrained: bool, given: _Arguments
) -> nn.Module:
    """Let timm build a registered variant: `sizes`, changed by what the caller has `given`.

    The data configuration follows: the size is that of the images, and where a variant for large images is built for
    small ones (or the other way round) the normalisation is that of CIFAR (ImageNet).
    """
    arguments = {"img_size": LARGE, **sizes, **given}
    size = to_2tuple(arguments["img_size"] or LARGE)
    small = is_small(size)
    overlay = {
        "input_size": (arguments.get("in_chans", 3), *size),
        "pool_size": tuple(-(-side // (8 if small else 32)) for side in size),
    }
    if small != is_small(sizes.get("img_size", LARGE)):
        other = (cifar_cfg if small else imagenet_cfg)(FIRST_CONV, CLASSIFIER)
        overlay |= {key: other[key] for key in ("mean", "std", "crop_pct")}
    overlay |= arguments.pop("pretrained_cfg_overlay", None) or {}
    features = {"flatten_sequential": True}
    return build_model_with_cfg(
        cls, variant, pretrained, pretrained_cfg_overlay=overlay, feature_cfg=features, **arguments
    )


for _name, _sizes in MODELS.items():
    register(__name__, _name, partial(build, PreResNet, _name, _sizes))
