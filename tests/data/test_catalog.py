"""Named data sets, and the prepared ones on disk."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from vitscope.core.errors import BadData
from vitscope.data.catalog import (
    CATALOG,
    CatalogEntry,
    data_root,
    is_prepared,
    open_prepared,
    partial_folder,
    verify,
    write,
)


def test_every_entry_has_as_many_different_classes_as_its_name_says() -> None:
    assert {name: len(set(entry.classes)) for name, entry in CATALOG.items()} == {
        "fashion": 10,
        "fashion-full": 10,
        "cifar10": 10,
        "cifar100": 100,
        "coral": 5,
        "coral-objects": 4,
        "coral-stream": 5,
        "trees": 1,
        "easy-vqa": 13,
    }


def test_class_names_are_torchvisions() -> None:
    from torchvision.datasets import FashionMNIST

    assert list(CATALOG["fashion"].classes) == FashionMNIST.classes


def test_cifar_class_names_are_in_the_official_alphabetical_order() -> None:
    for name in ("cifar10", "cifar100"):
        assert list(CATALOG[name].classes) == sorted(CATALOG[name].classes)


def test_where_data_lies(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VITSCOPE_DATA", "~/images")
    assert data_root() == Path.home() / "images"
    monkeypatch.delenv("VITSCOPE_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert data_root() == tmp_path / "vitscope" / "data"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert data_root() == Path.home() / ".cache" / "vitscope" / "data"


SMALL = CatalogEntry("small", ("a", "b"), 6, 4, "MIT")
ARRAYS = {
    "train": (np.arange(6 * 12, dtype=np.uint8).reshape(6, 2, 2, 3), np.array([0, 1] * 3, np.uint8)),
    "test": (np.arange(4 * 12, dtype=np.uint8).reshape(4, 2, 2, 3), np.array([1, 0] * 2, np.uint8)),
}
WRITER = """
import os, sys
import numpy as np
from vitscope.data.catalog import CatalogEntry
from vitscope.data.catalog import partial_folder, write
entry = CatalogEntry("small", ("a", "b"), 6, 4, "MIT")
sizes = {"train": 6, "test": 4}
arrays = {split: (np.zeros((n, 2, 2, 3), np.uint8), np.zeros(n, np.uint8)) for split, n in sizes.items()}
with partial_folder(entry) as partial:
    if sys.argv[1] == "die":
        np.save(partial / "train_images.npy", arrays["train"][0])
        os._exit(9)
    for _ in range(20):
        (partial / "arrays").mkdir()
        write(entry, arrays, "process", partial / "arrays")
        if (partial / "arrays").exists():
            break
"""


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path / "cache"))
    return tmp_path / "cache"


def put() -> Path:
    with partial_folder(SMALL) as partial:
        (partial / "arrays").mkdir()
        return write(SMALL, ARRAYS, "a test", partial / "arrays")


def test_what_is_written_is_what_is_opened_and_it_is_memory_mapped(root: Path) -> None:
    assert not is_prepared(SMALL)
    assert put() == root / "small"
    assert is_prepared(SMALL)
    assert verify(SMALL) is None
    for split in ("train", "test"):
        images, labels = open_prepared(SMALL, split)
        assert isinstance(images, np.memmap)
        assert (images == ARRAYS[split][0]).all()
        assert (labels == ARRAYS[split][1]).all()
    assert sorted(path.name for path in root.iterdir()) == ["small"]


def test_not_prepared_says_what_to_type() -> None:
    with pytest.raises(
        BadData, match=r"small cannot be used: it is not prepared .* vitscope data prepare small"
    ):
        open_prepared(SMALL, "test")


def cut_an_array(folder: Path) -> None:
    os.truncate(folder / "test_images.npy", 150)


def remove_an_array(folder: Path) -> None:
    (folder / "train_labels.npy").unlink()


def remove_the_stamp(folder: Path) -> None:
    (folder / "stamp.json").unlink()


def cut_the_stamp(folder: Path) -> None:
    os.truncate(folder / "stamp.json", 40)


def empty_list_as_stamp(folder: Path) -> None:
    (folder / "stamp.json").write_text("[]")


def forget_an_array_in_the_stamp(folder: Path) -> None:
    stamp = json.loads((folder / "stamp.json").read_text())
    del stamp["files"]["test_labels.npy"]
    (folder / "stamp.json").write_text(json.dumps(stamp))


def another_schema(folder: Path) -> None:
    stamp = json.loads((folder / "stamp.json").read_text())
    (folder / "stamp.json").write_text(json.dumps(stamp | {"schema": 2}))


DAMAGES = [
    cut_an_array,
    remove_an_array,
    remove_the_stamp,
    cut_the_stamp,
    empty_list_as_stamp,
    forget_an_array_in_the_stamp,
    another_schema,
]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_damage_is_seen_refused_and_mended(damage: object) -> None:
    damage(put())  # type: ignore[operator]
    assert not is_prepared(SMALL)
    with pytest.raises(BadData, match="type: vitscope data prepare small"):
        open_prepared(SMALL, "train")
    put()
    assert verify(SMALL) is None


def test_a_changed_byte_is_found_by_verify_and_mended() -> None:
    path = put() / "train_images.npy"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    assert "train_images.npy has changed" in str(verify(SMALL))
    put()
    assert verify(SMALL) is None


def test_a_process_that_dies_leaves_nothing_that_could_be_used(root: Path) -> None:
    done = subprocess.run([sys.executable, "-c", WRITER, "die"], check=False)
    assert done.returncode == 9
    leftover = list(root.iterdir())
    assert [path.name.startswith(".partial-small-") for path in leftover] == [True]
    assert not is_prepared(SMALL)
    put()
    assert leftover[0].exists()  # it might belong to somebody who is still at work
    old = time.time() - 3 * 24 * 3600
    os.utime(leftover[0], (old, old))
    with partial_folder(SMALL):
        assert not leftover[0].exists()


def test_processes_that_write_at_once_do_not_harm_each_other(root: Path) -> None:
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, "go"]) for _ in range(2)]
    assert [writer.wait(timeout=900) for writer in writers] == [0, 0]
    assert verify(SMALL) is None
    assert sorted(path.name for path in root.iterdir()) == ["small"]


def test_an_exception_cleans_up(root: Path) -> None:
    def fail_halfway() -> None:
        with partial_folder(SMALL) as partial:
            (partial / "half").write_text("x")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_halfway()
    assert list(root.iterdir()) == []


def test_a_root_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path / "file" / "cache"))
    with pytest.raises(BadData, match="set VITSCOPE_DATA to a folder"), partial_folder(SMALL):
        pass
    assert data_root().name == "cache"
