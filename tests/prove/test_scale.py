"""How a growth is found: exponents of costs that are known."""

import pytest

from tests.prove.scale import FLAT, exponent, growths

SIZES = (100, 1_000, 10_000)


@pytest.mark.parametrize("power", [0.5, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("constant", [0.0, 3.0, 1e4])
def test_a_constant_part_drops_out(power: float, constant: float) -> None:
    costs = [constant + 2.0 * size**power for size in SIZES]
    assert exponent(SIZES, costs, FLAT["time"]) == pytest.approx(power, abs=1e-6)


def test_what_does_not_grow_is_flat() -> None:
    assert exponent(SIZES, [5.0, 5.05, 5.01], 0.1) == 0.0
    assert exponent(SIZES, [5.0, 4.0, 3.0], 0.1) == 0.0


def test_a_growth_that_is_seen_at_the_end_alone_is_not_taken_for_a_steep_one() -> None:
    assert exponent(SIZES, [0.001, 0.010, 0.350], 0.1) <= 1.6
    assert exponent(SIZES, [1.0, 1.0, 11.0], 0.1) == pytest.approx(1.04, abs=0.01)


def test_sizes_are_a_constant_factor_apart() -> None:
    for growth in growths():
        first, second, third = growth.sizes
        assert second / first == third / second
