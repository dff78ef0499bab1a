"""`masks:PATH` and `ade20k:PATH`: a folder of pictures, and one of masks with the same names.

    PATH/images/*.jpg           PATH/masks/*.png           or both below PATH/train, PATH/val, PATH/test
    PATH/images/training/*.jpg  PATH/annotations/training/*.png  PATH/objectInfo150.txt       ADE20K's challenge of 2016

A mask holds the number of a class for every pixel: grey of 8 or 16 bits, or a palette; 255 is "nobody has said". With
`PATH/classes.txt` (a name per line, the first is class 0) numbers beyond it are refused; lines such as `64 128 64 tree`
say that masks are coloured. ADE20K's numbers begin with 1, and 0 is "nobody has said".
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from vitscope.core.errors import BadData
from vitscope.data.decode import decoding, open_image, opened
from vitscope.data.folder import IMAGE_SUFFIXES, refuse_empty, split_folders
from vitscope.data.images import Indices
from vitscope.data.task_data import NO_CLASS, Mask, TaskData, file_facts
from vitscope.data.tasks.numbering import CLASSES, VOID, Numbering, by_number, read_classes, read_lines

_LOSSY = (".jpg", ".jpeg", ".jpe", ".webp")


@dataclass(frozen=True, eq=False)
class MaskFolder:
    """Pictures and masks in files; of a stream, some pictures have no mask."""

    pictures: Sequence[str]
    masks: Sequence[str | None]
    numbering: Numbering

    parallel = True

    def __len__(self) -> int:
        return len(self.pictures)

    def picture(self, index: int) -> Image.Image:
        """See `TaskReader`."""
        return open_image(self.pictures[index]).convert("RGB")

    def target(self, index: int) -> Mask:
        """See `TaskReader`."""
        path = self.masks[index]
        size = _size(self.pictures[index])
        if path is None:
            return np.full(size[::-1], NO_CLASS, np.int16)
        self._same_size(index, size)
        return self.numbering.classes(path)

    def labelled(self, index: int) -> bool:
        """Whether there is a mask."""
        return self.masks[index] is not None

    def name(self, index: int) -> str:
        """See `TaskReader`."""
        return self.pictures[index]

    def check(self, index: int) -> bool:
        """See `TaskReader`."""
        path = self.masks[index]
        self._same_size(index, _size(self.pictures[index]))
        return path is not None and bool((self.numbering.classes(path) != NO_CLASS).any())

    def digest(self, places: Indices) -> bytes:
        """See `TaskReader`."""
        return file_facts(path for i in places for path in (self.pictures[i], self.masks[i]))

    def _same_size(self, index: int, size: tuple[int, int]) -> None:
        path = self.masks[index]
        if path is not None and (seen := _size(path)) != size:
            raise BadData(
                f"the mask {path} has {seen[0]}x{seen[1]} pixels, its picture {self.pictures[index]} has "
                f"{size[0]}x{size[1]}; expected the same size"
            )


def _size(path: str) -> tuple[int, int]:
    with decoding(path), opened(path) as picture:
        return picture.size


def open_masks(path: str, split: str, check: bool = True) -> TaskData:
    """Pictures below PATH/images with masks below PATH/masks, or the same below PATH/<split>."""
    root = folder_of(path, "masks", "images and masks")
    split_root, siblings = split_folders(root, split, f"masks:{path}")
    for folder in siblings:
        _pair_of_folders(folder, "images", "masks", f"masks:{path}")
    pictures, masks = pairs(split_root / "images", split_root / "masks", check)
    listed = next((folder / CLASSES for folder in (split_root, root) if (folder / CLASSES).is_file()), None)
    if listed is not None:
        names, numbering = read_classes(listed)
    else:
        everywhere = [
            mask for folder in siblings for mask in pairs(folder / "images", folder / "masks", check)[1]
        ]
        names = [str(k) for k in range(_largest(everywhere) + 1)]
        numbering = by_number(len(names))
    return TaskData("segmentation", f"masks:{path}", split, names, MaskFolder(pictures, masks, numbering))


def open_ade20k(path: str, split: str, check: bool = True) -> TaskData:
    """ADE20K as published for the challenge of 2016; "val" and "test" are its validation pictures."""
    root = folder_of(path, "ade20k", "images and annotations of ADEChallengeData2016")
    inner = root / "ADEChallengeData2016"
    root = inner if inner.is_dir() else root
    folders = {"train": "training", "training": "training", "val": "validation", "validation": "validation"}
    folder = folders.get("val" if split == "test" else split)
    if folder is None:
        raise BadData(f"ade20k:{path} has no split '{split}'; it has train and val")
    _pair_of_folders(root, f"images/{folder}", f"annotations/{folder}", f"ade20k:{path}")
    pictures, masks = pairs(root / "images" / folder, root / "annotations" / folder, check)
    names = _ade20k_names(root / "objectInfo150.txt")
    reader = MaskFolder(pictures, masks, by_number(len(names), first=1, void=0))
    return TaskData("segmentation", f"ade20k:{path}", split, names, reader)


def _ade20k_names(path: Path) -> list[str]:
    """The first word for each class, from lines of number, shares and names between tabs."""
    if not path.is_file():
        return [str(k) for k in range(1, 151)]
    rows = [line.split("\t") for line in read_lines(path)[1:]]
    if len(rows) != 150 or any(len(row) < 2 for row in rows):
        raise BadData(f"{path} lists {len(rows)} classes; expected ADE20K's 150, with tabs between columns")
    return [row[-1].split(",")[0].strip() for row in rows]


def pairs(
    picture_folder: Path,
    mask_folder: Path,
    check: bool = True,
    mask_name: Callable[[str], str] = lambda stem: stem,
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Pictures in alphabetical order, and the mask of each, which is called `mask_name` of the picture's name."""
    pictures, masks = _by_stem(picture_folder), _by_stem(mask_folder)
    wanted = {mask_name(stem): stem for stem in pictures}
    if missing := [name for name in wanted if name not in masks]:
        raise BadData(
            f"{pictures[wanted[missing[0]]]} has no mask ({len(missing)} of {len(pictures)} have none); "
            f"expected {mask_folder / missing[0]}.png"
        )
    if spare := [name for name in masks if name not in wanted]:
        raise BadData(
            f"the mask {masks[spare[0]]} belongs to no picture ({len(spare)} do not); "
            f"expected a picture of its name in {picture_folder}"
        )
    if not pictures:
        raise BadData(
            f"no pictures in {picture_folder}; expected files ending in {' '.join(sorted(IMAGE_SUFFIXES))}"
        )
    if lossy := [path for path in masks.values() if path.lower().endswith(_LOSSY)]:
        raise BadData(f"the mask {lossy[0]} is a JPEG or WebP, which changes numbers; expected PNG")
    stems = sorted(pictures)
    found = tuple(pictures[stem] for stem in stems), tuple(masks[mask_name(stem)] for stem in stems)
    if check:
        for path in (*found[0], *found[1]):
            refuse_empty(path)
    return found


