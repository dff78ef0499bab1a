"""Noise and blur as slight as cameras make them.

    shot noise        Poisson(255 x) / 255: the byte of a pixel is the mean number of photons that it counts
    Gaussian noise    x + N(0, s / 255), s = 5 and 10
    Gaussian blur     x * G_s, s = 1 and 2 pixels, cut off after 4 s; edges go on beyond the border

x are the pixels, from 0 to 1, that the model is shown; noisy ones are clipped to that range. Noise is drawn five times
for every image, from the seed, the image's place in the data and the number of the draw. Scores are means over draws,
with two intervals: over images (bootstrap), and over draws (Student's t), which says how far off a repetition on the
same images would be.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from vitscope.core.errors import VitscopeError
from vitscope.core.statistics import mean_interval
from vitscope.data.corruptions.camera import shot_noise
from vitscope.data.corruptions.filters import draws_for, gaussian_blur, normals, to_unit
from vitscope.engine.own_passes import own_passes
from vitscope.engine.resumable_pass import ResumablePass, score_conditions
from vitscope.engine.robustness.conditions import accuracy_headline, replicates, scored_means
from vitscope.engine.robustness.pixels import PixelModel, pixel_space
from vitscope.findings.noise import BLUR, CLEAN, SHOT, Perturbation
from vitscope.results.condition_rows import QUANTITIES

PHOTONS = 255.0  # of a white pixel


_PURPOSE = 100  # above the numbers of the corruptions, whose draws are others


_ACCURACY = QUANTITIES.index("accuracy")


def perturbed(perturbation: Perturbation, pixels: Tensor, seed: int, indices: Tensor, draw: int) -> Tensor:
    """Pictures (N, C, H, W) with pixels from 0 to 1, changed."""
    if perturbation.kind == BLUR:
        return gaussian_blur(pixels, perturbation.strength)
    own = draws_for(
        seed,
        indices.tolist(),
        _PURPOSE + (perturbation.kind == SHOT),
        round(1000 * perturbation.strength),
        draw,
    )
    if perturbation.kind == SHOT:
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
    exam: str, request: tuple[Any, ...], perturbations: Sequence[Perturbation], draws: int
) -> dict[str, Any]:
    """The fields of the result: every perturbation of every batch in one pass over the images."""
    model, data, limit, batch_size, seed, device, name, parts = request
    resumable = ResumablePass(parts, batch_size)
    with own_passes(
        model, data, limit, batch_size, seed, device, name, labelled=True, skip=resumable.done
    ) as own:
        seen = PixelModel(model, own.dtype, pixel_space(own))
        runs = {_run(p, draw): (p, draw) for p in perturbations for draw in range(draws)}

        def predict(images: Tensor, labels: Tensor, indices: Tensor) -> Iterator[tuple[str, Tensor]]:
            yield CLEAN, seen.clean(images)
            pixels = seen.pixels(images)
            for run, (perturbation, draw) in runs.items():
                yield run, seen.logits(perturbed(perturbation, pixels, seed, indices, draw))

        found = score_conditions(exam, own, resumable, [CLEAN, *runs], predict, seed)
        return {**own.common, **_summarised(found, perturbations, draws)}


def _run(perturbation: Perturbation, draw: int) -> str:
    return f"{perturbation.condition}, draw {draw + 1}"


def _summarised(
    found: Mapping[str, Mapping[str, Tensor]], perturbations: Sequence[Perturbation], draws: int
) -> dict[str, Any]:
    """The result's own fields; a clean picture has no draws, and counts as having had the same each time."""
    runs = [[found[_run(p, draw)] for draw in range(draws)] for p in perturbations]
    by_draw = [[replicates(part["sums"])[0, _ACCURACY] for part in parts] for parts in runs]
    clean = replicates(found[CLEAN]["sums"])[0, _ACCURACY]
    accuracy = np.array([[clean] * draws, *by_draw])
    _, draw_low, draw_high = mean_interval(accuracy.sum(1), (accuracy**2).sum(1), draws)
    draw_low, draw_high = np.clip(draw_low, 0.0, 1.0), np.clip(draw_high, 0.0, 1.0)
    names = [p.condition for p in perturbations]
    return {
        "n": int(found[CLEAN]["n"]),
        "perturbations": (Perturbation(CLEAN, 0.0), *perturbations),
        "draws": draws,
        "scores": scored_means([[found[CLEAN]], *runs], found[CLEAN]),
        "draw_accuracy": accuracy,
        "draw_low": draw_low,
        "draw_high": draw_high,
        "headlines": tuple(
            accuracy_headline(condition, parts) for condition, parts in zip(names, runs, strict=True)
        ),
    }
