"""How the reef is cut into tiles; the photograph itself is made small here, its parts are the real ones'."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from matplotlib.path import Path as MplPath
from PIL import Image

from vitscope.core.errors import BadData
from vitscope.data import as_frames, catalog, load_data
from vitscope.data.catalog import CATALOG, is_prepared
from vitscope.data.fetch import digest
from vitscope.data.frames import FrameData
from vitscope.data.prepare import prepare
from vitscope.data.tasks import coral
from vitscope.data.tasks.prepared import SMALLEST

OUTLINES = {  # in pixels of the photograph, with the kind
    "a square": (0, [(100.0, 100.0), (1300.0, 100.0), (1300.0, 1300.0), (100.0, 1300.0)]),
    "a triangle upon it": (3, [(400.3, 400.1), (900.7, 420.9), (650.2, 1000.4)]),
    "one that leaves the picture": (2, [(-3.0, 1900.0), (700.0, 1900.0), (700.0, 3300.0), (-3.0, 3300.0)]),
    "a small one": (1, [(2000.3, 2000.1), (2040.2, 2000.1), (2040.2, 2030.9)]),
}
SIDE = 3175
# of background and the four kinds in each block of the published photograph, in percent
SHARES = [
    [
        [45.8, 44.1, 0.7, 0.5, 8.9],
        [60.1, 28.9, 1.7, 0.0, 9.4],
        [31.5, 50.2, 5.1, 13.2, 0.0],
        [36.9, 33.0, 1.0, 29.1, 0.0],
    ],
    [
        [32.8, 47.0, 4.7, 9.1, 6.5],
        [75.8, 15.6, 3.9, 0.1, 4.6],
        [44.6, 30.4, 1.4, 9.6, 14.0],
        [34.6, 4.8, 0.1, 59.7, 0.8],
    ],
    [
        [18.9, 4.6, 8.0, 56.3, 12.2],
        [64.8, 23.4, 0.8, 3.4, 7.6],
        [67.5, 22.7, 3.9, 0.0, 5.9],
        [21.9, 3.6, 2.5, 72.0, 0.0],
    ],
    [
        [11.0, 60.6, 3.1, 25.2, 0.0],
        [10.0, 75.1, 0.0, 9.1, 5.8],
        [27.6, 40.5, 0.1, 30.7, 1.0],
        [74.8, 11.5, 2.9, 8.8, 2.0],
    ],
]


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package's files: a photograph of the same size, which hides what its pixels are."""
    root = tmp_path_factory.mktemp("yolo_tiling") / "tests" / "segmentation" / "train"
    for folder in ("images", "labels"):
        (root / folder).mkdir(parents=True)
    ramp = (np.arange(SIDE) // 13).astype(np.uint8)  # red tells the column, green the row
    pixels = np.zeros((SIDE, SIDE, 3), np.uint8)
    pixels[..., 0], pixels[..., 1] = ramp, ramp[:, None]
    Image.fromarray(pixels).save(root / "images" / "VOS_RGB.png", compress_level=1)
    lines = [
        f"{kind} {' '.join(f'{v / SIDE}' for xy in points for v in xy)}" for kind, points in OUTLINES.values()
    ]
    (root / "labels" / "VOS_RGB.txt").write_text("\n".join(lines))
    return root


@pytest.fixture(scope="module")
def prepared(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The three sets, made of it."""
    files = (archive / "images" / "VOS_RGB.png", archive / "labels" / "VOS_RGB.txt")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(coral, "_DIGESTS", {path.name: digest(path.read_bytes()) for path in files})
        patch.setenv("VITSCOPE_DATA", str(tmp_path_factory.mktemp("cache")))
        prepare("coral-objects", archive, print)
        yield archive


def test_one_of_a_family_prepares_all_of_it(prepared: Path) -> None:
    family = [name for name, entry in CATALOG.items() if entry.family == "coral"]
    assert family == ["coral", "coral-objects", "coral-stream"]
    assert all(is_prepared(CATALOG[name]) for name in family)
    again: list[str] = []
    prepare("coral", report=again.append)  # nothing is fetched
    assert [line.split(" in ")[0] for line in again] == [f"{name} is already" for name in family]
    with pytest.raises(BadData, match="coral-stream has no split 'train'; it has test"):
        load_data("coral-stream", "train")


def test_tiles_masks_and_objects_agree(prepared: Path) -> None:
    """Objects are compared with the masks, boxes and areas with a few plain lines, pixel by pixel."""
    for split in ("train", "test"):
        tiles, things = load_data("coral", split), load_data("coral-objects", split)
        assert len(tiles) == len(things) == CATALOG["coral"].size(split)
        for i in range(0, len(tiles), 7):
            picture, mask = tiles[i]
            same, objects = things[i]
            assert np.array_equal(np.asarray(picture), np.asarray(same))
            assert mask.shape == (coral.TILE, coral.TILE)
            again = np.zeros_like(mask)
            for k in range(len(objects)):
                again[objects.masks[k] == 1] = objects.labels[k] + 1
                ys, xs = np.nonzero(objects.masks[k])
                assert objects.boxes[k].tolist() == [xs.min(), ys.min(), xs.max() + 1, ys.max() + 1]
                assert objects.areas[k] == len(ys)
                assert bool(objects.crowd[k]) == (len(ys) < SMALLEST)
            assert np.array_equal(mask, again)
            assert objects.image_id == i


def test_masks_lie_where_the_outlines_are(prepared: Path) -> None:
    """Against matplotlib's answer for the middle of every pixel."""
    _, numbers, labels = coral.photograph(prepared)
    assert labels.tolist() == [0, 3, 2, 1]
    edge = ((SIDE + 1) // 2 - coral.BLOCKS * coral.BLOCK) // 2
    y, x = np.mgrid[: numbers.shape[0] : 3, : numbers.shape[1] : 3]
    middles = np.stack([x.ravel(), y.ravel()], axis=1) + edge + 0.5
    theirs = np.zeros(x.shape, int)
    for k, (_, points) in enumerate(OUTLINES.values(), 1):  # large ones stand first
        theirs[MplPath(np.array(points) / 2).contains_points(middles).reshape(x.shape)] = k
    assert np.array_equal(numbers[::3, ::3], theirs)
    assert set(np.unique(theirs)) == {0, 1, 2, 3, 4}


def test_an_outline_is_filled_by_the_middles_inside_it() -> None:
    concave = np.array([(0.0, 0.0), (4.0, 0.0), (4.0, 4.0), (2.0, 1.0), (0.0, 4.0)])
    rows, columns = coral.pixels_inside(concave, (5, 3))  # the fourth column is outside the picture
    found = np.zeros((5, 3), int)
    found[rows, columns] = 1
    assert found.tolist() == [[1, 1, 1], [1, 1, 1], [1, 0, 0], [0, 0, 0], [0, 0, 0]]


def test_no_training_tile_shows_a_pixel_of_a_test_block() -> None:
    seen = np.zeros((2, coral.BLOCKS * coral.BLOCK, coral.BLOCKS * coral.BLOCK), int)
    for which, corners in enumerate((coral.tiles_of_train_blocks(), coral.tiles_of_test_blocks())):
        for top, left in corners:
            seen[which, top : top + coral.TILE, left : left + coral.TILE] += 1
    assert not ((seen[0] > 0) & (seen[1] > 0)).any()
    assert ((seen[0] > 0) | (seen[1] > 0)).all()
    assert seen[1].max() == 1
    assert sorted(row for row, _ in coral.TEST_BLOCKS) == [0, 1, 2, 3]
    assert sorted(column for _, column in coral.TEST_BLOCKS) == [0, 1, 2, 3]


def test_the_stream_moves_over_test_blocks_and_is_a_stream_for_exams(prepared: Path) -> None:
    data = load_data("coral-stream")
    assert [len(stream) for stream in data.streams] == [coral.FRAMES] * 4
    frames = as_frames(data)
    assert isinstance(frames, FrameData)
    assert [len(sequence) for sequence in frames.sequences] == [coral.FRAMES] * 4
    for stream, (row, column) in zip(data.streams, coral.TEST_BLOCKS, strict=True):
        corners = []
        for i in (stream[0], stream[1], stream[-1]):
            red, green, _ = data.picture(i).getpixel(
                (0, 0)
            )  # they tell column and row, in steps of 13 pixels
            corners.append(np.array([green, red]) * 13 / 2 - 26)
            inside = corners[-1] - np.array([row, column]) * coral.BLOCK
            assert (inside > -10).all()
            assert (inside < coral.BLOCK - coral.TILE + 10).all()
            assert np.array_equal(frames.masks.read(i), data.target(i))
        assert np.abs(corners[1] - corners[0]).max() <= coral.SPEED + 7
    with pytest.raises(BadData, match=r"coral .test. is no stream; take one, such as coral-stream"):
        as_frames(load_data("coral"))


def test_another_photograph_is_refused(
    prepared: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path / "cache"))
    other = tmp_path / "segmentation" / "train" / "images"
    other.mkdir(parents=True)
    Image.new("RGB", (4, 4)).save(other / "VOS_RGB.png")
    with pytest.raises(BadData, match=r"VOS_RGB\.png is not the published file"):
        prepare("coral", tmp_path / "segmentation", print)
    with pytest.raises(
        BadData, match=r"coral cannot be used: it is not prepared .* vitscope data prepare coral"
    ):
        load_data("coral")
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_set_of_another_length_is_refused(prepared: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(catalog.CATALOG, "coral", replace(CATALOG["coral"], train=299))
    with pytest.raises(BadData, match=r"coral \(train\) has 300 items instead of 299"):
        load_data("coral", "train")


def test_test_blocks_have_the_nearest_shares_of_the_24_ways() -> None:
    shares = np.array(SHARES, float)
    whole = shares.mean(axis=(0, 1))
    far = {p: np.abs(shares[range(4), list(p)].mean(axis=0) - whole).sum() for p in permutations(range(4))}
    assert tuple(enumerate(min(far, key=lambda p: far[p]))) == coral.TEST_BLOCKS
