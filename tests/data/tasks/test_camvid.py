"""CamVid in its two layouts, and its videos."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.data.tasks.test_masks import SIZE, numbers, save_mask, save_picture
from vitscope.core.errors import BadData
from vitscope.data import NO_CLASS, TaskData, as_frames, load_data
from vitscope.data.tasks.camvid import CLASSES, colours, split_of

# label_colors.txt of CamVid, as published with it
LABEL_COLORS = """
64 128 64	Animal
192 0 128	Archway
0 128 192	Bicyclist
0 128 64	Bridge
128 0 0	Building
64 0 128	Car
64 0 192	CartLuggagePram
192 128 64	Child
192 192 128	Column_Pole
64 64 128	Fence
128 0 192	LaneMkgsDriv
192 0 64	LaneMkgsNonDriv
128 128 64	Misc_Text
192 0 192	MotorcycleScooter
128 64 64	OtherMoving
64 192 128	ParkingBlock
64 64 0	Pedestrian
128 64 128	Road
128 128 192	RoadShoulder
0 0 192	Sidewalk
192 128 128	SignSymbol
128 128 128	Sky
64 128 192	SUVPickupTruck
0 0 64	TrafficCone
0 64 64	TrafficLight
192 64 128	Train
128 128 0	Tree
192 128 192	Truck_Bus
64 0 64	Tunnel
192 192 0	VegetationMisc
0 0 0	Void
64 192 0	Wall
"""


def stills() -> dict[str, list[str]]:
    """The names of the 701 stills in SegNet's lists, which are at even distances (but for one)."""
    driven = [*range(390, 2401, 30), *range(4350, 7921, 30), *range(8190, 8641, 30)]
    return {
        "train": [
            *(f"0001TP_{n:06d}" for n in range(6690, 8521, 30)),
            *(f"0006R0_f{n:05d}" for n in range(930, 3931, 30)),
            *(f"0016E5_{n + (n == 900):05d}" for n in driven),
        ],
        "val": [f"0016E5_{n:05d}" for n in range(7959, 8160, 2)],
        "test": [
            *(f"0001TP_{n:06d}" for n in range(8550, 10381, 30)),
            *(f"Seq05VD_f{n:05d}" for n in range(0, 5101, 30)),
        ],
    }


def segnet(root: Path, names: dict[str, list[str]]) -> Path:
    for split, stems in names.items():
        for i, stem in enumerate(stems):
            save_picture(root / split / f"{stem}.png", i)
            save_mask(root / f"{split}annot" / f"{stem}.png", numbers(i, 12))
    return root


def original(root: Path, names: list[str]) -> Path:
    palette = np.array(
        [[int(v) for v in line.split("\t")[0].split()] for line in LABEL_COLORS.split("\n")[1:-1]]
    )
    for i, stem in enumerate(names):
        save_picture(root / "701_StillsRaw_full" / f"{stem}.png", i)
        save_mask(root / "LabeledApproved_full" / f"{stem}_L.png", palette[numbers(i, 32)].astype(np.uint8))
    return root


def opened(spec: str, split: str) -> TaskData:
    data = load_data(spec, split)
    assert isinstance(data, TaskData)
    return data


def test_segnets_layout(tmp_path: Path) -> None:
    segnet(tmp_path, {"train": ["0001TP_006690", "0006R0_f00930"], "test": ["Seq05VD_f00000"]})
    data = opened(f"camvid:{tmp_path}", "train")
    assert (len(data), data.classes) == (2, CLASSES)
    values = numbers(1, 12).astype(int)
    assert data[1][1].tolist() == np.where(values == 11, NO_CLASS, values).tolist()
    data.check()
    save_mask(tmp_path / "testannot" / "Seq05VD_f00000.png", np.full(SIZE[::-1], 12, np.uint8))
    with pytest.raises(
        BadData, match=r"Seq05VD_f00000\.png: value 12 .* expected 0 to 10, or 11 for no class"
    ):
        opened(f"camvid:{tmp_path}", "test").check()
    with pytest.raises(
        BadData, match=r"there is no folder .*val; expected val and valannot, or 701_StillsRaw_full"
    ):
        opened(f"camvid:{tmp_path}", "val")
    with pytest.raises(BadData, match="has no split 'night'; it has train, val and test"):
        opened(f"camvid:{tmp_path}", "night")


