"""The resume state: exact, checked, atomic."""

import json
from pathlib import Path

import pytest
import torch
from timm.optim import create_optimizer_v2
from torch import nn

from vitscope.errors import BadResult
from vitscope.models import BadWeights
from vitscope.training import checkpoint
from vitscope.training.checkpoint import Progress


def make(width: int = 4, optimizer: str = "adamw") -> tuple[nn.Module, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, width, 3), nn.BatchNorm2d(width), nn.Flatten(), nn.LazyLinear(2))
    model(torch.zeros(2, 3, 8, 8))
    return model, create_optimizer_v2(model, opt=optimizer, lr=0.01, weight_decay=0.1)


def step(model: nn.Module, optimizer: torch.optim.Optimizer, n: int) -> None:
    for i in range(n):
        torch.manual_seed(i)
        optimizer.zero_grad()
        model(torch.randn(4, 3, 8, 8)).square().sum().backward()
        optimizer.step()


PROGRESS = Progress(epoch=2, step=3, loss_sum=1.5, images=9, seconds=2.5, rows=[{"epoch": 1}, {"epoch": 2}])


@pytest.mark.parametrize("optimizer", ["adamw", "sgd", "lamb", "adafactor", "lion"])
def test_going_on_is_exact(tmp_path: Path, optimizer: str) -> None:
    model, opt = make(optimizer=optimizer)
    step(model, opt, 3)
    checkpoint.save_state(tmp_path, model, opt, PROGRESS, {"seed": 0})
    other, other_opt = make(optimizer=optimizer)
    assert checkpoint.load_state(tmp_path, other, other_opt) == PROGRESS
    step(model, opt, 2)
    step(other, other_opt, 2)
    for (name, a), b in zip(model.state_dict().items(), other.state_dict().values(), strict=True):
        assert torch.equal(a, b), name


def test_readable_part_says_the_same(tmp_path: Path) -> None:
    checkpoint.save_state(tmp_path, *make(), PROGRESS, {"seed": 7})
    readable = json.loads((tmp_path / "last.json").read_text())
    record = checkpoint.read_record(tmp_path)
    assert readable["progress"] == record["progress"]
    assert readable["setting"] == record["setting"] == {"seed": 7}


def test_nothing_but_two_files_is_left(tmp_path: Path) -> None:
    for _ in range(2):
        checkpoint.save_state(tmp_path, *make(), PROGRESS, {})
    assert sorted(p.name for p in tmp_path.iterdir()) == ["last.json", "last.safetensors"]


@pytest.mark.parametrize("kept", [0, 7, 500])
def test_truncated_state(tmp_path: Path, kept: int) -> None:
    checkpoint.save_state(tmp_path, *make(), PROGRESS, {})
    path = tmp_path / "last.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    assert checkpoint.exists(tmp_path)
    with pytest.raises(BadResult, match=r"last\.safetensors is damaged"):
        checkpoint.load_state(tmp_path, *make())


def test_weights_file_in_place_of_a_state(tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"a": torch.zeros(1)}, tmp_path / "last.safetensors")
    with pytest.raises(BadResult, match="is damaged"):
        checkpoint.read_record(tmp_path)


def test_state_of_another_model(tmp_path: Path) -> None:
    checkpoint.save_state(tmp_path, *make(width=4), PROGRESS, {})
    with pytest.raises(
        BadWeights, match=r"of another shape: 0.weight \(file \(4, 3, 3, 3\), model \(5, 3, 3, 3\)\)"
    ):
        checkpoint.load_state(tmp_path, *make(width=5))


def test_newer_schema(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as later:
        later.setattr(checkpoint, "SCHEMA", 2)
        checkpoint.save_state(tmp_path, *make(), PROGRESS, {})
    with pytest.raises(BadResult, match="has schema 2, this vitscope reads 1"):
        checkpoint.read_record(tmp_path)
