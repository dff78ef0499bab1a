"""A recipe: how to train, apart from the model and the data, as a typed dataclass with a YAML twin.

recipe = get_recipe("deit", batch_size=256)      # a named one (see `named`), with a choice changed
recipe.to_yaml("mine.yaml")                      # to edit; vitscope train ... --recipe mine.yaml
"""

import dataclasses
import itertools
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import yaml

from vitscope.core.arguments import (
    BatchSize,
    Count,
    Decay,
    Epochs,
    Fraction,
    LearningRate,
    NotNegative,
    Positive,
    Probability,
    Range,
    Refine,
    Share,
    check_fields,
    from_yaml,
    names_checked,
)
from vitscope.core.arguments.yaml_files import read_yaml
from vitscope.core.errors import BadArgument, alike


def _optimizer_problem(name: str) -> str | None:
    from timm.optim import list_optimizers

    known = [str(one) for one in list_optimizers()]
    if name.lower() in known:
        return None
    near = alike(name.lower(), known)
    return f"did you mean {near[0]}?" if near else "timm has no such optimiser"


def _augment_problem(text: str) -> str | None:
    from timm.data.auto_augment import rand_augment_transform

    if not text.startswith("rand"):
        return "it does not begin with rand"
    try:
        rand_augment_transform(text, {})
    except Exception:  # timm's parser asserts, converts and looks up without a word of its own
        return "timm cannot read it"
    return None


Optimizer = Annotated[str, Refine(_optimizer_problem, "an optimiser of timm, such as adamw, sgd or lamb")]
RandAugment = Annotated[str, Refine(_augment_problem, "something like rand-m9-n2-mstd1.0")]


_HIGHEST_RATE = 1e4
_WARMUP_RATE = 1e-6  # never higher than the highest rate


