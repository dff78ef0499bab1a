"""A run in the folder of the images: its figures are no images, and the next one is refused."""

from pathlib import Path

import pytest

import vitscope as vs
from tests.data.test_folder import fill
from vitscope.cli.app import main
from vitscope.core.errors import VitscopeError
from vitscope.data import load_data
from vitscope.results import Run


def a_run(folder: Path) -> None:
    """What `diagnose` leaves, as far as it may be taken for images."""
    with Run.start(folder):
        pass
    (folder / "exams" / "fourier").mkdir(parents=True)
    fill(folder, {"figures": 3})


@pytest.mark.parametrize("place", [".", "out", "runs/diagnose/vit", "a", "a/deep/run"])
def test_figures_of_a_run_are_no_images(place: str, tmp_path: Path) -> None:
    fill(tmp_path / "classes", {"a": 3, "zoo": 2})
    a_run(tmp_path / "classes" / place)
    data = load_data(f"folder:{tmp_path / 'classes'}")
    assert data.classes == ("a", "zoo")
    assert data.labels.tolist() == [0, 0, 0, 1, 1]


@pytest.mark.parametrize("place", [".", "out", "runs/diagnose/vit"])
def test_figures_are_none_of_pictures_without_classes(place: str, tmp_path: Path) -> None:
    fill(tmp_path, {"loose": 4})
    a_run(tmp_path / "loose" / place)
    data = load_data(f"folder:{tmp_path / 'loose'}")
    assert (len(data), data.classes) == (4, ())


def test_figures_are_no_frames(tmp_path: Path) -> None:
    fill(tmp_path / "film" / "cat", {"one": 3})
    fill(tmp_path / "film" / "dog", {"two": 2})
    a_run(tmp_path / "film" / "out")
    assert load_data(f"frames:{tmp_path / 'film'}").classes == ("cat", "dog")


@pytest.mark.parametrize(
    "words",
    [
        ["diagnose", "vit_mini", "--data", "DATA", "--out", "OUT"],
        ["evaluate", "vit_mini", "--data", "DATA", "--out", "OUT"],
        ["compare", "vit_mini", "resnet_mini", "--data", "DATA", "--out", "OUT"],
        ["train", "vit_mini", "--data", "DATA", "--out", "OUT"],
        ["survey", "vit_mini", "--data", "DATA", "--out", "OUT"],
        ["survey", "vit_mini", "--data", "DATA", "--store", "OUT"],
    ],
)
@pytest.mark.parametrize("inside", [".", "new/run"])
def test_no_run_is_written_among_the_images(
    words: list[str], inside: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    photos = fill(tmp_path / "photos", {"a": 3, "b": 3})
    known = {"DATA": f"folder:{photos}", "OUT": str(photos / inside)}
    assert main([known.get(word, word) for word in words]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert "where figures would be taken for images" in said
    assert f"--out {tmp_path / 'runs' / 'photos'}" in said
    assert sorted(path.name for path in photos.iterdir()) == ["a", "b"]


def test_a_link_into_the_images_is_followed(tmp_path: Path) -> None:
    photos = fill(tmp_path / "photos", {"a": 3, "b": 3})
    (tmp_path / "link").symlink_to(photos)
    with pytest.raises(VitscopeError, match="figures would be taken for images"):
        vs.diagnose("vit_mini", load_data(f"folder:{photos}"), ["variance"], out=tmp_path / "link" / "run")
