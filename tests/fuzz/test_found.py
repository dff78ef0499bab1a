"""What the generated cases of `make prove`, and those who wrote them, have found; one small case each."""

import fcntl
import json
import multiprocessing
import os
import pickle
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import vitscope as vs
from tests.prove.tiny import make_data
from vitscope.core.errors import BadData, BadResult
from vitscope.data import DataConfig, load_data
from vitscope.data.corruptions import cache as caching
from vitscope.data.corruptions.cache import scratch_folder
from vitscope.data.decode import decoding
from vitscope.data.frame_folders import natural_order
from vitscope.data.tasks.json_files import are_numbers
from vitscope.data.tasks.outlines import run_lengths, wrong_outline
from vitscope.models import list_checkpoints
from vitscope.recipes.augment import AugmentedData
from vitscope.recipes.named import get_recipe
from vitscope.results import Run
from vitscope.results.codec import decode


@dataclass(frozen=True)
class _Values:
    values: np.ndarray


@pytest.fixture
def data(tmp_path: Path) -> Path:
    make_data(tmp_path)
    return tmp_path


def test_examples_can_be_sent_to_processes_that_are_not_forked() -> None:
    """As on macOS, and from Python 3.14 on: `train --workers 2` ended with "Can't pickle local object"."""
    config = DataConfig(input_size=(3, 32, 32), mean=(0.5,) * 3, std=(0.5,) * 3, crop_pct=1.0)
    pictures = [(Image.new("RGB", (32, 32)), 1)]
    sent = pickle.loads(pickle.dumps(AugmentedData(pictures, get_recipe("mini"), config, seed=0)))
    assert sent[0][1] == 1
    assert sent[0][0].shape == (3, 32, 32)


def test_a_digit_that_is_no_number_is_a_letter_in_names() -> None:
    assert sorted(["10", "²", "2"], key=natural_order) == sorted(["2", "10", "²"], key=natural_order)
    assert natural_order("1²2")[1:4] == [(1, ""), (-1, "²"), (2, "")]


def test_links_that_lead_around_in_a_circle_are_refused(data: Path) -> None:
    """Two of them made 2^40 folders of one; one made every picture count forty times."""
    place = data / "folder" / "test" / "class0"
    (place / "again").symlink_to(place)
    with pytest.raises(BadData, match=r"again is a link to .*class0, which it lies in; remove it"):
        load_data(f"folder:{data / 'folder'}")


def test_a_folder_that_two_links_lead_to_is_looked_at_once(data: Path) -> None:
    before = len(load_data(f"folder:{data / 'folder'}"))
    shutil.copytree(data / "folder" / "test" / "class1", data / "more")
    for name in ("a", "b"):
        (data / "folder" / "test" / "class0" / name).symlink_to(data / "more")
    assert len(load_data(f"folder:{data / 'folder'}")) == before + len(list((data / "more").iterdir()))


def test_lists_of_names_that_are_no_text(data: Path) -> None:
    place = data / "frames" / "first"
    shutil.copytree(data / "folder" / "test" / "class0", place)
    (place / "labels.txt").write_bytes(b"\xff\xfe\n")
    with pytest.raises(BadData, match=r"labels\.txt is not text in UTF-8"):
        load_data(f"frames:{data / 'frames'}")


@pytest.mark.parametrize(
    "error", [IndexError("list index out of range"), KeyError(7), EOFError(), TypeError("x")]
)
def test_whatever_a_decoder_stumbles_over_names_the_file(error: Exception) -> None:
    with pytest.raises(BadData, match=r"cannot decode a\.png \(.+\); replace it"), decoding("a.png"):
        raise error


def test_labels_nested_without_end(data: Path) -> None:
    (data / "real.json").write_text("[" * 100_000)
    images = load_data(f"folder:{data / 'folder'}")
    with pytest.raises(BadData, match=r"cannot read labels from .*nested too deeply"):
        vs.data.relabel(images, labels=f"real:{data / 'real.json'}")


def _annotated(data: Path, change: Any) -> str:
    file = data / "coco" / "annotations" / "instances_val.json"
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
    return f"coco:{data / 'coco'}"


def test_a_picture_without_objects_has_a_size_as_well(data: Path) -> None:
    def change(content: Any) -> None:
        content["images"].append({"id": 99, "file_name": "1.png"})

    with pytest.raises(BadData, match="image 99 has width None; expected a whole number"):
        load_data(_annotated(data, change), split="val")


def test_a_picture_has_pixels(data: Path) -> None:
    def change(content: Any) -> None:
        content["images"].append({"id": 99, "file_name": "1.png", "width": 0, "height": -3})

    with pytest.raises(BadData, match="image 99 has 0x-3 pixels"):
        load_data(_annotated(data, change), split="val")


def test_values_of_thousands_of_characters_are_not_repeated(data: Path) -> None:
    spec = _annotated(data, lambda content: content["categories"][0].update(id="x" * 3000))
    with pytest.raises(BadData, match=r"has id 'x+\.\.\. \(3000 characters\)'; expected a whole number"):
        load_data(spec, split="val")


def test_a_name_of_a_picture_that_no_file_system_takes(data: Path) -> None:
    spec = _annotated(data, lambda content: content["images"][0].update(file_name="x" * 3000))
    with pytest.raises(BadData, match="which is not there"):
        load_data(spec, split="val")


