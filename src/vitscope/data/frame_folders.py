"""`frames:PATH`: streams of frames.

    PATH/CLASS/SEQUENCE/*.png                              every frame of a sequence has the same class
    PATH/SEQUENCE/*.png  PATH/SEQUENCE/labels.txt          a class name per line, a line per frame
    PATH/SEQUENCE/*.png  PATH/SEQUENCE/masks/*.png         a class number per point; 255, or no mask: not labelled

Frames follow one another by the numbers in their names (2 before 10). `PATH/classes.txt` names the classes, one per
line; masks need it. If there is a folder PATH/<split>, it is looked at in the place of PATH.
"""

import re
from pathlib import Path

import numpy as np

from vitscope.core.errors import BadData
from vitscope.data.folder import FileReader, class_folders, refuse_empty
from vitscope.data.frames import FrameData, MaskFiles
from vitscope.data.runs_among_images import IMAGE_SUFFIXES
from vitscope.data.tasks.numbering import CLASSES, read_lines

LABELS, MASKS = "labels.txt", "masks"
_LAYOUT = (
    "expected PATH/CLASS/SEQUENCE/*.png, or PATH/SEQUENCE/*.png with labels.txt or masks in each sequence"
)


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
        lines = read_lines(folder / LABELS)
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
    found = [folder / name for name in class_folders(folder) if name != MASKS]
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
    return read_lines(path) if path.is_file() else []


def _number(name: str, classes: list[str], root: Path) -> int:
    if name not in classes:
        raise BadData(f"'{name}' below {root} is no class; {CLASSES} has: {', '.join(classes[:10])}")
    return classes.index(name)
