"""Broken images, dead loaders, and the time that images take."""

import os
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from PIL import Image
from torch.utils.data import DataLoader, Dataset

import vitscope as vs
from tests.data.test_folder import fill
from vitscope.cli.app import main
from vitscope.core.errors import BadArgument, BadData, VitscopeError
from vitscope.core.peers import loader_worker
from vitscope.data.broken_images import without_broken
from vitscope.prescribe.apply import apply
from vitscope.results import Run
from vitscope.training import get_recipe, train
from vitscope.training.checkpoint import Progress
from vitscope.training.loading import Readable, find_images, loading_explained, timed

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
    with pytest.raises(BadData, match=r"cannot decode .*train/b/2\.png .*skip_broken=True") as caught:
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


class Failing(Dataset[int]):
    def __init__(self, how: str) -> None:
        self.how = how

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> int:
        if index == 2 and self.how == "bad":
            raise BadData("image 2: broken; replace it")
        if index == 2 and self.how == "other":
            raise ValueError("a bug")
        if index == 2 and self.how == "exit":
            os._exit(1)
        return index


@pytest.mark.parametrize("workers", [0, 1])
def test_ours_is_told_without_the_traceback_of_the_worker(workers: int) -> None:
    with pytest.raises(BadData) as caught, loading_explained():
        list(DataLoader(Failing("bad"), num_workers=workers))
    assert str(caught.value) == "image 2: broken; replace it"


def test_a_worker_that_is_gone() -> None:
    """Which error tells of it first depends on what it was doing, and on who is faster."""
    with pytest.raises(BadData, match=r"has died \(\w*Error.*\): .*--workers 0"), loading_explained():
        list(DataLoader(Failing("exit"), num_workers=1))


class TooLarge:
    """There is no memory left to hand it over."""

    def __reduce__(self) -> Any:
        raise MemoryError


def test_a_batch_that_cannot_be_handed_over_is_not_waited_for() -> None:
    loader: Any = DataLoader(
        [TooLarge()], num_workers=1, collate_fn=list, worker_init_fn=loader_worker, timeout=60
    )
    with pytest.raises(BadData, match=r"has died \(\w*Error.*\): it ran out of memory"), loading_explained():
        list(loader)


_SENT = """Caught {0} in DataLoader worker process 0.
Original Traceback (most recent call last):
  File "worker.py", line 375, in _worker_loop
    data = fetcher.fetch(index)
{0}: {1}
"""


def test_of_a_traceback_that_a_worker_sends_the_last_line_is_shown() -> None:
    with pytest.raises(BadData) as caught, loading_explained():
        raise RuntimeError(_SENT.format("RuntimeError", "stack expects each tensor to be equal size"))
    assert "has died (RuntimeError: stack expects each tensor to be equal size): " in str(caught.value)
    assert "worker.py" not in str(caught.value)


def test_a_worker_without_memory() -> None:
    said = "DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes. Error code 12"
    expected = r"^memory ran out \(9 bytes more .*fewer --workers need less\)$"
    with pytest.raises(VitscopeError, match=expected), loading_explained():
        raise RuntimeError(_SENT.format("RuntimeError", said))


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (
            RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed."),
            "RuntimeError: DataLoader worker",
        ),
        (
            ConnectionResetError(104, "Connection reset by peer"),
            "ConnectionResetError: [Errno 104] Connection",
        ),
        (EOFError(), "EOFError)"),
    ],
)
def test_each_of_the_errors_that_tell_of_it(error: Exception, reason: str) -> None:
    with pytest.raises(BadData) as caught, loading_explained():
        raise error
    assert str(caught.value).startswith(f"a process that loads images has died ({reason}")


def test_other_errors_are_left_alone() -> None:
    with pytest.raises(ValueError, match="a bug"), loading_explained():
        list(DataLoader(Failing("other"), num_workers=1))
    with pytest.raises(RuntimeError, match="of another kind"), loading_explained():
        raise RuntimeError("of another kind")


class Clock:
    """Goes on only when told to, so that no other program can lengthen what is measured."""

    def __init__(self) -> None:
        self.now = 1000.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("vitscope.training.loading.time", made)
    return made


def slow(clock: Clock) -> Iterator[int]:
    for i in range(3):
        clock.now += 0.05
        yield i


def test_only_the_time_until_a_batch_is_there_counts(clock: Clock) -> None:
    progress = Progress()
    found = []
    for batch in timed(slow(clock), progress):
        clock.now += 0.1  # a step
        found.append(batch)
    assert found == [0, 1, 2]
    assert progress.waited == pytest.approx(0.15)


