"""Which of several outputs is trained."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from vitscope.core.errors import UnsupportedModel
from vitscope.core.interface import interface_of
from vitscope.core.outputs import UndecidedOutput
from vitscope.data import ImageData, load_data
from vitscope.training import train

ONCE = {"epochs": 1, "batch_size": 16, "workers": 0, "device": "cpu", "progress": False}
CONFIG = {"input_size": (3, 32, 32), "mean": (0.5,) * 3, "std": (0.5,) * 3, "crop_pct": 1.0}


class Several(nn.Module):
    """Features and scores, neither of which says that it is the scores."""

    def __init__(self, width: int = 16, in_evaluation: bool = True) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, width, 8, stride=8), nn.Linear(width, 10)
        self.in_evaluation = in_evaluation
        self.pretrained_cfg = CONFIG

    def forward(self, images: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        features = self.stem(images).relu().mean((2, 3))
        scores = self.head(features)
        return (features, scores) if self.training or self.in_evaluation else scores


def several() -> nn.Module:
    """As a user's factory."""
    return Several()


@pytest.fixture(scope="module")
def images() -> ImageData:
    return load_data("fashion", split="train", fraction=0.01)


def test_the_classes_of_the_data_decide_and_the_run_folder_knows(images: ImageData, tmp_path: Path) -> None:
    name = f"{__name__}:several"
    done = train(name, images, out=tmp_path / "run", held_out=images, **ONCE)
    assert done.accuracy >= 0
    trained = vs.create_model(tmp_path / "run", trust_code=True)
    assert interface_of(trained).output == 1
    plain = (torch.randn(8, 3, 32, 32), torch.zeros(8, dtype=torch.long))  # of no known number of classes
    vs.exams.prediction(trained, plain, batch_size=8)
    with pytest.raises(UndecidedOutput):
        vs.exams.prediction(several(), plain, batch_size=8)


def test_what_is_said_goes_before_and_is_recorded(images: ImageData, tmp_path: Path) -> None:
    model = Several(width=10)  # two outputs with as many numbers as there are classes
    with pytest.raises(UndecidedOutput, match="output=0 or output=1"):
        train(model, images, out=tmp_path / "none", **ONCE)
    assert interface_of(model).output is None
    train(model, images, out=tmp_path / "run", output=1, **ONCE)
    assert interface_of(model).output == 1
    assert json.loads((tmp_path / "run" / "run.json").read_text())["options"]["output"] == 1


def test_an_output_that_is_not_there_is_refused(images: ImageData, tmp_path: Path) -> None:
    for model, said, words in (
        (Several(), 3, "none of what Several returns: 0: 1x16, 1: 1x10"),
        (vs.create_model("vit_mini", num_classes=10), 1, "returns one tensor, 1x10; leave output= out"),
    ):
        with pytest.raises(UnsupportedModel, match=words):
            train(model, images, out=tmp_path / "run", output=said, **ONCE)
        assert interface_of(model).output is None


def test_a_model_that_returns_more_in_training(images: ImageData, tmp_path: Path) -> None:
    train(Several(in_evaluation=False), images, out=tmp_path / "by_data", **ONCE)
    model = Several(width=10, in_evaluation=False)
    before = model.head.weight.clone()
    train(model, images, out=tmp_path / "said", output=1, **ONCE)
    assert not torch.equal(model.head.weight, before)


def test_a_teacher_with_several_outputs(images: ImageData, tmp_path: Path) -> None:
    student = vs.create_model("vit_mini", num_classes=10)
    changes = {"distill": "hard"}
    done = train(student, images, out=tmp_path / "run", teacher=Several(), changes=changes, **ONCE)
    assert done.train_loss > 0
