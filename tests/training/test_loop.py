"""Whole trainings on real images: they learn, resume exactly, stop well, and leave a complete run folder."""

import json
import math
import os
import random
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.utils.data import Subset

from vitscope.core.errors import BadResult, VitscopeError
from vitscope.data import load_data
from vitscope.models import create_model
from vitscope.results import Run
from vitscope.training import TrainingDiverged, evaluate, get_recipe, train

QUICK = replace(get_recipe("mini"), epochs=2, batch_size=8, warmup_epochs=0.25)
SMALL: dict[str, dict[str, Any]] = {
    "resnet_mini": {"layers": (1, 1, 1, 1), "channels": (8, 16, 16, 32)},
    "vit_mini": {"depth": 2, "embed_dim": 48},
}


def small(name: str) -> nn.Module:
    """A model of that name of few layers."""
    torch.manual_seed(0)
    return create_model(name, num_classes=10, **SMALL[name])


def quick(out: Path, model: Any = None, recipe: Any = QUICK, **options: Any) -> Any:
    """30 images: four steps in an epoch."""
    options = {
        "fraction": 0.005,
        "held_out": load_data("fashion", fraction=0.01),
        "progress": False,
        **options,
    }
    return train(small("resnet_mini") if model is None else model, "fashion", recipe, out, **options)


def same(a: nn.Module, b: nn.Module) -> bool:
    states = zip(a.state_dict().items(), b.state_dict().items(), strict=True)
    return all(n == m and torch.equal(x, y) for (n, x), (m, y) in states)


