"""Generated corruptions against imagecorruptions, type by type and severity by severity, on real photographs.

What is not random has to be the same picture, but for the rounding of a grey level. What is random has to change
pictures in the same way: by as much, in the same direction, with the same deviation, each within four standard errors
over pictures. This is true of frost as well, whose panes are computed and not photographed.
"""

import numpy as np
import pytest
import torch
from PIL import Image

from tests.cases import one_in
from vitscope.data.corruptions import SEVERITIES, TYPES, corrupt
from vitscope.data.corruptions.filters import draws_for, uniforms
from vitscope.data.corruptions.registry import DETERMINISTIC, IMAGENET, Constants

oracle = pytest.importorskip("imagecorruptions", reason="pip install imagecorruptions-imaug")
photographs = pytest.importorskip("skimage.data", reason="pip install scikit-image")

SIDE = 64
SLOW = ("zoom_blur", "brightness")  # in the package: shown fewer pictures


@pytest.fixture(scope="module")
def pictures() -> np.ndarray:
    """48 crops of four photographs."""
    crops = []
    for name in ("chelsea", "astronaut", "coffee", "rocket"):
        whole = np.asarray(Image.fromarray(getattr(photographs, name)()).resize((4 * SIDE, 3 * SIDE)))
        corners = [(i, j) for i in range(0, 3 * SIDE, SIDE) for j in range(0, 4 * SIDE, SIDE)]
        crops += [whole[i : i + SIDE, j : j + SIDE] for i, j in corners]
    return np.stack(crops)


def strength(kind: str, severity: int) -> Constants:
    """The package's: those of ImageNet-C, but for its own elastic transform, which has no affine part."""
    if kind != "elastic_transform":
        return IMAGENET[kind][severity - 1]
    amount = 250 * (0.05, 0.065, 0.085, 0.1, 0.12)[severity - 1]
    return amount * 0.005 * SIDE, 0.01 * SIDE, 0.0


def changes(kind: str, severity: int, pictures: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What both change in every picture."""
    tensor = torch.from_numpy(pictures).permute(0, 3, 1, 2).contiguous()
    ours = corrupt(tensor, kind, severity, strength=strength(kind, severity)).permute(0, 2, 3, 1).numpy()
    theirs = np.stack([reference(kind, severity, picture, n) for n, picture in enumerate(pictures)])
    return ours.astype(float) - pictures, theirs.astype(float) - pictures


def reference(kind: str, severity: int, picture: np.ndarray, number: int) -> np.ndarray:
    if kind == "impulse_noise":  # draws from a generator of its own, which has to be seeded
        return np.uint8(oracle.corruptions.impulse_noise(picture, severity, seed=number))
    return oracle.corrupt(picture, severity, kind)


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind in DETERMINISTIC])
def test_same_pictures(kind: str, pictures: np.ndarray) -> None:
    for severity in SEVERITIES:
        ours, theirs = changes(kind, severity, pictures[::6] if kind in SLOW else pictures)
        difference = np.abs(ours - theirs)
        assert difference.mean() < 0.05, severity
        assert difference.max() <= 1, severity
        assert np.abs(theirs).mean() > 1


@pytest.mark.parametrize("kind", one_in(2, [kind for kind in TYPES if kind not in DETERMINISTIC]))
def test_same_changes_on_average(kind: str, pictures: np.ndarray) -> None:
    np.random.seed(0)  # the package draws from numpy's global state
    for severity in SEVERITIES:
        ours, theirs = changes(kind, severity, pictures)
        size = np.abs(theirs).mean()
        for statistic in (
            lambda x: np.abs(x).mean((1, 2, 3)),
            lambda x: x.mean((1, 2, 3)),
            lambda x: x.std((1, 2, 3)),
        ):
            difference = statistic(ours) - statistic(theirs)
            error = difference.std() / np.sqrt(len(pictures))
            assert abs(difference.mean()) < 4 * error + 0.01, (severity, difference.mean(), error)
            assert 4 * error < 0.5 * size, (severity, error, size)  # half as strong again would be seen


def test_same_motion(pictures: np.ndarray) -> None:
    """With the same angles, the same pictures."""
    some = pictures[::8]
    for severity in SEVERITIES:
        radius, sigma = (int(c) for c in IMAGENET["motion_blur"][severity - 1])
        ours, _ = changes("motion_blur", severity, some)
        draws = draws_for(0, range(len(some)), TYPES.index("motion_blur"), severity)
        for picture, change, angle in zip(some, ours, 90 * uniforms(draws, 1)[:, 0] - 45, strict=True):
            expected = oracle.corruptions._motion_blur(picture, radius, sigma, float(angle))
            assert np.abs(picture + change - np.floor(np.clip(expected, 0, 255))).max() <= 1
