import base64
import io
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vitscope.data import load_data
from vitscope.exams import EXAMS
from vitscope.findings.prediction import PredictionResult
from vitscope.report.pairs import SHOWN, find_images, pairs
from vitscope.report.subject import find_runs
from vitscope.results import Run


def test_flips_and_their_images(runs: Path) -> None:
    subjects = find_runs([runs / "resnet", runs / "vit"])
    (pair,) = pairs(subjects)
    assert (pair.first, pair.other) == tuple(subjects)
    results = [subject.results["prediction"] for subject in subjects]
    assert all(isinstance(result, PredictionResult) for result in results)
    right = [set(r.outcomes()[0][r.outcomes()[1]].tolist()) for r in results]  # type: ignore[attr-defined]
    expected = [sorted(right[1] - right[0]), sorted(right[0] - right[1])]
    data = load_data("fashion", split="test")
    assert [side.winner.name for side in pair.sides] == ["vit_mini", "resnet_mini"]
    for side, places in zip(pair.sides, expected, strict=True):
        assert side.count == len(places)
        assert [image.place for image in side.images] == places[:SHOWN]
        for image in side.images:
            picture = Image.open(
                io.BytesIO(base64.b64decode(image.source.removeprefix("data:image/png;base64,")))
            )
            assert np.array_equal(np.asarray(picture), np.asarray(data[image.place][0]))
            assert image.label == data.classes[data[image.place][1]]
    assert f"vit_mini alone is right about {len(expected[0])}, " in pair.flipped


def test_differences_are_of_the_other_minus_the_first(runs: Path) -> None:
    (pair,) = pairs(find_runs([runs / "resnet", runs / "vit"]))
    accuracy = {
        name: Run.open(runs / name).results()["prediction"].table()["value"].iloc[0]
        for name in ("resnet", "vit")
    }
    found = next(one for one in pair.differences if one.quantity == "accuracy")
    assert pair.flips is not None
    low, high = (100 * end for end in pair.flips.interval)
    assert found.text.endswith(f" points [{low:+.1f}, {high:+.1f}]")
    assert found.text.startswith(f"{100 * (accuracy['vit'] - accuracy['resnet']):+.1f} points [")
    assert found.verdict in ("higher", "lower", "unclear")
    assert found.title == "Predictions"
    assert {one.verdict for one in pair.clear} <= {"higher", "lower"}
    assert {one.verdict for one in pair.unclear} == {"unclear"}
    assert len(pair.clear) + len(pair.unclear) == len(pair.differences)
    shown = list(dict.fromkeys(one.exam for one in pair.differences))
    assert shown == [name for name in EXAMS if name in shown]  # as the sections of the page


def test_other_images_are_not_compared_and_it_is_said(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "vit", tmp_path / "copy")
    folder = tmp_path / "copy" / "exams" / "prediction"
    result = Run.open(runs / "vit").results()["prediction"]
    type(result)(**{**result.__dict__, "seed": 1}).save(folder)
    (pair,) = pairs(find_runs([runs / "resnet", tmp_path / "copy"]))
    assert pair.flips is None
    assert pair.sides == []
    assert any(note.startswith("prediction: ") and "seed is 1 and 0" in note for note in pair.notes)


@pytest.mark.parametrize(
    "name", ["tensors", "timm:hfds/some/set (test)", "folder:/nowhere (test)", "DataLoader"]
)
def test_images_that_are_not_here_are_not_fetched(name: str) -> None:
    assert find_images(name) is None


def test_a_single_model_has_no_pair(runs: Path) -> None:
    assert pairs(find_runs([runs / "vit"])) == []
