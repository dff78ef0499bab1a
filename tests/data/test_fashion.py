import gzip
from pathlib import Path

import numpy as np
import pytest

from vitscope.core.errors import BadData
from vitscope.data.fashion import EMBEDDED, embedded_fashion, pad, read_fashion


def test_shape_size_and_balance() -> None:
    for split, n in (("train", 6000), ("test", 2000)):
        images, labels = embedded_fashion(split)
        assert images.shape == (n, 32, 32, 1)
        assert images.dtype == np.uint8
        assert np.bincount(labels).tolist() == [n // 10] * 10
    assert sum(path.stat().st_size for path in EMBEDDED.iterdir()) < 5_000_000
    assert (EMBEDDED / "LICENSE.txt").is_file()


def test_images_stand_on_a_black_border_and_are_all_different() -> None:
    images = np.concatenate([embedded_fashion(split)[0] for split in ("train", "test")])
    border = np.ones((32, 32), bool)
    border[2:-2, 2:-2] = False
    assert images[:, border].max() == 0
    assert images[:, ~border].max() == 255
    # Fashion-MNIST itself repeats a few images; no image may be in both splits of the embedded part.
    train, test = ({image.tobytes() for image in embedded_fashion(split)[0]} for split in ("train", "test"))
    assert not train & test
    assert len(train) > 5990


def test_statistics_are_those_of_the_whole_set() -> None:
    """The 60,000 training images have mean 0.2860 and deviation 0.3530 (published, without the border)."""
    pixels = embedded_fashion("train")[0][:, 2:-2, 2:-2] / 255.0
    assert abs(pixels.mean() - 0.2860) < 0.005
    assert abs(pixels.std() - 0.3530) < 0.005


@pytest.mark.parametrize("part", [slice(0, 250), slice(250, 1000), slice(1750, 2000)])
def test_labels_belong_to_their_images_everywhere(part: slice) -> None:
    """The nearest class mean of the training images is right for two thirds of the test images."""
    images, labels = embedded_fashion("train")
    means = np.stack([images[labels == label].mean(axis=0) for label in range(10)]).reshape(10, -1)
    images, labels = embedded_fashion("test")
    flat = images[part].reshape(len(images[part]), -1).astype(np.float64)
    distances = ((flat[:, None] - means) ** 2).sum(-1)
    assert (distances.argmin(1) == labels[part]).mean() > 0.6


def test_pad_centres() -> None:
    ones = np.ones((2, 28, 28), np.uint8)
    assert (pad(ones)[..., 0] == np.pad(ones, ((0, 0), (2, 2), (2, 2)))).all()


def test_other_files_under_the_right_names_are_refused(tmp_path: Path) -> None:
    for name in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1"):
        (tmp_path / f"{name}-ubyte.gz").write_bytes(gzip.compress(bytes(1000)))
    with pytest.raises(
        BadData, match=r"train-images-idx3-ubyte\.gz is not the published file .*fetch it again"
    ):
        read_fashion(tmp_path)


def test_a_cut_file_is_refused(tmp_path: Path) -> None:
    packed = gzip.compress(np.random.default_rng(0).bytes(100_000))
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(packed[:50_000])
    with pytest.raises(BadData, match=r"train-images-idx3-ubyte\.gz is damaged"):
        read_fashion(tmp_path)


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"no train-images-idx3-ubyte\.gz or train-images-idx3-ubyte below"):
        read_fashion(tmp_path)
