import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from torch import nn

from vitscope.core.errors import VitscopeError
from vitscope.engine.exam import Batch, Subject
from vitscope.engine.scores import (
    CELLS,
    GROUPS,
    SCALED_QUANTITIES,
    TEMPERATURES,
    UNSCALED,
    adaptive_gaps,
    adaptive_least_error,
    confidence_bins,
    confidence_cells,
    error_interval,
    in_fitting_half,
    least_error,
    lengthened,
    scores,
    with_bits,
)
from vitscope.exams.prediction.prediction import (
    PredictionAccumulator,
    PredictionResult,
    Temperature,
    prediction,
)
from vitscope.findings.prediction import Scaling, images_of
from vitscope.results.condition_rows import BINS, MEANS


def error_of(confidence: np.ndarray, right: np.ndarray) -> float:
    """As an accumulator would find it."""
    cells = confidence_cells(torch.from_numpy(confidence)).numpy()
    weight, gap = (np.bincount(cells, w, CELLS)[:, None] for w in (np.ones(len(cells)), confidence - right))
    return float(np.abs(adaptive_gaps(weight, gap)[0]).sum())


def by_sorting(confidence: np.ndarray, right: np.ndarray) -> float:
    """The definition: sort, cut into 15 groups of equally many, take the mean gap of each."""
    order = np.argsort(confidence, kind="stable")
    groups = np.split((confidence - right)[order], GROUPS)
    return float(sum(abs(group.sum()) for group in groups) / len(confidence))


@pytest.mark.parametrize("sharpness", [1.0, 4.0, 30.0])
def test_close_to_the_definition(sharpness: float) -> None:
    generator = np.random.default_rng(0)
    confidence = 1 - 0.9 * generator.random(15 * 400) ** sharpness  # the sharper, the more of them next to 1
    right = (generator.random(len(confidence)) < confidence**2).astype(float)
    assert error_of(confidence, right) == pytest.approx(by_sorting(confidence, right), abs=2e-3)


def test_exact_where_no_cell_is_divided() -> None:
    confidence = np.repeat(np.linspace(0.2, 0.97, GROUPS), 40)
    right = (np.random.default_rng(1).random(len(confidence)) < 0.7).astype(float)
    assert error_of(confidence, right) == pytest.approx(by_sorting(confidence, right), rel=1e-12)


def test_equal_confidences_are_one_group() -> None:
    right = np.array([1.0] * 70 + [0.0] * 30)
    assert error_of(np.full(100, 0.9), right) == pytest.approx(0.2, rel=1e-12)


def test_over_and_under_confidence_cancel_only_inside_a_group() -> None:
    confidence = np.repeat([0.6, 0.9], 150)
    right = np.concatenate([np.arange(150) < 120, np.arange(150) < 105]).astype(float)  # 0.8 and 0.7
    # gaps of -0.2 and +0.2: seven groups have one of them, seven the other, and the middle one half of each
    assert error_of(confidence, right) == pytest.approx(0.2 * 14 / 15, rel=1e-12)


def test_replicates_are_independent_and_empty_ones_have_none() -> None:
    generator = np.random.default_rng(0)
    weight = generator.poisson(1.0, (CELLS, 3)).astype(float)
    gap = weight * generator.normal(size=(CELLS, 3))
    weight[:, 1] = gap[:, 1] = 0
    found = adaptive_gaps(weight, gap)
    assert np.isnan(found[1]).all()
    np.testing.assert_array_equal(found[2], adaptive_gaps(weight[:, 2:], gap[:, 2:])[0])


def test_cells_are_in_order_and_hold_the_ends() -> None:
    confidence = torch.tensor([0.0, 1e-4, 0.1, 0.5, 0.9, 0.999, 1 - 1e-12, 1.0], dtype=torch.float64)
    cells = confidence_cells(confidence).tolist()
    assert cells == sorted(cells)
    assert (cells[0], cells[-1]) == (0, CELLS - 1)
    assert len(set(cells[1:-2])) == 5


Model = Callable[[np.ndarray], np.ndarray]


