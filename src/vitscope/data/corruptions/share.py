"""The images of one process, before they are corrupted: bytes in a file, read piece by piece, never held as a whole."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Share:
    """Bytes (n, C, H, W) at `path`, in the order in which they are shown.

    Attributes:
        path: The bytes and nothing else; None if they are not needed.
        size: (C, H, W).
        indices: (n,) place of each image in the data.
        labels: (n,).
        batch_size: How many are shown at once.
        digest: Of images and places: shares with the same one are the same.
    """

    path: Path | None
    size: tuple[int, int, int]
    indices: np.ndarray
    labels: np.ndarray
    batch_size: int
    digest: str

    def __len__(self) -> int:
        return len(self.indices)

    @property
    def n_bytes(self) -> int:
        """Of all images."""
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


class ShareWriter:
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

    def finish(self) -> Share:
        """What was collected."""
        if self._file is not None:
            self._file.close()
        size = self._size or (1, 1, 1)  # a process may have no share
        indices, labels = (np.concatenate([np.zeros(0, np.int64), *a]) for a in (self._indices, self._labels))
        facts = json.dumps([size, len(indices)]).encode()
        digest = hashlib.sha256(facts + self._digest.digest()).hexdigest()
        return Share(self._path, size, indices, labels, self._batch_size, digest)