@names_checked
@dataclass(frozen=True)
class Recipe:
    """How to train, apart from the model and the data.

    Attributes:
        epochs: Passes over the data; the warm-up comes on top if `warmup_adds`.
        batch_size: Images per step, over all processes and accumulation steps together.
        lr: Learning rate at its highest, for `lr_per` images per step if that is given.
        name: The named recipe this is, or was made from.
        lr_per: The batch that `lr` is meant for; the rate is scaled in proportion. None: not scaled.
        optimizer: Name of a timm optimiser.
        weight_decay: Weight decay, as the optimiser understands it.
        decay_all: Decay every parameter; if false, biases, norms, tokens and position embeddings are not.
        layer_decay: Each layer learns by this factor slower than the one above it, or None.
        warmup_epochs: The learning rate first rises from `warmup_lr` linearly for so long.
        warmup_adds: Whether the warm-up is counted on top of `epochs` or within.
        min_lr: Where the half cosine ends along which the learning rate falls.
        milestones: Instead of a cosine: shares of `epochs` after which the rate is multiplied by `decay_rate`.
        power: Instead of a cosine: the rate falls as (1 - t) to this power, t from 0 to 1.
        auto_augment: timm's RandAugment string, or None.
        erase: Probability that a rectangle of an image becomes noise.
        flip: Probability of mirroring an image.
        colour_jitter: Brightness, contrast and saturation change by up to this share.
        crop: "pad" shifts by up to an eighth of the side, "resized" takes a random part of random size;
            "auto" is "pad" for images of up to 32 pixels and "resized" above.
        repeats: Repeated augmentation: an epoch takes this part of the images, each so many times.
        label_smoothing: Share of the target that is spread over all classes.
        mixup: Parameter of the beta distribution of mixup, 0 for none.
        cutmix: The same for CutMix. Where both are on, each batch takes one of them at random.
        mix_probability: Share of the batches that are mixed at all.
        drop_path: Stochastic depth of the last block (of models that have it and are created by name).
        clip_norm: Largest norm of the gradient, or None.
        accumulate: Parts that a process cuts its share of a batch into, to save memory.
        sam_rho: Radius of sharpness-aware minimisation, or None.
        ema_decay: Keep a moving average of the weights with this decay per step, or None.
        distill: Learn from a teacher too: from the class it says ("hard"), or from its distribution ("soft").
        distill_weight: Weight of the teacher's part of the loss.
        temperature: Softens both distributions of "soft".
        amp: Mixed precision: "auto" where the device is made for it, "never", or a type.
        compile: Whether the model goes through torch.compile.
        channels_last: Memory layout of images and maps; "auto" where it is not slower; not where it would crash.
        patience: Steps in a row without a finite loss after which the training stops.
    """

    epochs: Epochs
    batch_size: BatchSize
    lr: LearningRate
    name: str = "custom"
    lr_per: Count | None = None
    optimizer: Optimizer = "adamw"
    weight_decay: NotNegative = 0.05
    decay_all: bool = False
    layer_decay: Fraction | None = None
    warmup_epochs: NotNegative = 5
    warmup_adds: bool = False
    warmup_lr: NotNegative = _WARMUP_RATE
    min_lr: NotNegative = 0.0
    milestones: tuple[Share, ...] = ()
    decay_rate: Fraction = 0.1
    auto_augment: RandAugment | None = "rand-m9-n2-mstd1.0"
    erase: Share = 0.25
    flip: Share = 0.5
    crop: Literal["auto", "pad", "resized"] = "auto"
    repeats: Annotated[int, Range(1, 100)] = 1
    label_smoothing: Probability = 0.1
    mixup: NotNegative = 1.0
    cutmix: NotNegative = 0.8
    mix_probability: Share = 1.0
    drop_path: Probability = 0.1
    clip_norm: Positive | None = None
    accumulate: Count = 1
    sam_rho: Positive | None = None
    ema_decay: Decay | None = None
    distill: Literal["hard", "soft"] | None = None
    distill_weight: Share = 0.5
    temperature: Positive = 1.0
    amp: Literal["auto", "never", "bfloat16", "float16"] = "auto"
    compile: bool = False
    channels_last: Literal["auto", "always", "never"] = "auto"
    patience: Count = 3
    power: Positive | None = None
    colour_jitter: Share = 0.0

    def __post_init__(self) -> None:
        check_fields(self, "recipe: ")
        self._expect("accumulate", self.accumulate <= self.batch_size, f"at most {self.batch_size} (a batch)")
        self._expect(
            "warmup_epochs",
            self.warmup_epochs >= 0 and (self.warmup_adds or self.warmup_epochs < self.epochs),
            f"less than epochs ({self.epochs})",
        )
        rising = (0.0, *self.milestones, 1.0)
        self._expect(
            "milestones",
            all(a < b for a, b in itertools.pairwise(rising)),
            "rising shares of the epochs between 0 and 1, such as [0.3, 0.6, 0.8]",
        )
        self._expect("power", not (self.power and self.milestones), "nothing beside milestones")
        scaled = f"at most {_HIGHEST_RATE:g} after it is scaled to the batch, which makes it {self.peak_lr:g}"
        self._expect("lr", self.peak_lr <= _HIGHEST_RATE, scaled)
        highest = f"at most the highest rate, {self.peak_lr:g}: lower it, or raise lr"
        self._expect("min_lr", self.min_lr <= self.peak_lr, highest)
        rises = self.warmup_lr <= self.peak_lr or not self.warmup_epochs
        self._expect("warmup_lr", rises or self.warmup_lr == _WARMUP_RATE, highest)  # which nobody has chosen

    def _expect(self, name: str, holds: bool, expected: str) -> None:
        if not holds:
            raise BadArgument(f"recipe: {name} is {getattr(self, name)}; expected {expected}")

    @property
    def total_epochs(self) -> float:
        """Epochs with a warm-up that adds some."""
        return self.epochs + (self.warmup_epochs if self.warmup_adds else 0)

    @property
    def peak_lr(self) -> float:
        """The highest learning rate, scaled to the batch if the recipe does that."""
        return self.lr if self.lr_per is None else self.lr * self.batch_size / self.lr_per

    def to_dict(self) -> dict[str, Any]:
        """Every choice, as plain values; of those that older recipes do not know, what differs from their default."""
        return {
            name: value for name, value in dataclasses.asdict(self).items() if _SINCE.get(name, "") != value
        }

    def to_yaml(self, path: str | os.PathLike[str]) -> None:
        """Write every choice as `name: value`."""
        values = {**dataclasses.asdict(self), "milestones": list(self.milestones)}
        Path(path).write_text(yaml.safe_dump(values, sort_keys=False))

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str]) -> "Recipe":
        """Read what `to_yaml` wrote, or a part of it; what is left out has the defaults of this class."""
        values = read_yaml(path, f"the recipe {os.fspath(path)}", "epochs: 300")
        return cls(**_typed(values, os.fspath(path)))


_SINCE = {"power": None, "colour_jitter": 0.0}  # so that what was begun without them goes on


def unknown_choice(names: Iterable[Any]) -> str | None:
    """Which of the names a recipe does not have, and which may be meant."""
    known = Recipe.__dataclass_fields__
    for name in names:
        if name not in known:
            near = alike(str(name), known)
            meant = f"did you mean '{near[0]}'?" if near else f"there are: {', '.join(known)}"
            return f"a recipe has no '{name}'; {meant}"
    return None


def _typed(values: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Values as the fields of `Recipe` want them; refuses unknown names, missing ones and wrong types."""
    hints = get_type_hints(Recipe, include_extras=True)
    if problem := unknown_choice(values):
        raise BadArgument(f"{where}: {problem}")
    for field in dataclasses.fields(Recipe):
        if field.default is dataclasses.MISSING and field.name not in values:
            raise BadArgument(f"{where} does not say '{field.name}'; add a line such as '{field.name}: 1'")
    return {name: from_yaml(value, hints[name], f"{where}: {name}") for name, value in values.items()}
