"""`folder:PATH`: one folder per class, perhaps below folders named after the splits; `frames:PATH`: streams of frames.

Pictures that do not lie in two folders or more have no classes: exams that need no labels take them.

    PATH/CLASS/SEQUENCE/*.png                              every frame of a sequence has the same class
    PATH/SEQUENCE/*.png  PATH/SEQUENCE/labels.txt          a class name per line, a line per frame
    PATH/SEQUENCE/*.png  PATH/SEQUENCE/masks/*.png         a class number per point; 255, or no mask: not labelled

Frames follow one another by the numbers in their names (2 before 10). `PATH/classes.txt` names the classes, one per
line; masks need it. If there is a folder PATH/<split>, it is looked at in the place of PATH.
"""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from vitscope.core.errors import BadData, warn
from vitscope.data.decode import MEND, open_image
from vitscope.data.frames import FrameData, MaskFiles
from vitscope.data.images import HELD_OUT, NO_LABEL, ImageData
from vitscope.data.runs_among_images import IMAGE_SUFFIXES, folders_of_images, is_image, is_of_runs

# What a split's folder may be called; the first that exists is taken. "test" is content with a validation
# folder, because ImageNet and its kind publish no other one with labels.
_FOLDERS = {
    "train": ("train", "training"),
    "val": ("val", "valid", "validation"),
    "test": ("test", "testing", "val", "valid", "validation"),
}
CLASSES, LABELS, MASKS = "classes.txt", "labels.txt", "masks"  # of streams
_LAYOUT = (
    "expected PATH/CLASS/SEQUENCE/*.png, or PATH/SEQUENCE/*.png with labels.txt or masks in each sequence"
)
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
    classes = sorted({name for folder in siblings for name in _class_folders(folder)})
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


def _class_folders(folder: Path) -> list[str]:
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


def open_frames(path: str, split: str) -> FrameData:
    """The stream below `path`; the head of this file shows how it may be laid out."""
    root = Path(path).expanduser()
    if not path or not root.is_dir():
        raise BadData(f"frames:{path} is no folder; {_LAYOUT}")
    root = root / split if (root / split).is_dir() else root
    folders = _folders(root)
    spec = f"frames:{path}"
    sequences = [folder for folder in folders if frames_in(folder)]
    if not sequences:
        return _of_one_class_each(spec, split, folders, root)
    if len(sequences) < len(folders):
        empty = next(folder for folder in folders if folder not in sequences)
        raise BadData(f"{empty} holds no frames and {sequences[0]} does; {_LAYOUT}")
    if any((folder / MASKS).is_dir() for folder in sequences):
        return _with_masks(spec, split, sequences, root)
    return _labelled_frame_by_frame(spec, split, sequences, root)


def _of_one_class_each(spec: str, split: str, folders: list[Path], root: Path) -> FrameData:
    found = [(folder.name, inner) for folder in folders for inner in _folders(folder) if frames_in(inner)]
    if not found:
        raise BadData(f"no frames below {root}; {_LAYOUT}")
    classes = _classes(root) or [folder.name for folder in folders]
    labels = [_number(name, classes, root) for name, _ in found]
    frames = [frames_in(folder) for _, folder in found]
    lengths = [len(paths) for paths in frames]
    return _stream(spec, split, classes, frames, labels=np.repeat(labels, lengths))


def _labelled_frame_by_frame(spec: str, split: str, sequences: list[Path], root: Path) -> FrameData:
    frames = [frames_in(folder) for folder in sequences]
    names = []
    for folder, paths in zip(sequences, frames, strict=True):
        if not (folder / LABELS).is_file():
            raise BadData(f"{folder} has neither {LABELS} nor {MASKS}; {_LAYOUT}")
        lines = _lines(folder / LABELS)
        if len(lines) != len(paths):
            raise BadData(
                f"{folder / LABELS} has {len(lines)} lines for {len(paths)} frames; expected one each"
            )
        names += lines
    classes = _classes(root) or sorted(set(names), key=natural_order)
    labels = np.array([_number(name, classes, root) for name in names])
    return _stream(spec, split, classes, frames, labels=labels)


def _with_masks(spec: str, split: str, sequences: list[Path], root: Path) -> FrameData:
    classes = _classes(root)
    if not classes:
        raise BadData(
            f"{root / CLASSES} is missing; masks hold numbers: write the name of a class on each line"
        )
    frames = [frames_in(folder) for folder in sequences]
    masks: list[str | None] = []
    for folder, paths in zip(sequences, frames, strict=True):
        by_name = {Path(mask).stem: mask for mask in frames_in(folder / MASKS)}
        masks += [by_name.pop(Path(path).stem, None) for path in paths]
        if by_name:
            raise BadData(
                f"the mask {next(iter(by_name.values()))} belongs to no frame; name it as its frame"
            )
    return _stream(spec, split, classes, frames, masks=MaskFiles(tuple(masks)))


def _stream(
    spec: str,
    split: str,
    classes: list[str],
    frames: list[list[str]],
    labels: np.ndarray | None = None,
    masks: MaskFiles | None = None,
) -> FrameData:
    reader = FileReader(tuple(path for paths in frames for path in paths))
    return FrameData(
        spec, split, classes, labels, [len(paths) for paths in frames], reader=reader, masks=masks
    )


def _folders(folder: Path) -> list[Path]:
    found = [folder / name for name in _class_folders(folder) if name != MASKS]
    return sorted(found, key=lambda entry: natural_order(entry.name))


def frames_in(folder: Path) -> list[str]:
    """Image files of one folder in the order of the numbers in their names; an empty file is refused now."""
    if not folder.is_dir():
        return []
    found = [entry for entry in folder.iterdir() if entry.suffix.lower() in IMAGE_SUFFIXES]
    found = sorted(
        (f for f in found if not f.name.startswith(".")), key=lambda entry: natural_order(entry.name)
    )
    for path in found:
        refuse_empty(path, "replace it")
    return [str(path) for path in found]


def natural_order(name: str) -> list[tuple[int, str]]:
    """Sorts numbers in names by their size."""
    return [(int(piece), "") if piece.isdecimal() else (-1, piece) for piece in re.split(r"(\d+)", name)]


def _classes(root: Path) -> list[str]:
    path = root / CLASSES
    path = path if path.is_file() else root.parent / CLASSES
    return _lines(path) if path.is_file() else []


def _lines(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError as error:
        raise BadData(f"{path} is not text in UTF-8; expected a name on each line") from error


def _number(name: str, classes: list[str], root: Path) -> int:
    if name not in classes:
        raise BadData(f"'{name}' below {root} is no class; {CLASSES} has: {', '.join(classes[:10])}")
    return classes.index(name)
