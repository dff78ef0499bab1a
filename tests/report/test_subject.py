import json
import os
import shlex
import shutil
from pathlib import Path

import pytest

import vitscope as vs
from tests.data.test_folder import fill
from tests.report.older import COMMAND, age
from vitscope.core.errors import BadResult, VitscopeError
from vitscope.drawing.style import MODELS
from vitscope.engine.facts import training_facts
from vitscope.engine.resuming import read_tensors
from vitscope.models.trust import names_code
from vitscope.report.subject import exam_order, find_runs, is_function, left_out
from vitscope.results import Run

NAMES = (
    "vit_mini tv:resnet50 hf:google/vit upernet:vit_mini unet:tv:resnet50 mine:make a.b:make upernet:a.b:make"
)


def test_a_folder_of_runs_stands_for_the_runs(runs: Path) -> None:
    subjects = find_runs([runs])
    assert [s.name for s in subjects] == ["resnet_mini", "vit_mini"]
    assert [s.colour for s in subjects] == list(MODELS[:2])
    assert set(subjects[1].results) == {"prediction", "fourier", "attention", "maps"}


def test_order_and_colours_follow_the_arguments(runs: Path) -> None:
    subjects = find_runs([runs / "vit", runs / "resnet"])
    assert [(s.name, s.colour) for s in subjects] == [("vit_mini", MODELS[0]), ("resnet_mini", MODELS[1])]


def test_equal_names_are_told_apart_by_folder(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "vit", tmp_path / "copy")
    subjects = find_runs([runs / "vit", tmp_path / "copy"])
    assert [s.name for s in subjects] == ["vit_mini (vit)", "vit_mini (copy)"]
    shutil.copytree(runs / "vit", tmp_path / "other" / "copy")
    subjects = find_runs([tmp_path / "copy", tmp_path / "other" / "copy", runs / "resnet"])
    folder = tmp_path.name
    assert [s.name for s in subjects] == [
        f"vit_mini ({folder}/copy)",
        "vit_mini (other/copy)",
        "resnet_mini",
    ]


def test_an_exam_applies_where_it_found_something(runs: Path) -> None:
    cnn, vit = find_runs([runs / "resnet", runs / "vit"])
    assert not cnn.applies("attention")  # examined, but there is none
    assert vit.applies("attention")
    assert not vit.applies("variance")  # not examined


def test_provenance(runs: Path) -> None:
    found = dict(find_runs([runs / "resnet"])[0].provenance)
    assert found["State"] == "done"
    assert found["Seed"] == "0"
    assert "torch" in found["Versions"]


def test_what_is_no_run_is_refused(runs: Path, tmp_path: Path) -> None:
    with pytest.raises(BadResult, match="no run folder"):
        find_runs([tmp_path])
    with pytest.raises(BadResult, match="no run was named"):
        find_runs([])
    with Run.start(tmp_path / "empty"):
        pass
    with pytest.raises(BadResult, match="no finished exam"):
        find_runs([tmp_path / "empty"])


def test_runs_without_an_exam_are_passed_over_where_a_folder_holds_others(runs: Path, tmp_path: Path) -> None:
    """A training or an operation beside diagnoses does not stop the page, unless it was asked for by name."""
    shutil.copytree(runs / "vit", tmp_path / "vit")
    empty = [tmp_path / "a-training", tmp_path / "operated"]
    for path in empty:
        with Run.start(path):
            pass
    with pytest.warns(UserWarning, match="no exam to show") as told:
        subjects = find_runs([tmp_path])
    assert [(s.name, s.colour) for s in subjects] == [("vit_mini", MODELS[0])]
    assert [str(one.message).partition(": ")[2] for one in told] == [f"{empty[0]}, {empty[1]}"]
    with pytest.raises(BadResult, match=r"a-training holds no finished exam \(state: done\)"):
        find_runs([tmp_path, empty[0]])
    shutil.rmtree(tmp_path / "vit")
    with pytest.raises(BadResult, match="a-training holds no finished exam"):
        find_runs([tmp_path])


