"""Studies and surveys pass over image files that cannot be decoded, where they are asked to."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.test_folder import fill
from tests.studies.tiny_study import done_here
from vitscope.core.errors import VitscopeError
from vitscope.studies.graph import plan_study
from vitscope.studies.store import Store
from vitscope.studies.study import Study
from vitscope.studies.survey import survey

FILE = """
name: broken
question: Does it run?
data: folder:PHOTOS
skip_broken: true
changes: {epochs: 1, warmup_epochs: 0, batch_size: 4}
seeds: 1
arms:
  plain: {model: "tests.studies.fragile:fragile_vit"}
exams:
  prediction: {batch_size: 4}
"""


@pytest.fixture
def damaged(tmp_path: Path) -> Path:
    """Images to train on and others, one file of each part cut short."""
    for split in ("train", "test"):
        fill(tmp_path / "photos" / split, {"a": 5, "b": 5})
        cut = tmp_path / "photos" / split / "b" / "1.png"
        cut.write_bytes(cut.read_bytes()[:60])
    return tmp_path / "photos"


@pytest.fixture
def mended(damaged: Path, tmp_path: Path) -> Path:
    """The same without those files."""
    whole = shutil.copytree(damaged, tmp_path / "whole" / "photos")
    for split in ("train", "test"):
        (whole / split / "b" / "1.png").unlink()
    return whole


def surveyed(folder: Path, place: Path, **changed: Any) -> Any:
    request: dict[str, Any] = {"data": f"folder:{folder}", "exams": ["variance"], "pretrained": False}
    return survey(
        "vit_mini",
        store=place / "store",
        out=place / "out",
        batch_size=4,
        img_size=32,
        engine="here",
        **request,
        **changed,
    )


def test_a_survey_measures_the_images_that_are_whole(
    damaged: Path, mended: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = surveyed(damaged, tmp_path / "a", skip_broken=True)
    assert "1 of 10 images are broken and passed over" in capsys.readouterr().err
    wanted = surveyed(mended, tmp_path / "b")
    values, expected = (
        one.table().query("exam == 'variance'")["value"].to_numpy() for one in (found, wanted)
    )
    assert len(values) > 5
    np.testing.assert_array_equal(values, expected)
    with pytest.raises(VitscopeError, match=r"cannot decode .*1\.png.*survey.*skip_broken"):
        surveyed(damaged, tmp_path / "c")


def test_a_study_trains_on_and_measures_those_that_are_whole(
    damaged: Path, mended: Path, tmp_path: Path
) -> None:
    tables = []
    for folder in (damaged, mended):
        study = Study.read(_file(tmp_path, folder))
        done = done_here(
            study, tmp_path / folder.parent.name / "store", tmp_path / folder.parent.name / "out"
        )
        assert not done.report.failures
        table = done.result.table()
        assert set(table.query("exam == 'prediction'")["n"].dropna()) == {9}
        tables.append(
            table[["exam", "quantity", "value"]].query("exam != 'training' or quantity == 'accuracy'")
        )
    assert tables[0].equals(tables[1])


def test_a_study_that_does_not_ask_stops_at_the_file(damaged: Path, tmp_path: Path) -> None:
    file = _file(tmp_path, damaged)
    file.write_text(file.read_text().replace("skip_broken: true\n", ""))
    failures = done_here(Study.read(file), tmp_path / "store", tmp_path / "out").report.failures
    assert any("1.png" in line and "skip_broken: true" in line for line in failures), failures


def test_what_was_done_serves_whoever_asks_where_no_file_is_broken(
    damaged: Path, mended: Path, tmp_path: Path
) -> None:
    keys = {}
    for folder in (damaged, mended):
        asked = Study.read(_file(tmp_path, folder))
        plain = replace(asked, skip_broken=False)
        assert "skip_broken" not in plain.to_dict()
        assert asked.to_dict()["skip_broken"] is True
        keys[folder] = [set(plan_study(one, Store(tmp_path)).missing) for one in (asked, plain)]
    assert keys[mended][0] == keys[mended][1]
    assert keys[damaged][0].isdisjoint(keys[damaged][1])


def test_broken_images_are_named_once(
    damaged: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Though some of a folder are trained on, others are held out, and all are known by a fingerprint."""
    file = _file(tmp_path, damaged)
    file.write_text(file.read_text() + "validation: 0.4\n")
    done_here(Study.read(file), tmp_path / "store", tmp_path / "out")
    said = capsys.readouterr().err
    assert said.count("are broken and passed over") == 1
    assert str(damaged / "train" / "b" / "1.png") in said


def _file(place: Path, folder: Path) -> Path:
    file = place / f"{folder.parent.name}.yaml"
    file.write_text(FILE.replace("PHOTOS", str(folder)))
    return file
