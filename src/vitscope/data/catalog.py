"""The data sets that have a name: what they are, and the prepared ones on this machine.

    <root>/<name>/{train,test}_{images,labels}.npy    images (N, H, W, C) uint8, labels (N,) uint8
    <root>/<name>/{train,test}_{images,masks}.npy     and the like: what a task asks in the place of labels
    <root>/<name>/stamp.json                          schema, name, source, size and SHA-256 of every array

Arrays are memory-mapped, and the stamp is written last. A folder appears under its name only when it is complete: it
is filled under another name and then renamed.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np
import numpy.typing as npt

from vitscope.core.errors import BadData
from vitscope.data.fetch import file_digest

_FASHION = "T-shirt/top, Trouser, Pullover, Dress, Coat, Sandal, Shirt, Sneaker, Bag, Ankle boot"
_CIFAR10 = "airplane automobile bird cat deer dog frog horse ship truck"
_CIFAR100 = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly
camel can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup
dinosaur dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower
leopard lion lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid
otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray
road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle
wardrobe whale willow_tree wolf woman worm
"""


_CORALS = "Montipora plate/flabellata, Pocillopora, Porites massive, Montipora crust/patula"
_ANSWERS = "circle green red gray yes teal black rectangle yellow triangle brown blue no"


@dataclass(frozen=True)
class CatalogEntry:
    """One named data set, with the splits train and test; one of no training images has the split test alone."""

    name: str
    classes: tuple[str, ...]
    train: int  # images; of vqa: questions
    test: int
    licence: str
    embedded: bool = False
    task: str = "classification"
    arrays: tuple[str, ...] = ("images", "labels")  # of each split
    family: str = ""  # sets of one family are made of the same files, and prepared together
    overlapping: int = 1  # so many training pictures in a row share pixels, and are held out together

    def size(self, split: str) -> int:
        """Number of images of a split."""
        return {"train": self.train, "test": self.test}[split]

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits that have images."""
        return tuple(split for split in SPLITS if self.size(split))


SPLITS = ("train", "test")
CATALOG: dict[str, CatalogEntry] = {
    entry.name: entry
    for entry in (
        CatalogEntry("fashion", tuple(_FASHION.split(", ")), 6000, 2000, "MIT", embedded=True),
        CatalogEntry("fashion-full", tuple(_FASHION.split(", ")), 60000, 10000, "MIT"),
        CatalogEntry("cifar10", tuple(_CIFAR10.split()), 50000, 10000, "none stated"),
        CatalogEntry("cifar100", tuple(_CIFAR100.split()), 50000, 10000, "none stated"),
        CatalogEntry(
            "coral",
            ("background", *_CORALS.split(", ")),
            300,
            36,
            "MIT",
            task="segmentation",
            arrays=("images", "masks"),
            family="coral",
            overlapping=25,
        ),
        CatalogEntry(
            "coral-objects",
            tuple(_CORALS.split(", ")),
            300,
            36,
            "MIT",
            task="detection",
            arrays=("images", "objects", "labels"),
            family="coral",
            overlapping=25,
        ),
        CatalogEntry(
            "coral-stream",
            ("background", *_CORALS.split(", ")),
            0,
            240,
            "MIT",
            task="segmentation",
            arrays=("images", "masks", "lengths"),
            family="coral",
        ),
        CatalogEntry("trees", ("tree",), 296, 16, "MIT", task="detection", arrays=("images", "boxes")),
        CatalogEntry(
            "easy-vqa",
            tuple(_ANSWERS.split()),
            38575,
            9673,
            "MIT",
            task="vqa",
            arrays=("images", "questions", "answers", "pictures"),
        ),
    )
}


def family_of(entry: CatalogEntry) -> tuple[CatalogEntry, ...]:
    """The sets that are prepared together with this one, itself included."""
    relatives = tuple(other for other in CATALOG.values() if other.family and other.family == entry.family)
    return relatives if entry in relatives else (entry,)


def data_root() -> Path:
    """Where prepared data sets lie: `VITSCOPE_DATA`, or a folder in the user's cache."""
    chosen = os.environ.get("VITSCOPE_DATA")
    if chosen:
        return Path(chosen).expanduser()
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "vitscope" / "data"


