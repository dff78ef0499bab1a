"""Weather: something lies between the camera and the scene.

snow          flakes, smeared as they fall, over a whitened picture
frost         a c_1 + b c_2, with b a crop of a frosted pane
fog           (x + c p) m / (m + c), with p a fractal cloud from 0 to 1 and m the picture's brightest value
brightness    the value of hue, saturation and value is raised
"""

import torch
from torch import Tensor

from vitscope.data.corruptions import filters
from vitscope.data.corruptions.draws import Draws, normals, uniforms
from vitscope.data.corruptions.filters import to_bytes, to_unit
from vitscope.data.corruptions.panes import PANES, frosted_panes

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
