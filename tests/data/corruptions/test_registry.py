"""Corruptions by name, and how strong they are."""

import math

import pytest
import torch

from vitscope.core.errors import BadData
from vitscope.data import load_data
from vitscope.data.corruptions import corrupt
from vitscope.data.corruptions.registry import (
    CIFAR,
    CORRUPTIONS,
    DETERMINISTIC,
    IMAGENET,
    SEVERITIES,
    TYPES,
    constants,
    rule,
)


@pytest.fixture(scope="module")
def images() -> torch.Tensor:
    """Smooth colour pictures with noise."""
    generator = torch.Generator().manual_seed(0)
    small = torch.rand(6, 3, 5, 5, generator=generator)
    smooth = torch.nn.functional.interpolate(small, size=(32, 32), mode="bicubic").clamp(0, 1)
    return (255 * smooth).to(torch.uint8)


def test_all_types_are_there() -> None:
    assert set(CORRUPTIONS) == set(TYPES)


@pytest.mark.parametrize("kind", TYPES)
def test_a_corruption_belongs_to_the_image_and_not_to_its_batch(kind: str, images: torch.Tensor) -> None:
    places = [40, 7, 3, 11, 2, 90]
    whole = corrupt(images, kind, 3, seed=5, indices=places)
    assert whole.dtype == torch.uint8
    assert whole.shape == images.shape
    assert torch.equal(corrupt(images, kind, 3, seed=5, indices=places), whole)
    single = torch.cat([corrupt(images[i : i + 1], kind, 3, seed=5, indices=[places[i]]) for i in (4, 1)])
    assert torch.equal(single, whole[[4, 1]])
    if kind not in DETERMINISTIC:
        assert not torch.equal(corrupt(images, kind, 3, seed=6, indices=places), whole)
        same = corrupt(images[:1].expand(2, -1, -1, -1), kind, 3, seed=5, indices=[0, 1])
        assert not torch.equal(same[0], same[1])


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind not in ("elastic_transform", "glass_blur")])
def test_the_highest_severity_changes_more_than_the_lowest(kind: str, images: torch.Tensor) -> None:
    """The two left out do not at 32 pixels as published either: they move pixels, from further away at severity 1."""
    least, most = (
        float((corrupt(images, kind, severity).float() - images.float()).abs().mean())
        for severity in (SEVERITIES[0], SEVERITIES[-1])
    )
    assert 0 < 1.3 * least < most


@pytest.mark.parametrize("shape", [(1, 3, 40, 56), (2, 1, 28, 28), (1, 3, 64, 48), (0, 3, 32, 32)])
def test_any_size(shape: tuple[int, ...]) -> None:
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    for kind in TYPES:
        for severity in (1, 5):
            assert corrupt(images, kind, severity).shape == images.shape, kind


@pytest.mark.parametrize("kind", TYPES)
def test_a_fourth_channel_is_corrupted_as_a_grey_picture_beside_the_colours(
    kind: str, images: torch.Tensor
) -> None:
    fourth = images[:, :1].flip(0)
    places = [4, 9, 1, 3, 30, 7]
    both = corrupt(torch.cat([images, fourth], 1), kind, 4, seed=2, indices=places)
    assert torch.equal(both[:, :3], corrupt(images, kind, 4, seed=2, indices=places))
    alone = corrupt(fourth, kind, 4, seed=2, indices=places)
    if kind.endswith("_noise"):  # drawn for each channel: not the draws of the first one again
        assert not torch.equal(both[:, 3:], alone)
        levels = (
            float((both[:, 3:].float() - fourth.float()).abs().mean()),
            float((alone.float() - fourth.float()).abs().mean()),
        )
        assert levels[0] == pytest.approx(levels[1], rel=0.3)
    else:
        assert torch.equal(both[:, 3:], alone)


def test_real_pictures_of_an_embedded_set() -> None:
    fashion = load_data("fashion")
    assert fashion.images is not None
    images = torch.from_numpy(fashion.images[:20].transpose(0, 3, 1, 2).copy())
    assert all(not torch.equal(corrupt(images, kind, 5), images) for kind in TYPES)


def test_bad_input_is_told() -> None:
    good = torch.zeros(1, 3, 32, 32, dtype=torch.uint8)
    with pytest.raises(BadData, match="no corruption 'rain'; there are: gaussian_noise"):
        corrupt(good, "rain", 1)
    with pytest.raises(BadData, match="no severity 6"):
        corrupt(good, "snow", 6)
    with pytest.raises(BadData, match=r"float32 \(1, 3, 32, 32\); expected uint8"):
        corrupt(good.float(), "snow", 1)
    with pytest.raises(BadData, match="1, 3 or 4 channels"):
        corrupt(torch.zeros(1, 5, 32, 32, dtype=torch.uint8), "snow", 1)
    with pytest.raises(BadData, match="at least 16"):
        corrupt(torch.zeros(1, 3, 8, 32, dtype=torch.uint8), "snow", 1)


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
