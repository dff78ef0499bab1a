"""Images before and after they are corrupted, on disk."""

import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from vitscope.core.errors import BadData
from vitscope.data.corruptions import cache as caching
from vitscope.data.corruptions.cache import (
    Cache,
    CleanImages,
    CleanImagesWriter,
    cache_folder,
    clear_cache,
    scratch_folder,
)


def written(
    path: Path | None, images: torch.Tensor, cuts: list[int], places: torch.Tensor | None = None
) -> CleanImages:
    writer = CleanImagesWriter(path, 4)
    places = torch.arange(len(images)) + 10 if places is None else places
    for piece, where in zip(images.split(cuts), places.split(cuts), strict=True):
        writer.add(piece, torch.zeros(len(piece), dtype=torch.long), where)
    return writer.finish()


def test_images_come_back_piece_by_piece(tmp_path: Path) -> None:
    images = torch.randint(0, 256, (10, 3, 6, 5), dtype=torch.uint8)
    share = written(tmp_path / "a", images, [4, 4, 2])
    assert share.batches == [slice(0, 4), slice(4, 8), slice(8, 10)]
    assert torch.equal(torch.cat([share.read(rows) for rows in share.batches]), images)
    assert share.indices.tolist() == list(range(10, 20))
    assert share.n_bytes == 900


def test_the_digest_stands_for_images_and_places(tmp_path: Path) -> None:
    images = torch.randint(0, 256, (6, 1, 4, 4), dtype=torch.uint8)
    first = written(tmp_path / "a", images, [6]).digest
    assert written(None, images, [6]).digest == first
    other = images.clone()
    other[3, 0, 2, 2] ^= 1
    assert written(None, other, [6]).digest != first
    assert written(None, images, [6], torch.arange(6)).digest != first
    assert written(None, images.view(6, 1, 2, 8), [6]).digest != first


def test_a_process_without_images(tmp_path: Path) -> None:
    share = CleanImagesWriter(tmp_path / "a", 4).finish()
    assert len(share) == 0
    assert share.batches == []
    assert share.labels.dtype == np.int64


SNOW = ("snow", 2)


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path / "data"))
    return tmp_path / "data" / "corruptions"


@pytest.fixture
def share(tmp_path: Path) -> CleanImages:
    generator = torch.Generator().manual_seed(0)
    return written(
        tmp_path / "clean", torch.randint(0, 256, (10, 3, 4, 4), dtype=torch.uint8, generator=generator), [10]
    )


def fill(cache: Cache, share: CleanImages) -> None:
    list(cache.keep(SNOW, (255 - share.read(rows) for rows in share.batches)))


def test_kept_and_found(share: CleanImages, root: Path) -> None:
    cache = Cache(share, seed=0)
    assert cache.open(SNOW) is None
    fill(cache, share)
    found = cache.open(SNOW)
    assert isinstance(found, np.memmap)
    assert torch.equal(torch.from_numpy(np.array(found)), 255 - share.read(slice(0, 10)))
    assert Cache(share, seed=1).open(SNOW) is None
    assert cache.open(("snow", 3)) is None
    assert not list(root.rglob("*.part"))


def test_what_was_not_read_to_the_end_is_not_kept(share: CleanImages, root: Path) -> None:
    cache = Cache(share, seed=0)
    batches = cache.keep(SNOW, (share.read(rows) for rows in share.batches))
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    assert cache.open(SNOW) is None
    assert not [path for path in root.rglob("*") if path.is_file()]


@pytest.mark.parametrize("damage", ["flip", "cut", "no sum", "no array", "no bytes", "other shape"])
def test_damage_is_noticed(damage: str, share: CleanImages, root: Path) -> None:
    cache = Cache(share, seed=0)
    fill(cache, share)
    (array,) = root.rglob("*.npy")
    content = bytearray(array.read_bytes())
    if damage == "flip":
        content[-5] ^= 1
        array.write_bytes(content)
    elif damage == "cut":
        array.write_bytes(content[:-5])
    elif damage == "no sum":
        array.with_suffix(".sha256").unlink()
    elif damage == "no bytes":
        array.write_bytes(b"")
    elif damage == "no array":
        array.write_bytes(b"not an array")
    else:
        np.save(array, np.zeros((9, 3, 4, 4), np.uint8))
    assert cache.open(SNOW) is None
    fill(cache, share)
    assert cache.open(SNOW) is not None


def test_a_disk_that_cannot_be_written_to_does_not_stop_the_images(share: CleanImages, root: Path) -> None:
    cache = Cache(share, seed=0)
    root.parent.mkdir(parents=True)
    root.write_text("a file where the folder should be")
    with pytest.warns(UserWarning, match="corrupted images are not kept"):
        found = list(cache.keep(SNOW, (share.read(rows) for rows in share.batches)))
    assert torch.equal(torch.cat(found), share.read(slice(0, 10)))
    with (
        pytest.raises(
            BadData, match="set VITSCOPE_DATA to a folder that you may write to, or use --no-cache"
        ),
        scratch_folder(True),
    ):
        pass
    with (
        pytest.warns(UserWarning, match="so corrupted images are not kept"),
        scratch_folder(True, needed=False) as folder,
    ):
        assert folder.is_dir()
    with scratch_folder(False) as folder:
        assert folder.is_dir()


def test_a_cache_that_is_only_read_is_used(share: CleanImages, root: Path) -> None:
    fill(Cache(share, seed=0), share)
    reading = Cache(share, seed=0, writable=False)
    assert reading.open(SNOW) is not None
    before = sorted(root.rglob("*"))
    other = ("fog", 1)
    assert len(list(reading.keep(other, (share.read(rows) for rows in share.batches)))) == 3
    assert sorted(root.rglob("*")) == before


def test_what_a_dead_writer_left_of_an_array_goes_with_the_next_one(share: CleanImages, root: Path) -> None:
    cache = Cache(share, seed=0)
    fill(cache, share)
    left = next(root.rglob("*.npy")).parent / ".snow-2.npy.0123abcd.part"
    left.write_bytes(b"half")
    fill(cache, share)
    assert not left.exists()


def test_cleared(share: CleanImages) -> None:
    fill(Cache(share, seed=0), share)
    assert clear_cache() > 480
    assert not cache_folder().exists()
    assert clear_cache() == 0


def test_what_killed_processes_left_behind_goes(share: CleanImages, root: Path) -> None:
    fill(Cache(share, seed=0), share)
    old = [root / ".scratch-old", next(root.rglob("*.npy")).parent / ".snow-3.npy.abc.part"]
    old[0].mkdir()
    old[1].write_text("")
    (root / ".scratch-new").mkdir()
    for path in old:
        os.utime(path, (time.time() - caching._ABANDONED_AFTER - 60,) * 2)
    with scratch_folder(True) as folder:
        assert folder.parent == root
    assert not any(path.exists() for path in old)
    assert (root / ".scratch-new").exists()
    assert not folder.exists()
    assert len(list(root.rglob("*.npy"))) == 1
