"""Monitors see what the exams see, leave the training alone, and keep to their share of the time."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import vitscope as vs
from tests.exams.task_cases import PixelNet, squares
from vitscope.core.errors import VitscopeError
from vitscope.exams import examine
from vitscope.exams.features.variance import VarianceAccumulator
from vitscope.recipes.recipe import Recipe
from vitscope.training import get_recipe, train
from vitscope.training.monitors import SHARE, affordable_interval, find_monitors

RECIPE = replace(get_recipe("mini"), batch_size=8, mix_probability=1.0)


def small_vit() -> nn.Module:
    torch.manual_seed(0)
    return vs.create_model("vit_mini", depth=1, embed_dim=12, num_heads=1)


def run(out: Path, recipe: Recipe = RECIPE, epochs: int = 3, **options: object) -> nn.Module:
    model = small_vit()
    data = vs.load_data("fashion", split="train").subset(range(40))
    held_out = vs.load_data("fashion", split="test").subset(range(50))
    train(model, data, recipe, out, epochs=epochs, held_out=held_out, progress=False, **options)  # type: ignore[arg-type]
    return model


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("watched") / "run"
    run(out, monitor=("variance", "prediction", "hessian"), monitor_every=2)
    return out


def test_rows_are_what_the_exam_finds_on_the_checkpoints(watched: Path) -> None:
    rows = pd.read_csv(watched / "monitors.csv")
    assert sorted(rows["epoch"].unique()) == [0, 2, 3]
    held_out = vs.load_data("fashion", split="test").subset(range(50))
    for epoch, checkpoint in ((0, "init"), (3, "last")):
        model = vs.create_model(str(watched), checkpoint=checkpoint)
        expected = examine(model, held_out, [VarianceAccumulator], seed=0)["variance"].summary()
        seen = rows[(rows["epoch"] == epoch) & (rows["exam"] == "variance")]
        assert list(seen["unit"].fillna("")) == list(expected["unit"].fillna(""))
        np.testing.assert_allclose(seen["value"], expected["value"], rtol=1e-5)
        np.testing.assert_allclose(seen["low"], expected["low"], rtol=1e-5)
    accuracy = rows[(rows["epoch"] == 3) & (rows["quantity"] == "accuracy")]["value"].item()
    assert accuracy == pd.read_csv(watched / "metrics.csv")["accuracy"].iloc[-1]


def test_the_eigenvalue_is_that_of_the_dense_hessian_on_the_first_augmented_batch(tmp_path: Path) -> None:
    recipe = replace(RECIPE, mix_probability=0.0, label_smoothing=0.2)
    data = vs.load_data("fashion", split="train").subset(range(3))
    torch.manual_seed(1)
    model = nn.Sequential(nn.Conv2d(3, 2, 8, stride=8), nn.GELU(), nn.Flatten(), nn.Linear(32, 10))
    model.pretrained_cfg = {"input_size": (3, 32, 32)}  # type: ignore[assignment]
    before = [p.detach().clone() for p in model.parameters()]
    train(model, data, recipe, tmp_path / "run", epochs=1, monitor=("hessian",), progress=False)
    row = pd.read_csv(tmp_path / "run" / "monitors.csv").iloc[0]
    assert (row["epoch"], row["quantity"], row["n"], row["converged"]) == (0, "eigenvalue", 3, True)

    # the same three images, drawn as the first epoch draws them
    from vitscope.data import data_config
    from vitscope.recipes.augment import AugmentedData
    from vitscope.recipes.seeding import order, random_state_preserved

    with random_state_preserved():
        drawn = AugmentedData(data, recipe, data_config(model), seed=0)
        pairs = [drawn[index] for index in order(3, 0, 0)]
    images = torch.stack([image for image, _ in pairs]).double()
    targets = torch.full((3, 10), 0.02, dtype=torch.float64)
    targets[range(3), [label for _, label in pairs]] += 0.8
    sizes = [p.numel() for p in before]

    def loss(flat: torch.Tensor) -> torch.Tensor:
        w, b, v, c = (part.view_as(p) for part, p in zip(flat.split(sizes), before, strict=True))
        hidden = nn.functional.gelu(nn.functional.conv2d(images, w, b, stride=8)).flatten(1)
        return -(targets * (hidden @ v.T + c).log_softmax(1)).sum(1).mean()

    dense = torch.autograd.functional.hessian(loss, torch.cat([p.flatten() for p in before]).double())
    values = torch.linalg.eigvalsh(dense)  # type: ignore[arg-type]
    top = float(values[values.abs().argmax()])
    assert row["value"] == pytest.approx(top, rel=2e-2)
    assert row["residual"] < 1e-2


def test_a_training_that_is_watched_ends_with_the_same_weights(watched: Path, tmp_path: Path) -> None:
    run(tmp_path / "alone")
    alone = load_file(tmp_path / "alone" / "model.safetensors")
    seen = load_file(watched / "model.safetensors")
    assert alone.keys() == seen.keys()
    assert all(torch.equal(alone[name], seen[name]) for name in alone)
    assert not (tmp_path / "alone" / "monitors.csv").exists()


def test_a_resumed_training_keeps_what_was_seen_and_goes_on(watched: Path, tmp_path: Path) -> None:
    class Stopped(Exception):
        pass

    calls = 0

    class Images(torch.utils.data.Dataset):  # type: ignore[type-arg]
        """Fails in the third epoch, after the look at the end of the second."""

        data = vs.load_data("fashion", split="train").subset(range(40))

        def __len__(self) -> int:
            return 40

        def __getitem__(self, index: int) -> object:
            nonlocal calls
            calls += 1
            if calls == 90:
                raise Stopped
            return self.data[index]

    held_out = vs.load_data("fashion", split="test").subset(range(50))
    options = {"held_out": held_out, "monitor": ("variance",), "monitor_every": 2, "progress": False}
    with pytest.raises(VitscopeError, match="Stopped"):
        train(small_vit(), Images(), RECIPE, tmp_path / "run", epochs=3, **options)  # type: ignore[arg-type]
    assert sorted(pd.read_csv(tmp_path / "run" / "monitors.csv")["epoch"].unique()) == [0, 2]
    train(small_vit(), Images(), RECIPE, tmp_path / "run", epochs=3, resume=True, **options)  # type: ignore[arg-type]
    resumed, whole = (pd.read_csv(path / "monitors.csv") for path in (tmp_path / "run", watched))
    whole = whole[whole["exam"] == "variance"].reset_index(drop=True)
    pd.testing.assert_frame_equal(resumed, whole[resumed.columns], check_dtype=False)


@pytest.mark.parametrize("force", [False, True])
def test_a_training_resumed_in_its_first_epoch_keeps_the_first_look(tmp_path: Path, force: bool) -> None:
    """With --force the epoch is begun anew, by weights that are no longer those of the first look."""
    model = small_vit()
    calls = 0

    def stop(module: nn.Module, *_: object) -> None:
        nonlocal calls
        calls += module.training
        if calls == 4:
            raise KeyboardInterrupt

    hook = model.register_forward_pre_hook(stop)
    data = vs.load_data("fashion", split="train").subset(range(40))
    options = {"held_out": data, "progress": False, "monitor": ("variance", "hessian"), "monitor_every": 1}
    with pytest.raises(KeyboardInterrupt):
        train(model, data, RECIPE, tmp_path, epochs=2, save_every=2, **options)  # type: ignore[arg-type]
    hook.remove()
    seen = (tmp_path / "monitors.csv").read_text()
    init = (tmp_path / "checkpoints" / "init.safetensors").read_bytes()
    recipe = replace(RECIPE, lr=RECIPE.lr / 2) if force else RECIPE
    train(small_vit(), data, recipe, tmp_path, epochs=2, resume=True, force=force, **options)  # type: ignore[arg-type]
    rows = pd.read_csv(tmp_path / "monitors.csv")
    assert sorted(rows["epoch"].unique()) == [0, 1, 2]
    assert (tmp_path / "monitors.csv").read_text().startswith(seen)
    assert (tmp_path / "checkpoints" / "init.safetensors").read_bytes() == init
    assert "init" in [checkpoint.name for checkpoint in vs.models.list_checkpoints(tmp_path)]


def test_the_share_of_time_is_in_the_metrics(watched: Path) -> None:
    metrics = pd.read_csv(watched / "metrics.csv")
    assert ((metrics["monitoring"] > 0) & (metrics["monitoring"] < 1)).all()


@pytest.mark.parametrize("look", [0.1, 1.0, 7.0, 30.0])
@pytest.mark.parametrize("epochs", [1, 5, 300])
def test_the_default_interval_is_the_smallest_within_the_share(look: float, epochs: int) -> None:
    def share(every: int) -> float:
        looks = 1 + len([e for e in range(1, epochs + 1) if e % every == 0 or e == epochs])
        return looks * look / (looks * look + epochs * 60.0)

    every = affordable_interval(look, 60.0, epochs)
    assert share(every) < SHARE or every == epochs
    assert all(share(n) >= SHARE for n in range(1, every))


def test_what_is_no_monitor_is_refused(tmp_path: Path) -> None:
    assert find_monitors(["hessian", "variance", "variance"]) == [VarianceAccumulator]
    with pytest.raises(VitscopeError, match=r"no (monitor|exam) 'varience'; did you mean variance\?"):
        run(tmp_path / "run", monitor=("varience",))
    with pytest.raises(VitscopeError, match="monitor_every is 0; expected a whole number, 1 or more"):
        run(tmp_path / "other", monitor=("variance",), monitor_every=0)


def test_the_eigenvalue_of_pixels_is_that_of_the_exam_on_the_same_batch(tmp_path: Path) -> None:
    data, out = squares("segmentation"), tmp_path / "run"
    train(
        PixelNet().float(), data, "dense", out, epochs=1, held_out=data, monitor=("hessian",), progress=False
    )
    row = pd.read_csv(out / "monitors.csv").iloc[0]
    options = {"k": 1, "batch_size": 8, "batches": 1, "weight_decay": 0.0}
    found = vs.exams.hessian(PixelNet().float(), data, recipe="dense", **options)
    assert (row["epoch"], row["n"], row["converged"]) == (0, 8, True)
    assert row["value"] == pytest.approx(found.eigenvalues.item(), rel=0.01)
