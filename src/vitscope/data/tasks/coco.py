"""`coco:PATH`: objects in COCO's layout.

    PATH/annotations/instances_train2017.json    PATH/train2017/*.jpg
    PATH/annotations/instances_val2017.json      PATH/val2017/*.jpg

Any word may stand in the place of 2017, or none, and "test" is content with "val": COCO keeps the boxes of its test
images to itself. Categories become 0 .. C - 1 in the order of their ids. Masks are polygons or run lengths, decoded by
pycocotools; a set without any has boxes only. Regions with `iscrowd` are many objects that nobody counted.

Annotations are looked at when the file is opened. A few of COCO's own have no area: without `check` (`train
--skip-broken`) what cannot be used is left out, and said.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from vitscope.core.arguments.kinds import shown
from vitscope.core.errors import BadData, warn
from vitscope.data.decode import decoding, open_image, opened
from vitscope.data.images import Indices
from vitscope.data.task_data import Objects, TaskData, file_facts
from vitscope.data.tasks.json_files import Record, are_numbers, by_id, read_json, text, whole_number
from vitscope.data.tasks.masks import folder_of
from vitscope.data.tasks.outlines import masks_of, wrong_outline

_SLACK = 1.0  # pixels that a box may reach beyond its picture: corners were rounded


@dataclass(frozen=True, eq=False)
class PictureObjects:
    """What is said about one picture."""

    path: str
    image_id: int
    size: tuple[int, int]  # width, height
    boxes: npt.NDArray[np.float32]
    labels: npt.NDArray[np.int64]
    crowd: npt.NDArray[np.bool_]
    areas: npt.NDArray[np.float32]
    shapes: Sequence[Any] | None  # polygons or run lengths of each object; None where the set has boxes only


@dataclass(frozen=True, eq=False)
class CocoReader:
    """Pictures in files, and objects from an annotation file."""

    annotations: str
    pictures: Sequence[PictureObjects]
    category_ids: tuple[int, ...]  # the category of each class, for results in COCO's form

    parallel = True

    def __len__(self) -> int:
        return len(self.pictures)

    def picture(self, index: int) -> Image.Image:
        """See `TaskReader`."""
        found = open_image(self.pictures[index].path).convert("RGB")
        self._same_size(index, found.size)
        return found

    def size(self, index: int) -> tuple[int, int]:
        """Height and width."""
        width, height = self.pictures[index].size
        return height, width

    def target(self, index: int) -> Objects:
        """See `TaskReader`."""
        about = self.pictures[index]
        masks = None if about.shapes is None else masks_of(about.shapes, about.size)
        return Objects(about.boxes, about.labels, masks, about.crowd, about.areas, about.image_id)

    def name(self, index: int) -> str:
        """See `TaskReader`."""
        return self.pictures[index].path

    def check(self, index: int) -> bool:
        """See `TaskReader`."""
        path = self.pictures[index].path
        with decoding(path), opened(path) as picture:
            size = picture.size
        self._same_size(index, size)
        return bool((~self.pictures[index].crowd).any())

    def digest(self, places: Indices) -> bytes:
        """See `TaskReader`."""
        return file_facts([self.annotations, *(self.pictures[i].path for i in places)])

    def _same_size(self, index: int, size: tuple[int, int]) -> None:
        about = self.pictures[index]
        if size != about.size:
            raise BadData(
                f"{about.path} has {size[0]}x{size[1]} pixels, {self.annotations} says {about.size[0]}x{about.size[1]} "
                f"(image {about.image_id}); expected the same size"
            )


def open_coco(path: str, split: str, check: bool = True) -> TaskData:
    """COCO's objects; see the head of this file."""
    root = folder_of(path, "coco", "annotations/instances_train2017.json and train2017")
    file, folder = _files(root, split, f"coco:{path}")
    content = read_json(file, ("images", "annotations", "categories"), "an annotation file in COCO's form")
    categories = by_id(content["categories"], "id", file, "category")
    images = by_id(content["images"], "id", file, "image")
    if not images or not categories or not content["annotations"]:
        empty = next(k for k in ("images", "categories", "annotations") if not content[k])
        raise BadData(f"{file} lists no {empty}; expected an annotation file in COCO's form")
    ids = tuple(sorted(categories))
    names = [text(categories[k], "name", file, f"category {k}") for k in ids]
    outlined = any("segmentation" in annotation for annotation in content["annotations"])
    by_picture = _usable(content["annotations"], images, ids, file, outlined, check)
    there = {entry.name for entry in folder.iterdir()}
    pictures = [
        _about(folder, there, image, by_picture[number], ids, file, outlined)
        for number, image in sorted(images.items())
    ]
    return TaskData("detection", f"coco:{path}", split, names, CocoReader(str(file), tuple(pictures), ids))


