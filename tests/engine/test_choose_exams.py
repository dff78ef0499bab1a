"""Options of single exams, in Python and on the command line."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import vitscope as vs
from tests.data.test_folder import fill
from tests.exams import tester
from tests.exams.every_exam import images, small_vit
from vitscope.cli.app import main
from vitscope.cli.words import expand
from vitscope.core.errors import BadData, UnsupportedModel, VitscopeError
from vitscope.engine.choose_exams import find_exams, fitting, options_of, read_options
from vitscope.exams import EXAMS
from vitscope.results.numbers import READINGS


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
    for nothing in ("None", "none", "null"):
        assert read_options([f"hessian.recipe={nothing}"]) == {"hessian": {"recipe": None}}
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


OF_MODELS = ("cka", "attention", "softmax_gradient", "low_pass", "maps", "cb_scale", "lesion", "trajectory")


def plain_cnn() -> nn.Module:
    """Without attention, without a shortcut, and with the same answer to every image."""
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10)
    )
    torch.nn.init.zeros_(model[-1].weight)
    model.pretrained_cfg = {"input_size": (3, 32, 32), "mean": (0.5,) * 3, "std": (0.5,) * 3}  # type: ignore[assignment]
    return model.eval()


@pytest.mark.parametrize("exam", [*OF_MODELS, "shape_bias"])
def test_an_exam_that_was_named_and_has_nothing_to_show_says_what_it_needs(exam: str) -> None:
    needs = EXAMS[exam].result.needs
    assert not needs.startswith("other data")
    with pytest.warns(UserWarning, match=f"^{exam} has nothing to show of .*: it needs") as told:
        vs.diagnose(plain_cnn(), images(), [exam], batch_size=4)
    assert [str(one.message).endswith(needs) for one in told] == [True]
    assert [one.filename for one in told] == [__file__]  # the user's line, not one of ours


def test_nothing_is_said_of_exams_that_nobody_has_named() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vs.diagnose(plain_cnn(), images(), batch_size=4)
        vs.diagnose(small_vit(), images(), ["attention"], batch_size=4)


def test_exams_about_streams_are_left_out_with_a_reason_unless_they_were_named() -> None:
    every = find_exams(None, purpose="evaluation")
    with pytest.warns(
        UserWarning,
        match=r"^left out: temporal \(it needs a stream of frames \(--data frames:PATH, coral-stream\)\)$",
    ):
        kept = [exam.result.exam for exam in fitting(every, ["all"], images())]
    needs_other_data = ("temporal", "segmentation", "detection", "answers")
    assert kept == [exam.result.exam for exam in every if exam.result.exam not in needs_other_data]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [exam.result.exam for exam in fitting(every, None, images())] == kept  # nobody asked for it


NEED_LABELS = ("prediction", "passes", "adversarial", "shape_bias")


@pytest.mark.parametrize("task", tester.DATA)
def test_of_data_of_a_task_all_are_those_that_apply_and_the_others_are_named(task: str) -> None:
    data, model = tester.DATA[task](4), tester.MODELS[task]()
    for purpose in ("diagnosis", "evaluation"):
        every = find_exams(["all"], purpose=purpose)  # type: ignore[arg-type]
        with pytest.warns(UserWarning, match="^left out: ") as told:
            kept = {exam.result.exam for exam in fitting(every, ["all"], data, model)}
        names = {exam.result.exam for exam in every}
        said = [str(one.message) for one in told]
        assert len(said) == 1
        left = [exam.result.exam for exam in every if exam.result.exam in NEED_LABELS]
        need = "they need" if len(left) > 1 else "it needs"
        assert f"left out: {', '.join(left)} ({need} a label for each image)" in said[0]
        own = {name for name, of in tester.OF_TASKS.items() if of == task}
        assert kept == names - {*left, "temporal"} - (set(tester.OF_TASKS) - own)
        assert own <= kept


def test_what_cannot_be_done_is_refused_before_any_pass() -> None:
    data, passes = tester.DATA["segmentation"](4), []
    model = small_vit()
    model.register_forward_pre_hook(lambda *_: passes.append(1))
    for exam in ("adversarial", "passes", "prediction"):
        with pytest.raises(BadData, match="data of segmentation, in which no picture has a class of its own"):
            vs.diagnose(model, data, ["fourier", exam])
    for task in ("detection", "vqa"):
        with pytest.raises(UnsupportedModel, match=f"needs a model that was trained for {task}, such as"):
            vs.diagnose(model, tester.DATA[task](4), ["fourier", "noise"])
    assert not passes


def test_outputs_that_are_no_classes_of_the_data_are_told(tmp_path: Path) -> None:
    fill(tmp_path / "photos", {"cat": 3, "dog": 3})
    torch.manual_seed(0)
    home_made = nn.Sequential(nn.Conv2d(3, 4, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(10))
    home_made(torch.zeros(1, 3, 16, 16))
    home_made.pretrained_cfg = {"input_size": (3, 16, 16), "mean": (0.5,) * 3, "std": (0.5,) * 3}  # type: ignore[assignment]
    data = vs.load_data(f"folder:{tmp_path / 'photos'}")
    for _ in range(2):  # made, and read from the folder
        with pytest.warns(UserWarning, match="the model has 10 outputs, the data 2 classes: accuracy"):
            found = vs.diagnose(home_made, data, ["prediction"], out=tmp_path / "run")["prediction"]
    assert "But the model has 10 outputs, the data 2 classes" in READINGS["prediction"](found)
    fitting_one = vs.exams.prediction(vs.create_model("resnet_mini", num_classes=2), data)
    assert fitting_one.mismatch == ""
    assert "outputs" not in READINGS["prediction"](fitting_one)


def test_nothing_is_said_where_nobody_has_named_the_classes() -> None:
    pair = torch.zeros(4, 3, 32, 32), torch.tensor([0, 1, 2, 3])
    assert vs.exams.prediction(vs.create_model("resnet_mini"), pair).mismatch == ""


def test_pictures_without_classes_are_measured_as_with_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Loose files and the same in folders give the same features; what needs labels is left out or refused."""
    fill(tmp_path / "sorted", {"a": 3, "b": 2})
    loose = tmp_path / "loose"
    loose.mkdir()
    for path in sorted((tmp_path / "sorted").rglob("*.png")):
        path.rename(loose / f"{path.parent.name}{path.name}")
    fill(tmp_path / "sorted", {"a": 3, "b": 2})
    told, plain = (vs.load_data(f"folder:{tmp_path / name}") for name in ("sorted", "loose"))
    model, exams = small_vit(), ["fourier", "variance"]
    with_labels = vs.diagnose(model, told, exams=exams)
    without = vs.diagnose(model, plain, exams=exams)
    for exam in exams:
        values = [
            found[exam].table()[["value", "low", "high"]].to_numpy() for found in (with_labels, without)
        ]
        np.testing.assert_allclose(*values, rtol=1e-6)
    with pytest.warns(UserWarning, match=r"left out: prediction \(it needs a label for each image\)"):
        assert "prediction" not in vs.diagnose(model, plain)
    for refused in (lambda: vs.evaluate(model, plain), lambda: vs.exams.hessian(model, plain)):
        with pytest.raises(BadData, match=r"needs labels, and the images of .*loose \(test\) have none"):
            refused()
    with pytest.raises(BadData, match="each of lesion, hessian, prediction needs labels"):
        vs.diagnose(model, plain, ["variance", "lesion", "hessian", "prediction"])
    spec = f"folder:{loose}"
    assert main(["train", "vit_mini", "--data", spec, "--epochs", "1", "--out", str(tmp_path / "run")]) == 2
    assert "a training needs labels" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()
