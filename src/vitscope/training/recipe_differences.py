"""What a training is going to do, in words, and where that is not what the recipe's name promises."""

import dataclasses
from dataclasses import dataclass
from typing import Any

from torch import nn

from vitscope.recipes.named import RECIPES
from vitscope.recipes.recipe import Recipe
from vitscope.training.distill import has_distillation_token
from vitscope.training.sharding import micro_batches

_OF_NO_CONSEQUENCE = {"name", "accumulate", "compile", "channels_last", "patience"}


@dataclass(frozen=True)
class RecipeSummary:
    """Lines to read before a training, and a line for each choice to be aware of."""

    lines: tuple[str, ...]
    warnings: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join([*self.lines, *(f"warning: {line}" for line in self.warnings)])


def describe_recipe(
    recipe: Recipe,
    named: Recipe | None = None,
    world: int = 1,
    n_images: int | None = None,
    model: nn.Module | None = None,
) -> RecipeSummary:
    """Say what a recipe comes to with so many processes (`world`) and images, and what this model cannot follow.

    It is compared with `named`; default: the named recipe that it says it comes from.
    """
    if named is None and recipe.name in RECIPES:
        named = RECIPES[recipe.name]()
    lines = [_duration(recipe, n_images), _batch(recipe, world), _rate(recipe), _optimizer(recipe)]
    lines += [_averages(recipe), _augmentation(recipe)]
    warnings = _differences(recipe, named) if named is not None else []
    warnings += _hazards(recipe, world, n_images, model)
    return RecipeSummary(tuple(lines), tuple(warnings))


def _duration(recipe: Recipe, n_images: int | None) -> str:
    steps = ""
    if n_images:
        whole, left = divmod(n_images, recipe.batch_size)
        steps = f" of {max(whole + (left > 1), 1):,} steps ({n_images:,} images)"
    return f"recipe {recipe.name}: {recipe.total_epochs:g} epochs{steps}"


def _batch(recipe: Recipe, world: int) -> str:
    cut = micro_batches(recipe.batch_size, recipe.accumulate, world)
    each = recipe.batch_size / world / cut
    processes = f"{world} process{'es' if world > 1 else ''}"
    return f"batch {recipe.batch_size} = {processes} x {cut} accumulated x {_rough(each)} images"


def _rate(recipe: Recipe) -> str:
    scaled = f" ({recipe.lr:g} x {recipe.batch_size}/{recipe.lr_per})" if recipe.lr_per else ""
    warm = "no warm-up"
    if recipe.warmup_epochs:
        where = "before" if recipe.warmup_adds else "of"
        warm = (
            f"warm-up {recipe.warmup_epochs:g} {where} the {recipe.epochs} epochs from {recipe.warmup_lr:g}"
        )
    fall = f"half a cosine to {recipe.min_lr:g}"
    if recipe.power:
        fall = f"down to {recipe.min_lr:g} as (1 - t)" + (f"^{recipe.power:g}" if recipe.power != 1 else "")
    if recipe.milestones:
        at = ", ".join(f"{share * recipe.epochs:g}" for share in recipe.milestones)
        fall = f"times {recipe.decay_rate:g} after epochs {at}"
    return f"learning rate {recipe.peak_lr:g}{scaled}, {warm}, {fall}"


def _optimizer(recipe: Recipe) -> str:
    where = "everything" if recipe.decay_all else "all but biases, norms and tokens"
    said = [recipe.optimizer, f"weight decay {recipe.weight_decay:g} on {where}"]
    said += [f"gradient clipped to {recipe.clip_norm:g}"] if recipe.clip_norm is not None else []
    said += [f"layer decay {recipe.layer_decay:g}"] if recipe.layer_decay is not None else []
    said += [f"SAM rho {recipe.sam_rho:g} (two passes)"] if recipe.sam_rho is not None else []
    return "optimiser " + ", ".join(said)


def _averages(recipe: Recipe) -> str:
    ema = "none"
    if recipe.ema_decay is not None:
        ema = f"decay {recipe.ema_decay:g}; the average is measured and kept"
    taught = f"; distillation {recipe.distill}, weight {recipe.distill_weight:g}" if recipe.distill else ""
    return f"average of the weights: {ema}{taught}"


def _augmentation(recipe: Recipe) -> str:
    said = [f"crop {recipe.crop}"]
    said += [f"flip {recipe.flip:g}"] if recipe.flip else []
    said += [f"colours changed by up to {recipe.colour_jitter:.0%}"] if recipe.colour_jitter else []
    said += [recipe.auto_augment] if recipe.auto_augment else []
    said += [f"erasing {recipe.erase:g}"] if recipe.erase else []
    said += [f"label smoothing {recipe.label_smoothing:g}"] if recipe.label_smoothing else []
    if recipe.mix_probability and (recipe.mixup or recipe.cutmix):
        said += [
            f"mixup {recipe.mixup:g} and CutMix {recipe.cutmix:g} in {recipe.mix_probability:.0%} of the batches"
        ]
    said += [f"each image {recipe.repeats} times"] if recipe.repeats > 1 else []
    said += [f"stochastic depth {recipe.drop_path:g}"] if recipe.drop_path else []
    return "augmentation " + ", ".join(said)


def _differences(recipe: Recipe, named: Recipe) -> list[str]:
    found = []
    for field in dataclasses.fields(Recipe):
        mine, theirs = getattr(recipe, field.name), getattr(named, field.name)
        if mine == theirs or field.name in _OF_NO_CONSEQUENCE:
            continue
        found.append(
            f"{field.name} is {_said(mine)}, {named.name} has {_said(theirs)}{_so(field.name, recipe, named)}"
        )
    return found


def _so(field: str, recipe: Recipe, named: Recipe) -> str:
    """What a difference brings with it."""
    if field != "batch_size":
        return ""
    if recipe.lr_per is not None:
        return f"; the learning rate is scaled with it to {recipe.peak_lr:g}"
    if recipe.lr != named.lr:
        return ""
    ratio = recipe.batch_size / named.batch_size
    return f"; the learning rate stays {recipe.lr:g} (in proportion: --lr {recipe.lr * ratio:.3g})"


def _hazards(recipe: Recipe, world: int, n_images: int | None, model: nn.Module | None) -> list[str]:
    hazards = []
    if n_images is not None and n_images < recipe.batch_size:
        hazards.append(
            f"there are {n_images} images, fewer than a batch ({recipe.batch_size}): an epoch is one step"
        )
    if micro_batches(recipe.batch_size, recipe.accumulate, world) < recipe.accumulate:
        hazards.append(
            f"a batch of {recipe.batch_size} has no {world} x {recipe.accumulate} parts of 2 images; "
            f"it is cut into {world} x {micro_batches(recipe.batch_size, recipe.accumulate, world)}"
        )
    if recipe.distill and model is not None and not has_distillation_token(model):
        hazards.append(
            f"{type(model).__name__} has no distillation token; its one output learns from labels and teacher"
        )
    return hazards


def _said(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _rough(number: float) -> str:
    return f"{number:g}" if number == int(number) else f"about {number:.0f}"
