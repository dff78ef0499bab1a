"""Frames in folders."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vitscope.core.errors import BadData
from vitscope.data import FrameData, load_data


def frames(folder: Path, numbers: range, kind: str = "png") -> None:
    """Grey frames whose brightness is their number."""
    folder.mkdir(parents=True)
    for number in numbers:
        Image.new("L", (8, 8), number).save(folder / f"frame_{number}.{kind}")


def brightness(data: FrameData) -> list[int]:
    return [np.asarray(data[i][0])[0, 0] for i in range(len(data))]


def opened(path: Path, split: str = "test") -> FrameData:
    data = load_data(f"frames:{path}", split=split)
    assert isinstance(data, FrameData)
    return data


def test_a_folder_of_sequences_per_class(tmp_path: Path) -> None:
    frames(tmp_path / "cat" / "run10", range(3))
    frames(tmp_path / "cat" / "run2", range(8, 12))
    frames(tmp_path / "dog" / "walk", range(20, 22))
    data = opened(tmp_path)
    assert data.classes == ("cat", "dog")
    assert brightness(data) == [8, 9, 10, 11, 0, 1, 2, 20, 21]  # run2 before run10, frame_9 before frame_10
    assert data.labels.tolist() == [0] * 7 + [1] * 2
    assert [len(sequence) for sequence in data.sequences] == [4, 3, 2]


def test_a_label_for_every_frame(tmp_path: Path) -> None:
    for name, labels in (("a", "sun\nrain\nrain\n"), ("b", "snow\nsun\n")):
        frames(tmp_path / name, range(labels.count("\n")))
        (tmp_path / name / "labels.txt").write_text(labels)
    data = opened(tmp_path)
    assert data.classes == ("rain", "snow", "sun")
    assert data.labels.tolist() == [2, 0, 0, 1, 2]
    (tmp_path / "classes.txt").write_text("sun\nrain\nsnow\n")
    assert opened(tmp_path).labels.tolist() == [0, 1, 1, 2, 0]
    (tmp_path / "classes.txt").write_text("sun\nrain\n")
    with pytest.raises(BadData, match=r"'snow' .* is no class"):
        opened(tmp_path)
    (tmp_path / "b" / "labels.txt").write_text("sun\n")
    with pytest.raises(BadData, match="1 lines for 2 frames"):
        opened(tmp_path)
    (tmp_path / "b" / "labels.txt").unlink()
    with pytest.raises(BadData, match=r"neither labels\.txt nor masks"):
        opened(tmp_path)


def test_a_mask_for_some_frames(tmp_path: Path) -> None:
    frames(tmp_path / "test" / "street", range(4), "bmp")
    frames(tmp_path / "test" / "street" / "masks", range(1, 3))
    with pytest.raises(BadData, match=r"classes\.txt is missing"):
        opened(tmp_path)
    (tmp_path / "classes.txt").write_text("road\ncar\nsky\n")
    data = opened(tmp_path)
    assert data.classes == ("road", "car", "sky")
    assert data.masks is not None
    read = [data.masks.read(i) for i in range(4)]  # type: ignore[union-attr]
    assert read[0] is None
    assert read[3] is None
    assert [int(mask[0, 0]) for mask in read[1:3]] == [1, 2]  # type: ignore[index]
    (tmp_path / "test" / "street" / "frame_2.bmp").unlink()
    with pytest.raises(BadData, match=r"frame_2\.png belongs to no frame"):
        opened(tmp_path)


def test_a_split_has_a_folder_of_its_own(tmp_path: Path) -> None:
    frames(tmp_path / "train" / "a" / "one", range(2))
    frames(tmp_path / "train" / "b" / "one", range(2))
    frames(tmp_path / "test" / "a" / "two", range(5, 6))
    (tmp_path / "classes.txt").write_text("a\nb\n")
    assert brightness(opened(tmp_path, "train")) == [0, 1, 0, 1]
    data = opened(tmp_path)
    assert (data.classes, brightness(data)) == (("a", "b"), [5])


def test_what_is_no_stream_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="is no folder"):
        opened(tmp_path / "nowhere")
    with pytest.raises(BadData, match="no frames below"):
        opened(tmp_path)
    frames(tmp_path / "a", range(2))
    (tmp_path / "b").mkdir()
    with pytest.raises(BadData, match="b holds no frames"):
        opened(tmp_path)
    (tmp_path / "a" / "frame_9.png").touch()
    with pytest.raises(BadData, match="is empty"):
        opened(tmp_path)
