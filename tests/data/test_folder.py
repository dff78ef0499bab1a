"""Images in folders."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from vitscope.core.errors import BadData
from vitscope.data import DataConfig, batches, load_data
from vitscope.data.fetchers import require_labels
from vitscope.models import create_model

CONFIG = DataConfig((3, 16, 16), crop_pct=1.0)


def fill(folder: Path, classes: dict[str, int], suffix: str = "png") -> Path:
    """One folder per class with some images whose brightness tells the class."""
    for number, (name, count) in enumerate(classes.items()):
        (folder / name).mkdir(parents=True, exist_ok=True)
        for i in range(count):
            pixels = np.full((20 + i, 24, 3), 40 * number + 10, np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{i}.{suffix}")
    return folder


def test_classes_directly(tmp_path: Path) -> None:
    fill(tmp_path, {"cat": 3, "ant": 2})
    data = load_data(f"folder:{tmp_path}", "train")
    assert data.classes == ("ant", "cat")
    assert data.labels.tolist() == [0, 0, 1, 1, 1]
    assert data.images is None
    assert data.name(0) == str(tmp_path / "ant" / "0.png")
    assert [data[i][0].getpixel((0, 0))[0] for i in (0, 4)] == [50, 10]


def test_splits(tmp_path: Path) -> None:
    fill(tmp_path / "train", {"a": 4, "b": 4})
    fill(tmp_path / "val", {"a": 2, "b": 2})
    assert len(load_data(f"folder:{tmp_path}", "train")) == 8
    assert len(load_data(f"folder:{tmp_path}", "val")) == 4
    assert len(load_data(f"folder:{tmp_path}", "validation")) == 4
    assert len(load_data(f"folder:{tmp_path}", "test")) == 4  # there is no other
    fill(tmp_path / "test", {"a": 1, "b": 1})
    assert len(load_data(f"folder:{tmp_path}", "test")) == 2


def test_a_class_that_a_split_lacks_does_not_shift_the_labels(tmp_path: Path) -> None:
    fill(tmp_path / "train", {"a": 2, "b": 2, "c": 2})
    fill(tmp_path / "test", {"a": 1, "c": 1})
    data = load_data(f"folder:{tmp_path}", "test")
    assert data.classes == ("a", "b", "c")
    assert data.labels.tolist() == [0, 2]


def test_nested_and_hidden_files(tmp_path: Path) -> None:
    fill(tmp_path, {"a": 2, "b": 2})
    fill(tmp_path / "a", {"deep": 1}, suffix="JPEG")
    (tmp_path / "a" / "notes.txt").write_text("not an image")
    (tmp_path / "a" / "._0.png").write_text("what some systems leave behind")
    (tmp_path / ".cache").mkdir()
    data = load_data(f"folder:{tmp_path}")
    assert data.classes == ("a", "b")
    assert data.labels.tolist() == [0, 0, 0, 1, 1]


def test_same_images_and_labels_as_torchvisions_image_folder(tmp_path: Path) -> None:
    from torchvision.datasets import ImageFolder

    fill(tmp_path, {"n02": 3, "n01": 12, "n10": 2})
    ours, theirs = load_data(f"folder:{tmp_path}"), ImageFolder(str(tmp_path))
    assert list(ours.classes) == theirs.classes
    assert [(ours.name(i), int(ours.labels[i])) for i in range(len(ours))] == theirs.samples


def test_batches_of_pictures_of_different_size_and_mode(tmp_path: Path) -> None:
    fill(tmp_path, {"a": 5, "b": 5})
    ramp = np.arange(400, dtype=np.uint16).reshape(20, 20) * 160
    Image.fromarray(ramp).save(tmp_path / "a" / "deep.png")
    Image.fromarray((ramp // 257).astype(np.uint8)).save(tmp_path / "a" / "grey.png")
    Image.new("RGBA", (30, 20), (255, 0, 0, 0)).save(tmp_path / "b" / "clear.png")
    Image.new("P", (20, 20)).save(tmp_path / "b" / "palette.png")
    data = load_data(f"folder:{tmp_path}")
    seen = {}
    for images, labels, indices in batches(data, config=CONFIG, batch_size=4):
        assert images.shape[1:] == (3, 16, 16)
        seen |= {int(i): (image, int(label)) for i, image, label in zip(indices, images, labels, strict=True)}
    assert sorted(seen) == list(range(14))
    assert all(seen[i][1] == data.labels[i] for i in seen)
    by_name = {Path(data.name(i)).name: seen[i][0] for i in seen}
    assert (by_name["deep.png"] - by_name["grey.png"]).abs().max() < 0.1
    white = (1 - np.array(CONFIG.mean)) / np.array(CONFIG.std)
    assert np.allclose(by_name["clear.png"][:, 8, 8], white, atol=1e-5)


def test_a_truncated_image_stops_the_batches_with_its_name(tmp_path: Path) -> None:
    fill(tmp_path, {"a": 30, "b": 30})
    path = tmp_path / "b" / "17.png"
    path.write_bytes(path.read_bytes()[:60])
    with pytest.raises(BadData, match=rf"cannot decode {path} .*replace it or delete it"):
        list(batches(load_data(f"folder:{tmp_path}"), config=CONFIG, batch_size=8))


def test_a_zero_byte_image_is_found_before_anything_runs(tmp_path: Path) -> None:
    fill(tmp_path, {"a": 2, "b": 2})
    (tmp_path / "b" / "zero.jpg").touch()
    with pytest.raises(BadData, match=r"zero\.jpg is empty \(0 bytes\); replace it or delete it"):
        load_data(f"folder:{tmp_path}")


def test_bad_folders(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="does not exist; expected a folder of images"):
        load_data(f"folder:{tmp_path}/nowhere")
    with pytest.raises(BadData, match="does not exist"):
        load_data("folder:")
    with pytest.raises(BadData, match=r"no images below .*\.jpg"):
        load_data(f"folder:{tmp_path}")
    Image.new("L", (8, 8)).save(tmp_path / "loose.png")
    with pytest.raises(BadData, match=r"loose\.png is a file; expected a folder"):
        load_data(f"folder:{tmp_path}/loose.png")
    (tmp_path / "loose.png").unlink()
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with pytest.raises(BadData, match=r"no images below .*\.jpg"):
        load_data(f"folder:{tmp_path}")
    fill(tmp_path / "whole" / "train", {"a": 3, "b": 3})
    fill(tmp_path / "whole" / "test", {"a": 3})
    with pytest.raises(BadData, match=r"images of one class only \('a'\)"):
        load_data(f"folder:{tmp_path / 'whole'}")


def test_pictures_without_classes(tmp_path: Path) -> None:
    """Loose ones, also beside or in a single folder, are images without labels; hidden folders are not looked at."""
    for place in (tmp_path, tmp_path / "holiday" / "beach", tmp_path / ".thumbnails"):
        place.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (20, 24), (90, 0, 0)).save(place / "photo.jpg")
    data = load_data(f"folder:{tmp_path}")
    assert data.unlabelled
    assert data.classes == ()
    assert data.labels.tolist() == [-1, -1]
    assert [Path(data.name(i)).relative_to(tmp_path).as_posix() for i in range(2)] == [
        "holiday/beach/photo.jpg",
        "photo.jpg",
    ]
    [(images, labels, indices)] = batches(data, config=CONFIG, batch_size=4)
    assert images.shape == (2, 3, 16, 16)
    assert labels.tolist() == [-1, -1]
    assert indices.tolist() == [0, 1]
    assert len(data.fraction(0.5)) == 1
    assert "2 images, no labels" in repr(data)
    with pytest.raises(
        BadData, match=r"^hessian needs labels, and .* have none: .* one per class; put those of each"
    ):
        require_labels(data, "hessian")
    with pytest.raises(BadData, match=r"fraction 0\.01 leaves none of 2 images"):
        data.fraction(0.01)


def test_pictures_without_classes_go_to_any_model(tmp_path: Path) -> None:
    """Whatever classes it has: there are no labels to check."""
    fill(tmp_path, {"photos": 3})
    [(images, labels, _)] = batches(load_data(f"folder:{tmp_path}"), create_model("vit_mini"), batch_size=4)
    assert len(images) == 3
    assert labels.tolist() == [-1] * 3


def test_a_folder_without_images_is_no_class(tmp_path: Path) -> None:
    fill(tmp_path, {"photos": 3, "thumbs": 0})
    Image.new("RGB", (20, 24)).save(tmp_path / "loose.png")
    assert len(load_data(f"folder:{tmp_path}")) == 4
    assert load_data(f"folder:{tmp_path}").unlabelled


def test_classes_further_down_are_pointed_at(tmp_path: Path) -> None:
    fill(tmp_path / "images", {"a": 2, "b": 2})
    with pytest.raises(BadData, match=r"\(if those in .*images are classes, give that folder\)"):
        require_labels(load_data(f"folder:{tmp_path}"))


def test_images_beside_the_classes_are_told(tmp_path: Path) -> None:
    fill(tmp_path, {"a": 2, "b": 2})
    Image.new("RGB", (20, 24)).save(tmp_path / "loose.png")
    with pytest.warns(
        UserWarning, match=r"left out: 1 image in .* beside the folders of classes, as loose\.png"
    ):
        assert len(load_data(f"folder:{tmp_path}")) == 4


def test_pictures_without_classes_below_splits(tmp_path: Path) -> None:
    for split, count in (("train", 3), ("test", 2)):
        fill(tmp_path, {split: count})
    assert len(load_data(f"folder:{tmp_path}", "train")) == 3
    assert len(load_data(f"folder:{tmp_path}", "test")) == 2
    assert load_data(f"folder:{tmp_path}", "test").unlabelled


def test_wrong_split_names(tmp_path: Path) -> None:
    fill(tmp_path, {"a": 2, "b": 2})
    with pytest.raises(BadData, match=r"no split 'tset' .*expected train, val, test or held-out"):
        load_data(f"folder:{tmp_path}", "tset")
    other = fill(tmp_path / "other" / "train", {"a": 2, "b": 2}).parent
    with pytest.raises(BadData, match="no folder for split 'val'; it has train"):
        load_data(f"folder:{other}", "val")


def test_a_link_that_leads_nowhere_is_found_before_anything_runs(tmp_path: Path) -> None:
    fill(tmp_path, {"a": 2, "b": 2})
    (tmp_path / "b" / "gone.jpg").symlink_to(tmp_path / "nowhere.jpg")
    with pytest.raises(BadData, match=r"gone\.jpg leads nowhere \(No such file.*replace it or delete it"):
        load_data(f"folder:{tmp_path}")
    data = load_data(f"folder:{tmp_path}", check=False)
    assert len(data) == 5
    with pytest.raises(BadData, match=r"gone\.jpg does not exist"):
        data[4 if data.name(4).endswith("gone.jpg") else 2]


def test_a_misspelt_split_hears_of_the_images_held_out(tmp_path: Path) -> None:
    """Which only a folder has that nobody has divided."""
    fill(tmp_path / "whole", {"a": 2, "b": 2})
    fill(tmp_path / "divided" / "train", {"a": 2, "b": 2})
    with pytest.raises(BadData, match="expected train, val, test or held-out"):
        load_data(f"folder:{tmp_path / 'whole'}", "tset")
    with pytest.raises(BadData, match=r"expected train, val or test$"):
        load_data(f"folder:{tmp_path / 'divided'}", "tset")