@dataclass(frozen=True)
class Situation:
    """How confident a model is, and how often it is right if it is so confident."""

    confidence: Callable[[np.random.Generator, int], np.ndarray]
    accuracy: Model

    def drawn(self, generator: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        confidence = self.confidence(generator, n)
        return confidence, (generator.random(n) < self.accuracy(confidence)).astype(float)

    def error(self) -> float:
        """Of the population: the mean over bins of the gap between confidence and the chance to be right."""
        confidence = self.confidence(np.random.default_rng(99), 200_000)
        gaps = np.bincount(_bins(confidence), confidence - self.accuracy(confidence), BINS)
        return float(np.abs(gaps).sum() / len(confidence))


def _bins(confidence: np.ndarray) -> np.ndarray:
    return confidence_bins(torch.from_numpy(confidence)).argmax(1).numpy()


def _usual(generator: np.random.Generator, n: int) -> np.ndarray:
    return np.maximum(generator.beta(4.0, 1.5, n), 0.1)


def _middle(generator: np.random.Generator, n: int) -> np.ndarray:
    return np.maximum(generator.beta(3.0, 3.0, n), 0.1)


def _saturated(generator: np.random.Generator, n: int) -> np.ndarray:
    return 1 - generator.beta(0.5, 400.0, n)


def _two_values(generator: np.random.Generator, n: int) -> np.ndarray:
    return generator.choice([0.95, 0.6], n, p=[0.9, 0.1])


SITUATIONS = {
    "calibrated": Situation(_usual, lambda c: c),
    "over-confident": Situation(_usual, lambda c: 0.9 * c),
    "under-confident": Situation(_middle, lambda c: np.minimum(c + 0.1, 1.0)),
    "wrong in one bin": Situation(_usual, lambda c: np.where((c > 0.8) & (c <= 13 / 15), c - 0.2, c)),
    "two bins": Situation(_two_values, lambda c: np.where(c > 0.9, 0.93, 0.5)),
    "saturated": Situation(_saturated, lambda c: np.full(len(c), 0.99)),
    "saturated, calibrated": Situation(_saturated, lambda c: c),
}


def coverage(situation: Situation, n: int, sets: int) -> float:
    """How often the interval holds the error of the population."""
    generator, true = np.random.default_rng(n), situation.error()
    held = np.zeros(sets)
    weights = generator.poisson(1.0, (201, n)).astype(float)
    weights[0] = 1.0
    for i in range(sets):
        confidence, right = situation.drawn(generator, n)
        bins = np.eye(BINS)[_bins(confidence)]
        gaps = weights @ (bins * (confidence - right)[:, None]) / weights.sum(1, keepdims=True)
        low, high = error_interval(gaps[:, None], least_error(bins.sum(0), right @ bins, n)[None])
        assert 0.0 <= low <= np.abs(gaps[0]).sum() <= high <= 1.0
        held[i] = low <= true <= high
    return float(held.mean())


@pytest.mark.parametrize("name", SITUATIONS)
def test_intervals_hold_the_error_of_the_population(name: str) -> None:
    """Where noise raises the error they err to one side only: 97.5 % and more; elsewhere to both."""
    assert coverage(SITUATIONS[name], n=300, sets=100) > 0.906  # 95 % less two standard errors


@pytest.mark.slow
@pytest.mark.parametrize("n", [200, 1000, 5000])
@pytest.mark.parametrize("name", SITUATIONS)
def test_intervals_hold_the_error_for_any_number_of_images(name: str, n: int) -> None:
    assert coverage(SITUATIONS[name], n, sets=400) > 0.928


def test_an_interval_is_no_wider_than_it_has_to_be() -> None:
    """Where all gaps are real, the error is a mean like any other."""
    generator, n = np.random.default_rng(0), 5000
    confidence = _middle(generator, n)
    right = (generator.random(n) < confidence - 0.09).astype(float)
    weights = generator.poisson(1.0, (401, n)).astype(float)
    weights[0] = 1.0
    bins = np.eye(BINS)[_bins(confidence)]
    gaps = weights @ (bins * (confidence - right)[:, None]) / weights.sum(1, keepdims=True)
    low, high = error_interval(gaps[:, None], least_error(bins.sum(0), right @ bins, n)[None])
    plain = 2 * 1.96 * np.std(confidence - right) / np.sqrt(n)
    assert plain * 0.9 < high - low < plain * 1.25
    # twice the same condition tells nothing new
    twice = error_interval(
        np.stack([gaps, gaps], 1), np.stack([least_error(bins.sum(0), right @ bins, n)] * 2)
    )
    np.testing.assert_allclose(twice, (low, high), rtol=1e-6)


def test_all_right_is_not_certainty() -> None:
    confidence, right = np.full(100, 0.999), np.ones(100)
    cells = np.bincount(confidence_cells(torch.from_numpy(confidence)).numpy(), minlength=CELLS).astype(float)
    bins = np.eye(BINS)[_bins(confidence)]
    gaps = np.tile((bins * (confidence - right)[:, None]).mean(0), (200, 1))  # no replicate differs
    low, high = error_interval(gaps[:, None], least_error(bins.sum(0), right @ bins, 100)[None])
    assert low == 0.0
    assert 0.02 < high < 0.05  # 100 of 100 right go with 0.963 and more (Wilson)
    adaptive = adaptive_least_error(cells, -0.001 * cells)
    np.testing.assert_allclose(
        (adaptive**2).sum(), (least_error(bins.sum(0), right @ bins, 100) ** 2).sum(), rtol=0.05
    )


def test_closed_forms() -> None:
    p = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.6, 0.3]], dtype=torch.float64)
    found = dict(zip(MEANS, scores(p.log(), torch.tensor([0, 2])).T.tolist(), strict=True))
    assert found["accuracy"] == [1.0, 0.0]
    assert found["top5"] == [1.0, 1.0]
    np.testing.assert_allclose(found["nll"], [-math.log(0.7), -math.log(0.3)], rtol=1e-12)
    np.testing.assert_allclose(found["brier"], [0.09 + 0.04 + 0.01, 0.01 + 0.36 + 0.49], rtol=1e-12)
    np.testing.assert_allclose(found["confidence"], [0.7, 0.6], rtol=1e-12)


