"""Noise of one frequency at a time: which frequencies does a model rely on?

    x_noise = x + c F^-1(F(delta) * M_k)        M_k = 1 where 0.1 k <= |f| / pi < 0.1 (k + 1), else 0;  k = 0 ... 9

delta is Gaussian, drawn once per image from the seed and its place in the data and used in every band. The mask is the
same at f and -f, so the noise is real. c gives every band the same energy: the noise of an image has the given root
mean square over all its pixels and channels. The drop in accuracy is that on the same images without noise.

Pixels are not clipped to 0 .. 1 afterwards: that would take energy out of the band and put it into others. Band 0 holds
the mean brightness, the last band pi itself; the corners of the frequency plane beyond pi belong to no band. A band
that no frequency of the picture falls into is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.core.arguments import Positive
from vitscope.core.errors import UnsupportedModel
from vitscope.engine.condition_scores import Part
from vitscope.engine.conditions import drawn_score, score_conditions, scored
from vitscope.engine.exam import procedure
from vitscope.engine.own_passes import OwnPasses, own_passes
from vitscope.engine.pixels import NOISE, PixelModel, gaussian
from vitscope.engine.resuming import PartialResults
from vitscope.engine.takes_interface import Asked
from vitscope.findings.frequency_noise import CLEAN, HIGH, HIGH_MINUS_LOW, LOW, FrequencyNoiseResult
from vitscope.results.condition_rows import Headline

BANDS = 10  # from 0 to pi: each is 0.1 pi wide
MIDDLE = 0.5  # of the bands, in units of pi
_ROUNDING = 1e-9  # a frequency on an edge belongs to the band above it, whatever way its radius was rounded


def radius(height: int, width: int) -> Tensor:
    """(H, W // 2 + 1): |f| in units of pi; sqrt(2) in the corners of the plane."""
    rows = 2 * torch.fft.fftfreq(height, dtype=torch.float64)
    columns = 2 * torch.fft.rfftfreq(width, dtype=torch.float64)
    return torch.hypot(rows[:, None], columns[None, :])


def band_numbers(height: int, width: int, bands: int) -> Tensor:
    """(H, W // 2 + 1): band k holds k / bands <= |f| / pi < (k + 1) / bands, the last one also pi itself.

    What lies beyond pi, in the corners, belongs to no band: -1.
    """
    distance = radius(height, width)
    number = (distance * bands + _ROUNDING).long()
    number[(number == bands) & (distance <= 1 + _ROUNDING)] = bands - 1
    number[number >= bands] = -1
    return number


def below(height: int, width: int, cutoff: float) -> Tensor:
    """(H, W // 2 + 1): 1.0 where |f| < cutoff, in units of pi, else 0.0."""
    return (radius(height, width) < cutoff - _ROUNDING).double()


def band_noise(spectrum: Tensor, mask: Tensor, size: tuple[int, int], rms: float) -> Tensor:
    """(N, C, H, W): what `mask` leaves of noise, scaled image by image to the root mean square `rms`.

    `spectrum` is the noise's `rfft2`, (N, C, H, W // 2 + 1), `rms` in units of a pixel's range.
    """
    noise = torch.fft.irfft2(spectrum * mask, s=size)
    return noise * (rms / noise.square().mean((1, 2, 3), keepdim=True).sqrt())


@procedure(FrequencyNoiseResult, evaluation=True, resumable=True, needs_labels=True, or_task=True)
def frequency_noise(
    model: nn.Module,
    data: Any,
    request: Asked,
    parts: PartialResults | None = None,
    strength: Positive = 32.0,
) -> FrequencyNoiseResult:
    """Score `model` under noise of each of ten bands of frequencies; `examine` documents the other arguments.

    Args:
        strength: Root mean square of the noise in 1/255. At 32, models of a few hundred thousand weights lose up to
            20 points of accuracy on 32-pixel images: a clear drop, far from chance.
    """
    with own_passes(model, data, request, labelled=True, parts=parts, or_task=True) as own:
        seen = PixelModel.of(own)
        size = (own.input_shape[1], own.input_shape[2])
        number = band_numbers(*size, BANDS)
        bands = [k for k in range(BANDS) if (number == k).any()]
        masks = {_name(k): (number == k).to(own.device, torch.float32) for k in bands}

        def predict(images: Tensor, labels: Tensor, indices: Tensor) -> Iterator[tuple[str, Tensor]]:
            pixels = seen.pixels(images)
            yield CLEAN, seen.clean(images, indices)
            white = gaussian(NOISE, request.seed, indices, tuple(images.shape[1:])).to(pixels.device)
            spectrum = torch.fft.rfft2(white)
            for band, mask in masks.items():
                noisy = pixels + band_noise(spectrum, mask, size, strength / 255)
                yield band, seen.logits(noisy, indices)

        found = score_conditions("frequency_noise", own, [CLEAN, *masks], predict)
        scores = scored(list(found.values()), reference=found[CLEAN])
        return FrequencyNoiseResult(
            **own.common,
            n=scores.n,
            strength=float(strength),
            kinds=_kinds(own),
            frequency=_centres(bands),
            scores=scores,
            headlines=_headlines(bands, found),
        )


def _kinds(own: OwnPasses) -> tuple[str, ...]:
    try:
        return tuple(dict.fromkeys(unit.kind for unit in own.anatomy))
    except UnsupportedModel:  # its robustness can be measured all the same
        return ()


def _name(band: int) -> str:
    return f"band {band}"


def _centres(bands: Sequence[int]) -> np.ndarray:
    return (np.array(bands, dtype=np.float64) + 0.5) / BANDS


def _headlines(bands: Sequence[int], found: Mapping[str, Part]) -> tuple[Headline, ...]:
    """Mean drop over the lower and the upper bands, replicate by replicate, and their difference."""
    clean = drawn_score(found[CLEAN])
    drops = np.stack([clean - drawn_score(found[_name(k)]) for k in bands])
    lower = _centres(bands) < MIDDLE
    if lower.all() or not lower.any():
        return ()
    low, high = drops[lower].mean(0), drops[~lower].mean(0)
    named = {LOW: low, HIGH: high, HIGH_MINUS_LOW: high - low}
    n = int(found[CLEAN]["n"])
    return tuple(Headline.of_drop(condition, drawn, n) for condition, drawn in named.items())
