"""Options of single exams, in Python and on the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

import vitscope as vs
from vitscope.cli.app import main
from vitscope.cli.exam_options import expand
from vitscope.core.errors import VitscopeError
from vitscope.engine.options import options_of, read_options
from vitscope.exams import EXAMS


def test_every_exam_says_what_it_takes() -> None:
    taken = {name: set(options_of(exam)) for name, exam in EXAMS.items()}
    assert {"k", "batches", "params", "weight_decay"} <= taken["hessian"]
    assert {"points", "span", "directions"} <= taken["landscape"]
    assert taken["prediction"] == {"temperature"}
    assert taken["fourier"] == set()
    common = {"model", "data", "limit", "batch_size", "seed", "device", "name", "parts", "stream", "output"}
    assert not any(common & options for options in taken.values())


def test_an_exam_with_options_is_its_function_with_arguments(tmp_path: Path) -> None:
    model, data = vs.create_model("vit_mini", pretrained=True), vs.load_data("fashion")
    options = {"noise": {"strengths": (20.0,), "draws": 1}, "prediction": {"temperature": 2.0}}
    found = vs.diagnose(model, data, ["noise", "prediction"], limit=20, out=tmp_path, options=options)
    by_hand = vs.exams.noise(model, data, limit=20, strengths=(20.0,), draws=1)
    assert found["noise"].table().equals(by_hand.table())
    assert (
        found["prediction"]
        .table()
        .equals(vs.exams.prediction(model, data, limit=20, temperature=2.0).table())
    )
    recorded = json.loads((tmp_path / "run.json").read_text())["options"]["settings"]
    assert recorded == {"noise": {"strengths": [20.0], "draws": 1}, "prediction": {"temperature": 2.0}}


def test_other_options_are_another_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["diagnose", "vit_mini", "--exams", "noise", "--limit", "8", "--out", str(tmp_path)]
    file = tmp_path / "exams" / "noise" / "result.json"
    assert main([*words, "--noise.strengths", "5", "20", "--noise.draws", "1"]) == 0
    first = file.read_bytes()
    time = file.stat().st_mtime_ns
    assert main([*words, "--noise.draws=1", "--noise.strengths=5,20"]) == 0
    assert file.stat().st_mtime_ns == time
    assert main([*words, "--noise.draws", "2", "--noise.strengths", "5", "20"]) == 0
    assert file.read_bytes() != first
    capsys.readouterr()


def test_words_of_exams_are_told_from_the_others() -> None:
    words = ["--hessian.batches", "4", "vit_mini", "--hessian.split-batch", "resnet_mini", "--limit", "3"]
    words += ["--corruption.types", "fog", "snow"]
    plain = ["vit_mini", "resnet_mini", "--limit", "3", "--options"]
    assert expand(words) == [
        *plain,
        "hessian.batches=4",
        "hessian.split-batch=true",
        "corruption.types=fog,snow",
    ]
    assert read_options(["hessian.split-batch=true", "corruption.types=fog,snow"]) == {
        "hessian": {"split_batch": True},
        "corruption": {"types": ["fog", "snow"]},
    }
    assert expand(["vit_mini", "--data", "folder:a.b"]) == ["vit_mini", "--data", "folder:a.b"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--hessian.batchs", "2"], "no option --hessian.batchs; did you mean --hessian.batches?"),
        (["--hessian.batches", "0"], "--hessian.batches is '0'; expected a whole number, 1 or more"),
        (["--hessian.batches"], "--hessian.batches needs a value"),
        (["--hesian.batches", "2"], "no exam 'hesian'"),
        (["--fourier.bins", "2"], "no option --fourier.bins; fourier takes none"),
        (["--landscape.points", "5"], "landscape, which is not among the exams: hessian; add it"),
        (["--options", "hessian"], "expected EXAM.OPTION=VALUE"),
        (["--hessian.mode", "fast"], "expected lanczos or power"),
    ],
)
def test_wrong_options_are_refused_before_any_pass(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["diagnose", "vit_mini", "--exams", "hessian", "--out", str(tmp_path / "run"), *words]) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hessian": 3}, "expected a dict"),
        ({"hesian": {}}, "no exam 'hesian'; did you mean hessian"),
        ({"noise": {"draws": 1.5}}, "noise.draws is 1.5; expected a whole number"),
        ({"fourier": {"x": 1}}, "fourier, which is not among the exams: noise"),
    ],
)
def test_wrong_options_in_python(options: dict[str, Any], message: str) -> None:
    with pytest.raises(VitscopeError, match=message):
        vs.diagnose(vs.create_model("vit_mini"), "fashion", ["noise"], options=options)


def test_help_lists_the_options_of_the_exams_that_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["diagnose", "--exams", "hessian", "--help"])
    shown = capsys.readouterr().out
    assert "--hessian.max-products: a whole number, 1 or more" in shown
    assert "--landscape" not in shown
