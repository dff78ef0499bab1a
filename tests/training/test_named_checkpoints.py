"""Which weights a training keeps under which names."""

import math
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from vitscope.models import list_checkpoints
from vitscope.training.named_checkpoints import Kept, checkpoints_expected


def rows(*accuracies: float) -> list[dict[str, Any]]:
    return [{"epoch": i + 1, "accuracy": value, "nll": 1.0} for i, value in enumerate(accuracies)]


def test_names(tmp_path: Path) -> None:
    kept = Kept(tmp_path, 2, None)
    assert kept.names_for(rows(0.1)) == ["best"]
    assert kept.names_for(rows(0.1, 0.1)) == ["epoch-002"]  # the first of two equals is the best
    assert kept.names_for(rows(0.1, 0.1, 0.05)) == []
    assert kept.names_for(rows(0.1, 0.1, 0.05, 0.2)) == ["epoch-004", "best"]
    assert kept.names_for(rows(math.nan)) == []
    assert kept.names_for(rows(math.nan, 0.0)) == ["epoch-002", "best"]
    assert Kept(tmp_path, None, None).names_for(rows(0.2, 0.1)) == []


def test_files_and_list(tmp_path: Path) -> None:
    kept = Kept(tmp_path, 1, None)
    kept.keep("init", {"w": torch.zeros(2)}, 0.0)
    kept.keep("best", {"w": torch.ones(2)}, 1.0, {"accuracy": 0.5, "nll": math.nan})
    kept.keep("best", {"w": torch.full((2,), 2.0)}, 2.0, {"accuracy": 0.6, "nll": 1.5})
    kept.keep("last", {}, 2.0, file="model.safetensors")
    assert load_file(tmp_path / "checkpoints" / "best.safetensors")["w"].tolist() == [2, 2]
    assert not (tmp_path / "checkpoints" / "last.safetensors").exists()
    found = [(c.name, c.epoch, c.accuracy, c.nll) for c in list_checkpoints(tmp_path)]
    assert found == [("init", 0, None, None), ("best", 2, 0.6, 1.5), ("last", 2, None, None)]


def test_what_lies_ahead_of_a_resumed_training_is_not_listed(tmp_path: Path) -> None:
    kept = Kept(tmp_path, 1, None)
    for epoch in (0, 1, 2):
        kept.keep(f"epoch-{epoch:03d}", {"w": torch.zeros(1)}, epoch)
    Kept(tmp_path, 1, 1.5).keep("x", {"w": torch.zeros(1)}, 1.75)
    assert [c.name for c in list_checkpoints(tmp_path)] == ["epoch-000", "epoch-001", "x"]
    Kept(tmp_path, 1, None).keep("init", {"w": torch.zeros(1)}, 0)
    assert [c.name for c in list_checkpoints(tmp_path)] == ["init"]


def test_expected_files() -> None:
    assert checkpoints_expected(10, None) == 3
    assert checkpoints_expected(10, 3) == 6
