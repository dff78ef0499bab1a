import pytest

from vitscope.surgery import CannotOperate
from vitscope.surgery.tools.choose import check_rules, closed_form, from_the_end


@pytest.mark.parametrize(
    ("room", "budget", "counts"),
    [
        ((1, 2, 3, 2), 4, [1, 1, 1, 1]),  # the published algorithm: one per stage
        ((1, 2, 3, 2), 2, [0, 0, 1, 1]),  # the last stages first
        ((1, 2, 3, 2), 6, [1, 1, 2, 2]),  # what is left goes round again, the last stage first
        ((0, 0, 3, 2), 4, [0, 0, 2, 2]),  # stages without room are passed over
        ((1, 0, 1), 4, [1, 0, 1]),  # a budget is a maximum
        ((0, 0), 4, [0, 0]),
    ],
)
def test_closed_form(room, budget, counts):
    assert closed_form(room, budget) == counts


@pytest.mark.parametrize(
    ("room", "number", "counts"),
    [((1, 2, 3, 2), 1, [0, 0, 0, 1]), ((1, 2, 3, 2), 4, [0, 0, 2, 2]), ((1, 2, 3, 2), 8, [1, 2, 3, 2])],
)
def test_from_the_end(room, number, counts):
    assert from_the_end(room, number) == counts


def test_one_rule_at_a_time():
    check_rules(None, None, None)
    with pytest.raises(CannotOperate, match="budget and last are different rules"):
        check_rules(None, 4, 2)
