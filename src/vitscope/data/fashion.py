"""Fashion-MNIST: the part embedded in the package, and the reader of the full set's files.

Images are 28 x 28 grey and are shown as 32 x 32: two black pixels are added on each side (the garments stand
on black), so that models made for 32 pixels take them unchanged.
"""

import gzip
import zlib
from pathlib import Path

import numpy as np
from PIL import Image

from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadData
from vitscope.data.fetch import check_digest, find_file
from vitscope.data.images import Pixels

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
    with Image.open(EMBEDDED / f"fashion-{split}.png") as strip:
        images = np.asarray(strip).reshape(-1, _RAW_SIDE, _RAW_SIDE)
    return pad(images), (np.arange(len(images)) % N_CLASSES).astype(np.uint8)


def read_fashion(folder: Path) -> dict[str, tuple[Pixels, Pixels]]:
    """Images (N, 32, 32, 1) and labels (N,) of both splits from the four idx files below `folder`."""
    return {split: (pad(images), labels) for split, (images, labels) in read_idx(folder).items()}


def read_idx(folder: Path) -> dict[str, tuple[Pixels, Pixels]]:
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
    side = _RAW_SIDE + 2 * _PAD
    padded = np.zeros((len(images), side, side, 1), np.uint8)
    padded[:, _PAD:-_PAD, _PAD:-_PAD, 0] = images
    return padded


def _verified_content(folder: Path, name: str) -> bytes:
    path = find_file(folder, f"{name}.gz", name)
    try:
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise BadData(f"{path} is damaged ({reason(error)}); fetch it again") from error
    check_digest(content, _DIGESTS[name], path)
    return content
