"""Noise as slight as a camera's (formulas: `engine/robustness/perturbations.py`)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from vitscope.core.arguments import Count, Positive
from vitscope.engine.exam import procedure
from vitscope.engine.finished_parts import Parts
from vitscope.engine.robustness.perturbations import PHOTONS, ascending, scored_under
from vitscope.findings.noise import GAUSSIAN, SHOT, NoiseResult, Perturbation


@procedure(NoiseResult, evaluation=True, resumable=True)
def noise(
    model: nn.Module,
    data: Any,
    limit: int | None = None,
    batch_size: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
    name: str | None = None,
    parts: Parts | None = None,
    strengths: Sequence[Positive] = (5.0, 10.0),
    draws: Count = 5,
) -> NoiseResult:
    """Score `model` under shot noise and Gaussian noise; `examine` documents the other arguments.

    Args:
        model: A classifier.
        data: Labelled images.
        seed: Of the subset, the noise and the bootstrap.
        parts: Where an interrupted pass is kept.
        strengths: Deviations of the Gaussian noise, in 1/255.
        draws: How often the noise of each image is drawn.
    """
    gaussian = [Perturbation(GAUSSIAN, strength) for strength in ascending(strengths)]
    request = (model, data, limit, batch_size, seed, device, name, parts)
    return NoiseResult(**scored_under("noise", request, [Perturbation(SHOT, PHOTONS), *gaussian], draws))
