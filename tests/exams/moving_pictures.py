"""Streams and models of which every prediction is known."""

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.data import FrameData

CONFIG = {
    "input_size": (1, 8, 8),
    "mean": (0.0,),
    "std": (1.0,),
    "crop_pct": 1.0,
    "interpolation": "bilinear",
}


class Known(nn.Module):
    """Says of a frame, or of each of its points, what a table says of its grey level."""

    def __init__(self, table: Tensor, points: bool = False) -> None:
        super().__init__()
        self.table = nn.Parameter(table)  # (levels, classes)
        self.points = points
        self.num_classes = table.shape[1]
        self.pretrained_cfg = dict(CONFIG)

    def forward(self, x: Tensor) -> Tensor:
        levels = (x[:, 0] * 255).round().long().clamp(0, len(self.table) - 1)
        return self.table[levels].movedim(-1, 1) if self.points else self.table[levels[:, 0, 0]]


def known_table(levels: int = 30, classes: int = 4) -> Tensor:
    return torch.randn(levels, classes, generator=torch.Generator().manual_seed(0)) * 1.5


def level_stream(levels: list[list[int]], seed: int = 0) -> FrameData:
    """Sequences of frames of one grey level each, with random labels."""
    flat = np.concatenate([np.array(sequence) for sequence in levels]).astype(np.uint8)
    images = flat[:, None, None, None] * np.ones((1, 8, 8, 1), np.uint8)
    labels = np.random.default_rng(seed).integers(0, 4, len(flat))
    return FrameData("levels", "test", "abcd", labels, [len(s) for s in levels], images=images)


def random_levels(*lengths: int, seed: int = 0) -> list[list[int]]:
    generator = np.random.default_rng(seed)
    return [generator.integers(0, 30, length).tolist() for length in lengths]


def smoothed_by_hand(q: np.ndarray, rate: float, previous: int) -> np.ndarray:
    """p_t = sum_a exp(-rate a) q_{t-a} / sum_a exp(-rate a) over the frames that there are."""
    found = []
    for t in range(len(q)):
        ages = range(min(previous, t) + 1)
        weights = [np.exp(-rate * age) for age in ages]
        found.append(sum(w * q[t - age] for w, age in zip(weights, ages, strict=True)) / sum(weights))
    return np.array(found)
