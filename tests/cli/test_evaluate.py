import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.data.test_labels import CRAB, SHARK, TENCH, write
from tests.processes import run
from vitscope.cli.app import main
from vitscope.cli.evaluate import Options, _out
from vitscope.data import load_data
from vitscope.exams.prediction.prediction import PredictionResult, prediction
from vitscope.models import create_model
from vitscope.results import Run

ROOT = Path(__file__).parents[2]
SMALL = ["--data", "fashion", "--exams", "prediction", "--limit", "50", "--batch-size", "16"]


def test_two_models_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(["evaluate", "resnet_mini", "vit_mini", *SMALL, "--temperature", "fit", "--out", str(tmp_path)])
        == 0
    )
    shown = " ".join(capsys.readouterr().out.split())
    for text in ("accuracy", "adaptive ece", "temperature", "minus resnet_mini", "gets wrong", "McNemar"):
        assert text in shown
    assert re.search(r"minus resnet_mini .*accuracy [+-][\d.]+ points \[[+-]", shown)
    assert f"figures in {tmp_path}/resnet_mini/figures" in shown
    assert f"vitscope report {tmp_path}/resnet_mini {tmp_path}/vit_mini" in shown
    run = Run.open(tmp_path / "vit_mini")
    assert (run.model["name"], set(run.results())) == ("vit_mini", {"prediction"})
    assert (run.path / "figures" / "prediction_classes.png").exists()
    assert "nll" in pd.read_csv(tmp_path / "differences.csv")["quantity"].tolist()


def test_every_number_stands_beside_how_many_images_it_is_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ["vit_mini", "--data", "fashion", "--limit", "20", "--exams", "prediction", "shape_bias"]
    assert main(["evaluate", *given, "--out", str(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    table = Run.open(tmp_path).results()["shape_bias"].summary()
    bias = int(table[table["quantity"] == "shape_bias"]["n"].iloc[0])
    assert bias < 20  # only images that the model gets right in both forms count
    for name, n in (("accuracy", 20), ("shape bias, cut at", bias)):
        (line,) = [x for x in lines if x.startswith(f"  {name}")]
        assert line.split()[-1] == str(n)


def test_classes_of_imagenet_in_folders(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pictures = load_data("fashion").subset(np.arange(40))
    write(tmp_path / "a", pictures, {name: ["0.png", "1.png"] for name in (CRAB, TENCH, SHARK)})
    labels = ["--labels", "imagenet", "--classes", "present", "--no-pretrained", "--num-classes", "1000"]
    arguments = ["vit_mini", "--data", f"folder:{tmp_path}/a", "--exams", "prediction", *labels]
    assert main(["evaluate", *arguments, "--out", str(tmp_path / "run")]) == 0
    result = Run.open(tmp_path / "run").results()["prediction"]
    assert isinstance(result, PredictionResult)
    assert result.class_names == (TENCH, SHARK, CRAB)
    assert result.n == 6
    shown = capsys.readouterr()
    assert "minus" not in shown.out
    (note,) = shown.err.splitlines()  # nothing about labels
    assert note.startswith("note: the weights of vit_mini are random")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "no model was named"),
        (["resnet_mini", "--exams", "palmistry"], "no exam 'palmistry'"),
        (["resnet_mini", *SMALL, "--labels", "wordnet"], "no labels 'wordnet'"),
        (["resnet_mini", *SMALL, "--labels", "real:nowhere.json"], "cannot read labels from nowhere.json"),
        (["resnet_mini", *SMALL, "--temperature", "-1"], "expected a number, more than 0, or fit"),
        (["resnet_mini", *SMALL, "--num-classes", "3", "--no-pretrained"], "--num-classes 10"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", *arguments, "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1


def test_default_folders() -> None:
    runs = Path("runs/evaluate")
    several, photos = ("vit_mini", "tv:resnet18"), "folder:my/photos"
    assert _out(Options(models=several)) == runs / "fashion/vit_mini-tv_resnet18"
    assert _out(Options(models=several, data=photos)) == runs / "folder_my_photos/vit_mini-tv_resnet18"
    assert _out(Options(models=("tv:resnet18", "tv:resnet18"))) == runs / "fashion/tv_resnet18"
    assert _out(Options(models=("vit_mini",), out=Path("here"))) == Path("here")


def test_two_processes_find_what_one_does(tmp_path: Path) -> None:
    """With 3 batches of 20 images, the processes have seen other classes and other ends of the data."""
    arguments = ["evaluate", "vit_mini", *SMALL[:-1], "20", "--temperature", "fit", "--out", str(tmp_path)]
    done = run("-m", "vitscope.cli.app", *arguments, processes=2)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("figures in") == 1  # one process speaks for both
    model, data = create_model("vit_mini", pretrained=True), load_data("fashion")
    one = prediction(model, data, limit=50, temperature="fit")
    two = Run.open(tmp_path).results()["prediction"]
    assert isinstance(two, PredictionResult)
    np.testing.assert_array_equal(one.outcomes(), two.outcomes())
    np.testing.assert_array_equal(one.class_predicted, two.class_predicted)
    for quantity, numbers in one.replicates().items():
        np.testing.assert_allclose(two.replicates()[quantity], numbers, rtol=1e-5, atol=1e-6)


def test_no_cache_keeps_no_corrupted_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path / "data"))
    words = ["evaluate", "vit_mini", "--exams", "corruption", "--limit", "10", "--out", str(tmp_path / "run")]
    words += ["--corruption.types", "fog", "snow", "--corruption.severities", "1"]
    assert main([*words, "--no-cache"]) == 0
    assert "corruption" in Run.open(tmp_path / "run").results()
    assert not (tmp_path / "data").exists()
