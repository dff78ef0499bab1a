import numpy as np
import pytest

from vitscope.results.loss_numbers import difference, replicates, summed_up

SPECTRA = np.array([[9.0, -4.0, 3.0], [-8.0, -2.0, 1.0], [5.0, 4.0, 3.0]])


def test_by_hand() -> None:
    found = summed_up(SPECTRA, seed=0)
    assert found["negative_share"].value == pytest.approx(3 / 9)
    assert found["positive_mean"].value == pytest.approx((9 + 3 + 1 + 5 + 4 + 3) / 6)
    assert found["negative_share"].low <= found["negative_share"].value <= found["negative_share"].high
    assert found["positive_mean"].low < found["positive_mean"].value < found["positive_mean"].high


def spectra_of(batches: int, negative: float, alike: float, seed: int) -> np.ndarray:
    """(sets, batches, 5): the batches of a set differ in how many are negative, the more the smaller `alike`."""
    generator = np.random.default_rng(seed)
    share = generator.beta(alike * negative, alike * (1 - negative), (400, batches, 1))
    size = generator.lognormal(1.0, 0.4, (400, batches, 1)) * generator.lognormal(0.0, 0.3, (400, batches, 5))
    return np.where(generator.random(size.shape) < share, -size, size)


@pytest.mark.parametrize(("batches", "negative", "alike"), [(8, 0.3, 10.0), (8, 0.05, 20.0), (16, 0.1, 4.0)])
def test_intervals_cover_the_truth(batches: int, negative: float, alike: float) -> None:
    mean = np.exp(1.0 + 0.4**2 / 2 + 0.3**2 / 2)
    held = []
    for values in spectra_of(batches, negative, alike, seed=1):
        found = summed_up(values, seed=0)
        assert (
            0.0
            <= found["negative_share"].low
            <= found["negative_share"].value
            <= found["negative_share"].high
            <= 1.0
        )
        held.append(
            (
                found["negative_share"].low <= negative <= found["negative_share"].high,
                found["positive_mean"].low <= mean <= found["positive_mean"].high,
            )
        )
    assert (np.mean(held, axis=0) > 0.92).all()  # a bootstrap of 8 batches covers less than 0.9


def test_no_negative_value_in_any_batch_is_not_certainty() -> None:
    found = summed_up(np.abs(np.random.default_rng(0).normal(size=(16, 5))), seed=0)
    assert found["negative_share"].value == found["negative_share"].low == 0.0
    assert found["negative_share"].high == pytest.approx(
        1.959964**2 / (16 + 1.959964**2), rel=1e-6
    )  # 0 of 16, not of 80


def test_differences_are_of_the_same_batches() -> None:
    values = np.random.default_rng(0).normal(2.0, 3.0, (12, 5))
    value, low, high = difference(values, values + 1e-9, "ape", seed=0)
    assert (value, low, high) == pytest.approx((0.0, 0.0, 0.0), abs=1e-6)
    value, low, high = difference(np.abs(values), np.abs(values), "nep", seed=0)
    assert low < value == 0.0 < high < 0.2
    value, low, high = difference(-np.abs(values), np.abs(values), "nep", seed=0)
    assert 0.5 < low < value == high == 1.0


def test_one_batch_has_no_interval_and_no_positive_value_no_mean() -> None:
    found = summed_up(SPECTRA[:1], seed=0)
    assert found["negative_share"].value == pytest.approx(1 / 3)
    assert np.isnan([found["negative_share"].low, found["positive_mean"].high]).all()
    found = summed_up(-np.abs(SPECTRA), seed=0)
    assert found["negative_share"].value == 1.0
    assert np.isnan([found["positive_mean"].value, found["positive_mean"].low]).all()


def test_the_first_replicate_is_the_value_itself() -> None:
    drawn = replicates(SPECTRA, "ape", seed=0, count=50)
    assert drawn.shape == (51,)
    assert drawn[0] == pytest.approx(25 / 6)