def test_bins_are_open_below_and_closed_above() -> None:
    edge = torch.tensor([1 / 15, 2 / 15, 14 / 15, 1.0, 1.0 - 1e-12, 2 / 15 + 1e-9], dtype=torch.float64)
    assert confidence_bins(edge).argmax(1).tolist() == [0, 1, 13, 14, 14, 2]


def words() -> torch.Tensor:
    return torch.zeros(0, dtype=torch.int64)


def test_there_and_back_with_the_sign_bit() -> None:
    images = torch.tensor([0, 1, 63, 64, 127, 1000])
    packed = with_bits(words(), images)
    assert len(packed) == 1000 // 64 + 1
    assert images_of(packed.numpy()).tolist() == images.tolist()


def test_batches_in_any_order_and_sums_of_processes() -> None:
    images = torch.randperm(500, generator=torch.Generator().manual_seed(0))[:200]
    one = with_bits(words(), images)
    parts = [words(), words()]
    for number, piece in enumerate(images.split(30)):
        parts[number % 2] = with_bits(parts[number % 2], piece)
    longest = max(map(len, parts))
    merged = sum((lengthened(part, longest) for part in parts), torch.zeros(longest, dtype=torch.int64))
    assert torch.equal(merged, lengthened(one, longest))
    assert images_of(merged.numpy()).tolist() == sorted(images.tolist())


def test_nothing() -> None:
    assert len(with_bits(words(), words())) == 0
    assert images_of(np.zeros(0, np.int64)).tolist() == []


def test_lengthened_keeps_rows() -> None:
    rows = torch.arange(6.0).reshape(2, 3)
    longer = lengthened(rows, 4)
    assert torch.equal(longer[:2], rows)
    assert longer[2:].abs().sum() == 0
    assert lengthened(rows, 1) is rows


