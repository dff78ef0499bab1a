"""`corrupt`: the 15 corruptions of CIFAR-C and ImageNet-C by name, for images of any size.

An image's corruption depends on the seed, its place in the data, the type and the severity, and on nothing else.

A fourth channel, be it transparency or another band, is corrupted with the same draws as the colours before it: what
moves, moves together, and the same snow falls on it. Where the colours of a picture are corrupted together (snow,
frost, fog, brightness, JPEG), it is a grey picture of its own; noise is drawn for it as for any other channel.
"""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from vitscope.core.errors import BadData
from vitscope.data.corruptions import blur, digital, noise, weather
from vitscope.data.corruptions.constants import SEVERITIES, TYPES, Constants, constants
from vitscope.data.corruptions.filters import draws_for
from vitscope.data.corruptions.weather import frosted_panes

SMALLEST = 16  # pixels of a side
CHANNELS = (1, 3, 4)
_CHUNK = 1 << 18  # numbers corrupted at once: few enough to stay in a core's cache

CORRUPTIONS: Mapping[str, Callable[..., Tensor]] = {
    name: getattr(family, name)
    for family in (noise, blur, weather, digital)
    for name in TYPES
    if hasattr(family, name)
}
COLOURED = ("snow", "frost", "fog", "brightness", "jpeg_compression")  # not channel by channel
DETERMINISTIC = ("defocus_blur", "zoom_blur", "brightness", "contrast", "pixelate", "jpeg_compression")


def corrupt(
    images: Tensor,
    kind: str,
    severity: int,
    seed: int = 0,
    indices: Sequence[int] | np.ndarray | None = None,
    strength: Constants | None = None,
) -> Tensor:
    """Corrupt bytes (N, C, H, W); what comes back is as large.

    Args:
        images: Grey, RGB, or RGB and one more channel, at least 16 pixels a side.
        kind: One of `TYPES`.
        severity: 1 to 5.
        seed: Of everything random.
        indices: The place of each image in the data; default: 0, 1, 2 ...
        strength: Constants to use instead of those for this size.
    """
    check_conditions([kind], [severity])
    if images.dtype != torch.uint8 or images.dim() != 4 or images.shape[1] not in CHANNELS:
        raise BadData(
            f"images are {images.dtype} {tuple(images.shape)}; expected uint8 (N, C, H, W) with 1, 3 or 4 channels"
        )
    if min(images.shape[2:]) < SMALLEST:
        raise BadData(
            f"images of {tuple(images.shape[2:])} pixels; corruptions need at least {SMALLEST} a side"
        )
    places = range(len(images)) if indices is None else indices
    strength = strength or constants(kind, severity, min(images.shape[2:]))
    number = TYPES.index(kind)
    at_once = max(1, _CHUNK // images[0].numel()) if len(images) else 1
    found = torch.empty_like(images, memory_format=torch.contiguous_format)
    with torch.inference_mode():
        for start in range(0, len(images), at_once):
            piece = slice(start, start + at_once)
            for channels in _together(kind, images.shape[1]):
                draws = () if kind in DETERMINISTIC else draws_for(seed, places[piece], number, severity)
                found[piece, channels] = CORRUPTIONS[kind](images[piece, channels], draws, *strength)
    return found


def _together(kind: str, channels: int) -> list[slice]:
    """The channels that are corrupted together."""
    return [slice(0, 3), slice(3, channels)] if channels > 3 and kind in COLOURED else [slice(0, channels)]


def prepare(conditions: Sequence[tuple[str, int]], side: int) -> None:
    """Make what is the same for all images, so that processes that are forked off do not each make it again."""
    for kind, severity in conditions:
        if kind == "frost":
            frosted_panes(round(constants(kind, severity, side)[2], 6))


def check_conditions(kinds: Sequence[str], severities: Sequence[int]) -> None:
    """Refuse types and severities that do not exist."""
    if unknown := [kind for kind in kinds if kind not in TYPES]:
        raise BadData(f"no corruption '{unknown[0]}'; there are: {', '.join(TYPES)}")
    if unknown_severity := [severity for severity in severities if severity not in SEVERITIES]:
        raise BadData(f"no severity {unknown_severity[0]}; there are 1 to {SEVERITIES[-1]}")
    if not kinds or not severities:
        raise BadData("no corruption was named; leave types and severities out for all of them")
