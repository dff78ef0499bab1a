"""`coral`, `coral-objects`, `coral-stream`: one photograph of a reef from above, with 308 outlined corals.

The photograph (3175 x 3176) and its outlines are in the source archive of the Python package yolo-tiling, MIT. It is
taken at half its size, and 1536 x 1536 pixels of it are cut into 4 x 4 blocks:

    blocks    384 x 384 each; the four of `TEST_BLOCKS`, one in each row and column, are for testing
    test      the 9 tiles of 128 x 128 that make up each test block
    train     25 tiles of 128 x 128 in each of the other blocks, 64 pixels apart: they overlap each other, no test
    stream    a window of 128 x 128 that moves over each test block, 3 pixels from frame to frame

Tiles of one photograph drawn at random would share corals, and a test would ask for what was learned by heart. Of the
24 ways to choose one block in each row and column, `TEST_BLOCKS` has the class shares that are nearest to the whole's.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

from vitscope.data.catalog import Arrays
from vitscope.data.fetch import check_digest, find_file
from vitscope.data.frames import window_path
from vitscope.data.images import Pixels

BLOCKS, BLOCK, TILE, STRIDE = 4, 384, 128, 64
TEST_BLOCKS = ((0, 1), (1, 3), (2, 2), (3, 0))  # row, column
FRAMES, SPEED = 60, 3.0
_DIGESTS = {
    "VOS_RGB.png": "sha256:a804fd16a6815e61c165e03ac2a79902b5f395a6d375b2188cfe01e50341a0eb",
    "VOS_RGB.txt": "sha256:137029c88f6328483590274c6aa440106fdddeb2a2f8ed248e31da1527112981",
}

Numbers = npt.NDArray[np.int16]
Places = npt.NDArray[np.int64]


def read_coral(folder: Path, report: Callable[[str], None] = print) -> dict[str, Arrays]:
    """The arrays of the three sets, from the package's files below `folder`."""
    report("reading the photograph and its outlines")
    reef, numbers, labels = photograph(folder)
    classes = np.concatenate([[0], labels + 1]).astype(np.uint8)[numbers]  # 0: background
    corners = {"train": list(tiles_of_train_blocks()), "test": list(tiles_of_test_blocks())}
    tiles = {split: tiles_at(reef, corners[split]) for split in corners}
    objects = {split: tiles_at(numbers, corners[split]) for split in corners}
    masks = {split: tiles_at(classes, corners[split]) for split in corners}
    windows = list(_stream_corners())
    return {
        "coral": {split: (tiles[split], masks[split]) for split in corners},
        "coral-objects": {split: (tiles[split], objects[split], labels) for split in corners},
        "coral-stream": {
            "test": (
                tiles_at(reef, windows),
                tiles_at(classes, windows),
                np.full(len(TEST_BLOCKS), FRAMES, np.int64),
            )
        },
    }


def photograph(folder: Path) -> tuple[Pixels, Numbers, npt.NDArray[np.uint8]]:
    """The middle of the photograph at half its size, which coral (from 1) each pixel is of, and the kind of each."""
    picture_file = _published(folder, "images", "VOS_RGB.png")
    lines = _published(folder, "labels", "VOS_RGB.txt").read_text().splitlines()
    with Image.open(picture_file) as picture:
        size = picture.size
        half = picture.convert("RGB").reduce(2)
    labels, outlines = _outlines(lines, size)
    numbers = np.zeros(half.size[::-1], np.int16)
    covered = [pixels_inside(outline, numbers.shape) for outline in outlines]
    for k in np.argsort([-len(rows) for rows, _ in covered], kind="stable"):  # small ones lie upon large ones
        numbers[covered[k]] = k + 1
    left, top = ((side - BLOCKS * BLOCK) // 2 for side in half.size)
    middle = (slice(top, top + BLOCKS * BLOCK), slice(left, left + BLOCKS * BLOCK))
    return np.asarray(half)[middle], numbers[middle], labels


def _published(folder: Path, below: str, name: str) -> Path:
    """The file of the package's segmentation example; there is another of the same name for detection."""
    found = [p for p in sorted(folder.rglob(name)) if p.parent.name == below and "segmentation" in p.parts]
    path = found[0] if found else find_file(folder, name)
    check_digest(path.read_bytes(), _DIGESTS[name], path)
    return path


def _outlines(
    lines: Sequence[str], size: tuple[int, int]
) -> tuple[npt.NDArray[np.uint8], list[npt.NDArray[np.float64]]]:
    """Kinds, and outlines (points, 2) as x and y in pixels at half size, from lines of `kind x y x y ...`."""
    words = [line.split() for line in lines]
    kinds = np.array([int(line[0]) for line in words], np.uint8)
    return kinds, [np.array(line[1:], np.float64).reshape(-1, 2) * size / 2 for line in words]


def pixels_inside(outline: npt.NDArray[np.float64], shape: tuple[int, ...]) -> tuple[Places, Places]:
    """Rows and columns of the pixels of an (H, W) picture whose middles lie inside the outline (points, 2).

    A middle is inside if the outline crosses its row an odd number of times on the left of it.
    """
    left, top = np.floor(outline.min(axis=0)).astype(np.int64)
    width, height = np.ceil(outline.max(axis=0)).astype(np.int64) - (left, top)
    flips = np.zeros((height, width + 1), np.int64)
    points = outline - (left, top)
    for (x, y), (to_x, to_y) in zip(points, np.roll(points, -1, axis=0), strict=True):
        low, high = sorted((y, to_y))
        rows = np.arange(np.ceil(low - 0.5), np.ceil(high - 0.5), dtype=np.int64)
        if len(rows):
            crossings = x + (rows + 0.5 - y) * (to_x - x) / (to_y - y)
            flips[rows, np.ceil(crossings - 0.5).astype(np.int64)] += 1
    rows, columns = np.nonzero(flips.cumsum(axis=1)[:, :-1] % 2)
    rows, columns = rows + top, columns + left
    seen = (rows >= 0) & (rows < shape[0]) & (columns >= 0) & (columns < shape[1])
    return rows[seen], columns[seen]


def tiles_of_train_blocks() -> Iterator[tuple[int, int]]:
    """Top and left of every training tile."""
    steps = range(0, BLOCK - TILE + 1, STRIDE)
    for row in range(BLOCKS):
        for column in range(BLOCKS):
            if (row, column) not in TEST_BLOCKS:
                yield from ((row * BLOCK + y, column * BLOCK + x) for y in steps for x in steps)


def tiles_of_test_blocks() -> Iterator[tuple[int, int]]:
    """Top and left of every test tile."""
    steps = range(0, BLOCK, TILE)
    for row, column in TEST_BLOCKS:
        yield from ((row * BLOCK + y, column * BLOCK + x) for y in steps for x in steps)


def _stream_corners() -> Iterator[tuple[int, int]]:
    for number, (row, column) in enumerate(TEST_BLOCKS):
        path = window_path((BLOCK, BLOCK), TILE, FRAMES, SPEED, seed=0, number=number)
        yield from ((row * BLOCK + int(y), column * BLOCK + int(x)) for y, x in path)


def tiles_at(whole: npt.NDArray[np.generic], corners: Sequence[tuple[int, int]]) -> npt.NDArray[np.generic]:
    """(N, TILE, TILE, ...): what lies below and right of each corner."""
    return np.stack([whole[top : top + TILE, left : left + TILE] for top, left in corners])