def drawn(n: int, sharpness: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that are `sharpness` times what the labels are drawn from: the right temperature."""
    generator = torch.Generator().manual_seed(seed)
    true = 2 * torch.randn(n, 6, generator=generator)
    labels = torch.multinomial(true.softmax(1), 1, generator=generator)[:, 0]
    return sharpness * true.double(), labels


def finish(logits: torch.Tensor, labels: torch.Tensor, temperature: Temperature = "fit") -> PredictionResult:
    accumulator = PredictionAccumulator.with_options(temperature=temperature)(Subject("m", "d", seed=5))
    for places in torch.arange(len(labels)).split(400):
        accumulator.update(Batch(logits[places], labels[places], places))
    return accumulator.finish()


def scaling(logits: torch.Tensor, labels: torch.Tensor) -> dict[str, float]:
    found = finish(logits, labels).scaling
    assert isinstance(found, Scaling)
    return dict(zip(SCALED_QUANTITIES, found.value.tolist(), strict=True))


def nll(logits: torch.Tensor, labels: torch.Tensor, temperature: float) -> float:
    return float(torch.nn.functional.cross_entropy(logits / temperature, labels))


@pytest.mark.parametrize("sharpness", [0.4, 1.0, 3.0])
def test_finds_the_temperature_that_was_put_in(sharpness: float) -> None:
    result = finish(*drawn(1500, sharpness)).scaling
    assert result is not None
    assert result.converged
    assert result.low[0] <= sharpness <= result.high[0]
    assert result.high[0] / result.low[0] < 1.35


def test_fits_one_half_and_reports_the_other() -> None:
    logits, labels = drawn(800, 2.0)
    fits = in_fitting_half(torch.arange(800), seed=5)
    assert 340 < fits.sum() < 460
    losses = [nll(logits[fits], labels[fits], t) for t in TEMPERATURES]
    best = float(TEMPERATURES[int(np.argmin(losses))])
    found = scaling(logits, labels)
    assert found["temperature"] == best
    rest = scores(logits[~fits] / best, labels[~fits]).mean(0)
    assert found["scaled_nll"] == pytest.approx(float(rest[2]), rel=1e-12)
    assert found["scaled_brier"] == pytest.approx(float(rest[3]), rel=1e-12)
    assert found["scaled_confidence"] == pytest.approx(float(rest[4]), rel=1e-12)
    gain = nll(logits[~fits], labels[~fits], best) - nll(logits[~fits], labels[~fits], 1.0)
    assert found["nll_change"] == pytest.approx(gain, rel=1e-9)
    assert found["ece_change"] < -0.03


def test_grid_is_fine_enough() -> None:
    logits, labels = drawn(800, 2.0)
    fits = in_fitting_half(torch.arange(800), seed=5)
    fine = np.geomspace(0.5, 8, 1500)
    least = min(nll(logits[fits], labels[fits], t) for t in fine)
    best = scaling(logits, labels)["temperature"]
    assert nll(logits[fits], labels[fits], best) - least < 3e-4
    assert TEMPERATURES[UNSCALED] == 1.0


def test_says_so_if_the_best_is_beyond_what_was_tried() -> None:
    logits = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    labels = (logits.argmax(1) + 1) % 3  # always wrong: the flatter the better
    with pytest.warns(UserWarning, match="temperature not converged: 8"):
        result = finish(logits, labels)
    assert result.scaling is not None
    assert not result.scaling.converged


def test_refuses_what_is_no_temperature_and_halves_without_images() -> None:
    for wrong in (0.0, -1.0, float("nan"), float("inf"), "hot"):
        with pytest.raises(VitscopeError, match="expected a number, more than 0, or fit"):
            prediction(nn.Flatten(), (torch.zeros(2, 3, 1, 1), torch.zeros(2).long()), temperature=wrong)
    with pytest.raises(VitscopeError, match="images in both halves"):
        finish(torch.randn(1, 3), torch.tensor([0]))


def test_halves_depend_on_seed_and_image_alone() -> None:
    images = torch.arange(300)
    one = in_fitting_half(images, 1)
    assert torch.equal(one[[7, 200, 3]], in_fitting_half(images[[7, 200, 3]], 1))
    assert not torch.equal(one, in_fitting_half(images, 2))
