"""Sets of other tasks as `vitscope data prepare` leaves them, but small: squares on noise, and questions about them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vitscope.data import catalog

SIDE, STREAMS, FRAMES = 32, 6, 8
_SIZES = {
    "coral": (100, 6),
    "coral-objects": (100, 6),
    "coral-stream": (0, STREAMS * FRAMES),
    "easy-vqa": (1000, 20),
}


def prepare_task_sets(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`coral`, `coral-objects`, `coral-stream` and `easy-vqa` below a folder, which are looked for there."""
    monkeypatch.setenv("VITSCOPE_DATA", str(root))
    draw = np.random.default_rng(0)
    for name, (train, test) in _SIZES.items():
        entry = replace(catalog.CATALOG[name], train=train, test=test)
        monkeypatch.setitem(catalog.CATALOG, name, entry)
        arrays = {split: _arrays(name, entry.size(split), len(entry.classes), draw) for split in entry.splits}
        with catalog.partial_folder(entry) as partial:
            (partial / "arrays").mkdir()
            catalog.write(entry, arrays, "a test", partial / "arrays")


def _arrays(name: str, number: int, classes: int, draw: np.random.Generator) -> list[Any]:
    kinds = draw.integers(1, 5, number).astype(np.uint8)
    masks = np.zeros((number, SIDE, SIDE), np.uint8)
    for mask, kind, (top, left) in zip(masks, kinds, draw.integers(0, SIDE // 2, (number, 2)), strict=True):
        mask[top : top + SIDE // 2, left : left + SIDE // 2] = kind
    noise = draw.integers(0, 60, (number, SIDE, SIDE, 3))
    images = (45 * masks[..., None] + noise).astype(np.uint8)
    if name == "coral":
        return [images, masks]
    if name == "coral-stream":
        return [images, masks, np.full(STREAMS, FRAMES, np.int64)]
    if name == "coral-objects":
        objects = np.where(masks > 0, np.arange(1, number + 1)[:, None, None], 0).astype(np.int16)
        return [images, objects, kinds - 1]
    questions = np.array(["what is it?", "is it dark?"])[np.arange(number) % 2]
    return [images, questions, (kinds % classes).astype(np.uint8), np.arange(number)]
