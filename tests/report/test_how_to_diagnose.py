import shlex
from pathlib import Path

import pytest

from tests.data.test_folder import fill
from vitscope.core.errors import BadResult
from vitscope.models.trust import names_code
from vitscope.report.how_to_diagnose import is_function
from vitscope.report.subject import find_runs
from vitscope.results import Run

NAMES = (
    "vit_mini tv:resnet50 hf:google/vit upernet:vit_mini unet:tv:resnet50 mine:make a.b:make upernet:a.b:make"
)


def test_a_training_without_exams_says_what_it_was_trained_on(tmp_path: Path) -> None:
    Run.start(tmp_path, options={"model": "mine:make", "data": "folder:my photos"}).finish()
    command = f"vitscope diagnose {tmp_path} --data 'folder:my photos' --out {tmp_path} --trust-code"
    with pytest.raises(BadResult) as caught:
        find_runs([tmp_path])
    assert str(caught.value).endswith(f"make some: {command}")
    assert shlex.split(command)[4] == "folder:my photos"


def test_of_images_that_nobody_has_divided_those_that_were_held_out_are_examined(tmp_path: Path) -> None:
    photos = fill(tmp_path / "photos", {"a": 2, "b": 2})
    Run.start(tmp_path / "run", options={"model": "vit_mini", "data": f"folder:{photos}"}).finish()
    with pytest.raises(BadResult, match=f"--data folder:{photos} --split held-out --out"):
        find_runs([tmp_path / "run"])


def test_a_run_that_is_not_here_belongs_into_a_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(BadResult, match="vitscope diagnose MODEL --out runs/NAME"):
        find_runs(["."])


@pytest.mark.parametrize("name", NAMES.split())
def test_code_is_where_models_see_it(name: str) -> None:
    assert is_function(name) == names_code(name)
