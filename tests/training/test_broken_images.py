"""Broken pictures are named, or counted and passed over; loaders that die are reported."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from torch.utils.data import DataLoader, Dataset

import vitscope as vs
from vitscope.core.errors import BadData
from vitscope.results import Run
from vitscope.training import get_recipe, train
from vitscope.training.broken_images import Readable, without_broken

RECIPE = replace(get_recipe("mini"), epochs=1, batch_size=4, warmup_epochs=0)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two classes of six pictures; the third of class b and, of the test split, the first of class a are broken."""
    draw = np.random.default_rng(0)
    for split in ("train", "test"):
        for name in "ab":
            (tmp_path / split / name).mkdir(parents=True)
            for i in range(6):
                pixels = draw.integers(0, 255, (32, 32, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / split / name / f"{i}.png")
    for broken in ("train/b/2.png", "test/a/0.png"):
        whole = (tmp_path / broken).read_bytes()
        (tmp_path / broken).write_bytes(whole[: len(whole) // 2])
    return tmp_path


@pytest.mark.parametrize("workers", [0, 2])
def test_a_broken_picture_stops_the_training_with_its_path(
    folder: Path, tmp_path: Path, workers: int
) -> None:
    with pytest.raises(BadData, match=r"cannot decode .*train/b/2\.png .*--skip-broken") as caught:
        train("vit_mini", f"folder:{folder}", RECIPE, tmp_path / "run", workers=workers, progress=False)
    assert len(str(caught.value).splitlines()) == 1
    assert not str(caught.value).startswith("Caught")


@pytest.mark.parametrize("harm", ["empty", "dangling"])
def test_empty_files_and_dangling_links_are_broken_images(folder: Path, tmp_path: Path, harm: str) -> None:
    for place in ("train/a/1.png", "test/b/4.png"):
        (folder / place).unlink()
        if harm == "empty":
            (folder / place).touch()
        else:
            (folder / place).symlink_to(folder / "nowhere.png")
    said = r"1\.png is empty" if harm == "empty" else r"1\.png leads nowhere"
    with pytest.raises(BadData, match=said):  # before anything runs
        train("vit_mini", f"folder:{folder}", RECIPE, tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()
    out = tmp_path / "run"
    train("vit_mini", f"folder:{folder}", RECIPE, out, skip_broken=True, workers=0, progress=False)
    record = Run.open(out).record
    names = [Path(name).parts[-3:] for name in record["broken"]]
    assert names == [("train", "a", "1.png"), ("train", "b", "2.png")]
    names = [Path(name).parts[-3:] for name in record["broken_held_out"]]
    assert names == [("test", "a", "0.png"), ("test", "b", "4.png")]


@pytest.mark.parametrize("workers", [0, 2])
def test_skipped_and_counted(
    folder: Path, tmp_path: Path, workers: int, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    train("vit_mini", f"folder:{folder}", RECIPE, out, workers=workers, skip_broken=True, progress=False)
    assert list(pd.read_csv(out / "metrics.csv")["broken"]) == [1]
    assert [Path(name).parts[-3:] for name in Run.open(out).record["broken"]] == [("train", "b", "2.png")]
    assert len(Run.open(out).record["broken_held_out"]) == 1
    shown = capsys.readouterr().err
    assert "1 images were broken and passed over" in shown
    assert "1 held-out images are broken" in shown


def test_the_next_picture_stands_in(folder: Path) -> None:
    data = vs.load_data(f"folder:{folder}", split="train")
    readable = Readable(data, skip=True)
    assert len(readable) == 12
    for index in range(12):
        image, label = readable[index]
        expected = data[9 if index == 8 else index]
        assert label == expected[1]
        assert np.array_equal(np.asarray(image), np.asarray(expected[0]))
    assert readable.broken.nonzero().flatten().tolist() == [8]
    rest, names = without_broken(data)
    assert len(rest) == 11
    assert names[0].endswith("b/2.png")


class Strange(Dataset[Any]):
    """A data set of one's own, with a way to fail."""

    def __init__(self, fail: Any) -> None:
        self.fail = fail

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> tuple[Any, int]:
        if index == 5:
            self.fail()
        return Image.new("RGB", (32, 32)), index % 2


def _refuse() -> None:
    raise KeyError("gone")


def _die() -> None:
    os._exit(3)


def test_any_data_set_may_be_broken(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"cannot read image 5 of the data set \(KeyError: 'gone'\)"):
        train("vit_mini", Strange(_refuse), RECIPE, tmp_path / "a", progress=False)
    done = train("vit_mini", Strange(_refuse), RECIPE, tmp_path / "b", skip_broken=True, progress=False)
    assert done.epochs == 1
    with pytest.raises(BadData, match="none of the 8 images can be read"):
        Readable([0] * 8, skip=True)[3]


def test_a_loader_that_dies_is_an_error_not_a_hang(tmp_path: Path) -> None:
    with pytest.raises(BadData, match=r"a process that loads images has died .*--workers 0"):
        train("vit_mini", Strange(_die), RECIPE, tmp_path / "run", workers=2, progress=False)
    assert Run.open(tmp_path / "run").state == "failed"


def test_workers_tell_what_they_found() -> None:
    readable = Readable(Strange(_refuse), skip=True)
    loader: Any = DataLoader(readable, batch_size=None, num_workers=2, collate_fn=lambda item: item)
    assert len(list(loader)) == 8
    assert readable.broken_names() == ["image 5 of the data set"]
