import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from vitscope.core.bootstrap import poisson_weights
from vitscope.core.errors import VitscopeError
from vitscope.engine.exam import Batch, Subject
from vitscope.engine.scores import error_interval, least_error
from vitscope.exams.prediction.prediction import PredictionAccumulator, PredictionResult, prediction, scores
from vitscope.results import Result, tidy
from vitscope.results.paired import Flips, differences, flips
from vitscope.results.paired import difference_of_replicates as difference


def predictions(n: int, noise: float, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two models with the same labels err on other images."""
    labels = torch.arange(n) % 4
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.nn.functional.one_hot(labels, 4) + noise * torch.randn(n, 4, generator=generator)
    return logits, labels


def result_of(
    logits: torch.Tensor, labels: torch.Tensor, model: str = "m", seed: int = 0
) -> PredictionResult:
    accumulator = PredictionAccumulator(Subject(model, "d", seed=seed))
    accumulator.update(Batch(logits, labels, torch.arange(len(labels))))
    return accumulator.finish()


def test_values_are_differences_and_intervals_those_of_a_paired_bootstrap() -> None:
    a, labels = predictions(500, 1.3, seed=1)
    b = a + 0.8 * torch.randn(500, 4, generator=torch.Generator().manual_seed(2))  # alike, but worse
    found = differences(result_of(b, labels, "b"), result_of(a, labels, "a")).set_index("quantity")
    per_image = (scores(b, labels) - scores(a, labels)).numpy()
    generator = np.random.default_rng(0)
    drawn = np.array([per_image[generator.integers(0, 500, 500)].mean(0) for _ in range(2000)])
    low, high = np.quantile(drawn, [0.025, 0.975], axis=0)
    for i, quantity in enumerate(("accuracy", "top5", "nll", "brier", "confidence")):
        if quantity == "top5":  # of 4 classes
            continue
        row, width = found.loc[quantity], high[i] - low[i]
        assert row["value"] == pytest.approx(per_image[:, i].mean(), abs=1e-12)
        assert row["low"] == pytest.approx(low[i], abs=0.12 * width)
        assert row["high"] == pytest.approx(high[i], abs=0.12 * width)
    assert found.loc["accuracy", "high"] < 0


def test_a_model_does_not_differ_from_itself() -> None:
    result = result_of(*predictions(100, 1.0, seed=1))
    found = differences(result, result).set_index("quantity")
    assert (found["value"] == 0).all()
    assert (found.loc[["nll", "brier", "ece"], ["low", "high"]] == 0).all(axis=None)
    assert (
        found.loc["accuracy", "low"] < 0 < found.loc["accuracy", "high"] < 0.03
    )  # no flip in 100 is no certainty


def test_intervals_of_calibration_errors_hold_the_difference() -> None:
    a, labels = predictions(300, 1.0, seed=1)
    found = differences(result_of(3 * a, labels, "b"), result_of(a, labels, "a")).set_index("quantity")
    for quantity in ("ece", "adaptive_ece"):
        row = found.loc[quantity]
        assert row["low"] < row["value"] < row["high"]


@dataclass(frozen=True, eq=False, kw_only=True)
class Told(Result, exam="told"):
    """An exam under conditions."""

    drawn: np.ndarray

    def replicates(self) -> dict[str, np.ndarray]:
        return {"nll, fog": self.drawn, "nll, snow": 2 * self.drawn}

    def table(self) -> pd.DataFrame:
        return tidy([], [], [], [], self.n)


@dataclass(frozen=True, eq=False, kw_only=True)
class Silent(Result, exam="silent"):
    """An exam without replicates."""


COMMON: dict[str, Any] = {"model": "m", "data": "d", "n": 7, "seed": 0}


def test_conditions_have_a_column() -> None:
    a, b = (Told(**COMMON, drawn=np.append(value, value + np.linspace(-1, 1, 401))) for value in (3.0, 1.0))
    found = differences(a, b)
    assert found["quantity"].tolist() == ["nll", "nll"]
    assert found["condition"].tolist() == ["fog", "snow"]
    assert found["value"].tolist() == [2.0, 4.0]


def test_results_without_replicates_have_no_differences() -> None:
    assert len(differences(Silent(**COMMON), Silent(**COMMON))) == 0


def test_interval_reaches_where_the_truth_is_if_replicates_are_biased() -> None:
    spread = np.linspace(-1, 1, 2001)
    biased = Told(**COMMON, drawn=np.append(5.0, 5.0 + 0.5 + spread))  # replicates are 0.5 too high
    zero = Told(**COMMON, drawn=np.zeros(2002))
    row = differences(biased, zero).iloc[0]
    assert (row["low"], row["high"]) == pytest.approx((5.0 - 0.5 - 0.95, 5.0 + 0.5 + 0.95))


def test_differences_of_calibration_errors_hold_the_truth() -> None:
    """A calibrated model beside an over-confident one: noise raises the error of the first alone.

    A bootstrap of the difference covers 0.75 of these.
    """
    generator, n, covered = np.random.default_rng(0), 200, []
    big = np.maximum(generator.beta(4.0, 1.5, 10**6), 0.1)
    bins = np.ceil(big * 15).astype(int)
    truth = -np.abs(np.bincount(bins, 0.1 * big)).sum() / len(big)
    weights = poisson_weights(np.arange(n), 0, 200).T
    for _ in range(100):
        found = []
        for share in (1.0, 0.9):
            confidence = np.maximum(generator.beta(4.0, 1.5, n), 0.1)
            right = generator.random(n) < share * confidence
            inside = np.eye(15)[np.ceil(confidence * 15).astype(int) - 1]
            gaps = weights @ (inside * (confidence - right)[:, None]) / weights.sum(1, keepdims=True)
            ends = error_interval(gaps[:, None], least_error(inside.sum(0), right @ inside, n)[None])
            found.append((np.abs(gaps).sum(1), ends))
        (ours, one), (theirs, other) = found
        both = [(ours[0], *one), (theirs[0], *other)]
        _, low, high = difference("ece", ours, theirs, n, both)
        covered.append(low <= truth <= high)
    assert np.mean(covered) > 0.906


def test_three_flips_are_no_evidence() -> None:
    a, labels = predictions(100, 0.0, seed=1)
    b = a.clone()
    b[:3] = -b[:3]  # wrong about three images, while the other is right about all
    found = differences(result_of(a, labels, "a"), result_of(b, labels, "b")).set_index("quantity")
    assert found.loc["accuracy", "low"] <= 0 < found.loc["accuracy", "value"]
    assert flips(result_of(a, labels), result_of(b, labels)).p_value == pytest.approx(0.25)


def test_other_images_are_refused_also_if_both_are_tensors() -> None:
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4))
    other = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(12, 4))
    images, labels = torch.randn(40, 3, 2, 2), torch.arange(40) % 4
    ours = prediction(model, (images, labels))
    assert len(differences(ours, prediction(other, (images.clone(), labels.clone())))) > 0
    for data in ((images + 1e-3, labels), (images.flip(0), labels), (images, labels.flip(0))):
        with pytest.raises(VitscopeError, match="both saw tensors, but with other images or labels"):
            differences(ours, prediction(other, data))
    in_order = DataLoader(TensorDataset(images, labels), batch_size=8)
    others = DataLoader(TensorDataset(images.flip(0), labels), batch_size=8)
    with pytest.raises(VitscopeError, match="both saw DataLoader"):
        differences(prediction(model, in_order), prediction(other, others))
    old = replace(ours, images_digest="")  # as written before there were digests
    assert len(differences(old, prediction(other, (images, labels)))) > 0


def test_flips_by_hand() -> None:
    labels = torch.zeros(6, dtype=torch.int64)
    right, wrong = [1.0, 0.0], [0.0, 1.0]
    a = torch.tensor([right, right, right, wrong, wrong, right])
    b = torch.tensor([right, wrong, right, right, wrong, wrong])
    found = flips(result_of(a, labels), result_of(b, labels))
    assert found == Flips(both=2, gained=2, lost=1, neither=1)
    assert found.difference == pytest.approx(1 / 6)
    low, high = found.interval
    assert low < 1 / 6 < high


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 5), (3, 3), (9, 24), (400, 520)])
def test_p_value_is_that_of_a_fair_coin(first: int, second: int) -> None:
    total, fewer = first + second, min(first, second)
    tail = sum(math.comb(total, k) for k in range(fewer + 1)) / 2**total
    assert Flips(10, first, second, 10).p_value == pytest.approx(min(1.0, 2 * tail), rel=1e-9)


def test_interval_of_no_flips_has_a_width() -> None:
    low, high = Flips(50, 0, 0, 0).interval
    assert low < 0 < high
    assert high < 0.1


def test_what_is_not_the_same_images_is_refused() -> None:
    logits, labels = predictions(80, 1.0, seed=1)
    result = result_of(logits, labels)
    others = {
        "n is 80 and 70": result_of(logits[:70], labels[:70]),
        "seed is 0 and 3": result_of(logits, labels, seed=3),
        "data is d and other": replace(result, data="other"),
    }
    for message, other in others.items():
        with pytest.raises(VitscopeError, match=message):
            differences(result, other)
    with pytest.raises(VitscopeError, match="not seen the same images"):
        flips(result, replace(result, seen=result.seen[::-1].copy()))
