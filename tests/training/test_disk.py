"""What is kept under which names; a full disk or forbidden folder: noticed before training, survived while writing."""

import json
import math
import os
import resource
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import vitscope as vs
from tests.processes import run
from vitscope.models import list_checkpoints
from vitscope.results import Run
from vitscope.training.checkpoint import TENSORS
from vitscope.training.disk import (
    CannotWrite,
    NamedCheckpoints,
    bytes_needed,
    check_room,
    check_writable,
    checkpoints_expected,
    writing,
)


def test_bytes_needed_by_hand() -> None:
    model = nn.Sequential(nn.Linear(10, 5), nn.BatchNorm1d(5))  # 65 parameters, 10 statistics, one counter
    model[0].bias.requires_grad_(False)
    weights = 4 * (50 + 5 + 5 + 5 + 5 + 5) + 8
    state = weights + 2 * 4 * (50 + 5 + 5) + 4 * 3
    assert bytes_needed(model, {"x": torch.zeros(3)}, checkpoints=2) == 3 * state + 3 * weights


def test_no_room_is_noticed_before_training(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match=r"would need 1000\.0 TB and its disk has .* free; free some"):
        check_room(tmp_path / "not" / "there", 10**15)
    check_room(tmp_path, 1000)
    (tmp_path / "held").write_bytes(b"\0" * 5000)
    free = os.statvfs(tmp_path)
    check_room(tmp_path, free.f_bavail * free.f_frsize // 2 + 5000)


def test_what_a_real_training_writes_is_what_was_estimated(tmp_path: Path) -> None:
    """With AdamW the estimate, less one state and one model for the moment of writing, is what lies there."""
    data = vs.load_data("fashion", split="train").subset(range(16))
    model = vs.create_model("vit_mini", depth=1)
    vs.train(
        model, data, "mini", tmp_path, held_out=data, epochs=2, changes={"warmup_epochs": 1}, progress=False
    )
    held = sum(path.stat().st_size for path in tmp_path.rglob("*.safetensors"))
    weights = (tmp_path / "model.safetensors").stat().st_size
    state = (tmp_path / TENSORS).stat().st_size
    assert bytes_needed(model, {}, checkpoints=3) == pytest.approx(held + state, rel=0.05)
    assert weights > 0


@pytest.mark.parametrize("place", ["/dev/null/run", "/proc/run"])
def test_forbidden_places(place: str) -> None:
    with pytest.raises(
        CannotWrite, match=r"cannot be written \(.+\); nothing was trained yet.*another --out"
    ):
        check_writable(Path(place))
    data = vs.load_data("fashion", split="train").subset(range(16))
    with pytest.raises(CannotWrite, match="cannot be written"):
        vs.train("vit_mini", data, "mini", place, held_out=data, progress=False)


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), writing(Path("x"), "nothing"):
        raise KeyError("a")


FULL = """
import resource, sys
import torch
import vitscope as vs

torch.set_num_threads(1)
data = vs.load_data("fashion", split="train").subset(range(24))

def go(**more):
    torch.manual_seed(0)
    vs.train(vs.create_model("vit_mini", depth=1), data, "mini", sys.argv[1], held_out=data, epochs=3, batch_size=8,
             progress=False, resume=True, **more)

class Data(type(data)):
    "After so many images, no file may grow beyond 100 kB: what a full disk does to the writing of a state."
    left = 24 + 5
    def __getitem__(self, index):
        self.left -= 1
        if self.left == 0:
            resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        return super().__getitem__(index)

plain = data
data = Data(plain.spec, plain.split, plain.classes, plain.labels, images=plain.images)
try:
    go()
except vs.training.disk.CannotWrite as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
from pathlib import Path
Path(sys.argv[1], "then.txt").write_text(Path(sys.argv[1], "last.json").read_text())
data = plain
go()
"""


@pytest.mark.skipif(not hasattr(resource, "RLIMIT_FSIZE"), reason="no limits on this system")
def test_a_disk_that_fills_up_costs_nothing_that_was_written(tmp_path: Path) -> None:
    """In the second epoch nothing can be written any more; the first one's state stays and is gone on with."""
    out = tmp_path / "run"
    (tmp_path / "full.py").write_text(
        FULL.replace("import vitscope as vs", "import vitscope as vs, vitscope.training.disk")
    )
    done = run(tmp_path / "full.py", out)
    assert done.returncode == 0, done.stderr
    assert "is full; last.safetensors there holds the state after epoch 1. Either make room" in done.stdout
    assert "--resume" in done.stdout
    assert json.loads((out / "then.txt").read_text())["progress"]["epoch"] == 1
    assert Run.open(out).state == "done"
    assert len((out / "metrics.csv").read_text().splitlines()) == 4
    assert not list(out.rglob("*.part"))


def rows(*accuracies: float) -> list[dict[str, Any]]:
    return [{"epoch": i + 1, "accuracy": value, "nll": 1.0} for i, value in enumerate(accuracies)]


def test_names(tmp_path: Path) -> None:
    kept = NamedCheckpoints(tmp_path, 2, None)
    assert kept.names_for(rows(0.1)) == ["best"]
    assert kept.names_for(rows(0.1, 0.1)) == ["epoch-002"]  # the first of two equals is the best
    assert kept.names_for(rows(0.1, 0.1, 0.05)) == []
    assert kept.names_for(rows(0.1, 0.1, 0.05, 0.2)) == ["epoch-004", "best"]
    assert kept.names_for(rows(math.nan)) == []
    assert kept.names_for(rows(math.nan, 0.0)) == ["epoch-002", "best"]
    assert NamedCheckpoints(tmp_path, None, None).names_for(rows(0.2, 0.1)) == []


def test_files_and_list(tmp_path: Path) -> None:
    kept = NamedCheckpoints(tmp_path, 1, None)
    kept.keep("init", {"w": torch.zeros(2)}, 0.0)
    kept.keep("best", {"w": torch.ones(2)}, 1.0, {"accuracy": 0.5, "nll": math.nan})
    kept.keep("best", {"w": torch.full((2,), 2.0)}, 2.0, {"accuracy": 0.6, "nll": 1.5})
    kept.keep("last", {}, 2.0, file="model.safetensors")
    assert load_file(tmp_path / "checkpoints" / "best.safetensors")["w"].tolist() == [2, 2]
    assert not (tmp_path / "checkpoints" / "last.safetensors").exists()
    found = [(c.name, c.epoch, c.accuracy, c.nll) for c in list_checkpoints(tmp_path)]
    assert found == [("init", 0, None, None), ("best", 2, 0.6, 1.5), ("last", 2, None, None)]


def test_what_lies_ahead_of_a_resumed_training_is_not_listed(tmp_path: Path) -> None:
    kept = NamedCheckpoints(tmp_path, 1, None)
    for epoch in (0, 1, 2):
        kept.keep(f"epoch-{epoch:03d}", {"w": torch.zeros(1)}, epoch)
    NamedCheckpoints(tmp_path, 1, 1.5).keep("x", {"w": torch.zeros(1)}, 1.75)
    assert [c.name for c in list_checkpoints(tmp_path)] == ["epoch-000", "epoch-001", "x"]
    NamedCheckpoints(tmp_path, 1, None).keep("init", {"w": torch.zeros(1)}, 0)
    assert [c.name for c in list_checkpoints(tmp_path)] == ["init"]


def test_expected_files() -> None:
    assert checkpoints_expected(10, None) == 3
    assert checkpoints_expected(10, 3) == 6
