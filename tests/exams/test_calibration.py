import numpy as np
import pytest
import torch

from vitscope.exams.calibration import CELLS, GROUPS, adaptive_error, confidence_cells, share_interval
from vitscope.exams.interval import NORMAL


def error_of(confidence: np.ndarray, right: np.ndarray) -> float:
    """As an accumulator would find it."""
    cells = confidence_cells(torch.from_numpy(confidence)).numpy()
    weight, gap = (np.bincount(cells, w, CELLS)[:, None] for w in (np.ones(len(cells)), confidence - right))
    return float(adaptive_error(weight, gap)[0])


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
    found = adaptive_error(weight, gap)
    assert np.isnan(found[1])
    assert found[2] == adaptive_error(weight[:, 2:], gap[:, 2:])[0]


def test_cells_are_in_order_and_hold_the_ends() -> None:
    confidence = torch.tensor([0.0, 1e-4, 0.1, 0.5, 0.9, 0.999, 1 - 1e-12, 1.0], dtype=torch.float64)
    cells = confidence_cells(confidence).tolist()
    assert cells == sorted(cells)
    assert (cells[0], cells[-1]) == (0, CELLS - 1)
    assert len(set(cells[1:-2])) == 5


def test_wilson_solves_its_equation() -> None:
    count, n = np.array([3, 50, 97, 1]), np.array([10, 100, 100, 2000])
    for end in share_interval(count, n):  # the shares p at which count / n is 1.96 standard errors away
        np.testing.assert_allclose(np.abs(count / n - end), NORMAL * np.sqrt(end * (1 - end) / n), rtol=1e-9)
    low, high = share_interval(np.array([0, 100]), np.array([100, 100]))
    assert (low[0], high[1]) == (0.0, 1.0)
    assert high[0] == pytest.approx(1 - low[1]) == pytest.approx(NORMAL**2 / (100 + NORMAL**2))


def test_no_images_no_interval() -> None:
    low, high = share_interval(np.array([0.0]), np.array([0.0]))
    assert np.isnan(low[0])
    assert np.isnan(high[0])
