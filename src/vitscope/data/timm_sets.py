"""`timm:PREFIX/NAME[@ROOT]`: what timm's `create_dataset` opens (Hugging Face, webdataset ...)."""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, BinaryIO

import numpy as np
from PIL import Image
from torch.utils.data import IterableDataset

from vitscope.core.errors import BadData
from vitscope.data.catalog import data_root
from vitscope.data.decode import decoding, open_image, to_8bit
from vitscope.data.fetchers import known_labels
from vitscope.data.images import ImageData, Indices

# What each prefix needs beside timm: the module, which PyPI spells with hyphens.
_DATASETS, _TENSORFLOW = "datasets", "tensorflow_datasets"
_PACKAGES = {"torch": "", "hfds": _DATASETS, "hfids": _DATASETS, "wds": "webdataset", "tfds": _TENSORFLOW}
_LONGEST_REASON = 200


@dataclass(frozen=True)
class TimmReader:
    """Decodes pictures of a timm or torchvision data set on demand.

    timm's own `__getitem__` puts the next image in the place of one that does not decode; this one raises.
    """

    data: Any
    parallel = False  # the libraries behind it keep files open

    def read(self, index: int) -> Image.Image:
        """The picture at `index`, as 8-bit grey or RGB."""
        reader = getattr(self.data, "reader", None)
        if reader is None:
            with decoding(self.name(index)):
                return to_8bit(self.data[index][0])
        file: BinaryIO = reader[index][0]
        with file:
            return open_image(file, self.name(index))

    def name(self, index: int) -> str:
        """Its file, if it has one."""
        filename = getattr(self.data, "filename", None)
        return str((filename and filename(index)) or f"image {index}")


class StreamData(ImageData, IterableDataset[tuple[Image.Image, int]]):
    """Images that can only be read in sequence; `batches` takes it, with `limit` instead of `fraction`."""

    unlabelled = False

    def __init__(self, spec: str, split: str, classes: tuple[str, ...], stream: Any) -> None:
        self.spec, self.split, self.classes = spec, split, classes
        self.images = self.reader = None
        self._stream = stream

    def __iter__(self) -> Iterator[tuple[Image.Image, int]]:
        for picture, label in self._stream:
            yield to_8bit(picture), int(label)

    def __len__(self) -> int:
        """Number of images, 0 if the stream does not say."""
        return len(self._stream)

    def __repr__(self) -> str:
        return f"StreamData({self.spec!r}, {self.split!r}: {len(self) or 'unknown number of'} images)"

    @property
    def labels(self) -> Indices:
        """Not known before the stream has been read."""
        raise self._sequential("its labels are not known in advance")

    def __getitem__(self, index: int) -> tuple[Image.Image, int]:
        raise self._sequential("it has no random access")

    def subset(self, indices: Indices) -> ImageData:
        """Refused: data that is read in sequence has no subsets."""
        raise self._sequential("it has no subsets")

    def fraction(self, fraction: float, seed: int = 0) -> ImageData:
        """The data itself for 1; anything less is refused, as there are no subsets."""
        if fraction == 1.0:
            return self
        raise self._sequential(f"fraction {fraction} cannot be taken")

    def _sequential(self, what: str) -> BadData:
        return BadData(f"{self.spec} is read in sequence, so {what}; use limit=N, or data with random access")


def open_timm(name: str, split: str) -> ImageData:
    """Open PREFIX/NAME[@ROOT]; ROOT is where timm looks for files, by default a folder in the cache."""
    location, _, root = name.partition("@")
    prefix, _, rest = location.partition("/")
    spec = f"timm:{name}"
    if prefix not in _PACKAGES or not rest:
        raise BadData(
            f"{spec} is not PREFIX/NAME with a PREFIX of {', '.join(_PACKAGES)}; try timm:hfds/OWNER/NAME"
        )
    module = _PACKAGES[prefix]
    if module and find_spec(module) is None:
        raise BadData(f"{spec} needs a package that is missing; type: pip install {module.replace('_', '-')}")
    if prefix == "torch" and rest in ("cifar10", "cifar100"):  # torchvision would unpickle its files
        raise BadData(f"{spec} is read from pickles; use '{rest}' after: vitscope data prepare {rest}")
    if not root:
        root = rest if prefix == "wds" else str(data_root() / "timm")
    data = _create(spec, location, root, split)
    classes = _class_names(data)
    if isinstance(data, IterableDataset):
        stream: Any = data  # deals its files out to processes; `batches` does that itself, batch by batch
        stream.reader.dist_rank, stream.reader.dist_num_replicas = 0, 1
        return StreamData(spec, split, classes, stream)
    labels = _labels(data)
    if labels is None:
        raise BadData(
            f"{spec} ({split}) does not tell its labels; load it in Python and pass the Dataset itself"
        )
    if len(labels) == 0 or labels.min() < 0:
        raise BadData(f"{spec} ({split}) has no labelled images; is '{split}' the right split?")
    classes = classes or tuple(str(label) for label in range(int(labels.max()) + 1))
    return ImageData(spec, split, classes, labels, reader=TimmReader(data))


def _create(spec: str, location: str, root: str, split: str) -> Any:
    from timm.data import create_dataset

    try:
        return create_dataset(location, root=root, split=split, input_img_mode="")
    except Exception as error:  # whatever the library behind timm raises for a wrong name, split or folder
        reason = " ".join(str(error).split())[:_LONGEST_REASON] or type(error).__name__
        raise BadData(
            f"timm cannot open {spec} ({split}) below {root}: {reason}; check name, split and folder, "
            "as timm's create_dataset takes them"
        ) from error


def _class_names(data: Any) -> tuple[str, ...]:
    to_index = getattr(getattr(data, "reader", data), "class_to_idx", None)
    if isinstance(to_index, dict) and to_index:
        return tuple(sorted(to_index, key=lambda name: int(to_index[name])))
    return ()


def _labels(data: Any) -> Indices | None:
    reader = getattr(data, "reader", None)
    if reader is None:
        return known_labels(data)
    return np.asarray(reader.dataset[reader.label_key][:], dtype=np.int64)  # no image is touched
