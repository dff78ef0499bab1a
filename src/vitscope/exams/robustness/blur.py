"""Blur as slight as a camera's (formulas: `noise.py`)."""

from collections.abc import Sequence
from typing import Any

from torch import nn

from vitscope.core.arguments import Positive
from vitscope.engine.exam import procedure
from vitscope.engine.resuming import PartialResults
from vitscope.engine.takes_interface import Asked
from vitscope.exams.robustness.noise import ascending, scored_under
from vitscope.findings.blur import BlurResult
from vitscope.findings.noise import BLUR, Perturbation


@procedure(BlurResult, evaluation=True, resumable=True, needs_labels=True, or_task=True)
def blur(
    model: nn.Module,
    data: Any,
    request: Asked,
    parts: PartialResults | None = None,
    strengths: Sequence[Positive] = (1.0, 2.0),
) -> BlurResult:
    """Score `model` under Gaussian blur; `noise` documents the other arguments.

    Args:
        strengths: Standard deviations of the blur in pixels.
    """
    blurs = [Perturbation(BLUR, strength) for strength in ascending(strengths)]
    return BlurResult(**scored_under("blur", model, data, request, parts, blurs, 1))
