"""The dataclass: what makes no sense is refused, and YAML tells the same as Python."""

from dataclasses import replace
from pathlib import Path

import pytest

from vitscope.core.errors import VitscopeError
from vitscope.recipes.named import get_recipe
from vitscope.recipes.recipe import Recipe

PLAIN = Recipe(epochs=2, batch_size=32, lr=1e-3, warmup_epochs=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epochs": 0}, "epochs is 0; expected a whole number, 1 or more"),
        ({"batch_size": -1}, "batch_size is -1"),
        ({"lr": 0.0}, "lr is 0.0; expected a number, more than 0"),
        ({"erase": 1.5}, "erase is 1.5; expected a number from 0 to 1"),
        ({"auto_augment": "augmix"}, "auto_augment is 'augmix'"),
        ({"warmup_epochs": 50}, "warmup_epochs is 50"),
        ({"warmup_epochs": -1}, "warmup_epochs is -1"),
        ({"accumulate": 33}, "accumulate is 33; expected at most 32"),
        ({"sam_rho": -0.05}, "sam_rho is -0.05; expected a number, more than 0"),
        ({"ema_decay": 1.0}, "ema_decay is 1.0; expected a number, more than 0 and less than 1"),
        ({"label_smoothing": 1.0}, "label_smoothing is 1.0; expected a number, 0 or more and less than 1"),
        ({"drop_path": 1.0}, "drop_path is 1.0; expected a number, 0 or more and less than 1"),
        ({"milestones": (0.6, 0.3)}, r"milestones is \(0.6, 0.3\); expected rising shares"),
        (
            {"milestones": (60.0,)},
            r"milestones is \(60.0,\) \(60.0 in it\); expected several of: a number from 0 to 1",
        ),
        ({"distill": "tender"}, "distill is 'tender'; expected hard or soft, or None"),
        ({"amp": "float8"}, "amp is 'float8'; expected one of auto, never, bfloat16, float16"),
        ({"repeats": 0}, "repeats is 0"),
        (
            {"warmup_epochs": 1, "warmup_lr": 0.01},
            "warmup_lr is 0.01; expected at most the highest rate, 0.001: lower it, or raise lr",
        ),
        ({"min_lr": 0.01}, "min_lr is 0.01; expected at most the highest rate, 0.001: lower it, or raise lr"),
        ({"lr": 1e3, "lr_per": 1}, "lr is 1000.0; expected at most 10000 after it is scaled to the batch"),
    ],
)
def test_nonsense_is_refused(changes: dict[str, float], message: str) -> None:
    with pytest.raises(VitscopeError, match=message):
        replace(PLAIN, **changes)


def test_a_warm_up_that_nobody_chose_is_never_in_the_way() -> None:
    assert replace(PLAIN, lr=1e-7, warmup_epochs=1).warmup_lr == 1e-6
    assert replace(PLAIN, warmup_lr=0.5).warmup_lr == 0.5  # without a warm-up


def test_learning_rate_is_scaled_to_the_batch_where_the_recipe_does() -> None:
    assert replace(PLAIN, lr_per=1024).peak_lr == pytest.approx(1e-3 / 32)
    assert PLAIN.peak_lr == 1e-3


def test_yaml_round_trip(tmp_path: Path) -> None:
    odd = replace(
        PLAIN, milestones=(0.25, 0.5), sam_rho=0.05, auto_augment=None, compile=True, amp="never", lr=3e-7
    )
    odd.to_yaml(tmp_path / "odd.yaml")
    assert Recipe.from_yaml(tmp_path / "odd.yaml") == odd
    assert get_recipe(tmp_path / "odd.yaml", epochs=7) == replace(odd, epochs=7)


def test_yaml_by_hand(tmp_path: Path) -> None:
    file = tmp_path / "mine.yml"
    file.write_text("epochs: 3\nbatch_size: 8\nlr: 1e-3\nwarmup_epochs: 1\nmixup: 0\nclip_norm: null\n")
    assert get_recipe(str(file)) == Recipe(epochs=3, batch_size=8, lr=1e-3, warmup_epochs=1.0, mixup=0.0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "epochs: 3\nbatch_size: 8\nlr: 0.1\nwarm_up_epochs: 1",
            "no 'warm_up_epochs'; did you mean 'warmup_epochs'",
        ),
        ("epochs: 3\nbatch_size: 8", "does not say 'lr'"),
        ("epochs: ten\nbatch_size: 8\nlr: 0.1", "epochs is 'ten'; expected a whole number"),
        ("epochs: 3.5\nbatch_size: 8\nlr: 0.1", "epochs is 3.5; expected a whole number"),
        ("epochs: 3\nbatch_size: 8\nlr: fast", "lr is 'fast'; expected a number"),
        ("epochs: 3\nbatch_size: 8\nlr: 0.1\ncompile: 1", "compile is 1; expected true or false"),
        ("epochs: 3\nbatch_size: 8\nlr: 0.1\namp: off", "amp is False; expected one of"),
        ("- 1", "should hold 'epochs: 300' lines, not a list"),
        ("a: [", "cannot read the recipe"),
    ],
)
def test_yaml_that_is_wrong_is_explained_in_one_line(text: str, message: str, tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(text)
    with pytest.raises(VitscopeError, match=message) as caught:
        get_recipe(file)
    assert "\n" not in str(caught.value)


def test_missing_file_is_named() -> None:
    with pytest.raises(VitscopeError, match=r"cannot read the recipe nowhere/mine\.yaml"):
        get_recipe("nowhere/mine.yaml")