def _files(root: Path, split: str, spec: str) -> tuple[Path, Path]:
    """The annotation file of a split, and the folder of its pictures."""
    wanted = {"validation": "val", "training": "train"}.get(split, split)
    for name in (wanted, "val") if wanted == "test" else (wanted,):
        files = sorted((root / "annotations").glob(f"instances_{name}*.json"))
        if len(files) > 1:
            raise BadData(
                f"{spec}: {files[0]} and {files[1].name} are both of split '{name}'; expected one of them"
            )
        if files:
            stem = files[0].stem.removeprefix("instances_")
            folders = [root / stem, root / "images" / stem]
            if folder := next((f for f in folders if f.is_dir()), None):
                return files[0], folder
            raise BadData(
                f"{spec}: there is no folder {folders[0]}; expected the pictures of {files[0]} in it"
            )
    there = ", ".join(sorted(p.name for p in (root / "annotations").glob("*.json"))) or "nothing"
    raise BadData(
        f"{spec}: there is no file {root / 'annotations'}/instances_{wanted}*.json, but {there}; expected COCO's layout"
    )


def _usable(
    annotations: Sequence[Record],
    images: dict[int, Record],
    categories: Sequence[int],
    file: Path,
    outlined: bool,
    check: bool,
) -> dict[int, list[Record]]:
    """By image, the annotations that can be used; with `check` one that cannot is refused."""
    found: dict[int, list[Record]] = {number: [] for number in images}
    left_out = []
    for number, annotation in by_id(annotations, "id", file, "annotation").items():
        what = f"annotation {number}"
        image_id = whole_number(annotation, "image_id", file, what)
        if image_id not in images:
            raise BadData(
                f"{file}: {what} is about image {image_id}, which is not listed; expected an image's id"
            )
        category = whole_number(annotation, "category_id", file, what)
        if category not in categories:
            raise BadData(f"{file}: {what} has category {category}; expected one of {_few(categories)}")
        wrong = _wrong_with(annotation, images[image_id], file, outlined)
        if wrong is None:
            found[image_id].append(annotation)
        elif check:
            raise BadData(
                f"{file}: {what} (image {image_id}) {wrong}; correct it, or leave such annotations out "
                "with --skip-broken (in Python load_data(..., check=False))"
            )
        else:
            left_out.append(number)
    if left_out:
        warn(f"{file}: {len(left_out)} annotations cannot be used and are left out: {_few(left_out)}")
    return found


def _wrong_with(annotation: Record, image: Record, file: Path, outlined: bool) -> str | None:
    """Why an annotation cannot be used, in words; None if it can."""
    width, height = _size(image, file)
    box: Any = annotation.get("bbox")
    if not are_numbers(box) or len(box) != 4:
        return f"has the box {shown(box)}, expected left, top, width and height"
    left, top, wide, high = box
    if wide <= 0 or high <= 0:
        return f"has a box of no area ({wide:g}x{high:g})"
    if left < -_SLACK or top < -_SLACK or left + wide > width + _SLACK or top + high > height + _SLACK:
        return f"has the box {box}, which reaches out of its picture of {width}x{height}"
    return wrong_outline(annotation.get("segmentation"), width, height) if outlined else None


def _about(
    folder: Path,
    there: set[str],
    image: Record,
    annotations: Sequence[Record],
    categories: Sequence[int],
    file: Path,
    outlined: bool,
) -> PictureObjects:
    name = text(image, "file_name", file, f"image {image['id']}")
    if name not in there and not os.path.isfile(folder / name):
        raise BadData(
            f"{file}: image {image['id']} is {folder / name if len(name) < 200 else shown(name)}, which is not there; "
            "expected all listed pictures"
        )
    width, height = _size(image, file)
    corners = np.array([a["bbox"] for a in annotations], np.float64).reshape(-1, 4)
    corners[:, 2:] += corners[:, :2]
    boxes = corners.clip(0, [width, height, width, height]).astype(np.float32)
    extents = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    areas = [_area(a.get("area"), e, width * height) for a, e in zip(annotations, extents, strict=True)]
    return PictureObjects(
        path=str(folder / name),
        image_id=image["id"],
        size=(width, height),
        boxes=boxes,
        labels=np.array([categories.index(a["category_id"]) for a in annotations], np.int64),
        crowd=np.array([bool(a.get("iscrowd", 0)) for a in annotations], np.bool_),
        areas=np.array(areas, np.float32),
        shapes=tuple(a["segmentation"] for a in annotations) if outlined else None,
    )


def _size(image: Record, file: Path) -> tuple[int, int]:
    """Width and height of a picture, as it is listed."""
    width, height = (whole_number(image, key, file, f"image {image['id']}") for key in ("width", "height"))
    if width < 1 or height < 1:
        raise BadData(f"{file}: image {image['id']} has {width}x{height} pixels; expected at least one")
    return width, height


def _area(said: Any, of_box: float, most: int) -> float:
    """What is said of an object's area, if its picture has room for it; else that of its box."""
    return float(said) if are_numbers([said]) and 0 <= said <= most else float(of_box)


def _few(values: Sequence[int], most: int = 10) -> str:
    more = f" ... ({len(values)} in all)" if len(values) > most else ""
    return ", ".join(map(str, values[:most])) + more
