import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.exams.scores_by_hand import scores as scores_by_hand
from vitscope.core.bootstrap import mean_interval_of_few
from vitscope.core.errors import BadData, VitscopeError
from vitscope.data import ImageData
from vitscope.engine.exam import Batch, Subject
from vitscope.exams.prediction.prediction import (
    QUANTITIES,
    PredictionAccumulator,
    PredictionResult,
    Temperature,
    confidence_bins,
    prediction,
    scores,
)
from vitscope.results.paired import differences

ECE = QUANTITIES.index("ece")


def finish(
    logits: torch.Tensor, labels: torch.Tensor, *cuts: int, seed: int = 0, temperature: Temperature = None
) -> PredictionResult:
    accumulator = PredictionAccumulator.with_options(temperature=temperature)(Subject("m", "d", seed=seed))
    indices = torch.arange(len(labels))
    edges = [0, *cuts, len(labels)]
    for a, b in pairwise(edges):
        accumulator.update(Batch(logits[a:b], labels[a:b], indices[a:b]))
    result = accumulator.finish()
    assert isinstance(result, PredictionResult)
    return result


def calibrated(n: int, classes: int = 10, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits, and labels drawn from their softmax."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(n, classes, generator=generator)
    return logits, torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]


def values(result: PredictionResult) -> dict[str, float]:
    return dict(zip(QUANTITIES, result.value.tolist(), strict=True))


@torch.no_grad()
def expected_table(model: nn.Module, images: Tensor, labels: Tensor) -> dict[tuple[str, None], float]:
    found = scores_by_hand(model(images.double()).softmax(1).numpy(), labels.numpy())
    signed = found["confidence"] - found["accuracy"]
    return {(quantity, None): value for quantity, value in {**found, "signed_ece": signed}.items()}


def test_uniform_prediction_has_log_k() -> None:
    found = values(finish(torch.zeros(50, 7), torch.arange(50) % 7))
    assert found["nll"] == pytest.approx(math.log(7), rel=1e-12)
    assert found["brier"] == pytest.approx(6 / 7, rel=1e-12)


def test_top5_counts_the_five_largest() -> None:
    logits = torch.arange(8.0).expand(8, 8)
    assert values(finish(logits, torch.arange(8)))["top5"] == 5 / 8


@pytest.mark.parametrize("classes", [2, 5, 6])
def test_top5_of_five_classes_or_fewer_says_nothing_and_is_not_shown(classes: int) -> None:
    result = finish(torch.rand(20, classes), torch.arange(20) % classes)
    shown = set(result.table()["quantity"])
    assert ("top5" in shown) == (classes > 5)
    assert {"accuracy", "nll", "adaptive_ece"} < shown
    assert set(differences(result, result)["quantity"]) == shown
    more = finish(torch.rand(20, 10), torch.arange(20) % classes)  # ten outputs, of which the data has some
    for first, second in ((result, more), (more, result)):
        assert ("top5" in set(differences(first, second)["quantity"])) == (classes > 5)


@pytest.mark.parametrize("classes", [2, 6, 10, 300])
def test_of_equal_outputs_the_first_is_predicted(classes: int) -> None:
    logits = torch.randint(0, 3, (400, classes), generator=torch.Generator().manual_seed(classes)).float()
    result = finish(logits, logits.argmax(1))
    assert values(result)["accuracy"] == 1.0
    table = result.class_table()
    for k in logits.argmax(1).unique().tolist():
        precision = table[(table["quantity"] == "precision") & (table["class"] == k)]["value"].item()
        assert precision == 1.0
    labels = torch.arange(400) % classes
    by_hand = [
        sorted(range(classes), key=lambda k: -row[k]).index(y)
        for row, y in zip(logits.tolist(), labels.tolist(), strict=True)
    ]
    found = values(finish(logits, labels))
    assert found["accuracy"] == pytest.approx(np.mean([place == 0 for place in by_hand]))
    assert found.get("top5", 1.0) == pytest.approx(np.mean([place < 5 for place in by_hand]))


def test_extreme_logits_do_not_underflow() -> None:
    found = values(finish(torch.tensor([[0.0, 5000.0], [5000.0, 0.0]]), torch.tensor([0, 0])))
    assert found["nll"] == pytest.approx(2500.0)
    assert found["ece"] == pytest.approx(0.5)


