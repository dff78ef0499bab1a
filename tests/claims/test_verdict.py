import pytest

from vitscope.claims.verdict import count_signs, judge_signs


@pytest.mark.parametrize(
    ("below", "above", "expected", "judgement"),
    [
        (6, 0, "falls", "holds"),
        (4, 2, "falls", "holds"),
        (3, 1, "falls", "inconclusive"),
        (1, 4, "falls", "does not hold"),
        (1, 4, "rises", "holds"),
        (0, 0, "rises", "inconclusive"),
    ],
)
def test_two_thirds_decide(below, above, expected, judgement):
    assert judge_signs(below, above, 6, expected) == judgement


def test_nothing_to_judge_is_inconclusive():
    assert judge_signs(0, 0, 0, "falls") == "inconclusive"


def test_an_interval_that_holds_zero_counts_for_neither_side():
    assert count_signs(low=[-3, -1, 0.5, float("nan")], high=[-1, 1, 2, float("nan")]) == (1, 1)
