"""The published layouts, on small data: arrays as in CIFAR-10-C, folders as in ImageNet-C."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from vitscope.core.errors import BadData
from vitscope.data import DataConfig, ImageData, load_data, preprocess
from vitscope.data.corruptions import SEVERITIES, corrupt
from vitscope.data.corruptions.published import open_published

CONDITIONS = [(kind, severity) for kind in ("contrast", "brightness") for severity in SEVERITIES]
CONFIG = DataConfig(input_size=(3, 32, 32), crop_pct=1.0)
ALL = np.arange(12)


def clean(n: int = 12) -> torch.Tensor:
    return torch.randint(
        0, 256, (n, 3, 32, 32), dtype=torch.uint8, generator=torch.Generator().manual_seed(0)
    )


@pytest.fixture
def data() -> ImageData:
    images = clean().permute(0, 2, 3, 1).contiguous().numpy()
    return ImageData("cifar10", "test", tuple("abc"), np.arange(12) % 3, images=images)


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    folder = tmp_path / "CIFAR-10-C"
    folder.mkdir()
    for kind in ("contrast", "brightness"):
        images = torch.cat([corrupt(clean(), kind, severity) for severity in SEVERITIES])
        np.save(folder / f"{kind}.npy", images.permute(0, 2, 3, 1).numpy())
    np.save(folder / "labels.npy", np.tile(np.arange(12) % 3, 5))
    return folder


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, ImageData]:
    """Clean pictures of 40 x 36 pixels, corrupted ones of 32 x 32, as ImageNet-C's are cut already."""
    images = clean()
    for i in range(12):
        name = f"{'abc'[i % 3]}/picture_{i:02}.png"
        _save(tmp_path / "val" / name, images[i].repeat(1, 2, 2)[:, :36, :40])
        for kind, severity in CONDITIONS:
            family = {"contrast": "digital", "brightness": "weather"}[kind]
            where = tmp_path / "ImageNet-C" / (family if kind == "contrast" else "") / kind / str(severity)
            _save(where / name, corrupt(images[i : i + 1], kind, severity)[0])
    return tmp_path / "ImageNet-C", load_data(f"folder:{tmp_path / 'val'}")


def _save(path: Path, image: torch.Tensor) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(image.permute(1, 2, 0).contiguous().numpy()).save(path)


def test_arrays_by_place_in_the_whole_set(arrays: Path, data: ImageData) -> None:
    part = data.subset(np.array([7, 2, 11]))
    published = open_published(arrays, part, CONDITIONS, np.arange(3))
    found = list(published.batches(("brightness", 4), [np.array([1]), np.array([2, 0])], CONFIG, None))
    expected = corrupt(clean()[[2, 11, 7]], "brightness", 4).permute(0, 2, 3, 1)
    assert [len(batch) for batch in found] == [1, 2]
    assert torch.equal(torch.cat(found), preprocess(expected, CONFIG))


def test_labels_once_for_all_severities(arrays: Path, data: ImageData) -> None:
    np.save(arrays / "labels.npy", np.arange(12) % 3)
    open_published(arrays, data, CONDITIONS, ALL)


def test_folders_by_class_and_name(folders: tuple[Path, ImageData]) -> None:
    source, data = folders
    published = open_published(source, data, CONDITIONS, ALL)
    config = DataConfig(input_size=(3, 32, 32), crop_pct=0.875)
    for kind in ("contrast", "brightness"):
        (found,) = published.batches((kind, 5), [np.array([5, 0])], config, None)
        numbers = [int(Path(data.name(i)).stem[-2:]) for i in (5, 0)]
        expected = corrupt(clean()[numbers], kind, 5).permute(0, 2, 3, 1)
        assert torch.equal(
            found, preprocess(expected, CONFIG)
        )  # they have the model's size, and are not cut again


Break = Callable[[Path], None]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda f: (f / "contrast.npy").unlink(),
            "lacks contrast.npy; fetch the whole set, or name the types",
        ),
        (lambda f: (f / "labels.npy").unlink(), "lacks labels.npy"),
        (
            lambda f: np.save(f / "labels.npy", np.zeros(59, int)),
            r"labels.npy is \(59,\).*expected 12 labels, or 60",
        ),
        (
            lambda f: np.save(f / "labels.npy", np.zeros(60, int)),
            "image 1 has label 0 in .* and 1 in cifar10",
        ),
        (lambda f: np.save(f / "contrast.npy", np.zeros((48, 32, 32, 3), np.uint8)), "all five severities"),
        (lambda f: np.save(f / "brightness.npy", np.zeros((60, 28, 28, 3), np.uint8)), "images of one size"),
        (lambda f: np.save(f / "contrast.npy", np.zeros((60, 32, 32, 3))), "is float64"),
        (lambda f: (f / "contrast.npy").write_bytes(b"nothing"), "is damaged"),
    ],
)
def test_arrays_that_do_not_fit(damage: Break, message: str, arrays: Path, data: ImageData) -> None:
    damage(arrays)
    with pytest.raises(BadData, match=message):
        open_published(arrays, data, CONDITIONS, ALL)


def test_arrays_of_other_data(arrays: Path) -> None:
    more = ImageData(
        "cifar10", "train", ("a",), np.zeros(13, int), images=np.zeros((13, 32, 32, 3), np.uint8)
    )
    with pytest.raises(BadData, match=r"holds 12 images and cifar10 .train. goes on to image 12"):
        open_published(arrays, more, CONDITIONS, ALL)


def test_folders_that_do_not_fit(folders: tuple[Path, ImageData], data: ImageData) -> None:
    source, clean_data = folders
    gone = source / "brightness" / "3" / "b" / "picture_04.png"
    content = gone.read_bytes()
    gone.unlink()
    with pytest.raises(BadData, match=r"lacks brightness/3/b/picture_04.png"):
        open_published(source, clean_data, CONDITIONS, ALL)
    left = [i for i in range(12) if Path(clean_data.name(i)).name != gone.name]
    open_published(
        source, clean_data, CONDITIONS, np.array(left)
    )  # a part of the images is all that is asked for
    _save(gone, torch.zeros(3, 32, 30, dtype=torch.uint8))
    with pytest.raises(
        BadData, match=r"32 x 32 and .*picture_04.png is 30 x 32; expected pictures of one size"
    ):
        open_published(source, clean_data, CONDITIONS, ALL)
    gone.write_bytes(content[:20])
    with pytest.raises(BadData, match=r"cannot decode .*picture_04.png"):
        open_published(source, clean_data, CONDITIONS, ALL)
    (source / "digital").rename(source / "elsewhere")
    with pytest.raises(BadData, match="lacks contrast/1, contrast/2, contrast/3 and 2 more"):
        open_published(source, clean_data, CONDITIONS, ALL)
    with pytest.raises(BadData, match="load the uncorrupted ones with folder:PATH"):
        open_published(source, data, CONDITIONS, ALL)


def test_other_sources_are_refused(tmp_path: Path, data: ImageData) -> None:
    with pytest.raises(BadData, match="is no folder"):
        open_published(tmp_path / "none", data, CONDITIONS, ALL)
    with pytest.raises(BadData, match="data is a tuple"):
        open_published(tmp_path, (torch.zeros(1), torch.zeros(1)), CONDITIONS, ALL)