def test_saturated_model_is_off_by_its_error_rate() -> None:
    labels = torch.zeros(1000, dtype=torch.long)
    labels[:102] = 1
    logits = torch.tensor([[1000.0, 0.0]]).expand(1000, 2)
    result = finish(logits, labels)
    assert result.accuracy == pytest.approx(0.898)
    assert result.ece == pytest.approx(0.102)
    assert result.bin_count.tolist() == [0] * 14 + [1000]


def test_ece_of_two_bins_by_hand() -> None:
    # 10 images at confidence 0.9, 7 right; 10 at 0.6, 8 right: (|9 - 7| + |6 - 8|) / 20
    high, low = math.log(0.9 / 0.1), math.log(0.6 / 0.4)
    logits = torch.tensor([[high, 0.0]] * 10 + [[low, 0.0]] * 10)
    labels = torch.tensor([0] * 7 + [1] * 3 + [0] * 8 + [1] * 2)
    result = finish(logits, labels)
    assert result.ece == pytest.approx(0.2, abs=1e-6)
    assert result.bin_count[[8, 13]].tolist() == [10, 10]
    np.testing.assert_allclose(result.bin_accuracy.value[[8, 13]], [0.8, 0.7])


def test_intervals_are_nearly_those_of_a_plain_bootstrap() -> None:
    logits, labels = calibrated(400)
    result = finish(logits, labels)
    per_image = scores(logits, labels).numpy()
    generator = np.random.default_rng(0)
    replicates = np.array([per_image[generator.integers(0, 400, 400)].mean(0) for _ in range(2000)])
    low, high = np.quantile(replicates, [0.025, 0.975], axis=0)
    width = high - low
    np.testing.assert_allclose(result.low[:5], low, atol=0.12 * width.max())
    np.testing.assert_allclose((result.high - result.low)[:5], width, rtol=0.12)


def test_interval_of_ece_covers_the_truth() -> None:
    truth, covered = _true_ece(), 0
    for seed in range(40):
        logits, labels = calibrated(500, seed=seed)
        sharp = finish(1.6 * logits, labels, seed=seed)
        covered += sharp.low[ECE] <= truth <= sharp.high[ECE]
    assert covered >= 34  # 38 expected


def _true_ece() -> float:
    """Of logits 1.6 times too large, from the labels' own probabilities on many images."""
    logits, _ = calibrated(400_000, seed=99)
    p = logits.double().softmax(1)
    sharp = (1.6 * logits.double()).softmax(1)
    confidence, predicted = sharp.max(1)
    gap = (confidence - p.gather(1, predicted[:, None])[:, 0])[:, None] * confidence_bins(confidence)
    return float(gap.sum(0).abs().sum() / len(logits))


def test_seed_changes_only_the_intervals() -> None:
    logits, labels = calibrated(200)
    a, b = finish(logits, labels, seed=0), finish(logits, labels, seed=1)
    np.testing.assert_array_equal(a.value, b.value)
    assert (a.low != b.low).any()


def test_one_image() -> None:
    result = finish(torch.tensor([[1.0, 0.0]]), torch.tensor([0]))
    assert result.accuracy == 1.0
    assert np.isfinite(result.low).all()


def test_label_outside_the_outputs_is_named() -> None:
    with pytest.raises(BadData, match="image 1 has label 5, the model has outputs 0 to 3"):
        finish(torch.zeros(2, 4), torch.tensor([0, 5]))
    with pytest.raises(BadData, match="label -1"):
        finish(torch.zeros(2, 4), torch.tensor([0, -1]))


def test_outputs_that_are_not_finite_or_not_classes_are_refused() -> None:
    bad = torch.zeros(3, 4)
    bad[2, 1] = torch.nan
    with pytest.raises(VitscopeError, match="image 2 are not finite"):
        finish(bad, torch.tensor([0, 1, 2]))
    with pytest.raises(VitscopeError, match=r"expected \(images, classes\)"):
        finish(torch.zeros(3, 4, 2, 2), torch.tensor([0, 1, 2]))


def test_signed_error_is_confidence_minus_accuracy() -> None:
    found = values(finish(*calibrated(300)))
    assert found["signed_ece"] == pytest.approx(found["confidence"] - found["accuracy"], abs=1e-15)
    assert abs(found["signed_ece"]) <= found["ece"] + 1e-12


