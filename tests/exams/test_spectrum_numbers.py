import numpy as np
import pytest

from vitscope.exams.spectrum_numbers import replicates, summed_up

SPECTRA = np.array([[9.0, -4.0, 3.0], [-8.0, -2.0, 1.0], [5.0, 4.0, 3.0]])


def test_by_hand() -> None:
    found = summed_up(SPECTRA, seed=0)
    assert found["nep"] == pytest.approx(3 / 9)
    assert found["ape"] == pytest.approx((9 + 3 + 1 + 5 + 4 + 3) / 6)
    assert found["nep_low"] <= found["nep"] <= found["nep_high"]
    assert found["ape_low"] < found["ape"] < found["ape_high"]


def test_intervals_are_those_of_a_bootstrap_over_batches() -> None:
    generator = np.random.default_rng(0)
    spectra = generator.normal(2.0, 3.0, (40, 5))
    found = summed_up(spectra, seed=1)
    drawn = [spectra[generator.integers(40, size=40)] for _ in range(4000)]
    nep = np.quantile([(d < 0).mean() for d in drawn], [0.025, 0.975])
    ape = np.quantile([d[d > 0].mean() for d in drawn], [0.025, 0.975])
    np.testing.assert_allclose([found["nep_low"], found["nep_high"]], nep, atol=0.02)
    np.testing.assert_allclose([found["ape_low"], found["ape_high"]], ape, atol=0.1)


def test_one_batch_has_no_interval_and_no_positive_value_no_mean() -> None:
    found = summed_up(SPECTRA[:1], seed=0)
    assert found["nep"] == pytest.approx(1 / 3)
    assert np.isnan([found["nep_low"], found["ape_high"]]).all()
    found = summed_up(-np.abs(SPECTRA), seed=0)
    assert found["nep"] == 1.0
    assert np.isnan([found["ape"], found["ape_low"]]).all()


def test_the_first_replicate_is_the_value_itself() -> None:
    drawn = replicates(SPECTRA, "ape", seed=0, count=50)
    assert drawn.shape == (51,)
    assert drawn[0] == pytest.approx(25 / 6)
