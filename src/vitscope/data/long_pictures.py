"""Pictures that are many times as long as wide: only the part that a crop keeps is ever enlarged.

The shorter side of a picture is brought to the model's, so one of 1 x 65000 pixels would have 256 x 16 million before
its centre is cut out. Other pictures go the way of timm.
"""

import math

import torch
from PIL import Image
from timm.data.transforms import str_to_pil_interp

from vitscope.data.config import DataConfig

LONG = 16  # times the shorter side


def is_long(height: int, width: int) -> bool:
    """Whether a picture of these sides is one."""
    return max(height, width) > LONG * min(height, width)


def fit_long(picture: Image.Image, config: DataConfig) -> Image.Image:
    """What is left of a long picture after it was resized and cut; "border" leaves it to be padded."""
    _, height, width = config.input_size
    before = [math.floor(side / config.crop_pct) for side in (width, height)]
    ratios = [there / wanted for there, wanted in zip(picture.size, before, strict=True)]
    filter_ = Image.Resampling(str_to_pil_interp(_FIXED.get(config.interpolation, config.interpolation)))
    if config.crop_mode == "border":
        wide, tall = (max(1, round(side / max(ratios))) for side in picture.size)
        return picture.resize((wide, tall), filter_)
    ends = [
        _middle(there, _resized(there, min(picture.size), before, min(ratios)), wanted)
        for there, wanted in zip(picture.size, (width, height), strict=True)
    ]
    (left, right), (top, bottom) = ends
    return picture.resize((width, height), filter_, box=(left, top, right, bottom))


_FIXED = {"random": "bicubic", "nearest-exact": "nearest"}  # PIL has no other


def _resized(side: int, shorter: int, before: list[int], ratio: float) -> int:
    """A side after resizing: torchvision rounds it down for a square, timm to the nearest for others."""
    return int(before[0] * side / shorter) if before[0] == before[1] else round(side / ratio)


def _middle(side: int, resized: int, kept: int) -> tuple[float, float]:
    """Where the centre crop begins and ends, in pixels of the picture as it is."""
    start = round((resized - kept) / 2.0)
    return start * side / resized, (start + kept) * side / resized


def part_of_long(height: int, width: int) -> tuple[slice, slice]:
    """Rows and columns of a random part of a picture that is not long; draws from torch's generator for a long one."""
    most = LONG * min(height, width)
    rows, columns = (_part(side, min(side, most)) for side in (height, width))
    return rows, columns


def _part(side: int, kept: int) -> slice:
    start = int(torch.randint(side - kept + 1, ())) if kept < side else 0
    return slice(start, start + kept)
