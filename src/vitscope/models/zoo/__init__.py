"""Our own models: importing this registers them in timm."""

import timm

from vitscope.models.origin import pair
from vitscope.models.zoo import alternet, local_vits, preresnet, pvt, small  # noqa: F401 they register theirs
from vitscope.models.zoo.registration import is_small

OURS = tuple(n for n in timm.list_models() if timm.model_entrypoint(n).__module__.startswith(f"{__name__}."))


def fitting(name: str, img_size: int | tuple[int, int] | None) -> str:
    """The name of the twin made for small images, where there is one and the image is small; else `name`.

    The twin of `resnet50` is `resnet50_32`. A name with a weight tag has none: it names one set of weights.
    """
    size, twin = pair(img_size), f"{name}_32"
    return twin if size is not None and is_small(size) and twin in OURS else name


def timms_own(name: str) -> str:
    """The name that gives timm's model as it stands, however small the images: with a tag of weights."""
    config = timm.get_pretrained_cfg(name)
    assert config is not None  # what has a twin is timm's
    return f"{name}.{config.tag}"
