import json
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from vitscope.anatomy.flops import count_flops
from vitscope.data import ImageData
from vitscope.engine.facts import data_name, images_digest, model_facts, training_facts
from vitscope.models import create_model, name_of
from vitscope.surgery import broadcast_context


def test_names(fashion: ImageData) -> None:
    assert name_of(create_model("resnet_mini")) == "resnet_mini"
    assert name_of(nn.Linear(2, 2)) == "Linear"
    assert data_name(fashion) == "fashion (test)"
    assert data_name((torch.zeros(1), torch.zeros(1))) == "tensors"


def test_images_without_a_name_are_told_apart(fashion: ImageData) -> None:
    images, labels = torch.rand(6, 3, 4, 4), torch.arange(6) % 3
    digest = images_digest((images, labels))
    assert len(digest) == 16
    assert digest == images_digest([images.clone(), labels]) == images_digest(TensorDataset(images, labels))
    assert digest == images_digest(DataLoader(TensorDataset(images, labels), batch_size=4))
    assert digest != images_digest((images.flip(0), labels))
    assert digest != images_digest((images, labels.flip(0)))
    assert (
        images_digest(DataLoader(TensorDataset(images, labels), shuffle=True)) == ""
    )  # never the same twice
    assert images_digest(fashion) == ""
    assert images_digest(iter(())) == ""


def test_facts_of_a_model_that_was_operated_on() -> None:
    model = create_model("vit_mini")
    broadcast_context(model)
    facts = model_facts(model, "mine")
    assert json.loads(json.dumps(facts))["name"] == "mine"
    assert facts["parameters"] == sum(p.numel() for p in model.parameters())
    assert facts["flops"] == count_flops(model, (3, 32, 32))
    assert [unit["kind"] for unit in facts["units"]][:3] == ["stem", "msa", "mlp"]
    assert facts["units"][1]["map_shape"] == [96, 8, 8]
    assert [entry["operation"] for entry in facts["surgery"]] == ["broadcast_context"]
    assert facts["origin"]["name"] == "vit_mini"
    assert facts["training"] is None


class Odd(nn.Module):
    """Refuses what anatomy would like to show it."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[-1] != 7:
            raise RuntimeError("images of 7 pixels, please")
        return x.mean((2, 3)) * self.weight


def test_a_model_that_cannot_be_watched_has_fewer_facts() -> None:
    facts = model_facts(Odd(), "odd")
    assert (facts["parameters"], facts["flops"], facts["units"], facts["origin"]) == (3, None, [], None)


def test_training_is_found_under_later_commands(tmp_path: Path) -> None:
    assert training_facts(tmp_path) is None
    recipe = {
        "name": "mini",
        "epochs": 2,
        "batch_size": 32,
        "lr": 0.001,
        "optimizer": "adamw",
        "weight_decay": 0.05,
        "mixup": 1.0,
        "auto_augment": None,
    }
    train = {"options": {"recipe": {**recipe, "ema_decay": None}, "data": "fashion", "images": 6000}}
    (tmp_path / "run.json").write_text(json.dumps({"options": {"exams": []}, "earlier": [train]}))
    assert training_facts(tmp_path) is None
    rows = ["epoch,accuracy,low,high,seconds", "1,0.5,0.4,0.6,10", "2,0.75,0.7,0.8,21.5"]
    (tmp_path / "metrics.csv").write_text("\n".join(rows) + "\n")
    assert training_facts(tmp_path) == {
        "recipe": recipe,
        "data": "fashion",
        "images": 6000,
        "epochs": 2,
        "accuracy": [0.75, 0.7, 0.8],
        "score": "Accuracy",
        "own": [0.75, 0.7, 0.8],
        "curve": [[1.0, None, None, 0.5, 0.4, 0.6], [2.0, None, None, 0.75, 0.7, 0.8]],
        "seconds": 21.5,
    }


def test_the_score_of_a_training_is_that_of_its_task(tmp_path: Path) -> None:
    for heads, row, task, label, own in (
        ("accuracy,low,high,miou,miou_low,miou_high", "0.7,0.6,0.8,0.4,0.3,0.5", "segmentation", "mIoU", 0.4),
        (
            "accuracy,low,high,box_ap,box_ap_low,box_ap_high",
            "nan,nan,nan,0.0,0.0,0.2",
            "detection",
            "Box AP",
            0.0,
        ),
        ("accuracy,low,high", "0.6,0.5,0.7", "vqa", "Soft accuracy", 0.6),
    ):
        record = {"options": {"recipe": {"name": "dense"}, "data": "coral"}, "model": {"task": task}}
        (tmp_path / "run.json").write_text(json.dumps(record))
        (tmp_path / "metrics.csv").write_text(f"epoch,train_loss,nll,seconds,{heads}\n1,2,,5,{row}\n")
        facts = training_facts(tmp_path)
        assert facts is not None
        assert (facts["score"], facts["own"][0]) == (label, own)
        assert facts["curve"] == [[1.0, 2.0, None, *facts["own"]]]
        assert ("accuracy" in facts) is (task != "detection")  # NaN is no JSON
        json.dumps(facts, allow_nan=False)


@pytest.mark.parametrize(
    "rows",
    [
        "epoch,accuracy,low,high,seconds\n1,0.5,0.4\n",
        "epoch,accuracy,low,high\n1,0.5,0.4,0.6\n",
        "epoch,accuracy,low,high,seconds\n1,a,0.4,0.6,7\n",
        'epoch,accuracy,low,high,seconds\n"' + "x" * 300_000 + '"\n',
    ],
)
def test_a_damaged_record_of_a_training_is_done_without(tmp_path: Path, rows: str) -> None:
    record = {"options": {"recipe": {"name": "mini"}, "data": "fashion"}}
    (tmp_path / "run.json").write_text(json.dumps(record))
    (tmp_path / "metrics.csv").write_text(rows)
    with pytest.warns(
        UserWarning, match=r"metrics\.csv is damaged \(.*\), so how the model was trained is left out"
    ):
        assert training_facts(tmp_path) is None
