import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from vitscope.core.errors import BadData
from vitscope.data import catalog, published_sets
from vitscope.data.fetch import digest
from vitscope.data.prepare import prepare
from vitscope.data.published_sets import embedded_fashion
from vitscope.data.sources import load_data

PER_FILE = 10


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A CIFAR-10 in the official binary layout, 10 images per file instead of 10,000."""
    grey, labels = embedded_fashion("train")
    folder = tmp_path / "cifar-10-batches-bin"
    folder.mkdir()
    expected: dict[str, dict[str, str]] = {"train": {}, "test": {}}
    for number in range(6):
        part = slice(number * PER_FILE, (number + 1) * PER_FILE)
        planes = grey[part].transpose(0, 3, 1, 2).repeat(3, axis=1).reshape(PER_FILE, -1)
        records = np.concatenate([labels[part, None], planes], axis=1)
        name = "test_batch" if number == 5 else f"data_batch_{number + 1}"
        records.tofile(folder / f"{name}.bin")
        expected["test" if number == 5 else "train"][name] = digest(records)
    monkeypatch.setattr(published_sets, "CIFAR10_DIGESTS", expected)
    small = replace(catalog.CATALOG["cifar10"], train=5 * PER_FILE, test=PER_FILE)
    monkeypatch.setitem(catalog.CATALOG, "cifar10", small)
    return folder


def test_from_a_folder_to_load_data(files: Path, root: Path) -> None:
    said: list[str] = []
    assert prepare("cifar10", files, said.append) == root / "cifar10"
    assert "ready" in said[-1]
    data = load_data("cifar10", "train")
    assert isinstance(data.images, np.memmap)
    assert data.images.shape == (50, 32, 32, 3)
    assert data.labels.tolist() == embedded_fashion("train")[1][:50].tolist()
    assert sorted(path.name for path in root.iterdir()) == ["cifar10"]


def test_from_an_archive(files: Path, tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.add(files, files.name)
    prepare("cifar10", tmp_path / "cifar-10-binary.tar.gz", print)
    assert len(load_data("cifar10", "test")) == PER_FILE


def test_a_second_call_verifies_and_does_not_write(files: Path, root: Path) -> None:
    prepare("cifar10", files)
    before = (root / "cifar10" / "stamp.json").stat().st_mtime_ns
    said: list[str] = []
    prepare("cifar10", report=said.append)
    assert said == [f"cifar10 is already in {root / 'cifar10'}; every byte is as it was written"]
    assert (root / "cifar10" / "stamp.json").stat().st_mtime_ns == before


def test_a_damaged_one_is_prepared_again(files: Path, root: Path) -> None:
    prepare("cifar10", files)
    path = root / "cifar10" / "test_images.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    said: list[str] = []
    prepare("cifar10", files, said.append)
    assert "has changed since it was prepared: preparing it again" in said[0]
    assert path.read_bytes()[-1:] != b"?"


def test_wrong_files_leave_nothing_behind(files: Path, root: Path) -> None:
    path = files / "data_batch_5.bin"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(BadData, match=r"data_batch_5\.bin is damaged"):
        prepare("cifar10", files)
    assert list(root.iterdir()) == []
    with pytest.raises(BadData, match="vitscope data prepare cifar10"):
        load_data("cifar10")


def test_without_any_source_it_says_what_to_do(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torchvision.datasets import CIFAR100

    monkeypatch.setattr(CIFAR100, "url", "http://127.0.0.1:9/x.tar.gz")
    said: list[str] = []
    with pytest.raises(
        BadData, match=r"torchvision's download; .* vitscope data prepare cifar100 --source PATH"
    ):
        prepare("cifar100", report=said.append)
    assert "not from torchvision's download: download failed" in said[-1]
    assert list(root.iterdir()) == []


def test_names(tmp_path: Path) -> None:
    said: list[str] = []
    assert prepare("fashion", report=said.append) is None
    assert "part of the package" in said[0]
    with pytest.raises(BadData, match="no data set 'imagenet' to prepare"):
        prepare("imagenet")
