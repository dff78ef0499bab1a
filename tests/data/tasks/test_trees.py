"""`trees`: boxes of photographs in the boxes of tiles."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.data.tasks.test_masks import save_picture
from vitscope.core.errors import BadData
from vitscope.data import TaskData, catalog, load_data
from vitscope.data.catalog import CATALOG
from vitscope.data.fetch import digest
from vitscope.data.prepare import prepare
from vitscope.data.tasks import trees

BOXES = {  # as in the files: the first pixel is 1, and the last one is of the box
    "large": [(1, 1, 40, 20), (250, 100, 269, 119), (300, 300, 331, 331)],
    "other": [(11, 21, 30, 60)],
}


def voc(boxes: list[tuple[int, ...]]) -> str:
    names = ("xmin", "ymin", "xmax", "ymax")
    inner = ("".join(f"<{n}>{v}</{n}>" for n, v in zip(names, box, strict=True)) for box in boxes)
    objects = "".join(f"<object><name>Tree</name><bndbox>{box}</bndbox></object>" for box in inner)
    return f"<annotation>{objects}</annotation>"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two photographs of 400 x 384: three by three tiles for training, one for testing."""
    root = tmp_path / "deepforest" / "data"
    digests = {}
    for seed, (name, boxes) in enumerate(BOXES.items()):
        save_picture(root / f"{name}.png", seed, (400, 384))
        (root / f"{name}.xml").write_text(voc(boxes))
        digests[name] = tuple(digest((root / f"{name}.{kind}").read_bytes()) for kind in ("png", "xml"))
    chosen = {"train": {"large": digests["large"]}, "test": {"other": digests["other"]}}
    monkeypatch.setattr(trees, "PHOTOGRAPHS", chosen)
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path / "cache"))
    monkeypatch.setitem(catalog.CATALOG, "trees", replace(CATALOG["trees"], train=4, test=1))
    return root


def opened(split: str) -> TaskData:
    data = load_data("trees", split)
    assert isinstance(data, TaskData)
    return data


def test_tiles_show_the_boxes_of_their_photograph(files: Path) -> None:
    prepare("trees", files, print)
    train, test = opened("train"), opened("test")
    assert (train.task, train.classes, len(train), len(test)) == ("detection", ("tree",), 4, 1)
    only = test.target(0)
    assert only.boxes.tolist() == [[5.0, 10.0, 15.0, 30.0]]
    assert only.areas.tolist() == [200.0]
    assert only.masks is None
    corners = [(0, 0), (64, 0), (0, 64), (64, 64)]  # left, top; of pictures of 200 x 192
    for i, (left, top) in enumerate(corners):
        objects, expected = train.target(i), []
        for x1, y1, x2, y2 in BOXES["large"]:
            whole = ((x1 - 1) / 2 - left, (y1 - 1) / 2 - top, x2 / 2 - left, y2 / 2 - top)
            box = [min(max(v, 0.0), 128.0) for v in whole]
            area = (box[2] - box[0]) * (box[3] - box[1])
            if box[2] > box[0] and box[3] > box[1]:
                share = area / ((whole[2] - whole[0]) * (whole[3] - whole[1]))
                expected.append((box, share < 0.5, area))
        assert objects.boxes.tolist() == [box for box, _, _ in expected]
        assert objects.crowd.tolist() == [crowd for _, crowd, _ in expected]
        assert objects.areas.tolist() == [area for _, _, area in expected]
        assert (objects.labels == 0).all()
        assert objects.image_id == i
    assert any(train.target(i).crowd.any() for i in range(4))
    assert not np.array_equal(np.asarray(train.picture(0)), np.asarray(train.picture(1)))
    inner = np.asarray(train.picture(0))[:, 64:]
    assert np.array_equal(inner, np.asarray(train.picture(1))[:, :64])
    assert train.digest != test.digest


def test_other_files_are_refused(files: Path, tmp_path: Path) -> None:
    (files / "large.xml").write_text(voc([(1, 2, 3, 4)]))
    with pytest.raises(BadData, match=r"large\.xml is not the published file"):
        prepare("trees", files, print)
    for wrong in ("<annotation>", voc([("a", 1, 2, 3)])):  # type: ignore[list-item]
        (tmp_path / "x.xml").write_text(wrong)
        with pytest.raises(BadData, match=r"cannot read boxes from .*x\.xml .* expected Pascal VOC's XML"):
            trees.read_voc(tmp_path / "x.xml")
