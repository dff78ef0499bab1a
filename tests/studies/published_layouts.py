"""A few images in the layouts that CIFAR-100, ImageNet and its relatives come in, where `paper.yaml` looks for them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vitscope.data import catalog
from vitscope.data.labels import imagenet_classes

CLASSES = ("n01498041", "n01531178", "n01534433", "n01558993")  # of ImageNet, and of ImageNet-A
_TRAIN, _TEST = 5, 1  # images per class; a tenth of them is one


def prepare_cifar100(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `vitscope data prepare cifar100` leaves it, but for the number of images."""
    monkeypatch.setenv("VITSCOPE_DATA", str(root))
    sizes = {"train": 100 * _TRAIN, "test": 100 * _TEST}
    entry = replace(catalog.CATALOG["cifar100"], **sizes)
    monkeypatch.setitem(catalog.CATALOG, "cifar100", entry)
    random = np.random.default_rng(0)
    arrays = {
        split: (
            random.integers(0, 256, (number, 32, 32, 3), dtype=np.uint8),
            (np.arange(number) % 100).astype(np.uint8),
        )
        for split, number in sizes.items()
    }
    with catalog.partial_folder(entry) as partial:
        (partial / "arrays").mkdir()
        catalog.write(entry, arrays, "a test", partial / "arrays")


def put_imagenets(root: Path) -> None:
    """ImageNet, ImageNet-A, ImageNet-V2 and ReaL below a folder."""
    number = 0
    for name in CLASSES:
        for place in range(_TRAIN):
            _put(root / "imagenet" / "train" / name / f"{name}_{place}.JPEG")
        for _ in range(_TEST):
            number += 1
            _put(root / "imagenet" / "val" / name / f"ILSVRC2012_val_{number:08d}.JPEG")
        _put(root / "imagenet-a" / name / "0.jpg")
    for label in range(len(CLASSES)):
        _put(root / "imagenetv2-matched-frequency-format-val" / str(label) / "0.jpeg")
    right = [[imagenet_classes().index(name)] for name in CLASSES]
    (root / "imagenet-real").mkdir()
    (root / "imagenet-real" / "real.json").write_text(json.dumps(right))


def _put(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(len(path.name)).integers(0, 256, (80, 100, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