@pytest.fixture(scope="module")
def one_epoch(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """The folder of a training that is done, and what it gave back."""
    folder = tmp_path_factory.mktemp("finished") / "run"
    return folder, quick(folder, epochs=1)


@pytest.fixture
def finished(one_epoch: tuple[Path, Any], tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(one_epoch[0], tmp_path / "finished"))


def test_run_folder_is_complete_and_gives_the_model_back(tmp_path: Path) -> None:
    done = quick(tmp_path, "resnet_mini", epochs=2)
    names = {"run.json", "config.json", "model.safetensors", "last.json", "last.safetensors", "metrics.csv"}
    assert names <= {p.name for p in tmp_path.iterdir()}
    assert not list(tmp_path.glob("*.p[kt]*"))
    run = Run.open(tmp_path)
    assert run.state == "done"
    assert run.model["name"] == "resnet_mini"
    table = pd.read_csv(tmp_path / "metrics.csv")
    assert list(table["epoch"]) == [1, 2]
    score = evaluate(create_model(tmp_path), load_data("fashion", fraction=0.01))
    assert score.accuracy == pytest.approx(done.accuracy) == pytest.approx(table["accuracy"].iloc[-1])
    assert score.nll == pytest.approx(done.nll, rel=1e-5)


@pytest.mark.parametrize(
    ("name", "shape", "fraction", "epochs", "lr"),
    [("resnet_mini", {"layers": (1, 1, 1, 1)}, 0.04, 4, 3e-3), ("vit_mini", {"depth": 2}, 0.05, 6, 1e-3)],
)
def test_it_learns(
    tmp_path: Path, name: str, shape: dict[str, Any], fraction: float, epochs: int, lr: float
) -> None:
    """Little augmentation, 240 or 300 images: twice chance on 500 others, seven deviations above it."""
    recipe = replace(
        QUICK, epochs=epochs, batch_size=16, lr=lr, auto_augment=None, erase=0.0, mix_probability=0.0
    )
    torch.manual_seed(0)
    train(
        create_model(name, num_classes=10, **shape),
        "fashion",
        recipe,
        tmp_path,
        fraction=fraction,
        held_out=load_data("fashion", fraction=0.01),
        progress=False,
    )
    losses = pd.read_csv(tmp_path / "metrics.csv")["train_loss"]
    assert losses.iloc[-1] < losses.iloc[0] - 0.2
    assert evaluate(create_model(tmp_path), load_data("fashion", fraction=0.25)).accuracy > 0.2


@pytest.mark.parametrize("name", ["resnet_mini", "vit_mini"])
def test_resuming_gives_the_same_weights_as_never_stopping(tmp_path: Path, name: str) -> None:
    choices = {"seed": 3, "epochs": 2}
    quick(tmp_path / "whole", small(name), **choices)
    stop_after(
        lambda: quick(tmp_path / "parts", small(name), **choices), tmp_path / "parts" / "metrics.csv", rows=1
    )
    assert Run.open(tmp_path / "parts").state == "interrupted"
    quick(tmp_path / "parts", small(name), **choices, resume=True)
    assert same(create_model(tmp_path / "whole"), create_model(tmp_path / "parts"))
    tables = [pd.read_csv(tmp_path / which / "metrics.csv") for which in ("whole", "parts")]
    for column in ("epoch", "lr", "train_loss", "accuracy", "nll"):
        assert list(tables[0][column]) == list(tables[1][column]), column


def stop_after(work: Callable[[], Any], metrics: Path, rows: int) -> None:
    """Do `work` and send this process Ctrl-C in the first step after `metrics` has so many rows."""

    def watch(*_: Any) -> None:
        if metrics.exists() and len(metrics.read_text().splitlines()) == rows + 1:
            hook.remove()
            os.kill(os.getpid(), signal.SIGINT)

    hook = register_optimizer_step_post_hook(watch)
    with pytest.raises(KeyboardInterrupt):
        work()


def test_seed_decides(tmp_path: Path) -> None:
    for folder, seed in (("a", 0), ("b", 0), ("c", 1)):
        quick(tmp_path / folder, "vit_mini", epochs=1, batch_size=16, seed=seed)
    a, b, c = (create_model(tmp_path / folder) for folder in "abc")
    assert same(a, b)
    assert not same(a, c)


def test_folder_with_a_training_is_not_overwritten(finished: Path) -> None:
    before = (finished / "model.safetensors").read_bytes()
    with pytest.raises(
        VitscopeError, match=r"holds a training that has finished 1 epochs; go on with --resume"
    ):
        quick(finished, epochs=1)
    assert (finished / "model.safetensors").read_bytes() == before


def test_resuming_a_finished_training_changes_nothing(one_epoch: tuple[Path, Any], finished: Path) -> None:
    before = (finished / "model.safetensors").read_bytes()
    again = quick(finished, epochs=1, resume=True)
    assert again == replace(one_epoch[1], path=finished)
    assert (finished / "model.safetensors").read_bytes() == before


def test_resuming_with_other_choices_is_refused_unless_forced(
    finished: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = r"recipe.epochs was 1 and is 2 now; recipe.lr was 0.001 and is 0.5 now; seed was 0 and is 1 now"
    with pytest.raises(VitscopeError, match=f"{changed}.*--force"):
        quick(finished, epochs=2, lr=0.5, seed=1, resume=True)
    quick(finished, epochs=2, lr=0.5, seed=1, resume=True, force=True, progress=True)
    assert "going on although recipe.lr was 0.001 and is 0.5 now" in capsys.readouterr().err
    table = pd.read_csv(finished / "metrics.csv")
    assert list(table["epoch"]) == [1, 2]
    assert table["lr"].iloc[1] > 1e-3  # the new rate rules


def test_forcing_another_optimiser_is_refused(finished: Path) -> None:
    with pytest.raises(
        VitscopeError, match=r"has groups of \[\d+, \d+\] parameters and the optimiser here \[\d+\]"
    ):
        quick(finished, recipe=replace(QUICK, decay_all=True), epochs=1, resume=True, force=True)
    with pytest.raises(VitscopeError, match="by another optimiser"):
        quick(finished, recipe=replace(QUICK, optimizer="lamb"), epochs=1, resume=True, force=True)


def test_a_mistyped_folder_to_go_on_with_is_said(finished: Path, capsys: pytest.CaptureFixture[str]) -> None:
    quick(finished.parent / "finishd", epochs=1, resume=True)
    shown = capsys.readouterr().err
    assert (
        f"finishd holds no training to go on with, a new one begins there; did you mean {finished}?" in shown
    )


@pytest.mark.parametrize("name", ["seed", "workers"])
def test_numbers_below_zero_are_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(VitscopeError, match=rf"^{name} is -1; expected a whole number"):
        quick(tmp_path, **{name: -1})


def test_resuming_from_a_damaged_state(finished: Path) -> None:
    state = finished / "last.safetensors"
    state.write_bytes(state.read_bytes()[:-100])
    with pytest.raises(BadResult, match="is damaged"):
        quick(finished, epochs=1, resume=True)


class Bomb(nn.Module):
    """A linear classifier whose logits become NaN after so many training batches."""

    def __init__(self, batches: int) -> None:
        super().__init__()
        self.linear = nn.Linear(3 * 32 * 32, 10)
        self.left = batches
        self.pretrained_cfg = {
            "input_size": (3, 32, 32),
            "mean": (0.2,) * 3,
            "std": (0.3,) * 3,
            "crop_pct": 1.0,
        }

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        self.left -= self.training
        return self.linear(images.flatten(1)) * (math.nan if self.left < 0 else 1.0)


def test_nan_stops_and_the_last_good_weights_stay(tmp_path: Path) -> None:
    model = Bomb(
        batches=6
    )  # of 8 images, four per epoch: the third batch of the second epoch is one too many
    with pytest.raises(
        TrainingDiverged, match=r"nan.*in epoch 2.*after epoch 1, are in .*model\.safe.*lower --lr"
    ):
        quick(tmp_path, model, replace(QUICK, patience=1))
    good = Bomb(batches=0)
    from vitscope.models import load_run_weights

    load_run_weights(good, tmp_path)
    assert good.linear.weight.isfinite().all()
    assert torch.equal(model.linear.weight, good.linear.weight)
    assert Run.open(tmp_path).state == "failed"
    assert len(pd.read_csv(tmp_path / "metrics.csv")) == 1


def test_nan_in_the_first_epoch(tmp_path: Path) -> None:
    with pytest.raises(TrainingDiverged, match=r"nan.*in epoch 1.*no weights are kept"):
        quick(tmp_path, Bomb(batches=1), replace(QUICK, patience=1))
    assert not (tmp_path / "model.safetensors").exists()


def test_weights_that_are_not_finite_are_never_written(tmp_path: Path) -> None:
    model, steps = Bomb(batches=99), 0

    def spoil(*_: Any) -> None:
        nonlocal steps
        steps += 1
        if steps == 7:  # as if an overflow had escaped all looks at the gradient
            model.linear.weight.data[7, 7] = math.inf

    hook = register_optimizer_step_post_hook(spoil)
    with pytest.raises(TrainingDiverged, match=r"no longer finite in epoch 2, after step 3; .*after epoch 1"):
        quick(tmp_path, model, save_every=1)
    hook.remove()
    for name in ("last.safetensors", "model.safetensors"):
        assert all(tensor.isfinite().all() for tensor in load_file(tmp_path / name).values())
    assert model.linear.weight.isfinite().all()


def test_module_and_plain_data_set(tmp_path: Path) -> None:
    model = create_model("vit_mini", depth=1, num_classes=10)
    before = model.head.weight.clone()
    data: Any = Subset(load_data("fashion", split="train"), range(33))
    with pytest.warns(
        UserWarning, match=r"not measured \(nan\); give some: train\(\.\.\., held_out="
    ) as told:
        done = train(model, data, replace(QUICK, epochs=1), tmp_path, progress=False)
    assert len(told) == 1
    assert math.isnan(done.accuracy)
    assert done.held_out == 0
    assert not torch.equal(model.head.weight, before)
    assert same(create_model(tmp_path), model)


def test_callers_generators_are_left_alone(tmp_path: Path) -> None:
    random.seed(1)
    torch.manual_seed(1)
    expected = random.random(), torch.rand(())
    random.seed(1)
    torch.manual_seed(1)
    quick(tmp_path, "vit_mini", epochs=1, fraction=0.002)
    assert (random.random(), torch.rand(())) == expected


def test_a_run_folder_is_trained_further(tmp_path: Path) -> None:
    quick(tmp_path / "first", small("vit_mini"), epochs=1)
    first = create_model(tmp_path / "first")
    quick(tmp_path / "second", tmp_path / "first", replace(QUICK, epochs=1, lr=1e-12, warmup_lr=1e-13))
    second = create_model(tmp_path / "second")
    torch.testing.assert_close(
        second.head.weight, first.head.weight, rtol=0, atol=1e-7
    )  # hardly moved from there
    quick(tmp_path / "third", str(tmp_path / "first"), epochs=1)
    assert not same(create_model(tmp_path / "third"), first)
    with pytest.raises(VitscopeError, match=r"model was .*first and is vit_mini now"):
        quick(tmp_path / "third", "vit_mini", epochs=1, resume=True)


def test_default_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    few = load_data("fashion", fraction=0.01)
    done = train(
        "vit_mini", "fashion", replace(QUICK, epochs=1), fraction=0.002, held_out=few, progress=False
    )
    assert done.path == Path("runs/vit_mini-fashion")
    assert json.loads((done.path / "last.json").read_text())["progress"]["epoch"] == 1
