"""Checkpoints of a real training are listed, and loaded by name."""

import json
from pathlib import Path

import pytest
import torch

import vitscope as vs
from vitscope.core.errors import BadResult
from vitscope.models import BadWeights, list_checkpoints
from vitscope.models.errors import CannotBuild


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("run")
    data = vs.load_data("fashion", split="train").subset(range(48))
    torch.manual_seed(0)
    model = vs.create_model("vit_mini", depth=1)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    vs.train(
        model,
        data,
        "mini",
        folder,
        held_out=data,
        epochs=4,
        batch_size=12,
        checkpoint_every=2,
        changes={"warmup_epochs": 0.5},
        progress=False,
    )
    torch.testing.assert_close(dict(vs.create_model(folder, checkpoint="init").state_dict()), start)
    return folder


def test_names_epochs_and_order(run: Path) -> None:
    kept = {checkpoint.name: checkpoint for checkpoint in list_checkpoints(run)}
    assert {"init", "warmup", "epoch-002", "epoch-004", "best", "last"} == set(kept)
    assert [kept[name].epoch for name in ("init", "warmup", "epoch-002", "epoch-004", "last")] == [
        0,
        0.5,
        2,
        4,
        4,
    ]
    epochs = [checkpoint.epoch for checkpoint in list_checkpoints(run)]
    assert epochs == sorted(epochs)


def test_best_is_the_first_of_the_highest_accuracies(run: Path) -> None:
    import pandas as pd

    table = pd.read_csv(run / "metrics.csv")
    best = next(checkpoint for checkpoint in list_checkpoints(run) if checkpoint.name == "best")
    assert best.accuracy == table["accuracy"].max()
    assert best.epoch == table["epoch"][table["accuracy"].idxmax()]


def test_weights_are_those_of_the_moment(run: Path) -> None:
    states = {c.name: vs.create_model(run, checkpoint=c.name).state_dict() for c in list_checkpoints(run)}
    end = vs.create_model(run).state_dict()
    for name in ("last", "epoch-004"):
        assert all(torch.equal(states[name][key], end[key]) for key in end)
    distance = {
        name: sum(float((state[key] - end[key]).square().sum()) for key in end) ** 0.5
        for name, state in states.items()
    }
    assert distance["init"] > distance["warmup"] > distance["epoch-002"] > 0


def test_mistakes(run: Path, tmp_path: Path) -> None:
    with pytest.raises(BadResult, match="no checkpoint 'epoch-003'; it has init, warmup, epoch-002"):
        vs.create_model(run, checkpoint="epoch-003")
    with pytest.raises(CannotBuild, match="is for run folders"):
        vs.create_model("vit_mini", checkpoint="init")
    assert list_checkpoints(tmp_path) == []
    (tmp_path / "checkpoints.json").write_text("{")
    with pytest.raises(BadResult, match="is damaged"):
        list_checkpoints(tmp_path)
    (tmp_path / "checkpoints.json").write_text('{"schema": 99, "checkpoints": []}')
    with pytest.raises(BadResult, match="has schema 99"):
        list_checkpoints(tmp_path)
    for name in ("config.json", "checkpoints.json"):
        (tmp_path / name).write_text((run / name).read_text())
    with pytest.raises(BadWeights, match=r"no weights at .*init\.safetensors"):
        vs.create_model(tmp_path, checkpoint="init")
    assert json.loads((run / "checkpoints.json").read_text())["schema"] == 1
