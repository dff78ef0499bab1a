"""`folder:PATH`: one folder per class, perhaps below folders named after the splits."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from vitscope.core.errors import BadData
from vitscope.data.decode import open_image
from vitscope.data.images import ImageData

IMAGE_SUFFIXES = frozenset(
    (".png", ".jpg", ".jpeg", ".jpe", ".ppm", ".pgm", ".pbm", ".bmp", ".tif", ".tiff", ".webp", ".gif")
)
# What a split's folder may be called; the first that exists is taken. "test" is content with a validation
# folder, because ImageNet and its kind publish no other one with labels.
_FOLDERS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation"),
    "test": ("test", "testing", "val", "valid", "validation"),
}
_ALIASES = {"validation": "val", "valid": "val", "training": "train", "testing": "test"}


@dataclass(frozen=True)
class FileReader:
    """Decodes image files on demand."""

    paths: Sequence[str]
    parallel = True

    def read(self, index: int) -> Image.Image:
        """The picture at `index`, as 8-bit grey or RGB."""
        return open_image(self.paths[index])

    def name(self, index: int) -> str:
        """Its path."""
        return self.paths[index]


def open_folder(path: str, split: str, check: bool = True) -> ImageData:
    """Images below PATH or below PATH/<split>; classes are the folders, in alphabetical order.

    Classes are those of all splits together: a class that one split lacks does not shift the others' labels.
    With `check`, a file that is empty or cannot be found is refused now; else it is one that cannot be read.
    """
    root = Path(path).expanduser()
    if not path or not root.is_dir():
        what = "is a file" if root.is_file() else "does not exist"
        raise BadData(f"folder:{path} {what}; expected a folder with one subfolder of images per class")
    split_root, siblings = _split_folders(root, split)
    classes = sorted({name for folder in siblings for name in _class_folders(folder)})
    if not classes:
        raise BadData(
            f"{split_root} has no subfolders; put the images of each class into a folder named after it"
        )
    paths: list[str] = []
    labels: list[int] = []
    for label, name in enumerate(classes):
        found = _images_below(split_root / name, check)
        paths += found
        labels += [label] * len(found)
    if not paths:
        kinds = " ".join(sorted(IMAGE_SUFFIXES))
        raise BadData(f"no images below {split_root}; expected files ending in {kinds}")
    if len(set(labels)) < 2:
        only = classes[labels[0]]
        raise BadData(
            f"{split_root} has images of one class only ('{only}'); expected at least two class folders"
        )
    return ImageData(f"folder:{path}", split, classes, np.asarray(labels), reader=FileReader(tuple(paths)))


def _split_folders(root: Path, split: str) -> tuple[Path, list[Path]]:
    """The folder of the wanted split, and the folders of all splits (only `root` if there are none)."""
    wanted = _ALIASES.get(split, split)
    if wanted not in _FOLDERS:
        raise BadData(f"no split '{split}' in folder:{root}; expected train, val or test")
    names = dict.fromkeys(name for candidates in _FOLDERS.values() for name in candidates)
    present = [name for name in names if (root / name).is_dir()]
    if not present:
        return root, [root]
    for name in _FOLDERS[wanted]:
        if name in present:
            return root / name, [root / other for other in present]
    raise BadData(f"{root} has no folder for split '{split}'; it has {', '.join(present)}")


def _class_folders(folder: Path) -> list[str]:
    return [entry.name for entry in os.scandir(folder) if entry.is_dir() and not entry.name.startswith(".")]


def _images_below(folder: Path, check: bool) -> list[str]:
    """Sorted image files of a class, at any depth; with `check` an empty file is refused now, not hours later."""
    found = []
    for parent, _, files in os.walk(folder, followlinks=True):
        for name in files:
            if os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES and not name.startswith("."):
                path = os.path.join(parent, name)
                if check:
                    refuse_empty(path)
                found.append(path)
    return sorted(found)


def refuse_empty(path: str | Path) -> None:
    """Refuse a file without content, or a link that leads nowhere."""
    try:
        size = os.path.getsize(path)
    except OSError as error:
        raise BadData(f"{path} leads nowhere ({error.strerror}); replace it or delete it") from error
    if size == 0:
        raise BadData(f"{path} is empty (0 bytes); replace it or delete it")
