"""`folder:PATH`: one folder per class, perhaps below folders named after the splits.

Pictures that do not lie in two folders or more have no classes: exams that need no labels take them.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vitscope.core.errors import BadData, warn
from vitscope.data.decode import MEND, open_image
from vitscope.data.images import HELD_OUT, NO_LABEL, ImageData
from vitscope.data.runs_among_images import IMAGE_SUFFIXES, folders_of_images, is_image, is_of_runs

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
    Without two folders that hold images, the pictures have no labels (`ImageData.unlabelled`).
    With `check`, a file that is empty or cannot be found is refused now; else it is one that cannot be read.
    """
    root = Path(path).expanduser()
    if not path or not root.is_dir():
        what = "is a file" if root.is_file() else "does not exist"
        raise BadData(
            f"folder:{path} {what}; expected a folder of images, with one subfolder per class where exams need labels"
        )
    split_root, siblings = split_folders(root, split, f"folder:{path}")
    classes = sorted({name for folder in siblings for name in class_folders(folder)})
    spec, found = f"folder:{path}", [_images_below(split_root / name, check) for name in classes]
    filled = sum(map(bool, found))
    if filled == 0 or (filled == 1 and not _has_classes(siblings, classes)):
        loose = _images_below(split_root, check)
        if not loose:
            kinds = " ".join(sorted(IMAGE_SUFFIXES))
            raise BadData(f"no images below {split_root}; expected files ending in {kinds}")
        return ImageData(spec, split, (), np.full(len(loose), NO_LABEL), reader=FileReader(tuple(loose)))
    paths = [path for of_class in found for path in of_class]
    labels = np.repeat(np.arange(len(classes)), [len(of_class) for of_class in found])
    if labels[0] == labels[-1]:
        only = classes[labels[0]]
        raise BadData(f"{split_root} has images of one class only ('{only}'); expected those of two at least")
    if beside := [entry for entry in os.scandir(split_root) if entry.is_file() and is_image(entry.name)]:
        many = "1 image" if len(beside) == 1 else f"{len(beside)} images"
        warn(f"left out: {many} in {split_root} beside the folders of classes, as {beside[0].name}")
    return ImageData(spec, split, classes, labels, reader=FileReader(tuple(paths)))


def _has_classes(folders: Sequence[Path], classes: Sequence[str]) -> bool:
    """Whether at least two of these folders of classes hold images, in whichever split."""
    return sum(any(_images_below(folder / name, False) for folder in folders) for name in classes) > 1


def without_splits(data: object) -> bool:
    """Whether these are of `folder:PATH` or `masks:PATH` without folders for splits: the same images in all of them."""
    kind, _, path = (data if isinstance(data, str) else str(getattr(data, "spec", ""))).partition(":")
    if kind not in ("folder", "masks"):
        return False
    return split_folders(Path(path).expanduser(), "train", kind)[1] == [Path(path).expanduser()]


_SHARE = 0.2  # of images that nobody has divided


def divided(data: Any) -> tuple[Any, Any]:
    """Images without folders for splits: those to train on, and others; the same each time, so that runs compare."""
    try:
        learned, held_out = data.hold_out(_SHARE)
    except BadData as error:
        raise BadData(
            f"{data.spec} has no folders train and test, and too few images to hold some of every class out; make the "
            "folders, or add images"
        ) from error
    held_out.split = HELD_OUT
    return learned, held_out


def held_out_of(data: Any) -> Any:
    """The others; refuses data that is divided already."""
    if not without_splits(data):
        raise BadData(f"{data.spec} is divided already, and nothing of it is held out; give split='test'")
    return divided(data)[1]


def looked_into(root: Path) -> list[Path]:
    """The folders of all splits that are there; only `root` if there are none."""
    names = dict.fromkeys(name for candidates in _FOLDERS.values() for name in candidates)
    return [root / name for name in names if (root / name).is_dir()] or [root]


def split_folders(root: Path, split: str, spec: str) -> tuple[Path, list[Path]]:
    """The folder of the wanted split, and the folders of all splits (only `root` if there are none)."""
    wanted = _ALIASES.get(split, split)
    folders = looked_into(root)
    if wanted not in _FOLDERS:
        known = f"train, val, test or {HELD_OUT}" if folders == [root] else "train, val or test"
        raise BadData(f"no split '{split}' in {spec}; expected {known}")
    if folders == [root]:
        return root, folders
    present = [folder.name for folder in folders]
    for name in _FOLDERS[wanted]:
        if name in present:
            return root / name, folders
    raise BadData(f"{root} has no folder for split '{split}'; it has {', '.join(present)}")


def class_folders(folder: Path) -> list[str]:
    """Names of the folders in a folder that may hold images: not hidden ones, nor those of a run."""
    entries = list(os.scandir(folder))
    folders, files = ([one.name for one in entries if one.is_dir() == is_dir] for is_dir in (True, False))
    return [name for name in folders_of_images(folders, files) if not is_of_runs(folder / name)]


def _images_below(folder: Path, check: bool) -> list[str]:
    """Sorted image files of a class, at any depth; with `check` an empty file is refused now, not hours later.

    Links to other folders are followed; a folder that several lead to is looked at once.
    """
    found = []
    seen: set[str] = set()  # where the folders really are
    for parent, folders, files in os.walk(folder, followlinks=True):
        here = os.path.realpath(parent)
        if os.path.islink(parent) and f"{os.path.realpath(os.path.dirname(parent))}/".startswith(f"{here}/"):
            raise BadData(
                f"{parent} is a link to {here}, which it lies in; remove it: it leads around in a circle"
            )
        if here in seen:
            folders.clear()
            continue
        seen.add(here)
        folders[:] = folders_of_images(folders, files)
        for name in files:
            if is_image(name):
                path = os.path.join(parent, name)
                if check:
                    refuse_empty(path)
                found.append(path)
    return sorted(found)


def refuse_empty(path: str | Path, mend: str = MEND) -> None:
    """Refuse a file without content, or a link that leads nowhere; `mend` says what to do."""
    try:
        size = os.path.getsize(path)
    except OSError as error:
        raise BadData(f"{path} leads nowhere ({error.strerror}); {mend}") from error
    if not os.path.isfile(path):
        raise BadData(f"{path} is no plain file; {mend}")
    if size == 0:
        raise BadData(f"{path} is empty (0 bytes); {mend}")
