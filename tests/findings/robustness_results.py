"""Results of the robustness exams, made by hand."""

from typing import Any

import numpy as np

from vitscope.core.statistics import Estimate
from vitscope.exams.robustness.frequency_noise import HIGH, HIGH_MINUS_LOW, LOW
from vitscope.exams.robustness.occlusion import CLEAN
from vitscope.findings.adversarial import AdversarialResult, Attacked
from vitscope.findings.frequency_noise import FrequencyNoiseResult
from vitscope.findings.occlusion import CENTRE, Occluded, OcclusionResult
from vitscope.findings.shape_bias import ShapeBiasResult
from vitscope.results.condition_rows import QUANTITIES, ConditionTable, Headline

COMMON: dict[str, Any] = {"model": "m", "data": "d", "n": 100, "seed": 0}


def scores(accuracy: list[float]) -> ConditionTable:
    """Of conditions with these accuracies, the first without any change."""
    value = np.zeros((len(accuracy), len(QUANTITIES)))
    value[:, QUANTITIES.index("accuracy")] = accuracy
    drop = accuracy[0] - np.array(accuracy)
    return ConditionTable(100, value, value - 0.05, value + 0.05, Estimate(drop, drop - 0.04, drop + 0.04))


def noise_result(
    low: float, high: float, kinds: tuple[str, ...] = ("conv",), model: str = "m"
) -> FrequencyNoiseResult:
    """Four bands, with these drops below and above 0.5 pi; replicates scatter by 0.01."""
    scatter = np.random.default_rng(0).normal(0.0, 0.01, (2, 1001))
    scatter[:, 0] = 0.0  # the plain numbers
    drawn = {LOW: low + scatter[0], HIGH: high + scatter[1]}
    drawn[HIGH_MINUS_LOW] = drawn[HIGH] - drawn[LOW]
    return FrequencyNoiseResult(
        **{**COMMON, "model": model},
        strength=32.0,
        kinds=kinds,
        frequency=np.array([0.05, 0.35, 0.65, 0.95]),
        scores=scores([0.9, 0.9 - low, 0.9 - low, 0.9 - high, 0.9 - high]),
        headlines=tuple(Headline.of("drop", name, numbers) for name, numbers in drawn.items()),
    )


def occlusion_result() -> OcclusionResult:
    occluded = (
        Occluded(CLEAN, "", 0.0),
        Occluded(CENTRE, "", 0.25),
        Occluded("random 50 % masked", "random", 0.5),
        Occluded("salient 50 % masked", "salient", 0.5),
    )
    return OcclusionResult(
        **COMMON, fill="mean", side=8, occluded=occluded, scores=scores([0.9, 0.7, 0.6, 0.4]), headlines=()
    )


def adversarial_result(attacked: bool = True) -> AdversarialResult:
    conditions = (Attacked("", 0.0), Attacked("FGSM", 4.0), Attacked("FGSM", 8.0), Attacked("PGD", 4.0))
    return AdversarialResult(
        **COMMON,
        steps=5,
        attacked=conditions if attacked else (),
        scores=scores([0.9, 0.6, 0.4, 0.2]),
        headlines=(),
    )


def shape_result(pairs: int = 40) -> ShapeBiasResult:
    value = np.array([[0.2, 0.6, 0.2, 0.25], [0.7, 0.1, 0.2, 0.875], [0.5, 0.3, 0.2, 0.625]])
    return ShapeBiasResult(
        **COMMON,
        pairs=pairs,
        cutoff=np.array([0.1, 0.3]),
        value=value,
        low=value - 0.05,
        high=value + 0.05,
        headlines=(),
    )