def test_classes_are_counted_as_by_hand() -> None:
    logits, labels = calibrated(200, classes=5)
    labels[labels == 3] = 4  # a class without images, but with predictions
    result = finish(logits, labels, 70)
    p = logits.double().softmax(1)
    confidence, predicted = (found.numpy() for found in p.max(1))
    for k in range(5):
        own, taken = labels.numpy() == k, predicted == k
        assert result.class_count[k] == own.sum()
        assert result.class_predicted[k] == taken.sum()
        right = (own & taken).sum()
        if k != 3:
            np.testing.assert_allclose(
                result.by_class.value[k], [right / own.sum(), right / taken.sum(), confidence[own].mean()]
            )
            half = 1.97 * confidence[own].std(ddof=1) / math.sqrt(own.sum())
            assert result.by_class.high[k, 2] - result.by_class.value[k, 2] == pytest.approx(half, rel=0.05)
    assert np.isnan(result.by_class.value[3, [0, 2]]).all()
    assert result.by_class.value[3, 1] == 0


def test_histogram_tells_right_from_wrong() -> None:
    logits, labels = calibrated(250)
    result = finish(logits, labels, 100)
    confidence, predicted = logits.double().softmax(1).max(1)
    right = predicted == labels
    for column, chosen in enumerate((right, ~right)):
        counted = np.histogram(confidence[chosen], bins=60, range=(0, 1))[0]  # no confidence is at an edge
        np.testing.assert_array_equal(result.histogram[:, column], counted)


def test_says_which_images_are_right() -> None:
    logits, labels = calibrated(130)
    accumulator = PredictionAccumulator(Subject("m", "d"))
    places = torch.randperm(1000, generator=torch.Generator().manual_seed(3))[:130]
    accumulator.update(Batch(logits, labels, places))
    seen, right = accumulator.finish().outcomes()
    order = places.argsort()
    assert seen.tolist() == places[order].tolist()
    assert right.tolist() == (logits.argmax(1) == labels)[order].tolist()


def test_replicates_have_the_values_first() -> None:
    result = finish(*calibrated(60))
    found = result.replicates()
    assert list(found) == list(QUANTITIES)
    np.testing.assert_array_equal([numbers[0] for numbers in found.values()], result.value)
    low, high = mean_interval_of_few(found["nll"][1:, None], 60)
    assert (result.low[2], result.high[2]) == pytest.approx((low[0], high[0]), rel=1e-9)


def test_a_temperature_divides_the_logits() -> None:
    logits, labels = calibrated(100)
    scaled, plain = finish(logits.double(), labels, temperature=2.5), finish(logits.double() / 2.5, labels)
    np.testing.assert_allclose(scaled.value, plain.value, rtol=1e-12)
    assert (scaled.temperature, plain.temperature, scaled.scaling) == (2.5, 1.0, None)


def test_fit_leaves_the_plain_quantities_and_appends_scaled_ones() -> None:
    logits, labels = calibrated(120)
    fitted, plain = finish(logits, labels, 50, temperature="fit"), finish(logits, labels)
    np.testing.assert_allclose(fitted.value, plain.value, rtol=1e-12)
    assert fitted.scaling is not None
    assert fitted.scaling.n + fitted.scaling.n_fitted == 120
    rows = fitted.table().set_index("quantity")
    assert list(rows.index[: len(QUANTITIES)]) == list(QUANTITIES)
    assert rows.loc["temperature", "n"] == fitted.scaling.n_fitted
    assert rows.loc["scaled_nll", "n"] == fitted.scaling.n
    assert set(fitted.replicates()) == set(rows.index)


@pytest.mark.filterwarnings("ignore:temperature not converged")  # the weights are random
def test_one_call_on_real_images(small_vit: torch.nn.Module, fashion: ImageData) -> None:
    result = prediction(small_vit, fashion, limit=40, batch_size=16, name="mine", temperature="fit")
    assert (result.model, result.n) == ("mine", 40)
    assert result.class_names == fashion.classes
    assert result.class_count.tolist() == [4] * 10
    seen, right = result.outcomes()
    assert len(seen) == 40
    assert right.mean() == pytest.approx(result.accuracy)
