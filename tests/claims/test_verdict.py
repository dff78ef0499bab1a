import dataclasses
import itertools
import math

import pytest

from vitscope.claims import Rule, Verdict, verdict_table
from vitscope.core.statistics import Estimate

MIRRORED = {"holds": "does not hold", "does not hold": "holds", "inconclusive": "inconclusive"}


@pytest.mark.parametrize(
    ("rule", "numbers", "judgement"),
    [
        (Rule("above"), (2.0, 1.0, 3.0), "holds"),
        (Rule("above"), (2.0, 0.0, 3.0), "inconclusive"),  # 0 belongs to the interval
        (Rule("above"), (-2.0, -3.0, -1.0), "does not hold"),
        (Rule("above"), (0.0, 0.0, 0.0), "inconclusive"),
        (Rule("above"), (math.nan, 1.0, 3.0), "inconclusive"),
        (Rule("above"), (2.0, math.nan, math.nan), "inconclusive"),
        (Rule("above"), (-0.1, 1.0, 3.0), "inconclusive"),  # a skewed bootstrap can miss its own value
        (Rule("above", 0.5), (0.6, 0.51, 0.7), "holds"),
        (Rule("above", 0.5), (0.6, 0.4, 0.7), "inconclusive"),
        (Rule("below", 1.0), (0.6, 0.4, 0.7), "holds"),
        (Rule("below", 1.0), (1.2, 1.1, 1.3), "does not hold"),
        (Rule("within", 10), (2.0, -9.0, 9.0), "holds"),
        (Rule("within", 10), (2.0, -9.0, 11.0), "inconclusive"),  # few images prove nothing
        (Rule("within", 10), (-20.0, -29.0, -11.0), "does not hold"),
        (Rule("within", 10), (20.0, 11.0, 29.0), "does not hold"),
    ],
)
def test_the_whole_interval_decides(rule: Rule, numbers: tuple[float, ...], judgement: str) -> None:
    assert rule.judge(*numbers) == judgement


def test_every_verdict_mirrors_and_agrees_with_its_number() -> None:
    ends = [-2.0, -0.5, 0.0, 0.5, 2.0]
    for value, low, high in itertools.product(ends, ends, ends):
        if low <= high:
            judged = Rule("above").judge(value, low, high)
            assert Rule("above").judge(-value, -high, -low) == MIRRORED[judged]
            assert Rule("below").judge(value, low, high) == MIRRORED[judged]
            assert judged == "inconclusive" or (value > 0) == (judged == "holds")
            within = Rule("within", 1.0).judge(value, low, high)
            assert Rule("within", 1.0).judge(-value, -high, -low) == within


VERDICT = Verdict(
    "E2",
    "stays",
    "m",
    "mean change",
    Estimate(1.25, -3.0, 4.0),
    "%",
    "6 layers",
    Rule("within", 10),
    "6 of 6 near 0",
)


def test_a_verdict_says_what_decides_and_by_which_rule() -> None:
    assert VERDICT.judgement == "holds"
    assert VERDICT.found == "+1.2 % [-3.0, +4.0] over 6 layers; 6 of 6 near 0"
    assert VERDICT.decided_by == (
        "mean change; holds if the 95 % interval lies between -10 % and +10 %, does not hold if it lies outside, "
        "inconclusive if it contains one of the two"
    )
    share = dataclasses.replace(VERDICT, unit="", rule=Rule("below", 0.5))
    assert share.number == "1.25 [-3, 4]"
    assert share.decided_by.endswith(
        "; holds if the 95 % interval lies below 0.5, does not hold if it lies above, inconclusive if it contains 0.5"
    )
    unknown = dataclasses.replace(VERDICT, estimate=Estimate(1.25, math.nan, math.nan))
    assert unknown.found == "+1.2 % without an interval, from 6 layers; 6 of 6 near 0"
    assert unknown.judgement == "inconclusive"


def test_what_is_lacking_decides_nothing() -> None:
    few = dataclasses.replace(VERDICT, lacking="2 batches", scope="one training each")
    assert few.judgement == "inconclusive"
    assert few.reach == "2 batches; one training each"


def test_the_table_holds_all_that_a_verdict_rests_on() -> None:
    (row,) = verdict_table([VERDICT]).to_dict("records")
    assert (row["claim"], row["verdict"], row["value"], row["low"], row["high"], row["unit"]) == (
        ("E2", "holds", 1.25, -3.0, 4.0, "%")
    )
    assert row["rule"] == VERDICT.rule.words("%")
    assert (row["statistic"], row["over"], row["evidence"]) == ("mean change", "6 layers", "6 of 6 near 0")
