"""`trees`: forests from the air with a box around each crown, from the Python package deepforest, MIT.

Four photographs of 0.1 m per pixel with 951 boxes. They are taken at half their size and cut into tiles of 128 x 128:

    train    two photographs of other sites and the large one of Yellowstone, tiles 64 pixels apart, which overlap
    test     the other photograph of Yellowstone, tiles side by side

A box of which a tile shows less than half is a crowd: nobody has to find it. Dead and living trees are one class.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import numpy.typing as npt

from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadData
from vitscope.data.catalog import SPLITS, Arrays
from vitscope.data.decode import open_image
from vitscope.data.fetch import check_digest, find_file
from vitscope.data.images import Pixels

TILE, STRIDE = 128, {"train": 64, "test": 128}
SHOWN = 0.5  # of a box
PHOTOGRAPHS: dict[str, dict[str, tuple[str, str]]] = {  # with the digests of picture and boxes
    "train": {
        "2019_YELL_2_528000_4978000_image_crop2": (
            "sha256:a9bdb0f4447fdd899d22f567e0e20ba8320c5413b2ad0cd0ac8d9f3b6e0f9767",
            "sha256:bd431af6a5086d721eb731b22f5ea28cd8a8eab06883efc1c665391acbc68e11",
        ),
        "OSBS_029": (
            "sha256:d9477c6a00e4902c7bee487d4c5582c3b8b9a2f77f3908a29628b816b291e6ee",
            "sha256:1f68c4011d7b351c29ca755072e77f3d16e6fd1f995bd05a9dd4eb952b55373c",
        ),
        "SOAP_061": (
            "sha256:256508f1a62149bec4a80879077a865caf50e8cace095e6564c76befa480d424",
            "sha256:4833280af75fd9c47965a93e38945282835e9e725cac412bdb9469d63480947c",
        ),
    },
    "test": {
        "2019_YELL_2_541000_4977000_image_crop": (
            "sha256:178e58a23cc2642226a364a30f71bd9258ddc1b012c826f12250914a90c7a131",
            "sha256:cefe4b96888bacbf8af1674f000082e549aa707aa6590d545effb23e43f26631",
        ),
    },
}

Boxes = npt.NDArray[np.float32]


def read_trees(folder: Path, report: Callable[[str], None] = print) -> Arrays:
    """Images (N, 128, 128, 3) and boxes (M, 6): tile, left, top, right, bottom, whether it is a crowd."""
    arrays: dict[str, tuple[npt.NDArray[np.generic], ...]] = {}
    for split in SPLITS:
        images: list[Pixels] = []
        boxes: list[Boxes] = []
        for name, digests in PHOTOGRAPHS[split].items():
            report(f"reading {name}")
            forest, crowns = _photograph(folder, name, *digests)
            for top, left in _corners(forest.shape, STRIDE[split]):
                seen = boxes_in_tile(crowns - np.array([left, top, left, top], np.float32))
                boxes.append(np.c_[np.full(len(seen), len(images), np.float32), seen])
                images.append(forest[top : top + TILE, left : left + TILE])
        arrays[split] = np.stack(images), np.concatenate(boxes)
    return arrays


def _photograph(folder: Path, name: str, picture: str, boxes: str) -> tuple[Pixels, Boxes]:
    """A photograph at half its size, and its boxes there."""
    picture_file, box_file = find_file(folder, f"{name}.png"), find_file(folder, f"{name}.xml")
    check_digest(picture_file.read_bytes(), picture, picture_file)
    check_digest(box_file.read_bytes(), boxes, box_file)
    forest = np.asarray(open_image(picture_file).convert("RGB").reduce(2))
    return forest, read_voc(box_file) / np.float32(2.0)


def read_voc(path: Path) -> Boxes:
    """(K, 4): left, top, right, bottom of the objects of a Pascal VOC file, which counts pixels from 1."""
    try:
        found = ElementTree.parse(path).getroot().findall("object/bndbox")
        names = ("xmin", "ymin", "xmax", "ymax")
        boxes = np.array([[float(box.findtext(name, "")) for name in names] for box in found], np.float32)
    except (ElementTree.ParseError, ValueError, OSError) as error:
        raise BadData(
            f"cannot read boxes from {path} ({reason(error)}); expected Pascal VOC's XML"
        ) from error
    return boxes.reshape(-1, 4) - np.array([1, 1, 0, 0], np.float32)


def boxes_in_tile(boxes: Boxes) -> Boxes:
    """(K, 5): what a tile shows of boxes in its own coordinates, and whether that is too little to ask for."""
    shown = boxes.clip(0, TILE)
    sides = shown[:, 2:] - shown[:, :2]
    seen = (sides > 0).all(axis=1)
    share = sides.prod(axis=1) / (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    return np.c_[shown, share < SHOWN][seen].astype(np.float32)


def _corners(shape: tuple[int, ...], stride: int) -> Iterator[tuple[int, int]]:
    rows, columns = (range(0, side - TILE + 1, stride) for side in shape[:2])
    return ((top, left) for top in rows for left in columns)
