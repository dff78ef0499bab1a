"""Noise, and blur, as slight as cameras make them.

    shot noise        Poisson(255 x) / 255: the byte of a pixel is the mean number of photons that it counts
    Gaussian noise    x + N(0, s / 255), s = 5 and 10
    Gaussian blur     x * G_s, s = 1 and 2 pixels, cut off after 4 s; edges go on beyond the border (`blur`)

x are the pixels, from 0 to 1, that the model is shown; noisy ones are clipped to that range. Noise is drawn five times
for every image, from the seed, the image's place in the data and the number of the draw. Scores are means over draws,
with two intervals: over images (bootstrap), and over draws (Student's t), which says how far off a repetition on the
same images would be.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from vitscope.core.arguments import Count, Positive
from vitscope.core.errors import VitscopeError
from vitscope.core.statistics import mean_interval
from vitscope.data.corruptions.camera import shot_noise
from vitscope.data.corruptions.filters import draws_for, gaussian_blur, normals, to_unit
from vitscope.engine.conditions import (
    Scored,
    drawn_accuracy,
    drawn_miou,
    drawn_score,
    main_headlines,
    score_conditions,
)
from vitscope.engine.exam import procedure
from vitscope.engine.own_passes import own_passes
from vitscope.engine.pixels import PixelModel
from vitscope.engine.resuming import PartialResults
from vitscope.engine.takes_interface import Asked, Request
from vitscope.findings.noise import BLUR, CLEAN, GAUSSIAN, SHOT, NoiseResult, Perturbation

PHOTONS = 255.0  # of a white pixel
_PURPOSE = 100  # above the numbers of the corruptions, whose draws are others


def perturbed(perturbation: Perturbation, pixels: Tensor, seed: int, indices: Tensor, draw: int) -> Tensor:
    """Pictures (N, C, H, W) with pixels from 0 to 1, changed."""
    if perturbation.kind == BLUR:
        return gaussian_blur(pixels, perturbation.strength)
    shot = perturbation.kind == SHOT
    own = draws_for(seed, indices.tolist(), _PURPOSE + shot, round(1000 * perturbation.strength), draw)
    if shot:
        counted = shot_noise((255 * pixels).round().clamp(0, 255).byte().cpu(), own, perturbation.strength)
        return to_unit(counted).to(pixels)
    noise = normals(own, *pixels.shape[1:]).to(pixels)
    return (pixels + perturbation.strength / 255 * noise).clamp(0.0, 1.0)


def ascending(strengths: Sequence[float]) -> list[float]:
    """Each strength once, the least first."""
    found = sorted({float(strength) for strength in strengths})
    if not found:
        raise VitscopeError("strengths is empty; expected numbers above 0, in 1/255")
    return found


def scored_under(
    exam: str,
    model: nn.Module,
    data: Any,
    request: Request,
    parts: PartialResults | None,
    perturbations: Sequence[Perturbation],
    draws: int,
) -> dict[str, Any]:
    """The fields of the result: every perturbation of every batch in one pass over the images."""
    with own_passes(model, data, request, labelled=True, parts=parts, or_task=True) as own:
        seen = PixelModel.of(own)
        runs = {_run(p, draw): (p, draw) for p in perturbations for draw in range(draws)}

        def predict(images: Tensor, labels: Tensor, indices: Tensor) -> Iterator[tuple[str, Tensor]]:
            yield CLEAN, seen.clean(images, indices)
            pixels = seen.pixels(images)
            for run, (perturbation, draw) in runs.items():
                changed = perturbed(perturbation, pixels, request.seed, indices, draw)
                yield run, seen.logits(changed, indices)

        found = score_conditions(exam, own, [CLEAN, *runs], predict)
        return {**own.common, **_summarised(found, perturbations, draws)}


def _run(perturbation: Perturbation, draw: int) -> str:
    return f"{perturbation.condition}, draw {draw + 1}"


def _summarised(
    found: Mapping[str, Mapping[str, Tensor]], perturbations: Sequence[Perturbation], draws: int
) -> dict[str, Any]:
    """The result's own fields; a clean picture has no draws, and counts as having had the same each time."""
    runs = [[found[_run(p, draw)] for draw in range(draws)] for p in perturbations]
    groups = [[found[CLEAN]] * draws, *runs]
    accuracy = np.array([[drawn_accuracy(part)[0] for part in parts] for parts in groups])
    _, draw_low, draw_high = mean_interval(accuracy.sum(1), (accuracy**2).sum(1), draws)
    mious = [[drawn_miou(part) for part in parts] for parts in groups]
    miou = np.array([[own[0] for own in row if own is not None] for row in mious])
    objects = "ap" in found[CLEAN]
    ap = np.array([[drawn_score(part)[0] for part in parts] for parts in groups]) if objects else None
    return {
        "n": int(found[CLEAN]["n"]),
        "perturbations": (Perturbation(CLEAN, 0.0), *perturbations),
        "draws": draws,
        "scores": Scored([[found[CLEAN]], *runs], found[CLEAN]).table(),
        "draw_accuracy": accuracy,
        "draw_low": np.clip(draw_low, 0.0, 1.0),
        "draw_high": np.clip(draw_high, 0.0, 1.0),
        "draw_miou": miou if miou.size else None,
        "draw_ap": ap,
        "headlines": tuple(
            headline
            for p, own in zip(perturbations, runs, strict=True)
            for headline in main_headlines(p.condition, own)
        ),
    }


@procedure(NoiseResult, evaluation=True, resumable=True, needs_labels=True, or_task=True)
def noise(
    model: nn.Module,
    data: Any,
    request: Asked,
    parts: PartialResults | None = None,
    strengths: Sequence[Positive] = (5.0, 10.0),
    draws: Count = 5,
) -> NoiseResult:
    """Score `model` under shot noise and Gaussian noise; `examine` documents the other arguments.

    A model of pixels, objects or questions is scored on data of its task.

    Args:
        strengths: Deviations of the Gaussian noise, in 1/255.
        draws: How often the noise of each image is drawn.
    """
    gaussian = [Perturbation(GAUSSIAN, strength) for strength in ascending(strengths)]
    noises = [Perturbation(SHOT, PHOTONS), *gaussian]
    return NoiseResult(**scored_under("noise", model, data, request, parts, noises, draws))
