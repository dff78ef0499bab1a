import math

import pytest

from vitscope.data.corruptions.constants import CIFAR, IMAGENET, SEVERITIES, TYPES, constants, rule


def test_fifteen_types_at_five_severities() -> None:
    assert len(TYPES) == 15
    for table in (CIFAR, IMAGENET):
        assert set(table) == set(TYPES)
        assert all(len(table[kind]) == len(SEVERITIES) for kind in TYPES)


@pytest.mark.parametrize("kind", TYPES)
def test_published_constants_at_the_published_sizes(kind: str) -> None:
    for severity in SEVERITIES:
        for side in (28, 32):
            assert constants(kind, severity, side) == pytest.approx(CIFAR[kind][severity - 1])
        for side in (224, 384):
            assert constants(kind, severity, side) == pytest.approx(IMAGENET[kind][severity - 1])


def test_between_them_along_the_logarithm_of_the_side() -> None:
    middle = math.sqrt(32 * 224)  # half-way on that scale, between 84 and 85 pixels
    below, above = (
        constants("gaussian_noise", 5, side)[0] for side in (math.floor(middle), math.ceil(middle))
    )
    assert below < (0.10 + 0.38) / 2 < above < below + 0.002
    sides = [constants("shot_noise", 1, side)[0] for side in (32, 48, 64, 96, 128, 224)]
    assert sides == sorted(sides, reverse=True)


def test_elastic_constants_are_those_of_the_published_formulas() -> None:
    """Written there as multiples of 32, and of 244."""
    cifar = [(0, 0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03)]
    imagenet = [(2, 0.7, 0.1), (2, 0.08, 0.2), (0.05, 0.01, 0.02), (0.07, 0.01, 0.02), (0.12, 0.01, 0.02)]
    for row, shares in enumerate(cifar):
        assert CIFAR["elastic_transform"][row] == pytest.approx([32 * share for share in shares])
    for row, shares in enumerate(imagenet):
        assert IMAGENET["elastic_transform"][row] == pytest.approx([244 * share for share in shares])


def test_the_rule_is_told() -> None:
    assert rule(32) == "the constants of CIFAR-C"
    assert rule(224) == "the constants of ImageNet-C"
    assert "between" in rule(96)
