"""Numbers of one trained model that claims about dense tasks and streams are about; see `studies.quantities`.

noise.miou_lost, blur.miou_lost       mIoU without minus mean mIoU under noise or blur, on the same images
temporal.nll_of_draws_minus_passes    NLL of one random pass per frame, smoothed over time, minus that of many passes
"""

from collections.abc import Mapping

import numpy as np

from vitscope.core.bootstrap import mean_interval_of_few
from vitscope.findings.noise import PerturbedRows
from vitscope.findings.segmentation import SegmentationResult
from vitscope.findings.temporal import TemporalResult
from vitscope.results import Result
from vitscope.results.over_seeds import Measured
from vitscope.studies.quantities import statistic


@statistic("noise.miou_lost")
def miou_lost_to_noise(results: Mapping[str, Result]) -> Measured | None:
    """G1: what noise takes of mIoU."""
    return _miou_lost(results, "noise")


@statistic("blur.miou_lost")
def miou_lost_to_blur(results: Mapping[str, Result]) -> Measured | None:
    """G1: what blur takes of mIoU."""
    return _miou_lost(results, "blur")


def _miou_lost(results: Mapping[str, Result], exam: str) -> Measured | None:
    clean, perturbed = results.get("segmentation"), results[exam]
    assert isinstance(perturbed, PerturbedRows)
    drawn = [headline.drawn for headline in perturbed.headlines if headline.quantity == "miou"]
    if not drawn or not isinstance(clean, SegmentationResult) or _images(clean) != _images(results[exam]):
        return None
    return _measured(clean.replicates()["miou"] - np.mean(drawn, axis=0), clean.n)


def _images(result: Result) -> tuple[str, int, int]:
    """What two results have in common whose replicates drew the same images."""
    return result.data, result.seed, result.n


@statistic("temporal.nll_of_draws_minus_passes")
def nll_of_draws_minus_passes(results: Mapping[str, Result]) -> Measured | None:
    """G4: VQ-BNN against MC dropout."""
    result = results["temporal"]
    assert isinstance(result, TemporalResult)
    drawn = result.replicates()
    names = "nll, one draw + temporal", "nll, mc dropout"
    if any(name not in drawn for name in names):
        return None
    return _measured(drawn[names[0]] - drawn[names[1]], result.blocks)


def _measured(drawn: np.ndarray, n: int) -> Measured:
    """From (1 + replicates,) over `n` images or blocks of frames."""
    low, high = mean_interval_of_few(drawn[1:], n)
    return Measured(float(drawn[0]), float(low), float(high), n, drawn)
