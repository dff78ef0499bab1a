from vitscope.report.sections import taken
from vitscope.results import Result, UnitRow


class Measured:
    def __init__(self, *ways: str) -> None:
        self.units = tuple(UnitRow("u", "conv", 0, 0.0, taken=way) for way in ways)


def sentences(**models: Result) -> list[str]:
    return taken(list(models.items()))


def test_models_that_were_measured_alike_share_a_sentence() -> None:
    told = sentences(
        a=Measured("", "after relu", "after relu"), vit=Measured("", ""), b=Measured("after relu")
    )
    assert told == [
        "a, b: the map after a unit is what the next unit reads, after the relu that follows the addition."
    ]


def test_sums_are_told() -> None:
    told = sentences(a=Measured("before silu"), b=Measured("after silu"))
    assert told[0] == 'a: the map after a unit is the sum, before the silu that follows it (`stream="sum"`).'
    assert told[1].startswith("b: the map after a unit is what the next unit reads, after the silu")


def test_nothing_is_said_where_there_is_no_choice() -> None:
    assert sentences(vit=Measured("", "")) == []
