"""Blur as slight as a camera's (formulas: `noise.py`)."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import nn

from vitscope.core.arguments import Positive
from vitscope.engine.exam import procedure
from vitscope.engine.resuming import Parts
from vitscope.exams.robustness.noise import ascending, scored_under
from vitscope.findings.blur import BlurResult
from vitscope.findings.noise import BLUR, Perturbation


@procedure(BlurResult, evaluation=True, resumable=True)
def blur(
    model: nn.Module,
    data: Any,
    limit: int | None = None,
    batch_size: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
    name: str | None = None,
    parts: Parts | None = None,
    strengths: Sequence[Positive] = (1.0, 2.0),
) -> BlurResult:
    """Score `model` under Gaussian blur; `noise` documents the arguments, `strengths` are deviations in pixels."""
    request = (model, data, limit, batch_size, seed, device, name, parts)
    return BlurResult(
        **scored_under("blur", request, [Perturbation(BLUR, s) for s in ascending(strengths)], 1)
    )
