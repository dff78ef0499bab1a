"""The prepared data sets on disk: a folder each, with arrays to be memory-mapped and a stamp written last.

    <root>/<name>/{train,test}_{images,labels}.npy    images (N, 32, 32, C) uint8, labels (N,) uint8
    <root>/<name>/stamp.json                          schema, name, source, size and SHA-256 of every array

A folder appears under its name only when it is complete: it is filled under another name and then renamed.
"""

import json
import os
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

from vitscope.core.errors import BadData
from vitscope.data.catalog import SPLITS, Entry, data_root
from vitscope.data.fetch import file_digest
from vitscope.data.images import Pixels

SCHEMA = 1
_ABANDONED_AFTER = 24 * 3600.0  # seconds; a partial folder this old belongs to a process that was killed

Arrays = Mapping[str, tuple[Pixels, Pixels]]


def is_prepared(entry: Entry) -> bool:
    """Whether the data set can be opened (sizes agree with the stamp; contents are checked by `verify`)."""
    return entry.embedded or _damage(entry) is None


def open_prepared(entry: Entry, split: str) -> tuple[Pixels, Pixels]:
    """Memory-mapped images and labels of a split."""
    damage = _damage(entry)
    if damage is not None:
        raise BadData(f"{entry.name} cannot be used: {damage}; type: vitscope data prepare {entry.name}")
    folder = data_root() / entry.name
    images = np.load(folder / f"{split}_images.npy", mmap_mode="r", allow_pickle=False)
    return images, np.load(folder / f"{split}_labels.npy", allow_pickle=False)


def verify(entry: Entry) -> str | None:
    """What is wrong with the prepared data set, every byte compared with the stamp; None if nothing is."""
    damage = _damage(entry)
    if damage is not None:
        return damage
    folder = data_root() / entry.name
    for name, facts in _read_stamp(folder)["files"].items():
        if file_digest(folder / name) != facts["sha256"]:
            return f"{folder / name} has changed since it was prepared"
    return None


def write(entry: Entry, arrays: Arrays, source: str, partial: Path) -> Path:
    """Put the arrays into `partial` with their stamp, and move it to the data set's own name."""
    files = {}
    for split in SPLITS:
        for kind, array in zip(("images", "labels"), arrays[split], strict=True):
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
def partial_folder(entry: Entry) -> Iterator[Path]:
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


def _damage(entry: Entry) -> str | None:
    folder = data_root() / entry.name
    if not folder.is_dir():
        return f"it is not prepared in {folder.parent}"
    try:
        stamp = _read_stamp(folder)
        if stamp["schema"] != SCHEMA:
            return f"{folder} was prepared by another version (schema {stamp['schema']}, expected {SCHEMA})"
        expected = {f"{split}_{kind}.npy" for split in SPLITS for kind in ("images", "labels")}
        if set(stamp["files"]) != expected:
            return f"{folder / 'stamp.json'} does not list the four arrays"
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