def test_results_in_the_place_of_runs_are_refused_with_what_makes_runs() -> None:
    with pytest.raises(
        VitscopeError, match=r"expected a run folder, as vs\.diagnose\(model, data, out='runs/mine'\)"
    ):
        vs.report([object()])  # type: ignore[operator]


def test_a_damaged_exam_is_refused(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "vit", tmp_path / "copy")
    path = tmp_path / "copy" / "exams" / "fourier" / "result.json"
    content = json.loads(path.read_text())
    content["result"]["n"] = 31
    path.write_text(json.dumps(content))
    with pytest.raises(BadResult, match="damaged"):
        find_runs([tmp_path / "copy"])


def test_outdated_exams_are_left_out_and_told_by_command(runs: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        age(Path(shutil.copytree(runs / "vit", tmp_path / name)), "maps", "layers")
    subjects = find_runs([runs / "resnet", tmp_path / "a", tmp_path / "b"])
    assert [s.is_outdated("maps") for s in subjects] == [False, True, True]
    assert not subjects[1].applies("maps")
    ((command, found),) = left_out(subjects).items()
    assert command == COMMAND
    assert [(s.name, [one.exam for one in exams]) for s, exams in found] == [
        ("vit_mini (a)", ["maps"]),
        ("vit_mini (b)", ["maps"]),
    ]


def test_a_run_of_nothing_but_outdated_exams_says_what_to_type(runs: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(runs / "vit", tmp_path / "run"))
    for exam in (run / "exams").iterdir():
        if exam.name == "maps":
            age(run, "maps", "layers")
        else:
            shutil.rmtree(exam)
    with pytest.raises(
        BadResult, match=r"another form \(maps\); compute them anew: vitscope diagnose vit_mini"
    ):
        find_runs([run])


def test_exams_stand_in_the_order_of_the_page() -> None:
    assert exam_order(["later", "maps", "prediction", "later"]) == ["prediction", "maps", "later"]


def test_a_pipe_in_a_run_is_not_waited_for(tmp_path: Path) -> None:
    for name in ("metrics.csv", "monitors.csv", "run.json"):
        os.mkfifo(tmp_path / name)
    with pytest.raises(VitscopeError, match=rf"^{tmp_path}/metrics.csv is a pipe, not a file; remove it"):
        vs.plots.training(tmp_path)
    with pytest.raises(VitscopeError, match=rf"^{tmp_path}/monitors.csv is a pipe, not a file; remove it"):
        vs.plots.monitors(tmp_path, "variance")
    with pytest.raises(VitscopeError, match=r"run.json is a pipe, not a file"):
        vs.report(tmp_path, tmp_path / "page.html")
    assert training_facts(tmp_path) is None
    os.mkfifo(tmp_path / "0.safetensors")
    assert read_tensors(tmp_path / "0.safetensors") == ({}, {})


def test_a_training_without_exams_says_what_it_was_trained_on(tmp_path: Path) -> None:
    Run.start(tmp_path, options={"model": "mine:make", "data": "folder:my photos"}).finish()
    command = f"vitscope diagnose {tmp_path} --data 'folder:my photos' --out {tmp_path} --trust-code"
    with pytest.raises(BadResult) as caught:
        find_runs([tmp_path])
    assert str(caught.value).endswith(f"make some: {command}")
    assert shlex.split(command)[4] == "folder:my photos"


@pytest.mark.parametrize("name", NAMES.split())
def test_code_is_where_models_see_it(name: str) -> None:
    assert is_function(name) == names_code(name)


def test_a_run_that_is_named_twice_is_shown_once(runs: Path) -> None:
    with pytest.warns(UserWarning, match="is named twice; it is shown once"):
        subjects = find_runs([runs / "vit", runs])
    assert [s.name for s in subjects] == ["vit_mini", "resnet_mini"]


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
