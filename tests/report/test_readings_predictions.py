from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from vitscope.findings.corruption import _corruption
from vitscope.findings.frequency_noise import _noise
from vitscope.findings.prediction import _prediction
from vitscope.findings.temporal import _temporal
from vitscope.results import Run, tidy
from vitscope.results.condition_rows import conditions_in_words as _conditions


class Stub:
    """A result of which a reading only sees the tables, that it is not of objects, and that outputs are classes."""

    scores = SimpleNamespace(ap=None)
    mismatch = ""

    def __init__(self, summary: pd.DataFrame, table: pd.DataFrame | None = None, n: int = 100) -> None:
        self._summary, self._table, self.n = summary, table, n

    def summary(self) -> pd.DataFrame:
        return self._summary

    def table(self) -> pd.DataFrame:
        return self._summary if self._table is None else self._table


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.01, 0.05, "it is more confident than right"),
        (-0.05, -0.01, "it is more often right than it says"),
        (-0.01, 0.05, "neither over- nor under-confidence is certain"),
    ],
)
def test_calibration_is_judged_by_the_interval(low: float, high: float, words: str) -> None:
    names = ["accuracy", "confidence", "signed_ece", "ece", "nll"]
    lows, highs = [0.8, 0.8, low, 0.02, 0.3], [0.9, 0.9, high, 0.06, 0.5]
    text = _prediction(Stub(tidy(names, [0.85, 0.87, 0.02, 0.04, 0.4], lows, highs, 100)))
    assert text.startswith(
        "It is right about 85.0 % [80.0, 90.0] of 100 images and says so with a mean confidence of 87.0 %"
    )
    assert f": {words}. The calibration error is 4.0 % [2.0, 6.0], the NLL 0.4 [0.3, 0.5]." in text


@pytest.mark.parametrize(
    ("low", "high", "words"),
    [
        (0.01, 0.09, "high frequencies hurt more"),
        (-0.09, -0.01, "low frequencies hurt more"),
        (-0.1, 0.1, "neither side"),
    ],
)
def test_noise_is_judged_by_the_difference(low: float, high: float, words: str) -> None:
    conditions = ["noise below 0.5π", "noise above 0.5π", "noise above minus below 0.5π"]
    table = tidy(
        ["drop"] * 3, [0.1, 0.15, 0.05], [0.05, 0.1, low], [0.15, 0.2, high], 100, condition=conditions
    )
    text = _noise(Stub(table))
    assert text.startswith("Noise of low frequencies costs 10.0 points [5.0, 15.0] of accuracy")
    assert words in text
    assert _noise(Stub(table.head(1))) == ""


def test_a_real_one(runs: Path) -> None:
    result = Run.open(runs / "vit").results()["prediction"]
    value = np.asarray(result.table()["value"])
    assert f"It is right about {100 * value[0]:.1f} % [" in _prediction(result)


def test_conditions_run_from_the_mildest_to_the_worst() -> None:
    clean = tidy(["accuracy"], [0.9], [0.8], [0.95], 100, condition=["clean"])
    names = ["generated corruptions", "generated blur", "generated digital"]
    rows = tidy(["accuracy"] * 3, [0.7, 0.8, 0.6], [0.6, 0.7, 0.5], [0.8, 0.9, 0.7], 100, condition=names)
    found = Stub(rows, clean)
    assert _conditions(found) == (
        "Accuracy is 90.0 % [80.0, 95.0] on the images as they are, 80.0 % [70.0, 90.0] under generated blur and "
        "60.0 % [50.0, 70.0] under generated digital."
    )
    assert _corruption(found) == (
        "Accuracy is 90.0 % [80.0, 95.0] on clean images and 70.0 % [60.0, 80.0] on average over generated "
        "corruptions. It is lowest under generated digital: 60.0 % [50.0, 70.0]."
    )


def test_streams_are_read_with_and_without_smoothing() -> None:
    names = ["one pass", "one pass + temporal"]
    quantities = [name for name in ("accuracy", "nll", "consistency") for _ in names]
    value = np.array([0.7, 0.8, 1.0, 0.9, 0.75, 0.95])
    found: Any = Stub(tidy(quantities, value, value - 0.1, value + 0.1, 100, condition=names * 3))
    found.names, found.temporal = names, np.array([False, True])
    assert _temporal(found) == (
        "Averaged with the last frames, predictions are right about 80.0 % [70.0, 90.0] instead of 70.0 % [60.0, 80.0] "
        "of 100 frames, with an NLL of 0.9 instead of 1. The predicted class stays the same in 95 % instead of 75 % of "
        "the steps from frame to frame."
    )
    found.temporal = np.array([False, False])
    assert _temporal(found) == ""