def _by_stem(folder: Path) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in sorted(os.scandir(folder), key=lambda entry: entry.name):
        stem, suffix = os.path.splitext(entry.name)
        if suffix.lower() not in IMAGE_SUFFIXES or entry.name.startswith("."):
            continue
        if stem in found:
            raise BadData(
                f"{found[stem]} and {entry.path} have the same name; expected one file of each name"
            )
        found[stem] = entry.path
    return found


def _largest(masks: Sequence[str]) -> int:
    """The largest number in any mask, which all have to be read for."""
    anything = Numbering(
        np.r_[np.arange(VOID), NO_CLASS].astype(np.int16), f"0 to {VOID - 1} (or write {CLASSES})"
    )
    return max(int(anything.classes(mask).max(initial=0)) for mask in masks)


def folder_of(path: str, kind: str, what: str) -> Path:
    """The folder that a spec `kind:path` names."""
    root = Path(path).expanduser()
    if not path or not root.is_dir():
        seen = "is a file" if root.is_file() else "does not exist"
        raise BadData(f"{kind}:{path} {seen}; expected a folder with {what}")
    return root


def _pair_of_folders(folder: Path, pictures: str, masks: str, spec: str) -> None:
    for name in (pictures, masks):
        if not (folder / name).is_dir():
            raise BadData(
                f"{spec}: there is no folder {folder / name}; expected {pictures} and {masks} in {folder}"
            )
