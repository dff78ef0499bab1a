import multiprocessing
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from tests.data.corruptions.test_cache import written
from vitscope.data.corruptions import corrupt
from vitscope.data.corruptions import generate as generating
from vitscope.data.corruptions.cache import Cache, CleanImages
from vitscope.data.corruptions.generate import CorruptionFailed, corrupted, corrupting_explained

CONDITIONS = [("gaussian_noise", 2), ("fog", 5), ("contrast", 1)]


@pytest.fixture
def share(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CleanImages:
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path / "data"))
    generator = torch.Generator().manual_seed(0)
    return written(
        tmp_path / "clean",
        torch.randint(0, 256, (10, 3, 32, 32), dtype=torch.uint8, generator=generator),
        [10],
    )


def read(
    share: CleanImages, cache: Cache | None = None, workers: int = 0
) -> dict[tuple[str, int], torch.Tensor]:
    found = {}
    for condition, batches in corrupted(share, CONDITIONS, 3, cache, workers):
        pieces = list(batches)
        assert [len(piece) for piece in pieces] == [4, 4, 2]
        found[condition] = torch.cat(pieces)
    return found


def test_images_are_those_of_corrupt(share: CleanImages) -> None:
    found = read(share)
    assert list(found) == CONDITIONS
    for (kind, severity), images in found.items():
        for rows in share.batches:
            expected = corrupt(share.read(rows), kind, severity, 3, share.indices[rows])
            assert torch.equal(images[rows], expected)


def test_worker_processes_and_small_pieces_change_nothing(
    share: CleanImages, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read(share)
    monkeypatch.setattr(generating, "_PIECE", 2 * 3 * 32 * 32)
    pieces = read(share, workers=2)
    assert all(torch.equal(whole[c], pieces[c]) for c in CONDITIONS)


@pytest.mark.parametrize("busy", [False, True], ids=["asked for more", "busy elsewhere"])
def test_a_killed_worker_is_told_in_words(
    share: CleanImages, monkeypatch: pytest.MonkeyPatch, busy: bool
) -> None:
    monkeypatch.setattr(generating, "_PIECE", 2 * 3 * 32 * 32)
    said = r"has died \(\w+Error: .*workers=0"
    with pytest.raises(CorruptionFailed, match=said), corrupting_explained():
        read_with_a_kill(share, busy)


def read_with_a_kill(share: CleanImages, busy: bool) -> None:
    conditions = [(kind, severity) for kind in ("gaussian_noise", "glass_blur") for severity in range(1, 6)]
    others = set(multiprocessing.active_children())
    for _, batches in corrupted(share, conditions, 3, workers=2):
        next(batches)
        victim = next(iter(set(multiprocessing.active_children()) - others))
        victim.kill()
        end = time.monotonic() + 20
        while busy and time.monotonic() < end:
            torch.ones(10).sum()
        list(batches)


def test_other_errors_stay_what_they_are() -> None:
    with pytest.raises(RuntimeError, match=r"^of another$"), corrupting_explained():
        raise RuntimeError("of another")


def test_a_second_reading_comes_from_the_cache(share: CleanImages, monkeypatch: pytest.MonkeyPatch) -> None:
    first = read(share, Cache(share, 3))
    monkeypatch.setattr(generating, "corrupt", None)  # would fail if it were called
    second = read(share, Cache(share, 3))
    assert all(torch.equal(first[c], second[c]) for c in CONDITIONS)


def test_only_what_is_missing_is_made_again(share: CleanImages, tmp_path: Path) -> None:
    first = read(share, Cache(share, 3))
    (damaged,) = (tmp_path / "data").rglob("fog-5.npy")
    content = bytearray(damaged.read_bytes())
    content[-1] ^= 255
    damaged.write_bytes(content)
    others = {path: path.stat().st_mtime_ns for path in (tmp_path / "data").rglob("*.npy") if path != damaged}
    second = read(share, Cache(share, 3))
    assert torch.equal(first[("fog", 5)], second[("fog", 5)])
    assert all(path.stat().st_mtime_ns == then for path, then in others.items())
    assert np.array_equal(np.load(damaged), first[("fog", 5)].numpy())


def test_few_images_need_no_processes() -> None:
    assert generating._default_workers(1000) == 0
    assert generating._default_workers(1 << 30) <= 8
