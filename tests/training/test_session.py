"""What a training leaves behind while it is under way. Its accidents are in test_disk, test_readable, test_resume."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.utils.data import Dataset

import vitscope as vs
from vitscope.models import list_checkpoints
from vitscope.training import evaluate, get_recipe, train
from vitscope.training.log import Bar

RECIPE = replace(get_recipe("mini"), epochs=2, batch_size=8, warmup_epochs=0.5)


class Watching(Dataset[Any]):
    """24 images, three steps per epoch; notes which state is on disk whenever one is read."""

    def __init__(self, folder: Path) -> None:
        self.images = vs.load_data("fashion", split="train").subset(list(range(24)))  # type: ignore[arg-type]
        self.folder = folder
        self.seen: list[tuple[int, int] | None] = []

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        path = self.folder / "last.json"
        progress = json.loads(path.read_text())["progress"] if path.exists() else None
        self.seen.append((progress["epoch"], progress["step"]) if progress else None)
        return self.images[index]


@pytest.mark.parametrize(
    ("every", "expected"),
    [(None, [None, None, None, (1, 0), (1, 0), (1, 0)]), (2, [None, None, (0, 2), (1, 0), (1, 1), (1, 1)])],
)
def test_states_within_an_epoch(tmp_path: Path, every: int | None, expected: list[Any]) -> None:
    data = Watching(tmp_path)
    train("vit_mini", data, RECIPE, tmp_path, save_every=every, progress=False)
    assert data.seen[::8] == expected  # the state on disk at the beginning of each step


def test_the_average_is_measured_and_kept_and_the_weights_beside_it(tmp_path: Path) -> None:
    data = vs.load_data("fashion", split="train").subset(list(range(24)))  # type: ignore[arg-type]
    model = vs.create_model("vit_mini", depth=1)
    done = train(model, data, replace(RECIPE, ema_decay=0.5), tmp_path, held_out=data, progress=False)
    state = load_file(tmp_path / "last.safetensors")
    kept = load_file(tmp_path / "model.safetensors")
    assert all(torch.equal(tensor, state[f"extra.ema.{name}"]) for name, tensor in kept.items())
    assert not torch.equal(kept["head.weight"], state["model.head.weight"])
    assert evaluate(vs.create_model(tmp_path), data).nll == pytest.approx(done.nll, rel=1e-6)
    raw = next(c for c in list_checkpoints(tmp_path) if c.name == "best-raw")
    if raw.epoch == 2:
        assert torch.equal(load_file(tmp_path / raw.file)["head.weight"], state["model.head.weight"])
    assert torch.equal(model.state_dict()["head.weight"], state["model.head.weight"])


def test_times_are_counted(tmp_path: Path) -> None:
    done = train("vit_mini", Watching(tmp_path), RECIPE, tmp_path, progress=False)
    assert 0 < done.waiting < 1
    assert done.seconds > 0
    assert done.images_per_second > 24 / done.seconds


def test_a_loader_that_dies_between_two_steps_is_an_error_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def hear_of_it(*_: Any) -> None:  # torch raises this wherever the main process happens to be
        raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed.")

    monkeypatch.setattr(Bar, "step", hear_of_it)
    with pytest.raises(vs.VitscopeError, match=r"a process that loads images has died .*killed by signal"):
        train("vit_mini", Watching(tmp_path), RECIPE, tmp_path, progress=False)
