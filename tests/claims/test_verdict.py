import pytest

from vitscope.claims.verdict import judge_signs


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
