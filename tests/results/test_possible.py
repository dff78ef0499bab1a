import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vitscope.core.statistics import Estimate
from vitscope.findings.hessian import HessianResult
from vitscope.results import Result
from vitscope.results.over_seeds import Measured, over_seeds
from vitscope.results.possible import possible_range, within_possible
from vitscope.results.table import tidy, tidy_differences
from vitscope.studies.comparisons import ends_of_one_arm

SCHEMA_1 = Path(__file__).parent / "schema_1"


@pytest.mark.parametrize(
    ("quantity", "least", "most"),
    [
        ("nll", 0.0, math.inf),
        ("seconds", 0.0, math.inf),
        ("accuracy", 0.0, 1.0),
        ("outliers", 0.0, 1.0),
        ("signed_ece", -math.inf, math.inf),
        ("nll_change", -math.inf, math.inf),
        ("rise", -math.inf, math.inf),
    ],
)
def test_what_a_quantity_can_be_follows_from_its_name(quantity: str, least: float, most: float) -> None:
    assert possible_range(quantity) == (least, most)


def test_an_interval_ends_at_what_is_possible_and_holds_the_value() -> None:
    assert within_possible("nll", Estimate(1.75, -5.11, 8.61)) == (1.75, 0.0, 8.61)
    assert within_possible("accuracy", Estimate(0.9, 0.7, 1.1)) == (0.9, 0.7, 1.0)
    rounded = within_possible("outliers", Estimate(1 + 1e-9, 0.9, 1.1))
    assert rounded.low <= rounded.value <= rounded.high  # the value is as it was found
    assert np.isnan(within_possible("nll", Estimate(1.0, np.nan, np.nan)).low)


def test_tables_are_cut_off_row_by_row_but_differences_are_not() -> None:
    numbers = (["nll", "change", "nll"], [1.0, 1.0, 2.0], [-1.0, -1.0, 1.0], [3.0, 3.0, 3.0], 2)
    assert tidy(*numbers)["low"].tolist() == [0.0, -1.0, 1.0]
    assert tidy_differences(*numbers)["low"].tolist() == [-1.0, -1.0, 1.0]


def test_the_loss_of_two_batches_is_not_negative() -> None:
    """Student's interval of 1.2 and 2.3 is [-5.2, 8.7]."""
    found = Result.load(SCHEMA_1 / "hessian")
    assert isinstance(found, HessianResult)
    spectra = {
        name: getattr(found, name)[:2] for name in ("eigenvalues", "residuals", "converged", "products")
    }
    two = replace(found, nll=np.array([1.2, 2.3]), l2=np.zeros(2), **spectra)
    table = two.summary().set_index("quantity")
    for quantity in ("nll", "loss"):
        assert table.loc[quantity, ["low", "high"]].tolist() == pytest.approx([0.0, 8.739], abs=1e-3)


def test_two_seeds_take_no_negative_time() -> None:
    mean = over_seeds([Measured(0.98), Measured(2.91)])
    assert mean.low < 0
    row = ends_of_one_arm("seconds", mean)
    assert (row["low"], row["high"]) == (0.0, pytest.approx(mean.high))
    assert ends_of_one_arm("images_per_second", mean)["low"] == 0.0


def test_an_interval_that_was_cut_off_counts_for_as_much_as_before() -> None:
    whole, cut = Measured(1.75, -5.11, 8.61, 32), Measured(1.75, 0.0, 8.61, 32)
    assert cut.half == pytest.approx(whole.half)
    assert over_seeds([cut, cut]).high == pytest.approx(over_seeds([whole, whole]).high)
    assert over_seeds([cut]).p_value(1.0) == pytest.approx(over_seeds([whole]).p_value(1.0))
    assert Measured(0.0, 0.0, 0.4, 10).half == 0.2  # Wilson's, of no yes
