import pytest
import torch

from vitscope.core.errors import BadData
from vitscope.data import load_data
from vitscope.data.corruptions import SEVERITIES, TYPES, corrupt
from vitscope.data.corruptions.registry import CORRUPTIONS, DETERMINISTIC


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
