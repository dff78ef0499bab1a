"""Images before and after they are corrupted, as bytes in files.

The images of one process are `CleanImages`: read piece by piece, never held as a whole. Corrupted ones are kept for the
next run and for other models with the same input size:

    <root>/corruptions/<key>/<type>-<severity>.npy       bytes (n, C, H, W)
    <root>/corruptions/<key>/<type>-<severity>.sha256    of these bytes, written last

with <root> as in `catalog.data_root`. The key stands for the images and their places in the data (which image set,
which subset, which size), the seed and the version of the corruptions. Arrays are written beside their place and then
renamed, and are used only if their bytes have the sum that was written for them. Delete the folder, or call
`clear_cache()`, to have the space back.
"""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from vitscope.core.errors import BadData, warn
from vitscope.core.names import CORRUPTIONS_VERSION as VERSION
from vitscope.data.catalog import data_root
from vitscope.results.atomic import FolderLock, atomic_write, part_of, remove_if_free, sync_folder


@dataclass(frozen=True)
class CleanImages:
    """One process's images before they are corrupted: bytes (n, C, H, W) at `path`, in the order they are shown in."""

    path: Path | None  # the bytes and nothing else; None if they are not needed
    size: tuple[int, int, int]  # (C, H, W)
    indices: np.ndarray  # (n,) place of each image in the data
    labels: np.ndarray  # (n,)
    batch_size: int  # how many are shown at once
    digest: str  # of images and places: shares with the same one are the same

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def n_bytes(self) -> int:
        """The size of all images together."""
        return len(self) * int(np.prod(self.size))

    @property
    def batches(self) -> list[slice]:
        """The rows of each batch."""
        return [slice(i, min(i + self.batch_size, len(self))) for i in range(0, len(self), self.batch_size)]

    def read(self, rows: slice) -> Tensor:
        """Some images, uint8."""
        assert self.path is not None
        mapped = np.memmap(self.path, np.uint8, "r", shape=(len(self), *self.size))
        return torch.from_numpy(np.array(mapped[rows]))


class CleanImagesWriter:
    """Collects images batch by batch; without a path only their labels and places."""

    def __init__(self, path: Path | None, batch_size: int) -> None:
        self._path, self._batch_size = path, batch_size
        self._file = path.open("wb") if path is not None else None
        self._size: tuple[int, int, int] | None = None
        self._digest = hashlib.sha256()
        self._indices: list[np.ndarray] = []
        self._labels: list[np.ndarray] = []

    def add(self, images: Tensor, labels: Tensor, indices: Tensor) -> None:
        """Take in uint8 (N, C, H, W), and the labels and places of these images."""
        pixels = np.ascontiguousarray(images.numpy(force=True))
        self._size = (pixels.shape[1], pixels.shape[2], pixels.shape[3])
        self._indices.append(indices.numpy(force=True))
        self._labels.append(labels.numpy(force=True))
        for content in (pixels, self._indices[-1]):
            self._digest.update(content.data)
        if self._file is not None:
            self._file.write(pixels.data)

    def finish(self) -> CleanImages:
        """Close the file, and return the images that were written into it."""
        if self._file is not None:
            self._file.close()
        size = self._size or (1, 1, 1)  # a process may have no share
        indices, labels = (np.concatenate([np.zeros(0, np.int64), *a]) for a in (self._indices, self._labels))
        facts = json.dumps([size, len(indices)]).encode()
        digest = hashlib.sha256(facts + self._digest.digest()).hexdigest()
        return CleanImages(self._path, size, indices, labels, self._batch_size, digest)


FOLDER = "corruptions"
_SCRATCH = ".scratch-"
_ABANDONED_AFTER = (
    24 * 3600.0
)  # seconds; what is this old, and nobody holds, was left by a process that was killed
_PIECE = 1 << 23  # bytes read at once

Condition = tuple[str, int]  # type and severity


def cache_folder() -> Path:
    """Where corrupted images are kept."""
    return data_root() / FOLDER


def clear_cache() -> int:
    """Delete all corrupted images that are kept; returns their bytes."""
    files = [path for path in cache_folder().rglob("*") if path.is_file()]
    freed = sum(path.stat().st_size for path in files)
    shutil.rmtree(cache_folder(), ignore_errors=True)
    return freed


@contextmanager
def scratch_folder(in_cache: bool, needed: bool = True) -> Iterator[Path]:
    """A folder to work in, removed afterwards: in the cache, where there is room, or in the system's own place.

    A cache that cannot be written to is an error if it is `needed`; else a warning, and the system's place has to do.
    """
    with _temporary_folder(in_cache, needed) as path:
        yield Path(path)


