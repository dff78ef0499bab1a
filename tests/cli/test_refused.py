"""A command that is refused leaves the run folder it was to write into as it was, whatever the verb."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

import vitscope as vs
from tests.made_once import made_once
from vitscope.cli.app import main
from vitscope.core.errors import VitscopeError
from vitscope.results import Run


def _make(folder: Path) -> None:
    """A short training, with an exam of it in the same folder."""
    few = vs.load_data("fashion", split="test").subset(range(10))
    how: dict[str, Any] = {"held_out": few, "epochs": 1, "fraction": 0.002, "progress": False}
    vs.train("vit_mini", "fashion", out=folder, **how)
    vs.diagnose(folder, "fashion", ["prediction"], limit=10, out=folder)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_once(tmp_path_factory, "trained_and_examined", _make)


def everything(folder: Path) -> dict[str, tuple[int, bytes]]:
    files = [path for path in folder.rglob("*") if path.is_file()]
    return {str(file.relative_to(folder)): (file.stat().st_mtime_ns, file.read_bytes()) for file in files}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("diagnose RUN --data fashion --exams segmentation --out RUN", "needs a class for every pixel"),
        ("diagnose RUN --data fashion --exams cka --batch-size 2 --out RUN", "batch"),
        ("diagnose resnet_mini --data fashion --exams prediction --limit 10 --out RUN", "a model of its own"),
        ("diagnose vit_mini --data fashion --exams prediction --limit 10 --out RUN", "a model of its own"),
        ("evaluate RUN --data fashion --exams segmentation --out RUN", "needs a class for every pixel"),
        ("evaluate resnet_mini --data fashion --exams prediction --limit 10 --out RUN", "a model of its own"),
        ("train vit_mini --data fashion --epochs 1 --out RUN", "holds a training"),
        ("train vit_mini --data fashion --epochs 1 --resume --out RUN", "cannot go on"),
        ("train resnet_mini --data fashion --epochs 1 --out RUN", "holds a training"),
        ("train RUN --data fashion --epochs 1 --fraction 0.002 --resume --lr 0.5 --out RUN", "cannot go on"),
        ("operate vit_mini --localize kernel=3 --out RUN", "holds a model already"),
        ("operate RUN --localize kernel=4 --out RUN", ""),
        ("prescribe RUN --apply nothing --out RUN", ""),
    ],
)
def test_a_refused_command_changes_nothing(
    words: str, said: str, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = everything(trained)
    assert main([word.replace("RUN", str(trained)) for word in words.split()]) == 2
    shown = capsys.readouterr().err
    assert said in shown
    assert "Traceback" not in shown
    assert everything(trained) == before
    assert Run.open(trained).state == "done"


def test_the_same_weights_are_the_model_of_the_folder(trained: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(trained, tmp_path / "run"))
    model = vs.create_model("vit_mini", num_classes=10)
    model.load_state_dict(vs.create_model(folder).state_dict())
    vs.diagnose(model, "fashion", ["variance"], limit=10, out=folder)
    assert set(Run.open(folder).results()) == {"prediction", "variance"}
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    with pytest.raises(VitscopeError, match="a model of its own"):
        vs.diagnose(model, "fashion", ["variance"], limit=10, out=folder)
