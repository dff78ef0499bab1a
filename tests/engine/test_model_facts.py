import json
from pathlib import Path

import torch
from torch import Tensor, nn

from vitscope.anatomy.flops import count_flops
from vitscope.engine.model_facts import model_facts, training_facts
from vitscope.models import create_model
from vitscope.surgery import broadcast_context


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
        "seconds": 21.5,
    }
