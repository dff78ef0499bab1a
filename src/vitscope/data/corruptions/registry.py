"""`corrupt`: the 15 corruptions of CIFAR-C and ImageNet-C by name, for images of any size.

An image's corruption depends on the seed, its place in the data, the type and the severity, and on nothing else.

A fourth channel, be it transparency or another band, is corrupted with the same draws as the colours before it: what
moves, moves together, and the same snow falls on it. Where the colours of a picture are corrupted together (snow,
frost, fog, brightness, JPEG), it is a grey picture of its own; noise is drawn for it as for any other channel.

Hendrycks and Dietterich (2019) chose one set of constants for CIFAR-C, at 32 pixels, and one for ImageNet-C, at 224. An
image whose shorter side is `s` gets CIFAR's up to 32 pixels, ImageNet's from 224 on, and between them

    c = (1 - t) c_32 + t c_224        with t = log(s / 32) / log(224 / 32)

What has to be a whole number (radii, counts, JPEG quality) is rounded where it is used.
"""

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from vitscope.core.errors import BadData
from vitscope.core.names import FAMILIES
from vitscope.data.corruptions import camera, digital, weather
from vitscope.data.corruptions.filters import draws_for
from vitscope.data.corruptions.weather import frosted_panes

TYPES = tuple(name for names in FAMILIES.values() for name in names)
SEVERITIES = (1, 2, 3, 4, 5)
SMALL, LARGE = 32, 224  # sides that the two sets were chosen for

Constants = tuple[float, ...]
Table = Mapping[str, tuple[Constants, ...]]

CIFAR: Table = {
    "gaussian_noise": ((0.04,), (0.06,), (0.08,), (0.09,), (0.10,)),  # deviation
    "shot_noise": ((500,), (250,), (100,), (75,), (50,)),  # photons of a white pixel
    "impulse_noise": ((0.01,), (0.02,), (0.03,), (0.05,), (0.07,)),  # share of values
    "defocus_blur": ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1, 0.2), (1.5, 0.1)),  # radius, softness of its rim
    # sigma, reach, rounds
    "glass_blur": ((0.05, 1, 1), (0.25, 1, 1), (0.4, 1, 1), (0.25, 1, 2), (0.4, 1, 2)),
    "motion_blur": ((6, 1), (6, 1.5), (6, 2), (8, 2), (9, 2.5)),  # radius, sigma
    "zoom_blur": ((1.06, 0.01), (1.11, 0.01), (1.16, 0.01), (1.21, 0.01), (1.26, 0.01)),  # end, step
    # mean and deviation of flakes, their size, threshold, radius and sigma of their fall; weight of the image
    "snow": (
        (0.1, 0.2, 1, 0.6, 8, 3, 0.95),
        (0.1, 0.2, 1, 0.5, 10, 4, 0.9),
        (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
        (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
        (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
    ),
    # weight of the image, of the pane; size of the pane's pattern
    "frost": ((1, 0.2, 0.2), (1, 0.3, 0.2), (0.9, 0.4, 0.2), (0.85, 0.4, 0.2), (0.75, 0.45, 0.2)),
    "fog": ((0.2, 3), (0.5, 3), (0.75, 2.5), (1, 2), (1.5, 1.75)),  # thickness, decay of detail
    "brightness": ((0.05,), (0.1,), (0.15,), (0.2,), (0.3,)),  # added
    "contrast": ((0.75,), (0.5,), (0.4,), (0.3,), (0.15,)),  # left
    # in pixels: amplitude and width of the displacements, reach of the affine part
    "elastic_transform": (
        (0, 0, 2.56),
        (1.6, 6.4, 2.24),
        (2.56, 1.92, 1.92),
        (3.2, 1.28, 1.6),
        (3.2, 0.96, 0.96),
    ),
    "pixelate": ((0.95,), (0.9,), (0.85,), (0.75,), (0.65,)),  # size that is left
    "jpeg_compression": ((80,), (65,), (58,), (50,), (40,)),  # quality
}

IMAGENET: Table = {
    "gaussian_noise": ((0.08,), (0.12,), (0.18,), (0.26,), (0.38,)),
    "shot_noise": ((60,), (25,), (12,), (5,), (3,)),
    "impulse_noise": ((0.03,), (0.06,), (0.09,), (0.17,), (0.27,)),
    "defocus_blur": ((3, 0.1), (4, 0.5), (6, 0.5), (8, 0.5), (10, 0.5)),
    "glass_blur": ((0.7, 1, 2), (0.9, 2, 1), (1, 2, 3), (1.1, 3, 2), (1.5, 4, 2)),
    "motion_blur": ((10, 3), (15, 5), (15, 8), (15, 12), (20, 15)),
    "zoom_blur": ((1.11, 0.01), (1.16, 0.01), (1.21, 0.02), (1.26, 0.02), (1.31, 0.03)),
    "snow": (
        (0.1, 0.3, 3, 0.5, 10, 4, 0.8),
        (0.2, 0.3, 2, 0.5, 12, 4, 0.7),
        (0.55, 0.3, 4, 0.9, 12, 8, 0.7),
        (0.55, 0.3, 4.5, 0.85, 12, 8, 0.65),
        (0.55, 0.3, 2.5, 0.85, 12, 12, 0.55),
    ),
    "frost": ((1, 0.4, 1), (0.8, 0.6, 1), (0.7, 0.7, 1), (0.65, 0.7, 1), (0.6, 0.75, 1)),
    "fog": ((1.5, 2), (2, 2), (2.5, 1.7), (2.5, 1.5), (3, 1.4)),
    "brightness": ((0.1,), (0.2,), (0.3,), (0.4,), (0.5,)),
    "contrast": ((0.4,), (0.3,), (0.2,), (0.1,), (0.05,)),
    "elastic_transform": (
        (488, 170.8, 24.4),
        (488, 19.52, 48.8),
        (12.2, 2.44, 4.88),
        (17.08, 2.44, 4.88),
        (29.28, 2.44, 4.88),
    ),
    "pixelate": ((0.6,), (0.5,), (0.4,), (0.3,), (0.25,)),
    "jpeg_compression": ((25,), (18,), (15,), (10,), (7,)),
}


def constants(kind: str, severity: int, side: int) -> Constants:
    """The constants of one corruption for images whose shorter side is `side`."""
    small, large = CIFAR[kind][severity - 1], IMAGENET[kind][severity - 1]
    t = min(max(math.log(side / SMALL) / math.log(LARGE / SMALL), 0.0), 1.0)
    return tuple((1 - t) * a + t * b for a, b in zip(small, large, strict=True))


def rule(side: int) -> str:
    """In words, which constants images of this side get."""
    if side <= SMALL:
        return "the constants of CIFAR-C"
    if side >= LARGE:
        return "the constants of ImageNet-C"
    return "constants between those of CIFAR-C and ImageNet-C"


SMALLEST = 16  # pixels of a side
CHANNELS = (1, 3, 4)
_CHUNK = 1 << 18  # numbers corrupted at once: few enough to stay in a core's cache

CORRUPTIONS: Mapping[str, Callable[..., Tensor]] = {
    name: getattr(family, name)
    for family in (camera, weather, digital)
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
