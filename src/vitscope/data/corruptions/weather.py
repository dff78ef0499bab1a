"""Weather: something lies between the camera and the scene.

snow          flakes, smeared as they fall, over a whitened picture
frost         a c_1 + b c_2, with b a crop of a frosted pane
fog           (x + c p) m / (m + c), with p a fractal cloud from 0 to 1 and m the picture's brightest value
brightness    the value of hue, saturation and value is raised

The published frost is cut out of six photographs. The panes here are computed: they have their mean colours and
deviations, and keep about as much of them when they are made smaller: a cloudy layer, ridges, and needles of ice in
many directions. They go on periodically, so that images of any size can be covered.
"""

import math
from functools import lru_cache

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vitscope.data.corruptions import filters
from vitscope.data.corruptions.filters import Draws, normals, to_bytes, to_unit, uniforms

_LUMA = (0.299, 0.587, 0.114)


def snow(
    images: Tensor,
    draws: Draws,
    mean: float,
    deviation: float,
    size: float,
    threshold: float,
    radius: float,
    sigma: float,
    weight: float,
) -> Tensor:
    """Flakes above a threshold, smeared along an angle between -135 and -45 degrees, and once more upside down."""
    pixels = to_unit(images)
    flakes = normals(draws, 1, *images.shape[2:]).mul_(deviation).add_(mean)
    flakes = filters.zoomed(flakes, size)
    flakes = torch.where(flakes < threshold, 0.0, flakes.clamp(0.0, 1.0))
    angles = (90.0 * uniforms(draws, 1)[:, 0] - 135.0).tolist()
    flakes = filters.motion_blur(flakes, round(radius), sigma, angles)
    flakes = flakes.mul_(255.0).round_().div_(255.0)
    whitened = torch.maximum(pixels, _grey(pixels) * 1.5 + 0.5)
    return to_bytes(weight * pixels + (1 - weight) * whitened + flakes + flakes.flip(2, 3))


def frost(images: Tensor, draws: Draws, weight: float, pane_weight: float, scale: float) -> Tensor:
    """The picture behind a random part of one of a few frosted panes."""
    channels, height, width = images.shape[1:]
    panes = frosted_panes(round(scale, 6))
    covers = []
    for draw in draws:
        pane = panes[int(draw.integers(PANES))]
        top, left = (int(draw.integers(side)) for side in pane.shape[1:])
        rows = torch.arange(top, top + height) % pane.shape[1]  # a pane goes on at its other side
        columns = torch.arange(left, left + width) % pane.shape[2]
        covers.append(pane[:, rows[:, None], columns])
    cover = torch.stack(covers)
    if channels == 1:
        cover = _grey(cover)
    return to_bytes(weight * to_unit(images) + pane_weight * cover)


def fog(images: Tensor, draws: Draws, thickness: float, decay: float) -> Tensor:
    """The picture in a fractal cloud."""
    pixels = to_unit(images)
    height, width = images.shape[2:]
    side = 1 << (max(height, width) - 1).bit_length()
    cloud = plasma(uniforms(draws, side * side - 1), side, decay)[:, None, :height, :width]
    brightest = pixels.amax((1, 2, 3), keepdim=True)
    return to_bytes((pixels + thickness * cloud) * (brightest / (brightest + thickness)))


def brightness(images: Tensor, draws: Draws, added: float) -> Tensor:
    """Hue and saturation stay, so all channels grow by the factor that the largest one grows by."""
    pixels = to_unit(images)
    value = pixels.amax(1, keepdim=True)
    raised = (value + added).clamp_(max=1.0)
    return to_bytes(torch.where(value > 0, pixels * (raised / value.clamp_min(1e-9)), raised))


def plasma(drawn: Tensor, side: int, decay: float) -> Tensor:
    """Clouds (N, side, side) from 0 to 1 by the diamond-square method on a torus.

    Args:
        drawn: (N, side * side - 1) numbers from 0 to 1.
        side: A power of two.
        decay: Deviations shrink by its square from one scale to the next.
    """
    cloud = torch.zeros(len(drawn), side, side)
    step, amplitude, used = side, 100.0, 0

    def displaced(total: Tensor) -> Tensor:
        nonlocal used
        numbers = drawn[:, used : used + total[0].numel()].view(total.shape)
        used += total[0].numel()
        return total / 4 + amplitude**2 * (2 * numbers - 1)

    while step >= 2:
        half = step // 2
        corners = cloud[:, ::step, ::step]
        below = corners + corners.roll(-1, 1)
        cloud[:, half::step, half::step] = displaced(below + below.roll(-1, 2))
        centres = cloud[:, half::step, half::step]
        cloud[:, ::step, half::step] = displaced(centres + centres.roll(1, 1) + corners + corners.roll(-1, 2))
        cloud[:, half::step, ::step] = displaced(centres + centres.roll(1, 2) + corners + corners.roll(-1, 1))
        step, amplitude = half, amplitude / decay
    cloud -= cloud.amin((1, 2), keepdim=True)
    return cloud / cloud.amax((1, 2), keepdim=True)


def _grey(pixels: Tensor) -> Tensor:
    if pixels.shape[1] == 1:
        return pixels
    return (pixels * torch.tensor(_LUMA).view(3, 1, 1)).sum(1, keepdim=True)


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
        along = fx * math.cos(angle) + fy * math.sin(angle)
        across = fx * math.sin(angle) - fy * math.cos(angle)
        line = torch.exp(-2 * (math.pi * 10 * along) ** 2 - 2 * (math.pi * across) ** 2)
        seeds = (draw.random((_SIDE, _SIDE), np.float32) < 0.005).astype(np.float32)
        needles = torch.maximum(needles, filtered(seeds, line))
    pattern = 0.8 * cloud + 0.7 * ridges / ridges.std() + 0.6 * needles / needles.std()
    return (pattern - pattern.mean()) / pattern.std()
