"""Recipes against the paper's list (claims B1), and refusals of what makes no sense."""

import pytest

from vitscope.errors import VitscopeError
from vitscope.training import RECIPES, get_recipe


def test_hdv_is_the_papers() -> None:
    recipe = get_recipe("hdv")
    assert (recipe.optimizer, recipe.lr, recipe.weight_decay) == ("adamw", 1.25e-4, 5e-2)
    assert (recipe.epochs, recipe.warmup_epochs, recipe.batch_size) == (300, 5, 96)
    assert recipe.auto_augment == "rand-m9-n2-mstd1.0"
    assert (recipe.label_smoothing, recipe.mixup, recipe.cutmix) == (0.1, 1.0, 0.8)
    assert recipe.mix_probability == 1.0
    assert recipe.erase > 0
    assert recipe.drop_path > 0


def test_hdv_as_published_adds_the_warm_up_and_decays_everything() -> None:
    recipe = get_recipe("hdv")
    assert recipe.total_epochs == 305
    assert recipe.decay_all


def test_mini_has_the_same_augmentations_as_hdv() -> None:
    mini, hdv = get_recipe("mini"), get_recipe("hdv")
    for name in ("auto_augment", "erase", "flip", "crop", "label_smoothing", "mixup", "cutmix"):
        assert getattr(mini, name) == getattr(hdv, name), name
    assert mini.mix_probability > 0
    assert mini.total_epochs == mini.epochs


@pytest.mark.parametrize("name", RECIPES)
def test_docstring_states_a_command(name: str) -> None:
    assert f"--recipe {name}" in (RECIPES[name].__doc__ or "")


def test_changes() -> None:
    recipe = get_recipe("mini", epochs=3, lr=None)
    assert recipe.epochs == 3
    assert recipe.lr == get_recipe("mini").lr
    assert get_recipe(recipe) == recipe


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "epochs is 0, expected 1 or more"),
        ({"batch_size": -1}, "batch_size is -1"),
        ({"lr": 0.0}, "lr is 0.0, expected more than 0"),
        ({"erase": 1.5}, "erase is 1.5, expected 0 to 1"),
        ({"auto_augment": "augmix"}, "auto_augment is 'augmix'"),
        ({"warmup_epochs": 50}, "warmup_epochs is 50"),
    ],
)
def test_nonsense_is_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(VitscopeError, match=message):
        get_recipe("mini", **changes)


def test_unknown_recipe() -> None:
    with pytest.raises(VitscopeError, match="no recipe 'deit'; there are: mini, hdv"):
        get_recipe("deit")