SCHEMA = 1
_ABANDONED_AFTER = 24 * 3600.0  # seconds; a partial folder this old belongs to a process that was killed

Arrays = Mapping[str, Sequence[npt.NDArray[Any]]]  # by split, in the order of the entry's `arrays`


def is_prepared(entry: CatalogEntry) -> bool:
    """Whether the data set can be opened (sizes agree with the stamp; contents are checked by `verify`)."""
    return entry.embedded or _damage(entry) is None


def open_prepared(entry: CatalogEntry, split: str) -> tuple[npt.NDArray[Any], ...]:
    """The arrays of a split, of which the images (the first) are memory-mapped."""
    damage = _damage(entry)
    if damage is not None:
        raise BadData(f"{entry.name} cannot be used: {damage}; type: vitscope data prepare {entry.name}")
    folder = data_root() / entry.name
    images = np.load(folder / f"{split}_images.npy", mmap_mode="r", allow_pickle=False)
    others = (np.load(folder / f"{split}_{kind}.npy", allow_pickle=False) for kind in entry.arrays[1:])
    return images, *others


def verify(entry: CatalogEntry) -> str | None:
    """What is wrong with the prepared data set, every byte compared with the stamp; None if nothing is."""
    damage = _damage(entry)
    if damage is not None:
        return damage
    folder = data_root() / entry.name
    for name, facts in _read_stamp(folder)["files"].items():
        if file_digest(folder / name) != facts["sha256"]:
            return f"{folder / name} has changed since it was prepared"
    return None


def write(entry: CatalogEntry, arrays: Arrays, source: str, partial: Path) -> Path:
    """Put the arrays into `partial` with their stamp, and move it to the data set's own name."""
    files = {}
    for split in entry.splits:
        for kind, array in zip(entry.arrays, arrays[split], strict=True):
            path = partial / f"{split}_{kind}.npy"
            with path.open("wb") as file:
                np.save(file, array, allow_pickle=False)
                file.flush()
                os.fsync(file.fileno())
            files[path.name] = {"bytes": path.stat().st_size, "sha256": file_digest(path)}
    stamp = {"schema": SCHEMA, "name": entry.name, "source": source, "files": files}
    (partial / "stamp.json").write_text(json.dumps(stamp, indent=2) + "\n")
    target = data_root() / entry.name
    if target.exists() and verify(entry) is not None:
        shutil.rmtree(target)
    try:
        os.rename(partial, target)
    except OSError:
        if verify(entry) is not None:  # otherwise another process has just finished the same work
            raise
    return target


@contextmanager
def partial_folder(entry: CatalogEntry) -> Iterator[Path]:
    """A folder to work in, removed afterwards; what killed processes left behind goes as well."""
    root = data_root()
    try:
        root.mkdir(parents=True, exist_ok=True)
        for old in root.glob(".partial-*"):
            if time.time() - old.stat().st_mtime > _ABANDONED_AFTER:
                shutil.rmtree(old, ignore_errors=True)
        partial = Path(mkdtemp(prefix=f".partial-{entry.name}-", dir=root))
    except OSError as error:
        raise BadData(
            f"cannot write to {root} ({error.strerror}); set VITSCOPE_DATA to a folder that you may write to"
        ) from error
    try:
        yield partial
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _damage(entry: CatalogEntry) -> str | None:
    folder = data_root() / entry.name
    if not folder.is_dir():
        return f"it is not prepared in {folder.parent}"
    try:
        stamp = _read_stamp(folder)
        if stamp["schema"] != SCHEMA:
            return f"{folder} was prepared by another version (schema {stamp['schema']}, expected {SCHEMA})"
        expected = {f"{split}_{kind}.npy" for split in entry.splits for kind in entry.arrays}
        if set(stamp["files"]) != expected:
            return f"{folder / 'stamp.json'} does not list its {len(expected)} arrays"
        for name, facts in stamp["files"].items():
            if (folder / name).stat().st_size != facts["bytes"]:
                return f"{folder / name} is not as long as it was written"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{folder} is incomplete ({type(error).__name__})"
    return None


def _read_stamp(folder: Path) -> dict[str, Any]:
    stamp = json.loads((folder / "stamp.json").read_text())
    if not isinstance(stamp, dict):
        raise ValueError("stamp.json is not an object")
    return stamp