def test_colours_are_the_published_ones_and_all_kinds_are_joined() -> None:
    published = {
        tuple(map(int, line.split("\t")[0].split())): line.split("\t")[1]
        for line in LABEL_COLORS.split("\n")[1:-1]
    }
    assert set(colours()) == set(published)
    joined = {name: number for colour, name in published.items() for number in [colours()[colour]]}
    assert joined["Void"] == NO_CLASS
    assert [joined[name] for name in ("Sky", "Building", "Column_Pole", "Road", "Sidewalk", "Tree")] == list(
        range(6)
    )
    assert [joined[name] for name in ("SignSymbol", "Fence", "Car", "Pedestrian", "Bicyclist")] == list(
        range(6, 11)
    )
    assert joined["LaneMkgsDriv"] == joined["Road"]
    assert joined["Truck_Bus"] == joined["Car"]
    assert set(joined.values()) == {NO_CLASS, *range(11)}


def test_the_stills_are_split_as_segnet_splits_them() -> None:
    assert {split: len(names) for split, names in stills().items()} == {"train": 367, "val": 101, "test": 233}
    for split, names in stills().items():
        assert {split_of(name) for name in names} == {split}


def test_the_original_layout(tmp_path: Path) -> None:
    names = ["0001TP_006690", "0001TP_008550", "0016E5_07959", "Seq05VD_f00000"]
    data = {s: opened(f"camvid:{original(tmp_path, names)}", s) for s in ("train", "val", "test")}
    assert {s: len(d) for s, d in data.items()} == {"train": 1, "val": 1, "test": 2}
    picture, mask = data["test"][1]
    with Image.open(tmp_path / "LabeledApproved_full" / "Seq05VD_f00000_L.png") as stored:
        for x, y in ((0, 0), (5, 3), (11, 7)):
            assert mask[y, x] == colours()[stored.getpixel((x, y))]
    assert picture.size == SIZE
    (tmp_path / "train.txt").write_text("Seq05VD_f00000.png\n0016E5_07959\n")
    assert len(opened(f"camvid:{tmp_path}", "train")) == 2
    (tmp_path / "train.txt").write_text("Seq05VD_f00000\nnobody\n")
    with pytest.raises(BadData, match=r"train\.txt, line 2: there is no still 'nobody'"):
        opened(f"camvid:{tmp_path}", "train")
    save_mask(
        tmp_path / "LabeledApproved_full" / "0001TP_008550_L.png", np.full((*SIZE[::-1], 3), 7, np.uint8)
    )
    with pytest.raises(BadData, match=r"0001TP_008550_L\.png: value \(7, 7, 7\) .* 32 colours of CamVid's"):
        data["test"].check()
    (tmp_path / "LabeledApproved_full" / "0016E5_07959_L.png").unlink()
    with pytest.raises(BadData, match=r"0016E5_07959\.png has no mask"):
        opened(f"camvid:{tmp_path}", "test")


def test_frames_belong_to_the_split_of_the_next_mask(tmp_path: Path) -> None:
    segnet(tmp_path, {"train": ["a_3", "a_6", "b_2"], "test": ["a_9", "a_15"]})
    for i in range(1, 18):
        save_picture(tmp_path / "frames" / "a" / f"a_{i}.png", i)
    for i in range(1, 4):
        save_picture(tmp_path / "frames" / "b" / f"b_{i}.png", i)
    train, test = (opened(f"camvid-frames:{tmp_path}", split) for split in ("train", "test"))
    assert [Path(train.name(i)).stem for i in range(len(train))] == [
        "a_1",
        "a_2",
        "a_3",
        "a_4",
        "a_5",
        "a_6",
        "b_1",
        "b_2",
    ]
    assert [len(stream) for stream in train.streams or ()] == [6, 2]
    assert [Path(test.name(i)).stem for i in range(len(test))] == [f"a_{i}" for i in range(7, 16)]
    assert [len(stream) for stream in test.streams or ()] == [9]
    assert [i for i in range(9) if test.labelled(i)] == [2, 8]
    assert (test.target(0) == NO_CLASS).all()
    assert test.target(0).shape == SIZE[::-1]
    assert test.target(2).tolist() == np.where(numbers(0, 12) == 11, -1, numbers(0, 12).astype(int)).tolist()
    test.check()
    frames = as_frames(test)
    assert frames.masks.read(0) is None
    assert set(np.unique(frames.masks.read(2))) <= {*range(11), 255}
    (tmp_path / "frames" / "a" / "a_9.png").unlink()
    with pytest.raises(BadData, match=r"the still a_9 is not among the frames"):
        opened(f"camvid-frames:{tmp_path}", "test")
    with pytest.raises(BadData, match=r"there is no folder .*val"):
        opened(f"camvid-frames:{tmp_path}", "val")
    (tmp_path / "frames").rename(tmp_path / "video")
    with pytest.raises(BadData, match="expected frames/SEQUENCE"):
        opened(f"camvid-frames:{tmp_path}", "test")
