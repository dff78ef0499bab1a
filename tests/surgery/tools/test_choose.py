"""Which units an operation is done to."""

import pytest

import vitscope as vs
from vitscope.surgery.tools.choose import choose_units
from vitscope.surgery.tools.record import CannotOperate

PARTS = vs.anatomy(vs.create_model("vit_mini"))  # six blocks


@pytest.mark.parametrize(
    ("kinds", "layers", "blocks"),
    [
        (("mlp",), "all", [0, 1, 2, 3, 4, 5]),
        (("mlp",), "upper", [3, 4, 5]),
        (("mlp",), "lower", [0, 1, 2]),
        (("mlp",), ["blocks.1.mlp", -1], [1, 5]),
        (("mlp",), [4, 0], [0, 4]),
        (("mlp",), "blocks.[23].mlp", [2, 3]),
    ],
)
def test_choices(kinds, layers, blocks) -> None:
    assert [unit.name for unit in choose_units(PARTS, kinds, layers)] == [f"blocks.{i}.mlp" for i in blocks]


def test_of_two_kinds_half_of_each_is_the_upper_half() -> None:
    names = [unit.name for unit in choose_units(PARTS, ("mlp", "msa"), "upper")]
    assert names == [f"blocks.{i}.{part}" for i in (3, 4, 5) for part in ("attn", "mlp")]


def test_halves_are_of_the_units_that_fit() -> None:
    def fits(unit) -> bool:
        return unit.name not in ("blocks.4.mlp", "blocks.5.mlp")

    def chosen(layers) -> list[str]:
        return [unit.name for unit in choose_units(PARTS, ("mlp",), layers, fits)]

    assert chosen("upper") == ["blocks.2.mlp", "blocks.3.mlp"]
    assert chosen("lower") == ["blocks.0.mlp", "blocks.1.mlp"]
    assert chosen("all") == [f"blocks.{i}.mlp" for i in range(4)]
    assert chosen([4]) == ["blocks.4.mlp"]  # asked for by name, which the operation answers


@pytest.mark.parametrize("wanted", [6, -7, "blocks.9.mlp", "layer*"])
def test_what_is_not_there_is_named(wanted) -> None:
    with pytest.raises(CannotOperate, match=f"{wanted}".replace("*", r"\*")):
        choose_units(PARTS, ("mlp",), [wanted])