@pytest.mark.parametrize(
    "area", [-5.0, 1e30, 10**400, None, "large"], ids=["below 0", "large", "huge", "none", "text"]
)
def test_an_area_that_no_object_has_is_that_of_its_box(data: Path, area: Any) -> None:
    spec = _annotated(data, lambda content: content["annotations"][0].update(area=area))
    assert load_data(spec, split="val")[0][1].areas.tolist() == [144.0]


def test_whole_numbers_of_hundreds_of_digits_are_no_numbers() -> None:
    assert not are_numbers([10**400])
    assert not are_numbers([float("inf")])
    assert are_numbers([1, -2.5])


@pytest.mark.parametrize("far", [1e9, -1e9, 1e200])
def test_outlines_far_out_of_the_picture_are_refused(far: float) -> None:
    """pycocotools goes along every pixel of an edge: memory and time without end, or the end of the process."""
    said = wrong_outline([[0, 0, 10, 0, 10, far]], 32, 32)
    assert said is not None
    assert "far out of its picture of 32x32" in said
    assert wrong_outline([[0, 0, 33.5, 0, 10, 40]], 32, 32) is None


def test_run_lengths_are_whole_and_end() -> None:
    assert wrong_outline({"size": [2, 2], "counts": [0.5, 3.5]}, 2, 2) is not None
    assert wrong_outline({"size": [2, 2], "counts": [1, 3]}, 2, 2) is None
    began = time.process_time()
    assert run_lengths("o" * 300_000) == []
    assert time.process_time() - began < 5.0


@pytest.mark.parametrize(
    "entry",
    [
        {"file": "../outside/model.safetensors"},
        {"file": "/etc/passwd"},
        {"file": ""},
        {"file": 3},
        {"epoch": "one"},
        {"name": None},
    ],
)
def test_checkpoints_lie_in_their_run_folder(tmp_path: Path, entry: dict[str, Any]) -> None:
    whole = {"name": "init", "file": "model.safetensors", "epoch": 0.0}
    (tmp_path / "checkpoints.json").write_text(json.dumps({"schema": 1, "checkpoints": [whole | entry]}))
    with pytest.raises(BadResult, match=r"checkpoints\.json is damaged \(.+\); copy it again"):
        list_checkpoints(tmp_path)


def _hold_scratch(ready: Any, go: Any) -> None:
    with scratch_folder(True) as folder:
        ready.put(str(folder))
        go.get()


def test_a_clock_that_is_ahead_takes_nothing_away_from_who_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process whose clock is days ahead, or which begins days later, left others without their images."""
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path))
    context = multiprocessing.get_context("fork")
    ready, go = context.Queue(), context.Queue()
    process = context.Process(target=_hold_scratch, args=(ready, go))
    process.start()
    folder = Path(ready.get())
    for path in (folder, *folder.iterdir()):
        os.utime(path, (time.time() - 2 * caching._ABANDONED_AFTER,) * 2)
    with scratch_folder(True):
        assert folder.is_dir()
    process.kill()
    process.join()
    os.utime(folder, (time.time() - 2 * caching._ABANDONED_AFTER,) * 2)
    with scratch_folder(True):
        assert not folder.exists()


def test_what_a_killed_process_left_in_the_cache_goes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path))
    left, held = (tmp_path / "corruptions" / "key" / f".fog-1.npy.{name}.part" for name in ("0", "1"))
    left.parent.mkdir(parents=True)
    left.touch()
    with open(held, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with scratch_folder(True):
            assert not left.exists()
            assert held.exists()


def test_what_a_killed_writer_left_goes_with_the_next_start(tmp_path: Path) -> None:
    """Of a file that was complete and is not written again it stayed for ever."""
    left = tmp_path / "run" / "exams" / ".manifest.json.5b3c6aae.part"
    left.parent.mkdir(parents=True)
    left.write_bytes(b"half")
    held = tmp_path / "run" / ".result.json.0123abcd.part"
    with open(held, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # somebody writes it
        Run.start(tmp_path / "run").finish()
        assert held.exists()
    assert not left.exists()


def test_numbers_of_masks_are_pixels_of_the_picture(data: Path) -> None:
    """That what is read is what was written; the other tests only say what is refused."""
    masks = load_data(f"masks:{data / 'masks'}", split="train")
    assert {int(value) for value in np.unique(masks[0][1])} <= {0, 1, 2}


@pytest.mark.parametrize(
    ("part", "wrong", "said"),
    [
        ("shape", ["4"], r"the shape of values is .*, no list of sizes"),
        ("shape", 4, r"the shape of values is .*, no list of sizes"),
        ("shape", [-1], r"the shape of values is .*, no list of sizes"),
        ("shape", [5], r"the values of values do not fit its type and shape"),
        ("values", ["x"], r"the values of values do not fit its type and shape"),
        ("values", 7, r"the values of values do not fit its type and shape"),
    ],
)
def test_an_array_of_a_result_that_is_none_is_said_in_words(part: str, wrong: Any, said: str) -> None:
    stored = {"dtype": "float64", "shape": [2], "values": [1.0, 2.0], part: wrong}
    with pytest.raises(ValueError, match=rf"^{said}$"):
        decode(_Values, {"values": stored})
