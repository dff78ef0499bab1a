"""Objects in COCO's layout, against pycocotools' own reader."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pycocotools import mask as coco_mask
from pycocotools.coco import COCO

from tests.data.tasks.test_masks import save_picture
from vitscope.core.errors import BadData
from vitscope.data import TaskData, load_data
from vitscope.data.tasks.outlines import run_lengths

WIDTH, HEIGHT = 20, 16
SIZE = (WIDTH, HEIGHT)


def runs_of(top: int, left: int, bottom: int, right: int) -> list[int]:
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[top:bottom, left:right] = 1
    flat = mask.ravel(order="F")
    ends = np.flatnonzero(np.diff(flat)) + 1
    return [int(v) for v in np.diff([0, *ends, flat.size])]


def packed(top: int, left: int, bottom: int, right: int) -> str:
    mask = np.zeros((HEIGHT, WIDTH), np.uint8, order="F")
    mask[top:bottom, left:right] = 1
    return coco_mask.encode(mask)["counts"].decode()


def content() -> dict[str, Any]:
    """Three images, one without objects; categories with gaps; polygons, run lengths, packed ones, a crowd."""
    size = [HEIGHT, WIDTH]
    shapes: list[tuple[int, int, list[float], Any, int]] = [
        (7, 18, [2, 3, 8, 6], [[2, 3, 10, 3, 10, 9, 2, 9]], 0),
        (7, 3, [1.5, 2.5, 17.5, 9.5], [[1.5, 2.5, 6, 2.5, 6, 7], [12, 8, 19, 8, 19, 12, 12, 11.5]], 0),
        (9, 18, [4, 5, 6, 7], {"size": size, "counts": runs_of(5, 4, 12, 10)}, 1),
        (9, 90, [0, 0, 20.4, 16.2], {"size": size, "counts": packed(0, 0, 16, 20)}, 0),
    ]
    keys = ("image_id", "category_id", "bbox", "segmentation", "iscrowd")
    annotations = [dict(zip(keys, shape, strict=True)) for shape in shapes]
    return {
        "images": [
            {"id": k, "file_name": f"{k:012d}.jpg", "width": WIDTH, "height": HEIGHT} for k in (9, 7, 8)
        ],
        "annotations": [a | {"id": 100 + i, "area": 10.0 + i} for i, a in enumerate(annotations)],
        "categories": [{"id": 90, "name": "toothbrush"}, {"id": 3, "name": "car"}, {"id": 18, "name": "dog"}],
    }


def write(root: Path, what: Any, split: str = "train2017") -> Path:
    (root / "annotations").mkdir(parents=True, exist_ok=True)
    (root / "annotations" / f"instances_{split}.json").write_text(
        what if isinstance(what, str) else json.dumps(what)
    )
    for number in (7, 8, 9):
        save_picture(root / split / f"{number:012d}.jpg", number, SIZE)
    return root


def opened(root: Path, split: str = "train") -> TaskData:
    data = load_data(f"coco:{root}", split)
    assert isinstance(data, TaskData)
    return data


def test_what_pycocotools_reads(tmp_path: Path) -> None:
    data = opened(write(tmp_path, content()))
    theirs = COCO(str(tmp_path / "annotations" / "instances_train2017.json"))
    assert (data.task, data.classes, len(data)) == ("detection", ("car", "dog", "toothbrush"), 3)
    ids = sorted(theirs.getCatIds())
    for i, image_id in enumerate(sorted(theirs.getImgIds())):
        picture, objects = data[i]
        annotations = theirs.loadAnns(theirs.getAnnIds(image_id))
        assert objects.image_id == image_id
        assert data.name(i).endswith(theirs.loadImgs(image_id)[0]["file_name"])
        assert (picture.size, picture.mode, len(objects)) == (SIZE, "RGB", len(annotations))
        assert objects.masks.shape == (len(annotations), HEIGHT, WIDTH)
        for k, annotation in enumerate(annotations):
            assert np.array_equal(objects.masks[k], theirs.annToMask(annotation))
            left, top, wide, high = annotation["bbox"]
            corners = [left, top, min(left + wide, WIDTH), min(top + high, HEIGHT)]
            assert objects.boxes[k].tolist() == corners
            assert ids[objects.labels[k]] == annotation["category_id"]
            assert objects.crowd[k] == bool(annotation["iscrowd"])
            assert objects.areas[k] == annotation["area"]
    assert len(data[1][1]) == 0  # image 8
    assert data[1][1].boxes.shape == (0, 4)
    assert data.check() is data


def test_boxes_alone(tmp_path: Path) -> None:
    plain = content()
    for annotation in plain["annotations"]:
        del annotation["segmentation"], annotation["area"], annotation["iscrowd"]
    data = opened(write(tmp_path, plain))
    assert all(data.target(i).masks is None for i in range(3))
    assert data.target(0).areas.tolist() == [48.0, 17.5 * 9.5]
    assert not data.target(2).crowd.any()


def test_splits(tmp_path: Path) -> None:
    write(tmp_path, content(), "val2017")
    assert len(opened(tmp_path, "val")) == len(opened(tmp_path, "test")) == 3
    with pytest.raises(
        BadData, match=r"there is no file .*instances_train\*\.json, but instances_val2017\.json"
    ):
        opened(tmp_path)
    write(tmp_path, content(), "val2014")
    with pytest.raises(
        BadData, match=r"instances_val2014\.json and instances_val2017\.json are both of split 'val'"
    ):
        opened(tmp_path, "val")
    (tmp_path / "val2017").rename(tmp_path / "pictures")
    (tmp_path / "annotations" / "instances_val2014.json").unlink()
    with pytest.raises(BadData, match=r"there is no folder .*val2017; expected the pictures of"):
        opened(tmp_path, "val")


Change = Callable[[dict[str, Any]], object]
ANNOTATION = r"instances_train2017\.json: annotation 101 \(image 7\) "
WRONG: dict[str, tuple[Change, str]] = {
    "zero width": (
        lambda c: c["annotations"][1].update(bbox=[1, 1, 0, 4]),
        ANNOTATION + r"has a box of no area \(0x4\)",
    ),
    "outside": (
        lambda c: c["annotations"][1].update(bbox=[15, 1, 8, 4]),
        ANNOTATION + r".* reaches out of its picture of 20x16",
    ),
    "three numbers": (
        lambda c: c["annotations"][1].update(bbox=[15, 1, 8]),
        ANNOTATION + r"has the box \[15, 1, 8\], expected left",
    ),
    "words in a box": (lambda c: c["annotations"][1].update(bbox=[1, 1, "a", 4]), ANNOTATION + "has the box"),
    "not a number": (
        lambda c: c["annotations"][1].update(bbox=[1, 1, float("nan"), 4]),
        ANNOTATION + "has the box",
    ),
    "two points": (
        lambda c: c["annotations"][1].update(segmentation=[[1, 1, 5, 5]]),
        ANNOTATION + "has a polygon of 4 numbers",
    ),
    "odd numbers": (
        lambda c: c["annotations"][1].update(segmentation=[[1, 1, 5, 5, 6, 7, 8]]),
        ANNOTATION + "has a polygon of 7",
    ),
    "empty outline": (
        lambda c: c["annotations"][1].update(segmentation=[]),
        ANNOTATION + "has no outline, and others have",
    ),
    "runs too long": (
        lambda c: c["annotations"][1].update(segmentation={"size": [16, 20], "counts": [100, 400]}),
        ANNOTATION + "has run lengths that do not add up",
    ),
    "broken packing": (
        lambda c: c["annotations"][1].update(segmentation={"size": [16, 20], "counts": "oooooo"}),
        ANNOTATION + "has run lengths that do not add up",
    ),
    "runs of another size": (
        lambda c: c["annotations"][1].update(segmentation={"size": [20, 16], "counts": [320]}),
        ANNOTATION + r"has run lengths for \[20, 16\], expected the picture's \[16, 20\]",
    ),
}
NEVER: dict[str, tuple[Change, str]] = {
    "unknown image": (
        lambda c: c["annotations"][1].update(image_id=5),
        r"annotation 101 is about image 5, which is not listed",
    ),
    "unknown category": (
        lambda c: c["annotations"][1].update(category_id=4),
        r"annotation 101 has category 4; expected one of 3, 18",
    ),
    "no id": (
        lambda c: c["annotations"][1].pop("id"),
        r"annotation at place 1 has id None; expected a whole number",
    ),
    "an id twice": (lambda c: c["annotations"][1].update(id=100), r"annotation 100 is there twice"),
    "an image twice": (lambda c: c["images"].append(c["images"][0]), r"image 9 is there twice"),
    "no annotations": (lambda c: c.update(annotations=[]), r"instances_train2017\.json lists no annotations"),
    "no categories": (lambda c: c.update(categories=[]), r"lists no categories"),
    "no list": (lambda c: c.pop("images"), r"has no list 'images' of objects; expected an annotation file"),
    "no name": (lambda c: c["categories"][0].update(name=""), r"category 90 has name ''; expected some text"),
    "no size": (lambda c: c["images"][1].pop("width"), r"image 7 has width None; expected a whole number"),
    "no file": (
        lambda c: c["images"][1].update(file_name="x.jpg"),
        r"image 7 is .*train2017/x\.jpg, which is not there",
    ),
}


@pytest.mark.parametrize("name", [*WRONG, *NEVER])
def test_wrong_annotations_are_named_when_the_file_is_opened(tmp_path: Path, name: str) -> None:
    change, said = (WRONG | NEVER)[name]
    wrong = content()
    change(wrong)
    write(tmp_path, wrong)
    with pytest.raises(BadData, match=said):
        opened(tmp_path)
    if name in WRONG:
        with pytest.warns(UserWarning, match="1 annotations cannot be used and are left out: 101"):
            data = load_data(f"coco:{tmp_path}", "train", check=False)
        assert [len(data[i][1]) for i in range(3)] == [1, 0, 2]
    else:
        with pytest.raises(BadData, match=said):
            load_data(f"coco:{tmp_path}", "train", check=False)


def test_files_that_are_no_annotations(tmp_path: Path) -> None:
    for text, said in (
        ('{"images": [\n1,,', "it is no JSON from line 2 on"),
        ("[]", "has no list 'images'"),
        ("", "no JSON"),
    ):
        with pytest.raises(BadData, match=said):
            opened(write(tmp_path, text))


def test_a_picture_of_another_size(tmp_path: Path) -> None:
    data = opened(write(tmp_path, content()))
    save_picture(tmp_path / "train2017" / "000000000008.jpg", 8, (19, 16))
    said = r"000000000008\.jpg has 19x16 pixels, .*instances_train2017\.json says 20x16 \(image 8\)"
    with pytest.raises(BadData, match=said):
        data.check()
    with pytest.raises(BadData, match=said):
        data[1]


def test_packed_run_lengths_are_unpacked_as_pycocotools_does() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        mask = np.asfortranarray((generator.random((37, 53)) < generator.random()).astype(np.uint8))
        flat = mask.ravel(order="F")
        ends = np.flatnonzero(np.diff(flat)) + 1
        runs = np.diff([0, *ends, flat.size]).tolist()
        expected = runs if flat[0] == 0 else [0, *runs]
        assert run_lengths(coco_mask.encode(mask)["counts"].decode()) == expected
    assert run_lengths("o") == run_lengths("\x00") == []
