"""What is said before a training: numbers by hand, and a warning for each choice that is not the recipe's."""

from dataclasses import replace

import pytest

from vitscope.models import create_model
from vitscope.recipes.named import RECIPES, get_recipe
from vitscope.recipes.recipe import Recipe
from vitscope.training.recipe_differences import describe_recipe


@pytest.mark.parametrize("name", RECIPES)
def test_named_recipes_are_what_they_say(name: str) -> None:
    assert describe_recipe(get_recipe(name), n_images=50_000).warnings == ()


def test_effective_batch_and_scaled_rate() -> None:
    text = str(describe_recipe(get_recipe("deit", accumulate=4), world=8, n_images=1_281_167))
    assert "batch 1024 = 8 processes x 4 accumulated x 32 images" in text
    assert "300 epochs of 1,252 steps (1,281,167 images)" in text
    assert "learning rate 0.001 (0.001 x 1024/1024), warm-up 5 of the 300 epochs from 1e-06" in text
    assert "warning" not in text


def test_everything_that_is_on_is_said() -> None:
    recipe = replace(
        get_recipe("hdv"),
        sam_rho=0.05,
        ema_decay=0.999,
        layer_decay=0.75,
        clip_norm=5.0,
        repeats=3,
        distill="soft",
    )
    text = str(describe_recipe(recipe))
    for part in (
        "SAM rho 0.05",
        "decay 0.999",
        "layer decay 0.75",
        "clipped to 5",
        "each image 3 times",
        "distillation soft",
        "warm-up 5 before the 300 epochs",
        "rand-m9-n2-mstd1.0",
        "mixup 1 and CutMix 0.8 in 100%",
    ):
        assert part in text, part
    changed = {"sam_rho", "ema_decay", "layer_decay", "clip_norm", "repeats", "distill"}
    assert {line.split(" ")[0] for line in describe_recipe(recipe).warnings} == changed


def test_batch_that_is_not_the_recipes() -> None:
    (scaled,) = describe_recipe(get_recipe("deit", batch_size=256)).warnings
    assert scaled == "batch_size is 256, deit has 1024; the learning rate is scaled with it to 0.00025"
    (kept,) = describe_recipe(get_recipe("hdv", batch_size=48)).warnings
    assert (
        kept
        == "batch_size is 48, hdv has 96; the learning rate stays 0.000125 (in proportion: --lr 6.25e-05)"
    )


def test_comparison_with_another_recipe_and_with_none() -> None:
    own = Recipe(epochs=3, batch_size=8, lr=0.1, warmup_epochs=0)
    assert describe_recipe(own).warnings == ()
    assert "lr is 0.1, mini has 0.001" in describe_recipe(own, get_recipe("mini")).warnings


def test_hazards() -> None:
    few = describe_recipe(get_recipe("mini"), n_images=20).warnings
    assert few == ("there are 20 images, fewer than a batch (32): an epoch is one step",)
    cut = describe_recipe(get_recipe("mini", accumulate=8), world=4).warnings
    assert cut == ("a batch of 32 has no 4 x 8 parts of 2 images; it is cut into 4 x 4",)
    tokens = describe_recipe(get_recipe("deit-distill"), model=create_model("vit_mini")).warnings
    assert len(tokens) == 1
    assert "no distillation token" in tokens[0]