def test_errors_pass_and_their_time_counts(clock: Clock) -> None:
    def broken() -> Iterator[int]:
        clock.now += 0.05
        raise KeyError("gone")
        yield 0

    progress = Progress()
    with pytest.raises(KeyError):
        list(timed(broken(), progress))
    assert progress.waited == pytest.approx(0.05)


@pytest.fixture
def undivided(tmp_path: Path) -> str:
    """Two classes of ten pictures directly below the folder."""
    draw = np.random.default_rng(0)
    for name in "ab":
        (tmp_path / "all" / name).mkdir(parents=True)
        for i in range(10):
            pixels = draw.integers(0, 255, (32, 32, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(tmp_path / "all" / name / f"{i}.png")
    return f"folder:{tmp_path / 'all'}"


def test_of_images_that_nobody_has_divided_a_fifth_is_held_out(
    undivided: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    images = find_images(undivided, None, 1.0, seed=3)
    learned, held_out = ({part.name(i) for i in range(len(part))} for part in (images.train, images.held_out))
    assert (len(learned), len(held_out)) == (16, 4)
    assert not learned & held_out
    assert np.bincount(images.held_out.labels).tolist() == [2, 2]
    assert "no folders train and test: 4 of its 20 images are held out" in capsys.readouterr().err
    again = find_images(undivided, None, 0.5, seed=4)
    assert {
        again.held_out.name(i) for i in range(4)
    } == held_out  # whatever the seed, and the share to learn from
    assert {again.train.name(i) for i in range(len(again.train))} < learned
    trained = train("vit_mini", undivided, RECIPE, tmp_path / "run", progress=False)
    assert trained.high - trained.low > 0.5  # as of four images


def test_exams_can_be_of_those_that_were_held_out(
    undivided: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    words = f"train vit_mini --data {undivided} --recipe mini --epochs 1 --workers 0 --out {out}"
    assert main(words.split()) == 0
    said = capsys.readouterr().out
    assert f"examine it: vitscope diagnose {out} --data {undivided} --split held-out" in said
    held_out = vs.load_data(undivided, split="held-out")
    images = find_images(undivided, None, 1.0, seed=0)
    assert [held_out.name(i) for i in range(4)] == [images.held_out.name(i) for i in range(4)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert vs.diagnose(out, held_out, ["prediction"])["prediction"].n == 4
    with pytest.warns(UserWarning, match=r"was trained on most of these images: .*: split='held-out'"):
        vs.diagnose(out, vs.load_data(undivided), ["prediction"])
    assert (
        main(f"diagnose {out} --data {undivided} --exams prediction --out {tmp_path / 'exams'}".split()) == 0
    )
    assert "it has not seen: --split held-out" in capsys.readouterr().err


def test_divided_images_have_their_own_test_images() -> None:
    with pytest.raises(BadData, match=r"fashion is divided already.*split='test'"):
        vs.load_data("fashion", split="held-out")


def test_too_few_to_hold_any_out(undivided: str) -> None:
    for path in Path(undivided.partition(":")[2], "a").glob("[2-9].png"):
        path.unlink()
    with pytest.raises(BadData, match="too few images to hold some of every class out; make the folders"):
        find_images(undivided, None, 1.0, seed=0)


def test_what_measures_what_it_trained_says_what_would_do(undivided: str, tmp_path: Path) -> None:
    arms = {"a": {"model": "vit_mini", "data": undivided, "changes": {"epochs": 1}}}
    study = tmp_path / "study.yaml"
    study.write_text(yaml.safe_dump({"name": "x", "arms": arms, "exams": {"prediction": None}}))
    with pytest.raises(BadArgument, match=r"no folders train and test.*validation: 0\.2"):
        vs.study(study, out=tmp_path / "out", store=tmp_path / "store", engine="here")
    vs.diagnose("vit_mini", vs.load_data(undivided), ["prediction"], out=tmp_path / "run")
    with pytest.raises(VitscopeError, match=r"no folders train and test.*--data SPEC"):
        apply(tmp_path / "run", epochs=1, only=["smooth"], progress=False)


def test_held_out_images_need_labels_too(folder: Path, tmp_path: Path) -> None:
    for label in ("a", "b"):
        for path in sorted((folder / "test" / label).iterdir()):
            path.rename(folder / "test" / f"{label}{path.name}")
        (folder / "test" / label).rmdir()
    with pytest.raises(BadData, match=r"a training needs labels, and the images of .* \(test\) have none"):
        train("vit_mini", f"folder:{folder}", RECIPE, tmp_path / "run", progress=False)
    assert not (tmp_path / "run").exists()


def test_pictures_without_classes_are_refused_before_some_are_held_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fill(tmp_path, {"loose": 10})
    with pytest.raises(BadData, match=r"into a folder of its name$"):
        find_images(f"folder:{tmp_path / 'loose'}", None, 1.0, 0)
    assert not capsys.readouterr().err
