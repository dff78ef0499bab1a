"""The resume state: exact, checked, atomic."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from timm.optim import create_optimizer_v2
from torch import nn

from vitscope.core.errors import BadResult
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


def test_the_readable_part_is_written_anew_where_it_is_older(tmp_path: Path) -> None:
    """As after a process was killed between the two."""
    checkpoint.save_state(tmp_path, *make(), Progress(epoch=1, rows=[{"epoch": 1}]), {"seed": 7})
    older = (tmp_path / "last.json").read_bytes()
    checkpoint.save_state(tmp_path, *make(), PROGRESS, {"seed": 7})
    whole = (tmp_path / "last.json").read_bytes()
    (tmp_path / "last.json").write_bytes(older)
    checkpoint.refresh_readable(tmp_path)
    assert (tmp_path / "last.json").read_bytes() == whole
    before = (tmp_path / "last.json").stat().st_mtime_ns
    checkpoint.refresh_readable(tmp_path)
    assert (tmp_path / "last.json").stat().st_mtime_ns == before


def test_two_generations_are_left_and_nothing_else(tmp_path: Path) -> None:
    for epoch in range(3):
        checkpoint.save_state(tmp_path, *make(), Progress(epoch=epoch), {})
    names = ["last.json", "last.safetensors", "manifest.json", "previous.safetensors"]
    assert sorted(p.name for p in tmp_path.iterdir()) == names
    records = [
        checkpoint.read_record(tmp_path, name) for name in ("previous.safetensors", "last.safetensors")
    ]
    assert [record["progress"]["epoch"] for record in records] == [1, 2]


@pytest.mark.parametrize("kept", [0, 7, 500])
def test_truncated_state(tmp_path: Path, kept: int) -> None:
    checkpoint.save_state(tmp_path, *make(), PROGRESS, {})
    path = tmp_path / "last.safetensors"
    path.write_bytes(path.read_bytes()[:kept])
    assert checkpoint.exists(tmp_path)
    with pytest.raises(BadResult, match=r"last\.safetensors is damaged"):
        checkpoint.load_state(tmp_path, *make())


def test_weights_file_in_place_of_a_state(tmp_path: Path) -> None:
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


def test_a_flipped_bit_anywhere_is_noticed(tmp_path: Path) -> None:
    checkpoint.save_state(tmp_path, *make(), PROGRESS, {})
    path = tmp_path / "last.safetensors"
    content, draw = path.read_bytes(), random.Random(0)
    for _ in range(40):
        flipped = bytearray(content)
        flipped[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(flipped)
        with pytest.raises(BadResult, match=r"last\.safetensors is damaged"):
            checkpoint.load_state(tmp_path, *make())


def test_a_damaged_state_gives_way_to_the_one_before(tmp_path: Path) -> None:
    model, opt = make()
    step(model, opt, 1)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    checkpoint.save_state(tmp_path, model, opt, Progress(epoch=1), {})
    step(model, opt, 1)
    checkpoint.save_state(tmp_path, model, opt, Progress(epoch=2), {})
    assert checkpoint.find_state(tmp_path).fell_back == ""
    flip(tmp_path / "last.safetensors")
    found = checkpoint.find_state(tmp_path)
    assert found.file == "previous.safetensors"
    assert "last.safetensors is damaged" in found.fell_back
    other, other_opt = make()
    assert checkpoint.load_state(tmp_path, other, other_opt, file=found.file).epoch == 1
    assert all(torch.equal(tensor, before[name]) for name, tensor in other.state_dict().items())
    checkpoint.save_state(tmp_path, other, other_opt, Progress(epoch=2), {}, keep_previous=False)
    kept = [checkpoint.read_record(tmp_path, name)["progress"] for name in ("last.safetensors", found.file)]
    assert [progress["epoch"] for progress in kept] == [2, 1]


def test_both_damaged_says_both(tmp_path: Path) -> None:
    for _ in range(2):
        checkpoint.save_state(tmp_path, *make(), PROGRESS, {})
    for name in ("last.safetensors", "previous.safetensors"):
        flip(tmp_path / name)
    with pytest.raises(BadResult, match=r"last\.safetensors is damaged.*previous\.safetensors is damaged"):
        checkpoint.find_state(tmp_path)


def test_a_state_from_before_manifests_is_read(tmp_path: Path) -> None:
    checkpoint.save_state(tmp_path, *make(), PROGRESS, {})
    (tmp_path / "manifest.json").unlink()
    assert checkpoint.load_state(tmp_path, *make()) == PROGRESS


Edit = Callable[[dict[str, torch.Tensor]], None]


@pytest.mark.parametrize(
    ("edit", "error", "said"),
    [
        (lambda t: t.pop("optimizer.0.exp_avg"), BadResult, "lacks 'exp_avg' of parameter 0"),
        (lambda t: [t.pop(n) for n in list(t) if n.endswith("exp_avg_sq")], BadResult, "lacks 'exp_avg_sq'"),
        (lambda t: t.update({"optimizer.1.exp_avg": torch.zeros(1)}), BadResult, r"is torch.float32 \(1,\)"),
        (
            lambda t: t.update({"optimizer.0.exp_avg": t["optimizer.0.exp_avg"].half()}),
            BadResult,
            "is torch.float16",
        ),
        (lambda t: t.update({"optimizer.99.exp_avg": torch.zeros(1)}), BadResult, "parameter 99"),
        (lambda t: t.update({"model.0.weight": t["model.0.weight"].double()}), BadWeights, "of another type"),
        (lambda t: t.update({"model.0.bias": t["model.0.bias"].long()}), BadWeights, "of another type"),
    ],
)
def test_tensors_that_do_not_fit_are_refused(tmp_path: Path, edit: Edit, error: type, said: str) -> None:
    """In a folder without a manifest, or with one that somebody has made to agree."""
    model, opt = make()
    step(model, opt, 1)
    checkpoint.save_state(tmp_path, model, opt, PROGRESS, {})
    path = tmp_path / "last.safetensors"
    with safe_open(path, "pt") as file:
        metadata = file.metadata()
    tensors = load_file(path)
    edit(tensors)
    save_file(tensors, path, metadata)
    (tmp_path / "manifest.json").unlink()
    with pytest.raises(error, match=said):
        checkpoint.load_state(tmp_path, *make())


@pytest.mark.parametrize("record", ["3", "[]", '{"schema": 1}', '{"schema": 1, "progress": {"x": 1}}'])
def test_a_record_that_is_none_is_damaged(tmp_path: Path, record: str) -> None:
    save_file({"a": torch.zeros(1)}, tmp_path / "last.safetensors", {"vitscope": record})
    with pytest.raises(BadResult, match="is damaged"):
        checkpoint.find_state(tmp_path)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-5] ^= 4
    path.write_bytes(content)
