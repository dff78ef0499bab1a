"""Recipes: named sets of training choices, each with its command, its cost and the accuracy to expect."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from vitscope.errors import VitscopeError


@dataclass(frozen=True)
class Recipe:
    """How to train, apart from the model and the data.

    Attributes:
        epochs: Passes over the data; the warm-up comes on top if `warmup_adds`.
        batch_size: Images per step.
        optimizer: Name of a timm optimiser.
        lr: Learning rate at its highest; it then falls along half a cosine to `min_lr`.
        weight_decay: Decoupled weight decay.
        decay_all: Decay every parameter; if false, biases, norms, tokens and position embeddings are not.
        warmup_epochs: The learning rate first rises from `warmup_lr` linearly for so long.
        warmup_adds: Whether the warm-up is counted on top of `epochs` or within.
        auto_augment: timm's RandAugment string, or None.
        erase: Probability that a rectangle of an image becomes noise.
        flip: Probability of mirroring an image.
        crop: "pad" shifts by up to an eighth of the side, "resized" takes a random part of random size;
            "auto" is "pad" for images of up to 32 pixels and "resized" above.
        label_smoothing: Share of the target that is spread over all classes.
        mixup: Parameter of the beta distribution of mixup, 0 for none.
        cutmix: The same for CutMix. Where both are on, each batch takes one of them at random.
        mix_probability: Share of the batches that are mixed at all.
        drop_path: Stochastic depth of the last block (of models that have it and are created by name).
        clip_norm: Largest norm of the gradient, or None.
    """

    epochs: int
    batch_size: int
    lr: float
    optimizer: str = "adamw"
    weight_decay: float = 0.05
    decay_all: bool = False
    warmup_epochs: float = 5
    warmup_adds: bool = False
    warmup_lr: float = 1e-6
    min_lr: float = 0.0
    auto_augment: str | None = "rand-m9-n2-mstd1.0"
    erase: float = 0.25
    flip: float = 0.5
    crop: Literal["auto", "pad", "resized"] = "auto"
    label_smoothing: float = 0.1
    mixup: float = 1.0
    cutmix: float = 0.8
    mix_probability: float = 1.0
    drop_path: float = 0.1
    clip_norm: float | None = None

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise VitscopeError(f"recipe: {name} is {getattr(self, name)}, expected 1 or more")
        if self.lr <= 0:
            raise VitscopeError(f"recipe: lr is {self.lr}, expected more than 0")
        if not self.warmup_adds and self.warmup_epochs >= self.epochs:
            raise VitscopeError(
                f"recipe: warmup_epochs is {self.warmup_epochs}, expected less than epochs ({self.epochs})"
            )
        for name in ("erase", "flip", "label_smoothing", "mix_probability", "drop_path"):
            if not 0 <= getattr(self, name) <= 1:
                raise VitscopeError(f"recipe: {name} is {getattr(self, name)}, expected 0 to 1")
        if self.auto_augment is not None and not self.auto_augment.startswith("rand"):
            raise VitscopeError(
                f"recipe: auto_augment is '{self.auto_augment}', expected something like rand-m9-n2-mstd1.0"
            )

    @property
    def total_epochs(self) -> float:
        """Epochs with a warm-up that adds some."""
        return self.epochs + (self.warmup_epochs if self.warmup_adds else 0)

    def to_dict(self) -> dict[str, Any]:
        """Every choice, as plain values."""
        return dataclasses.asdict(self)


def mini() -> Recipe:
    """Strong augmentation in a short schedule, for the 32-pixel models on two cores.

    Against `hdv`: learning rate 1e-3 over 6 epochs of small batches, and one batch in five is mixed instead
    of all, since there is no time to learn from mixtures alone.

        vitscope train resnet_mini --data fashion-full --recipe mini --out runs/resnet_mini

    Took 35 minutes on one thread of a busy machine (its quiet epochs ran at 260 images/s) and gave 90.2 % on the
    10,000 test images. `vit_mini` needs more: 8 epochs gave 83.8 %, 6 more from there 86.7 % (see its card).
    """
    return Recipe(
        epochs=6,
        batch_size=32,
        lr=1e-3,
        warmup_epochs=0.25,
        mix_probability=0.2,
        drop_path=0.05,
        clip_norm=1.0,
    )


def hdv() -> Recipe:
    """The recipe of "How Do Vision Transformers Work?", appendix A, on CIFAR (on ImageNet: batch_size=128).

    AdamW 1.25e-4, weight decay 5e-2 on every parameter, cosine over 300 epochs after 5 of warm-up,
    RandAugment, random erasing, label smoothing, mixup, CutMix, stochastic depth.

        vitscope train vit_tiny_patch16_224 --data cifar100 --img-size 32 --recipe hdv --out runs/vit

    The paper reports 434 images/s for ViT-Ti on CIFAR-100, which makes 305 epochs about 10 hours, and a test
    error of 30.4 % for ViT-S with 2x2 patches and 22.0 % for ResNet-18.
    """
    return Recipe(
        epochs=300,
        batch_size=96,
        lr=1.25e-4,
        weight_decay=5e-2,
        decay_all=True,
        warmup_epochs=5,
        warmup_adds=True,
    )


RECIPES: dict[str, Callable[[], Recipe]] = {"mini": mini, "hdv": hdv}


def get_recipe(recipe: str | Recipe, **changes: Any) -> Recipe:
    """A recipe by name (or as it is), with the given choices changed; None changes nothing."""
    if isinstance(recipe, str):
        if recipe not in RECIPES:
            raise VitscopeError(f"no recipe '{recipe}'; there are: {', '.join(RECIPES)}")
        recipe = RECIPES[recipe]()
    return dataclasses.replace(
        recipe, **{name: value for name, value in changes.items() if value is not None}
    )
