"""What is wrong with data of a task is said by `vitscope train` before it begins, in one line, with file and id."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from vitscope.cli.app import main

SIZE = (20, 16)  # width, height
Change = Callable[[Any], object]


def save(path: Path, pixels: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


def picture(path: Path) -> None:
    save(path, np.random.default_rng(0).integers(0, 255, (*SIZE[::-1], 3), np.uint8))


def masks(root: Path, split: str, value: int, size: tuple[int, int] = SIZE, every: bool = False) -> str:
    """Two pictures in each split; one mask, or `every` one of the split, holds `value` alone."""
    for name in ("train", "test"):
        for k in range(2):
            picture(root / name / "images" / f"{k}.png")
            wrong = name == split and (every or k == 1)
            seen = size if wrong else SIZE
            save(root / name / "masks" / f"{k}.png", np.full(seen[::-1], value if wrong else 1, np.uint8))
    (root / "classes.txt").write_text("sand\ncoral\n")
    return f"masks:{root}"


def boxes(root: Path, split: str, change: Change) -> str:
    for name in ("train", "val"):
        content: dict[str, Any] = {
            "images": [
                {"id": k, "file_name": f"{k}.png", "width": SIZE[0], "height": SIZE[1]} for k in (1, 2)
            ],
            "categories": [{"id": 7, "name": "coral"}],
            "annotations": [
                {"id": 10 + k, "image_id": k, "category_id": 7, "bbox": [2, 2, 6, 6]} for k in (1, 2)
            ],
        }
        if name == split:
            change(content["annotations"])
        for k in (1, 2):
            picture(root / name / f"{k}.png")
        (root / "annotations").mkdir(exist_ok=True)
        (root / "annotations" / f"instances_{name}.json").write_text(json.dumps(content))
    return f"coco:{root}"


def questions(root: Path, split: str, change: Change) -> str:
    for name in ("train2014", "val2014"):
        asked = [{"question_id": 100 + k, "image_id": 1, "question": "is it?"} for k in range(2)]
        said = {"image_id": 1, "multiple_choice_answer": "yes", "answers": [{"answer": "yes"}] * 10}
        answered = [{"question_id": 100 + k, **said} for k in range(2)]
        if name == split:
            change(answered)
        picture(root / name / f"COCO_{name}_{1:012d}.jpg")
        file = root / f"v2_OpenEnded_mscoco_{name}_questions.json"
        file.write_text(json.dumps({"questions": asked}))
        file = root / f"v2_mscoco_{name}_annotations.json"
        file.write_text(json.dumps({"annotations": answered}))
    (root / "answers.txt").write_text("yes\nno\n")
    return f"vqa:{root}"


CASES: dict[str, tuple[str, Callable[[Path], str], str]] = {
    "an unknown class": ("vit_mini", lambda r: masks(r, "test", 9), "test/masks/1.png: value 9 in row 0"),
    "another size": (
        "vit_mini",
        lambda r: masks(r, "train", 1, (18, 16)),
        "train/masks/1.png has 18x16 pixels",
    ),
    "no class at all": (
        "vit_mini",
        lambda r: masks(r, "test", 255, every=True),
        "(test): none of its 2 targets says anything",
    ),
    "nothing to learn": (
        "vit_mini",
        lambda r: masks(r, "train", 255, every=True),
        "(train): none of its 2 targets says anything",
    ),
    "no boxes": (
        "resnet_mini",
        lambda r: boxes(r, "train", list.clear),
        "instances_train.json lists no annot",
    ),
    "no area": (
        "resnet_mini",
        lambda r: boxes(r, "val", lambda a: a[1].update(bbox=[2, 2, 0, 5])),
        "instances_val.json: annotation 12 (image 2) has a box of no area",
    ),
    "outside": (
        "resnet_mini",
        lambda r: boxes(r, "train", lambda a: a[0].update(bbox=[15, 2, 30, 5])),
        "instances_train.json: annotation 11 (image 1) has the box [15, 2, 30, 5], which reaches out",
    ),
    "no answers": (
        "vilt_mini",
        lambda r: questions(r, "train2014", lambda a: a[1].update(answers=[])),
        "train2014_annotations.json: question 101 has no answers",
    ),
    "other answers": (
        "vilt_mini",
        lambda r: questions(r, "val2014", lambda a: [one.update(answers=[{"answer": "red"}]) for one in a]),
        "val2014_annotations.json: question 100 has the answer 'red', which is not in answers.txt",
    ),
    "a batch of one": (
        "vit_mini",
        lambda r: masks(r, "train", 1),
        "--batch-size is 1; upernet:vit_mini needs",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_it_is_said_before_the_training_begins(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, make, said = CASES[case]
    words = ["--img-size", "32", "--epochs", "1", "--out", str(tmp_path / "run")]
    words += ["--batch-size", "1"] if case == "a batch of one" else []
    assert main(["train", model, "--data", make(tmp_path / "data"), *words]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert shown.count("\n") == 1
    assert not (tmp_path / "run").exists()
