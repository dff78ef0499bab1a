"""Pictures and masks in folders: `masks:PATH` and `ade20k:PATH`."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vitscope.core.errors import BadData
from vitscope.data import NO_CLASS, TaskData, load_data

SIZE = (12, 8)  # width, height


def save_picture(path: Path, seed: int = 0, size: tuple[int, int] = SIZE) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), np.uint8)
    Image.fromarray(pixels).save(path)


def save_mask(path: Path, values: np.ndarray) -> np.ndarray:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(values).save(path)
    return values


def numbers(seed: int, high: int, dtype: type = np.uint8) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, high, SIZE[::-1]).astype(dtype)


def fill(folder: Path, count: int = 3, high: int = 3) -> Path:
    for i in range(count):
        save_picture(folder / "images" / f"{i}.jpg", i)
        save_mask(folder / "masks" / f"{i}.png", numbers(i, high))
    return folder


def masks_of(path: Path, split: str = "train") -> TaskData:
    data = load_data(f"masks:{path}", split)
    assert isinstance(data, TaskData)
    return data


def test_items_are_rgb_pictures_and_the_numbers_in_the_files(tmp_path: Path) -> None:
    data = masks_of(fill(tmp_path))
    assert (data.task, len(data), data.classes, data.labels) == ("segmentation", 3, ("0", "1", "2"), None)
    for i, (picture, mask) in enumerate(data):
        assert (picture.mode, picture.size) == ("RGB", SIZE)
        assert mask.dtype == np.int16
        assert mask.tolist() == numbers(i, 3).tolist()
        assert data.name(i) == str(tmp_path / "images" / f"{i}.jpg")
        with Image.open(tmp_path / "images" / f"{i}.jpg") as stored:
            assert list(stored.convert("RGB").getdata()) == list(picture.getdata())
    assert data.check() is data


def test_splits_and_class_names(tmp_path: Path) -> None:
    fill(tmp_path / "train", 4, high=2)
    fill(tmp_path / "val", 2, high=3)
    assert [len(masks_of(tmp_path, split)) for split in ("train", "val", "test")] == [4, 2, 2]
    assert masks_of(tmp_path).classes == ("0", "1", "2")  # of all splits together
    (tmp_path / "classes.txt").write_text("sky\n\nroad\ntree \nnever seen\n")
    assert masks_of(tmp_path).classes == ("sky", "road", "tree", "never seen")


def test_255_is_no_class_and_16_bits_hold_more_than_that(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    values = numbers(0, 3)
    values[2, 5] = 255
    save_mask(tmp_path / "masks" / "0.png", values)
    mask = masks_of(tmp_path)[0][1]
    assert mask[2, 5] == NO_CLASS
    assert (mask == NO_CLASS).sum() == 1
    (tmp_path / "classes.txt").write_text("\n".join(f"kind {k}" for k in range(300)))
    save_mask(tmp_path / "masks" / "0.png", numbers(0, 300, np.uint16))
    assert masks_of(tmp_path)[0][1].tolist() == numbers(0, 300, np.uint16).tolist()


def test_palettes_are_numbers_and_colours_are_looked_up(tmp_path: Path) -> None:
    fill(tmp_path, 1)
    values = numbers(0, 2)
    palette = Image.fromarray(values, "P")
    palette.putpalette([10, 20, 30, 40, 50, 60])
    palette.save(tmp_path / "masks" / "0.png")
    assert masks_of(tmp_path)[0][1].tolist() == values.tolist()
    (tmp_path / "classes.txt").write_text("10 20 30 Void\n40 50 60 reef\n41 50 60 reef\n0 0 0 sea\n")
    data = masks_of(tmp_path)
    assert data.classes == ("reef", "sea")
    assert data[0][1].tolist() == np.where(values == 1, 0, NO_CLASS).tolist()
    pixels = np.array([[10, 20, 30], [40, 50, 60], [41, 50, 60], [0, 0, 0]], np.uint8)[numbers(1, 4)]
    save_mask(tmp_path / "masks" / "0.png", pixels)
    expected = np.array([NO_CLASS, 0, 0, 1])[numbers(1, 4)]
    assert masks_of(tmp_path)[0][1].tolist() == expected.tolist()
    pixels[3, 4] = (1, 2, 3)
    save_mask(tmp_path / "masks" / "0.png", pixels)
    with pytest.raises(
        BadData, match=r"0\.png: value \(1, 2, 3\) in row 3, column 4 is no class \(1 pixels\)"
    ):
        masks_of(tmp_path).check()


def test_a_number_that_is_no_class_is_named_before_a_training(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "classes.txt").write_text("a\nb\n")
    data = masks_of(tmp_path)
    row, column = np.argwhere(numbers(0, 3) == 2)[0]
    said = rf"masks/0\.png: value 2 in row {row}, column {column} is no class .*; expected 0 to 1, or 255"
    with pytest.raises(BadData, match=said):
        data.check()
    with pytest.raises(BadData, match=said):
        data[0]


def test_masks_in_which_nobody_has_said_anything(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "classes.txt").write_text("a\nb\nc\n")
    for i in range(3):
        masks_of(tmp_path).check()  # one that says something is enough
        save_mask(tmp_path / "masks" / f"{i}.png", np.full(SIZE[::-1], 255, np.uint8))
    with pytest.raises(BadData, match=r"none of its 3 targets says anything, the first is that of .*0\.jpg"):
        masks_of(tmp_path).check()


def test_a_mask_of_another_size(tmp_path: Path) -> None:
    fill(tmp_path)
    save_mask(tmp_path / "masks" / "1.png", np.zeros((8, 13), np.uint8))
    said = r"masks/1\.png has 13x8 pixels, its picture .*images/1\.jpg has 12x8; expected the same size"
    with pytest.raises(BadData, match=said):
        masks_of(tmp_path).check()
    with pytest.raises(BadData, match=said):
        masks_of(tmp_path)[1]


def drop_mask(root: Path) -> None:
    (root / "masks" / "1.png").unlink()


def drop_picture(root: Path) -> None:
    (root / "images" / "1.jpg").unlink()


def drop_all(root: Path) -> None:
    for path in [*root.glob("images/*"), *root.glob("masks/*")]:
        path.unlink()


def empty_mask(root: Path) -> None:
    (root / "masks" / "1.png").write_bytes(b"")


def lossy_mask(root: Path) -> None:
    (root / "masks" / "1.png").rename(root / "masks" / "1.jpg")


def two_pictures_of_a_name(root: Path) -> None:
    save_picture(root / "images" / "1.png")


def no_masks_folder(root: Path) -> None:
    (root / "masks").rename(root / "labels")


def no_classes(root: Path) -> None:
    (root / "classes.txt").write_text("\n")


def a_class_twice(root: Path) -> None:
    (root / "classes.txt").write_text("a\nb\na\n")


def a_line_without_colour(root: Path) -> None:
    (root / "classes.txt").write_text("1 2 3 a\n4 5 b\n")


def a_colour_twice(root: Path) -> None:
    (root / "classes.txt").write_text("1 2 3 a\n1 2 3 b\n")


def no_text(root: Path) -> None:
    (root / "classes.txt").write_bytes(b"\xff\xfe\x00a")


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (drop_mask, r"images/1\.jpg has no mask \(1 of 3 have none\); expected .*masks/1\.png"),
        (drop_picture, r"the mask .*masks/1\.png belongs to no picture"),
        (drop_all, r"no pictures in .*images; expected files ending"),
        (empty_mask, r"masks/1\.png is empty"),
        (lossy_mask, r"masks/1\.jpg is a JPEG or WebP, which changes numbers; expected PNG"),
        (two_pictures_of_a_name, r"1\.jpg and .*1\.png have the same name"),
        (no_masks_folder, r"there is no folder .*masks; expected images and masks"),
        (no_classes, r"classes\.txt names no class"),
        (a_class_twice, r"classes\.txt: 'a' is there twice"),
        (a_line_without_colour, r"classes\.txt, line 2: expected three numbers"),
        (a_colour_twice, r"classes\.txt, line 2: the colour 1 2 3 is there twice"),
        (no_text, r"classes\.txt is not text in UTF-8"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_is_wrong_is_said_when_the_folder_is_opened(tmp_path: Path, damage: object, said: str) -> None:
    fill(tmp_path)
    damage(tmp_path)  # type: ignore[operator]
    with pytest.raises(BadData, match=said):
        load_data(f"masks:{tmp_path}")


def test_broken_files_and_colours_without_names(tmp_path: Path) -> None:
    fill(tmp_path)
    whole = (tmp_path / "masks" / "1.png").read_bytes()
    (tmp_path / "classes.txt").write_text("a\nb\nc\n")
    (tmp_path / "masks" / "1.png").write_bytes(whole[:40])
    with pytest.raises(BadData, match=r"cannot decode .*masks/1\.png"):
        masks_of(tmp_path).check()
    save_picture(tmp_path / "masks" / "1.png")
    with pytest.raises(
        BadData, match=r"masks/1\.png has mode RGB; expected the number of a class .* 64 128 64 tree"
    ):
        masks_of(tmp_path).check()


def test_paths_and_splits_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="does not exist; expected a folder with images and masks"):
        load_data(f"masks:{tmp_path / 'nothing'}")
    fill(tmp_path / "train")
    with pytest.raises(BadData, match=r"has no folder for split 'test'; it has train"):
        load_data(f"masks:{tmp_path}", "test")
    with pytest.raises(BadData, match=r"no split 'night' in masks:"):
        load_data(f"masks:{tmp_path}", "night")


def ade(root: Path) -> Path:
    for split, count in (("training", 3), ("validation", 2)):
        for i in range(count):
            name = f"ADE_{'train' if split == 'training' else 'val'}_{i:08d}"
            save_picture(root / "images" / split / f"{name}.jpg", i)
            save_mask(root / "annotations" / split / f"{name}.png", numbers(i, 151))
    lines = ["Idx\tRatio\tTrain\tVal\tStuff\tName"]
    lines += [f"{k}\t0.1\t1\t1\t0\tkind{k}, other word" for k in range(1, 151)]
    (root / "objectInfo150.txt").write_text("\n".join(lines))
    return root


def test_ade20k(tmp_path: Path) -> None:
    root = ade(tmp_path / "ADEChallengeData2016")
    data = load_data(f"ade20k:{root}", "train")
    assert isinstance(data, TaskData)
    assert (len(data), len(data.classes), data.classes[0], data.classes[-1]) == (3, 150, "kind1", "kind150")
    assert data[1][1].tolist() == (numbers(1, 151).astype(int) - 1).tolist()  # 0, no class, is -1
    assert [len(load_data(f"ade20k:{tmp_path}", split)) for split in ("val", "test")] == [2, 2]
    data.check()
    save_mask(root / "annotations/training/ADE_train_00000001.png", np.full(SIZE[::-1], 151, np.uint8))
    with pytest.raises(
        BadData, match=r"ADE_train_00000001\.png: value 151 .* expected 1 to 150, or 0 for no class"
    ):
        data.check()
    (root / "objectInfo150.txt").unlink()
    assert load_data(f"ade20k:{root}", "train").classes[:2] == ("1", "2")
    (root / "objectInfo150.txt").write_text("Idx\tName\n1\twall\n")
    with pytest.raises(BadData, match="lists 1 classes; expected ADE20K's 150"):
        load_data(f"ade20k:{root}", "train")
    with pytest.raises(BadData, match="has no split 'night'"):
        load_data(f"ade20k:{root}", "night")
    (root / "annotations").rename(root / "elsewhere")
    with pytest.raises(BadData, match=r"there is no folder .*annotations/training"):
        load_data(f"ade20k:{root}", "train")
