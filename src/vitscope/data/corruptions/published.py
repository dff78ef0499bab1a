"""The published corrupted sets: CIFAR-10-C and CIFAR-100-C as arrays, ImageNet-C as folders.

    <folder>/snow.npy ... labels.npy          (5 N, 32, 32, 3): severity 1 of all N test images, then 2 ...
    <folder>/snow/3/<class>/<picture>         or <folder>/weather/snow/3/<class>/<picture>

They belong to the uncorrupted images that they were made of: arrays by the place of an image in the whole set, pictures
by class and file name. All that is going to be read is looked at first, so that nothing is found missing half-way.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadData
from vitscope.core.names import FAMILIES
from vitscope.data.config import DataConfig
from vitscope.data.corruptions.cache import Condition
from vitscope.data.corruptions.registry import SEVERITIES
from vitscope.data.decode import decoding, opened
from vitscope.data.fetchers import fetcher_for
from vitscope.data.folder import FileReader
from vitscope.data.images import ImageData
from vitscope.data.preprocessing import Device

_SHOWN = 3  # missing things that a message lists


class Published(Protocol):
    """Corrupted forms of some images."""

    def batches(
        self, condition: Condition, pieces: Sequence[np.ndarray], config: DataConfig, device: Device
    ) -> Iterator[Tensor]:
        """For each piece of places in the data, the images under a condition, prepared for a model."""


def open_published(
    source: str | Path, data: Any, conditions: Sequence[Condition], indices: np.ndarray
) -> Published:
    """The published set in a folder, made of the images of `data`, whose types, severities and places in `data` that
    are going to be read must be there."""
    folder = Path(source).expanduser()
    if not isinstance(data, ImageData):
        raise BadData(
            f"data is a {type(data).__name__}, and published corruptions belong to a named set or a folder of images; "
            "load it with load_data"
        )
    if not folder.is_dir():
        raise BadData(
            f"{folder} is no folder; give the one with the published files, or no source to generate them"
        )
    if any(folder.glob("*.npy")):
        return PublishedArrays(folder, data, conditions)
    return PublishedFolders(folder, data, conditions, indices)


class PublishedArrays:
    """CIFAR-10-C or CIFAR-100-C."""

    def __init__(self, folder: Path, data: ImageData, conditions: Sequence[Condition]) -> None:
        self._folder, self._data = folder, data
        kinds = list(dict.fromkeys(kind for kind, _ in conditions))
        files = [f"{name}.npy" for name in (*kinds, "labels")]
        _refuse_missing(folder, [name for name in files if not (folder / name).is_file()])
        self._labels = _load(folder / "labels.npy")
        self._arrays = {kind: _load(folder / f"{kind}.npy") for kind in kinds}
        for kind, array in self._arrays.items():
            self._check(kind, array)
        self._check_labels()

    def batches(
        self, condition: Condition, pieces: Sequence[np.ndarray], config: DataConfig, device: Device
    ) -> Iterator[Tensor]:
        """See `Published`; images are as large as the uncorrupted ones, and are prepared like them."""
        kind, severity = condition
        n = len(self._arrays[kind]) // len(SEVERITIES)
        images = self._arrays[kind][(severity - 1) * n : severity * n]
        labels = np.zeros(n, np.int64)  # they are known, and need not be read
        whole = ImageData(f"{self._folder.name} {kind} {severity}", "test", ("",), labels, images=images)
        places = [self._data.positions[piece] for piece in pieces]
        for prepared, _ in fetcher_for(whole, config, device).fetch_all(places):
            yield prepared

    def _check(self, kind: str, array: np.ndarray) -> None:
        path = self._folder / f"{kind}.npy"
        if array.dtype != np.uint8 or array.ndim != 4 or len(array) % len(SEVERITIES):
            raise BadData(
                f"{path} is {array.dtype} {array.shape}; expected uint8 (5 N, height, width, channels) with all five "
                "severities; fetch it again"
            )
        first = next(iter(self._arrays.values()))
        if array.shape != first.shape:
            raise BadData(
                f"{path} is {array.shape} and {next(iter(self._arrays))}.npy {first.shape}; "
                "expected images of one size, as many in each; fetch them again"
            )
        n = len(array) // len(SEVERITIES)
        if self._labels.shape not in ((n,), (len(array),)):
            raise BadData(
                f"{self._folder / 'labels.npy'} is {self._labels.shape} and {path.name} has {n} images of each "
                f"severity; expected {n} labels, or {len(array)}; fetch it again"
            )

    def _check_labels(self) -> None:
        positions, labels = self._data.positions, np.asarray(self._labels)
        n = len(next(iter(self._arrays.values()))) // len(SEVERITIES)
        if len(positions) and positions.max() >= n:
            raise BadData(
                f"{self._folder} holds {n} images and {self._data.spec} ({self._data.split}) goes on to image "
                f"{positions.max()}; give the data that it was made of"
            )
        wrong = np.flatnonzero(labels[positions] != self._data.labels)
        if len(wrong):
            image = int(positions[wrong[0]])
            raise BadData(
                f"image {image} has label {labels[image]} in {self._folder / 'labels.npy'} and "
                f"{self._data.labels[wrong[0]]} in {self._data.spec} ({self._data.split}); give the data that it was "
                "made of"
            )


class PublishedFolders:
    """ImageNet-C, or another set in the same layout."""

    def __init__(
        self, folder: Path, data: ImageData, conditions: Sequence[Condition], indices: np.ndarray
    ) -> None:
        if not isinstance(data.reader, FileReader):
            raise BadData(
                f"{folder} holds no .npy files, and folders of pictures belong to a folder of pictures, not to "
                f"{data.spec}; load the uncorrupted ones with folder:PATH"
            )
        self._data = data
        roots = {condition: _condition_folder(folder, condition) for condition in conditions}
        _refuse_missing(folder, [f"{k}/{s}" for (k, s), root in roots.items() if not root.is_dir()])
        names = [Path(data.classes[label]) / Path(data.name(i)).name for i, label in enumerate(data.labels)]
        self._paths = {c: tuple(str(root / name) for name in names) for c, root in roots.items()}
        used = [paths[i] for paths in self._paths.values() for i in indices.tolist()]
        self._size = _common_size(folder, used)

    def batches(
        self, condition: Condition, pieces: Sequence[np.ndarray], config: DataConfig, device: Device
    ) -> Iterator[Tensor]:
        """See `Published`; pictures that have the model's size already, as ImageNet-C's may, are not cut again."""
        data = self._data
        labels = np.zeros(len(data), np.int64)
        reader = FileReader(self._paths[condition])
        pictures = ImageData(" ".join(map(str, condition)), data.split, ("",), labels, reader=reader)
        if self._size == config.input_size[:0:-1]:
            config = replace(config, crop_pct=1.0)
        for prepared, _ in fetcher_for(pictures, config, device).fetch_all(pieces):
            yield prepared


def _condition_folder(folder: Path, condition: Condition) -> Path:
    """With or without the family in between."""
    kind, severity = condition
    family = next(name for name, kinds in FAMILIES.items() if kind in kinds)
    inside = folder / family / kind
    return (inside if inside.is_dir() else folder / kind) / str(severity)


def _refuse_missing(folder: Path, missing: Sequence[str]) -> None:
    if missing:
        more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
        raise BadData(
            f"{folder} lacks {', '.join(missing[:_SHOWN])}{more}; fetch the whole set, or name the types and "
            "severities that are there"
        )


def _common_size(folder: Path, paths: Sequence[str]) -> tuple[int, int] | None:
    """Width and height of all pictures; only their headers are read."""
    first: tuple[str, tuple[int, int]] | None = None
    missing: list[str] = []
    for path in paths:
        try:
            with decoding(path), opened(path) as picture:
                size = picture.size
        except BadData as error:
            if not isinstance(error.__cause__, FileNotFoundError):
                raise
            missing.append(str(Path(path).relative_to(folder)))
            continue
        first = first or (path, size)
        if size != first[1]:
            sizes = " and ".join(f"{name} is {w} x {h}" for name, (w, h) in (first, (path, size)))
            raise BadData(f"{sizes}; expected pictures of one size; fetch the set again")
    _refuse_missing(folder, missing)
    return first[1] if first else None


def _load(path: Path) -> np.ndarray:
    try:
        found: np.ndarray = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise BadData(f"{path} is damaged ({reason(error)}); fetch it again") from error
    return found
