import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.processes import run
from vitscope.cli.app import main
from vitscope.core.errors import VitscopeError
from vitscope.models import create_model
from vitscope.results import Run

ROOT = Path(__file__).parents[2]
SMALL = ["--no-pretrained", "--data", "fashion", "--limit", "50", "--batch-size", "16"]


def test_several_models_below_one_folder_and_a_page_of_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = ["prediction", "variance"]
    assert main(["diagnose", "resnet_mini", "vit_mini", *SMALL, "--exams", *few, "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for text in ("resnet_mini", "vit_mini", "accuracy", "variance", "blocks.0.attn", "layer1.0"):
        assert text in shown
    assert f"vitscope report {tmp_path}/resnet_mini {tmp_path}/vit_mini" in shown.replace("\n", "")
    for name in ("resnet_mini", "vit_mini"):
        run = Run.open(tmp_path / name)
        assert run.state == "done"
        assert set(run.results()) == set(few)
        assert run.model["name"] == name
    page = tmp_path / "page.html"
    assert main(["report", str(tmp_path), "-o", str(page), "--title", "Two <small> models"]) == 0
    assert f"wrote {page}" in capsys.readouterr().out
    text = page.read_text()
    assert "Two &lt;small&gt; models" in text
    assert text.count("<svg") >= 8


def test_one_model_and_chosen_exams(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["diagnose", "resnet_mini", *SMALL, "--exams", "cka", "variance", "--out", str(tmp_path)]
    assert main(arguments) == 0
    assert set(Run.open(tmp_path).results()) == {"cka", "variance"}
    first = capsys.readouterr().out
    path = tmp_path / "exams" / "cka" / "result.json"
    before = path.stat().st_mtime_ns
    assert main(arguments) == 0  # weights that are not loaded come from the seed, so this is the same work
    assert path.stat().st_mtime_ns == before
    assert capsys.readouterr().out == first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["resnet_mini", "--exams", "palmistry"], "no exam 'palmistry'"),
        (["resnet_mini", "--exams", "furrier"], "no exam 'furrier'; did you mean fourier?"),
        (["no_such_model_at_all"], "no model 'no_such_model_at_all'"),
        (["resnet_mini", "--data", "no_such_data"], "no_such_data"),
        (
            ["resnet_mini", "--device", "nonsense", *SMALL],
            "--device is 'nonsense' (torch knows no such device)",
        ),
        (["resnet_mini", "--num-classes", "3", *SMALL], "--num-classes 10"),
        ([], "no model was named"),
    ],
)
def test_errors_are_one_line(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", *arguments, "--out", str(tmp_path / "run")]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error
    assert len(error.strip().splitlines()) == 1


def test_help_does_not_import_torch() -> None:
    code = (
        "import sys, vitscope.cli.diagnose; assert 'torch' not in sys.modules and 'pandas' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_two_processes_give_the_table_of_one(tmp_path: Path) -> None:
    """Under torchrun itself, in new interpreters."""
    few = ("prediction", "variance")
    words = ["-m", "vitscope.cli.app", "diagnose", "vit_mini", *SMALL, "--exams", *few, "--out"]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [*torchrun, *words, str(tmp_path / "two")]
    together = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=ROOT, timeout=900)
    assert together.returncode == 0, together.stderr
    alone = run(*words, tmp_path / "one")
    assert together.stdout.replace("/two", "/one") == alone.stdout
    for exam in few:
        one, two = (pd.read_csv(tmp_path / name / "exams" / exam / f"{exam}.csv") for name in ("one", "two"))
        assert (two["n"] == 50).all()
        np.testing.assert_allclose(two["value"], one["value"], rtol=1e-6, atol=1e-9)
        np.testing.assert_allclose(two["low"], one["low"], rtol=1e-5, atol=1e-8)


OWN = """
import timm, torch
from torch import nn

def without_arguments():
    torch.manual_seed(0)
    return timm.create_model("vit_tiny_patch16_224", img_size=32, patch_size=8, depth=1, num_classes=10)

def with_weights(pretrained=False):
    model = without_arguments()
    model.head.bias.data.fill_(3.0 if pretrained else 0.0)
    return model
"""


@pytest.mark.parametrize("verb", ["diagnose", "evaluate"])
def test_a_factory_of_ones_own_that_takes_nothing(
    verb: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As docs/your-own-model.md writes it: only what was typed is passed on."""
    (tmp_path / f"own_{verb}.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    few = ["--data", "fashion", "--limit", "20", "--exams", "prediction", "--img-size", "32"]
    assert main([verb, f"own_{verb}:without_arguments", *few, "--out", "run"]) == 0
    model = create_model(f"own_{verb}:with_weights", pretrained=None)
    assert float(model.head.bias[0]) == 3.0  # type: ignore[union-attr, index]
    assert float(create_model(f"own_{verb}:with_weights").head.bias[0]) == 0.0  # type: ignore[union-attr, index]
    with pytest.raises(VitscopeError, match="takes no argument 'pretrained'"):
        create_model(f"own_{verb}:without_arguments", pretrained=True)


def test_other_data_goes_into_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    few = ["--no-pretrained", "--exams", "prediction", "--limit", "10"]
    for split in ("test", "train"):
        assert main(["diagnose", "resnet_mini", "vit_mini", *few, "--split", split]) == 0
    folders = [tmp_path / "runs/diagnose" / data / "vit_mini" for data in ("fashion", "fashion-train")]
    assert [Run.open(f).record["options"]["data"] for f in folders] == ["fashion (test)", "fashion (train)"]
    for folder in folders:  # pages of runs of the same names, but not on the same images
        assert main(["compare", str(folder), str(folder.with_name("resnet_mini"))]) == 0
    pages = sorted(str(page.relative_to(tmp_path)) for page in tmp_path.glob("runs/compare/**/*.html"))
    assert pages == [
        "runs/compare/fashion-train/vit_mini-resnet_mini/report.html",
        "runs/compare/fashion/vit_mini-resnet_mini/report.html",
    ]
