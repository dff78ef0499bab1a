from pathlib import Path

import pytest

from vitscope.core.errors import VitscopeError
from vitscope.results import Run
from vitscope.results.plain_files import default_folder, file_name, refuse_same, run_folders

DEFAULT = Path("runs/diagnose")


def test_each_model_has_a_folder_of_its_own(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place / "vit").mkdir(parents=True)
    models = (str(tmp_path / "a" / "vit"), str(tmp_path / "b" / "vit"), "hf:google/vit-base", "tv:resnet50")
    folders = run_folders(models, Path("runs"), DEFAULT)
    assert [str(f) for f in folders.values()] == [
        "runs/vit",
        "runs/vit-2",
        "runs/hf_google_vit-base",
        "runs/tv_resnet50",
    ]


def test_one_model_takes_the_folder_itself() -> None:
    assert run_folders(("resnet50",), Path("here"), DEFAULT) == {"resnet50": Path("here")}
    assert run_folders(("resnet50", "resnet50"), Path("here"), DEFAULT) == {"resnet50": Path("here")}
    assert run_folders(("resnet50",), None, DEFAULT) == {"resnet50": Path("runs/diagnose/resnet50")}


def test_other_data_has_another_folder() -> None:
    assert default_folder("diagnose", "fashion") == Path("runs/diagnose/fashion")
    assert default_folder("diagnose", "folder:photos") == Path("runs/diagnose/folder_photos")
    assert default_folder("diagnose", "fashion", "train") == Path("runs/diagnose/fashion-train")
    assert default_folder("compare", "fashion", models=("a", "tv:b")) == Path("runs/compare/fashion/a-tv_b")


def test_long_names_are_told_apart_and_fit() -> None:
    one, two = file_name(f"folder:/a/{'photos/' * 60}"), file_name(f"folder:/b/{'photos/' * 60}")
    assert one != two
    assert all(len(name.encode()) < 255 and name.endswith("photos_") for name in (one, two))


def test_a_model_is_not_named_twice(tmp_path: Path) -> None:
    for place in ("a", "b"):
        (tmp_path / place / "vit").mkdir(parents=True)
    refuse_same([tmp_path / "a" / "vit", tmp_path / "b" / "vit", "vit"])
    with pytest.raises(VitscopeError, match="vit_mini is named twice; name each model once"):
        refuse_same(["vit_mini", "resnet_mini", "vit_mini"])
    with pytest.raises(VitscopeError, match="named twice"):
        refuse_same([tmp_path / "a" / "vit", f"{tmp_path}/b/../a/vit"])


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="no file system that takes no folders")
def test_a_folder_that_cannot_be_created_is_not_said_to_be_misspelt() -> None:
    with pytest.raises(VitscopeError, match="the folder /proc/xx cannot be created there; choose another"):
        Run.start("/proc/xx")
