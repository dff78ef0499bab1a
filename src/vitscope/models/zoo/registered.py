"""The models of this package: importing this registers them in timm."""

import timm

from vitscope.models.input_configs import SMALL
from vitscope.models.origin import pair
from vitscope.models.zoo import alternet, baselines, conv_vit, localvit, preresnet, pvt, small

_MODULES = {module.__name__ for module in (alternet, baselines, conv_vit, localvit, preresnet, pvt, small)}
OURS = tuple(name for name in timm.list_models() if timm.model_entrypoint(name).__module__ in _MODULES)


def fitting(name: str, img_size: int | tuple[int, int] | None) -> str:
    """The name of the twin made for small images, where there is one and the image is small; else `name`.

    The twin of `resnet50` is `resnet50_32`. A name with a weight tag has none: it names one set of weights.
    """
    size = pair(img_size)
    twin = f"{name}_32"
    return twin if size is not None and max(size) <= SMALL and twin in OURS else name
