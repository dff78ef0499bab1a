"""The named recipes against the papers' list (claims B1, B2, B5) and against their YAML twins; each of them runs."""

from dataclasses import replace
from importlib.resources import files
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.cases import one_in
from vitscope.core.errors import VitscopeError
from vitscope.data import data_config, load_data
from vitscope.models import create_model
from vitscope.recipes.named import RECIPES, get_recipe
from vitscope.recipes.recipe import Recipe
from vitscope.recipes.seeding import random_state_preserved, seed_all
from vitscope.training.checkpoint import Progress
from vitscope.training.steps import Stepper

CPU = torch.device("cpu")
DOCS = Path(__file__).parents[2] / "docs" / "recipes.md"


def test_hdv_is_the_papers() -> None:
    recipe = get_recipe("hdv")
    assert (recipe.optimizer, recipe.peak_lr, recipe.weight_decay) == ("adamw", 1.25e-4, 5e-2)
    assert (recipe.epochs, recipe.warmup_epochs, recipe.batch_size) == (300, 5, 96)
    assert recipe.auto_augment == "rand-m9-n2-mstd1.0"
    assert (recipe.label_smoothing, recipe.mixup, recipe.cutmix) == (0.1, 1.0, 0.8)
    assert recipe.mix_probability == 1.0
    assert recipe.erase > 0
    assert recipe.drop_path > 0
    assert replace(recipe, batch_size=128, name="hdv-imagenet") == get_recipe("hdv-imagenet")


def test_hdv_as_published_adds_the_warm_up_and_decays_everything() -> None:
    recipe = get_recipe("hdv")
    assert recipe.total_epochs == 305
    assert recipe.decay_all


def test_deit_is_the_papers() -> None:
    recipe = get_recipe("deit")
    assert recipe.peak_lr == 1e-3
    assert get_recipe("deit", batch_size=256).peak_lr == pytest.approx(1e-3 * 256 / 1024)
    assert (recipe.optimizer, recipe.weight_decay, recipe.epochs) == ("adamw", 0.05, 300)
    assert (recipe.warmup_epochs, recipe.total_epochs, recipe.milestones) == (5, 300, ())
    assert recipe.repeats == 3
    assert replace(recipe, distill="hard", name="deit-distill") == get_recipe("deit-distill")


def test_weak_crops_and_nothing_else() -> None:
    weak, hdv = get_recipe("weak"), get_recipe("hdv")
    assert weak.auto_augment is None
    assert (weak.erase, weak.flip, weak.label_smoothing, weak.mixup, weak.cutmix) == (0, 0, 0, 0, 0)
    changed = {
        "name",
        "auto_augment",
        "erase",
        "flip",
        "label_smoothing",
        "mixup",
        "cutmix",
        "mix_probability",
    }
    assert {k for k, v in weak.to_dict().items() if v != hdv.to_dict()[k]} == changed


def test_cnn_is_the_published_one() -> None:
    cnn = get_recipe("cnn")
    assert (cnn.optimizer, cnn.peak_lr, cnn.weight_decay, cnn.decay_all) == ("momentum", 0.1, 5e-4, True)
    assert (cnn.epochs, cnn.total_epochs, cnn.batch_size, cnn.decay_rate) == (200, 201, 128, 0.2)
    assert [share * cnn.epochs for share in cnn.milestones] == [60, 120, 160]


def test_mini_has_the_same_augmentations_as_hdv() -> None:
    mini, hdv = get_recipe("mini"), get_recipe("hdv")
    for name in ("auto_augment", "erase", "flip", "crop", "label_smoothing", "mixup", "cutmix"):
        assert getattr(mini, name) == getattr(hdv, name), name
    assert mini.mix_probability > 0
    assert mini.total_epochs == mini.epochs


@pytest.mark.parametrize("name", RECIPES)
def test_docstring_states_a_command(name: str) -> None:
    assert f"--recipe {name} " in (RECIPES[name].__doc__ or "")


@pytest.mark.parametrize("name", RECIPES)
def test_yaml_twin(name: str) -> None:
    twin = files("vitscope.recipes") / "files" / f"{name}.yaml"
    assert Recipe.from_yaml(str(twin)) == get_recipe(name)
    assert get_recipe(name).name == name


def test_no_twin_is_left_over() -> None:
    folder = files("vitscope.recipes") / "files"
    assert {file.name for file in folder.iterdir() if file.is_file()} == {f"{name}.yaml" for name in RECIPES}


def test_table_in_the_documentation_tells_the_recipes() -> None:
    rows = [line.strip()[1:-1].split(" | ") for line in DOCS.read_text().splitlines() if line.startswith("|")]
    head, body = rows[0], rows[2:]
    assert [cell.strip(" `") for cell in head[1:]] == list(RECIPES)
    assert len(body) > 15
    for cells in body:
        field = cells[0].strip(" `")
        for name, cell in zip(RECIPES, cells[1:], strict=True):
            value = getattr(get_recipe(name), field)
            shown = f"{value:g}" if isinstance(value, float) else str(value)
            shown = ", ".join(f"{v:g}" for v in value) or "none" if isinstance(value, tuple) else shown
            assert cell.strip() == {"None": "none", "True": "yes", "False": "no"}.get(shown, shown), (
                name,
                field,
            )


def test_changes() -> None:
    recipe = get_recipe("mini", epochs=3, lr=None)
    assert recipe.epochs == 3
    assert recipe.lr == get_recipe("mini").lr
    assert get_recipe(recipe) == recipe


def test_unknown_recipe() -> None:
    with pytest.raises(
        VitscopeError, match=r"no recipe 'diet'; there are: mini, hdv, .*, or give a \.yaml file"
    ):
        get_recipe("diet")


@pytest.mark.parametrize("model", one_in(2, ["vit_mini", "resnet_mini"]))
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_runs(name: str, model: str) -> None:
    recipe = get_recipe(name, batch_size=32)
    data = load_data("fashion", split="train", fraction=64 / 6000)
    with random_state_preserved():
        seed_all(0)
        net: Any = create_model(model)
        before = {k: v.clone() for k, v in net.state_dict().items()}
        teacher = create_model("resnet_mini") if recipe.distill else None
        stepper = Stepper(net, data, data_config(net), 10, recipe, 0, CPU, teacher=teacher)
        progress = Progress()
        assert len(list(islice(stepper.epoch(progress), 2))) == min(stepper.steps, 2)
    assert progress.images == 64 if len(data) >= 64 else len(data)
    assert 0 < progress.loss_sum / progress.images < 10
    assert any(not torch.equal(before[k], v) for k, v in net.state_dict().items())
