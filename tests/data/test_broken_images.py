"""Image files that cannot be decoded are left out, and named."""

import shutil
from pathlib import Path

import pytest

import vitscope as vs
from tests.data.test_folder import fill
from tests.processes import run
from vitscope.core.errors import BadData


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Eight images, of which one is cut short and one has no bytes."""
    folder = tmp_path / "photos"
    fill(folder, {"a": 4, "b": 4})
    cut = folder / "b" / "1.png"
    cut.write_bytes(cut.read_bytes()[:60])
    (folder / "a" / "2.png").write_bytes(b"")
    return folder


def test_the_others_stay_as_they_are(damaged: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = vs.load_data(f"folder:{damaged}", skip_broken=True)
    left = [Path(data.name(i)).relative_to(damaged).as_posix() for i in range(len(data))]
    assert left == ["a/0.png", "a/1.png", "a/3.png", "b/0.png", "b/2.png", "b/3.png"]
    assert data.labels.tolist() == [0, 0, 0, 1, 1, 1]
    said = capsys.readouterr().err
    assert "2 of 8 images are broken and passed over" in said
    assert str(damaged / "a" / "2.png") in said
    assert str(damaged / "b" / "1.png") in said


def test_numbers_are_those_of_the_folder_without_them(damaged: Path, tmp_path: Path) -> None:
    whole = shutil.copytree(damaged, tmp_path / "whole" / "photos")
    (whole / "b" / "1.png").unlink()
    (whole / "a" / "2.png").unlink()
    model = vs.create_model("resnet_mini", num_classes=2)
    some, all_of_them = (
        vs.exams.variance(model, vs.load_data(f"folder:{folder}", skip_broken=folder == damaged))
        for folder in (damaged, whole)
    )
    assert some.n == all_of_them.n == 6
    assert (some.value == all_of_them.value).all()


def test_nothing_is_said_where_all_can_be_read(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path, {"a": 2, "b": 2})
    assert len(vs.load_data(f"folder:{tmp_path}", skip_broken=True)) == 4
    assert len(vs.load_data("fashion", skip_broken=True)) == len(vs.load_data("fashion"))
    assert capsys.readouterr().err == ""


def test_a_folder_of_broken_ones_is_refused(damaged: Path) -> None:
    for path in damaged.glob("*/*.png"):
        path.write_bytes(b"no image")
    with pytest.raises(BadData, match=r"none of the 8 images can be read; the first is .*0\.png"):
        vs.load_data(f"folder:{damaged}", skip_broken=True)


def test_no_frame_of_a_stream_is_left_out(damaged: Path) -> None:
    (damaged / "a" / "2.png").unlink()
    stream = damaged.parent / "streams"
    for name in ("a", "b"):
        shutil.copytree(damaged / name, stream / name / "0")
    with pytest.raises(BadData, match="is a stream, in which no frame can be left out"):
        vs.load_data(f"frames:{stream}", skip_broken=True)


@pytest.mark.parametrize("processes", [1, 2])
def test_on_the_command_line(damaged: Path, tmp_path: Path, processes: int) -> None:
    words = f"-m vitscope.cli.app diagnose resnet_mini --data folder:{damaged} --exams variance".split()
    refused = run(*words, "--out", tmp_path / "run")
    assert refused.returncode == 2
    assert (
        "2.png is empty (0 bytes); replace it or delete it, or pass over such files: --skip-broken"
        in refused.stderr
    )
    done = run(*words, "--skip-broken", "--out", tmp_path / "run", processes=processes)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("2 of 8 images are broken and passed over") == 1
    assert vs.results.Run.open(tmp_path / "run").results()["variance"].n == 6