@contextmanager
def _held(folder: "TemporaryDirectory[str]") -> Iterator[str]:
    """The folder, known to be in use until it is removed, however long that takes."""
    lock = FolderLock(Path(folder.name))
    with folder as path:
        with suppress(OSError):  # of a disk that is full: whoever writes into the folder says so
            lock.acquire()
        try:
            yield path
        finally:
            lock.release()


def _temporary_folder(in_cache: bool, needed: bool) -> AbstractContextManager[str]:
    if not in_cache:
        return TemporaryDirectory(prefix=_SCRATCH)
    root = cache_folder()
    try:
        root.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(root)
        return _held(TemporaryDirectory(prefix=_SCRATCH, dir=root))
    except OSError as error:
        problem = f"cannot write to {root} ({error.strerror})"
        advice = "set VITSCOPE_DATA to a folder that you may write to, or use --no-cache (cache=False)"
        if needed:
            raise BadData(f"{problem}; {advice}") from error
        warn(f"{problem}, so corrupted images are not kept; {advice}")
        return TemporaryDirectory(prefix=_SCRATCH)


class Cache:
    """The corrupted images of one share and seed; of one that is not `writable`, what is there is used."""

    def __init__(self, share: CleanImages, seed: int, writable: bool = True) -> None:
        self._share = share
        key = hashlib.sha256(f"{share.digest} {seed} {VERSION}".encode()).hexdigest()[:32]
        self._folder = cache_folder() / key
        self._usable = writable

    def open(self, condition: Condition) -> np.ndarray | None:
        """The images, memory-mapped; None if they are not there, or not as they were written."""
        path = self._path(condition)
        try:
            images: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
            written = path.with_suffix(".sha256").read_text().strip()
        except (OSError, ValueError, EOFError):  # EOFError: a file of no bytes
            return None
        if images.dtype != np.uint8 or images.shape != (len(self._share), *self._share.size):
            return None
        return images if _digest(images) == written else None

    def keep(self, condition: Condition, batches: Iterable[Tensor]) -> Iterator[Tensor]:
        """Pass all batches of a condition on, and keep them once the last has passed.

        A disk that is full puts an end to keeping, not to passing on.
        """
        writing = _Writing(self._path(condition), (len(self._share), *self._share.size))
        try:
            for images in batches:
                self._attempt(writing.add, images)
                yield images
            self._attempt(writing.finish)
        finally:
            writing.discard()

    def _attempt(self, write: Callable[..., None], *arguments: Tensor) -> None:
        if not self._usable:
            return
        try:
            write(*arguments)
        except OSError as error:
            self._usable = False
            warn(
                f"corrupted images are not kept in {self._folder.parent}: {error.strerror or error}; "
                "make room, or use --no-cache (cache=False)"
            )

    def _path(self, condition: Condition) -> Path:
        kind, severity = condition
        return self._folder / f"{kind}-{severity}.npy"


class _Writing:
    """An array that is being written beside its place, from its first row to its last."""

    def __init__(self, path: Path, shape: tuple[int, ...]) -> None:
        self._path, self._shape = path, shape
        self._part = ExitStack()
        self._temporary: Path | None = None
        self._file: BinaryIO | None = None
        self._digest = hashlib.sha256()

    def add(self, images: Tensor) -> None:
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._temporary = self._part.enter_context(part_of(self._path))
            self._file = self._temporary.open("wb")
            header = {"descr": "|u1", "fortran_order": False, "shape": self._shape}
            np.lib.format.write_array_header_1_0(self._file, header)
        content = images.contiguous().numpy()
        self._digest.update(content.data)
        self._file.write(content.data)

    def finish(self) -> None:
        if self._file is None or self._temporary is None:  # no images, nothing to keep
            return
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        os.replace(self._temporary, self._path)
        sync_folder(self._path.parent)
        atomic_write(self._path.with_suffix(".sha256"), self._digest.hexdigest() + "\n")

    def discard(self) -> None:
        if self._file is not None:
            self._file.close()
        self._part.close()


def _digest(images: np.ndarray) -> str:
    digest = hashlib.sha256()
    rows = max(1, _PIECE // max(images[0].nbytes, 1)) if len(images) else 1
    for start in range(0, len(images), rows):
        digest.update(np.ascontiguousarray(images[start : start + rows]).data)
    return digest.hexdigest()


def _remove_abandoned(root: Path) -> None:
    """What processes that were killed have left behind."""
    for old in (*root.glob(f"{_SCRATCH}*"), *root.glob("*/.*.part")):
        with suppress(OSError):
            if not old.is_dir():
                remove_if_free(old)
                continue
            aged = time.time() - old.stat().st_mtime > _ABANDONED_AFTER  # a new one is not held yet
            if aged and not FolderLock(old).is_held():  # clocks jump, and work may take longer than a day
                shutil.rmtree(old)
