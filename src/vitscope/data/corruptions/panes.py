"""Frosted panes, computed instead of photographed.

The published frost is cut out of six photographs. These panes have their mean colours and deviations, and keep about as
much of them when they are made smaller: a cloudy layer, ridges, and needles of ice in many directions. They go on
periodically, so that images of any size can be covered.
"""

import math
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

_SIDE = 512
_NEEDLES = 8  # directions
# Mean red, green and blue, and the deviation of grey, of the photographs; one of them is there twice.
_LOOKS = (
    (78, 149, 166, 18),
    (201, 205, 214, 22),
    (201, 205, 214, 22),
    (138, 153, 165, 29),
    (112, 123, 135, 43),
    (71, 95, 105, 41),
)
PANES = len(_LOOKS)


@lru_cache(maxsize=4)
def frosted_panes(scale: float) -> list[Tensor]:
    """All panes (3, S, S), from 0 to 1, with their pattern `scale` times as large."""
    side = max(round(_SIDE * scale), 1)
    panes = []
    for number, (red, green, blue, deviation) in enumerate(_LOOKS):
        small = F.interpolate(_pattern(number)[None, None], size=(side, side), mode="area")[0]
        colour = torch.tensor([red, green, blue]).view(3, 1, 1)
        panes.append(((colour + deviation * small) / 255.0).clamp_(0.0, 1.0))
    return panes


@lru_cache(maxsize=PANES)
def _pattern(number: int) -> Tensor:
    """(512, 512) of mean 0 and deviation 1."""
    draw = np.random.Generator(np.random.SFC64(number))
    fy, fx = torch.fft.fftfreq(_SIDE)[:, None], torch.fft.rfftfreq(_SIDE)
    radius = torch.hypot(fy, fx)
    radius[0, 0] = torch.inf

    def filtered(seeds: np.ndarray, gain: Tensor) -> Tensor:
        found = torch.fft.irfft2(torch.fft.rfft2(torch.from_numpy(seeds)) * gain)
        return (found - found.mean()) / found.std()

    cloud = filtered(draw.standard_normal((_SIDE, _SIDE), np.float32), radius**-1.6)
    ridges = -filtered(draw.standard_normal((_SIDE, _SIDE), np.float32), radius**-1.3).abs()
    needles = torch.full((_SIDE, _SIDE), -torch.inf)
    for angle in (np.pi * (np.arange(_NEEDLES) + draw.random()) / _NEEDLES).tolist():
        along, across = (
            fx * math.cos(angle) + fy * math.sin(angle),
            fx * math.sin(angle) - fy * math.cos(angle),
        )
        line = torch.exp(-2 * (math.pi * 10 * along) ** 2 - 2 * (math.pi * across) ** 2)
        seeds = (draw.random((_SIDE, _SIDE), np.float32) < 0.005).astype(np.float32)
        needles = torch.maximum(needles, filtered(seeds, line))
    pattern = 0.8 * cloud + 0.7 * ridges / ridges.std() + 0.6 * needles / needles.std()
    return (pattern - pattern.mean()) / pattern.std()
