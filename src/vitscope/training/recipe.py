"""A recipe: how to train, apart from the model and the data, as a typed dataclass with a YAML twin.

recipe = get_recipe("deit", batch_size=256)      # a named one (see `named`), with a choice changed
recipe.to_yaml("mine.yaml")                      # to edit; vitscope train ... --recipe mine.yaml
"""

import dataclasses
import difflib
import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import yaml

from vitscope.errors import VitscopeError

_COUNTS = ("epochs", "batch_size", "repeats", "accumulate", "patience")
_SHARES = ("erase", "flip", "label_smoothing", "mix_probability", "drop_path", "distill_weight")
_POSITIVE = ("lr", "lr_per", "clip_norm", "sam_rho", "temperature")
_FACTORS = ("ema_decay", "layer_decay", "decay_rate")


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
        auto_augment: timm's RandAugment string, or None.
        erase: Probability that a rectangle of an image becomes noise.
        flip: Probability of mirroring an image.
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
        channels_last: Memory layout of images and convolutions; "auto" where it is not slower.
        patience: Steps in a row without a finite loss after which the training stops.
    """

    epochs: int
    batch_size: int
    lr: float
    name: str = "custom"
    lr_per: int | None = None
    optimizer: str = "adamw"
    weight_decay: float = 0.05
    decay_all: bool = False
    layer_decay: float | None = None
    warmup_epochs: float = 5
    warmup_adds: bool = False
    warmup_lr: float = 1e-6
    min_lr: float = 0.0
    milestones: tuple[float, ...] = ()
    decay_rate: float = 0.1
    auto_augment: str | None = "rand-m9-n2-mstd1.0"
    erase: float = 0.25
    flip: float = 0.5
    crop: Literal["auto", "pad", "resized"] = "auto"
    repeats: int = 1
    label_smoothing: float = 0.1
    mixup: float = 1.0
    cutmix: float = 0.8
    mix_probability: float = 1.0
    drop_path: float = 0.1
    clip_norm: float | None = None
    accumulate: int = 1
    sam_rho: float | None = None
    ema_decay: float | None = None
    distill: Literal["hard", "soft"] | None = None
    distill_weight: float = 0.5
    temperature: float = 1.0
    amp: Literal["auto", "never", "bfloat16", "float16"] = "auto"
    compile: bool = False
    channels_last: Literal["auto", "always", "never"] = "auto"
    patience: int = 3

    def __post_init__(self) -> None:
        for name in _COUNTS:
            self._expect(name, getattr(self, name) >= 1, "1 or more")
        for name in _POSITIVE:
            self._expect(name, getattr(self, name) is None or getattr(self, name) > 0, "more than 0")
        for name in _SHARES:
            self._expect(name, 0 <= getattr(self, name) <= 1, "0 to 1")
        for name in _FACTORS:
            value = getattr(self, name)
            self._expect(name, value is None or 0 < value <= 1, "more than 0 and at most 1")
        for name, hint in get_type_hints(Recipe).items():
            words = _words(hint)
            if words:
                self._expect(name, getattr(self, name) in words, f"one of {', '.join(map(str, words))}")
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
        self._expect(
            "auto_augment",
            self.auto_augment is None or self.auto_augment.startswith("rand"),
            "something like rand-m9-n2-mstd1.0",
        )

    def _expect(self, name: str, holds: bool, expected: str) -> None:
        if not holds:
            value = getattr(self, name)
            seen = f"'{value}'" if isinstance(value, str) else value
            raise VitscopeError(f"recipe: {name} is {seen}, expected {expected}")

    @property
    def total_epochs(self) -> float:
        """Epochs with a warm-up that adds some."""
        return self.epochs + (self.warmup_epochs if self.warmup_adds else 0)

    @property
    def peak_lr(self) -> float:
        """The highest learning rate, scaled to the batch if the recipe does that."""
        return self.lr if self.lr_per is None else self.lr * self.batch_size / self.lr_per

    def to_dict(self) -> dict[str, Any]:
        """Every choice, as plain values."""
        return dataclasses.asdict(self)

    def to_yaml(self, path: str | os.PathLike[str]) -> None:
        """Write every choice as `name: value`."""
        values = {**self.to_dict(), "milestones": list(self.milestones)}
        Path(path).write_text(yaml.safe_dump(values, sort_keys=False))

    @classmethod
    def from_yaml(cls, path: str | os.PathLike[str]) -> "Recipe":
        """Read what `to_yaml` wrote, or a part of it; what is left out has the defaults of this class."""
        try:
            values = yaml.safe_load(Path(path).read_text())
        except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())
            raise VitscopeError(f"cannot read the recipe {path} ({reason}); expected a YAML file") from error
        if not isinstance(values, Mapping):
            raise VitscopeError(f"{path} holds {type(values).__name__}, expected lines such as 'epochs: 300'")
        return cls(**_typed(values, str(path)))


def _typed(values: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Values as the fields of `Recipe` want them; refuses unknown names, missing ones and wrong types."""
    hints = get_type_hints(Recipe)
    for name in values:
        if name not in hints:
            close = difflib.get_close_matches(str(name), hints, 1)
            meant = f"did you mean '{close[0]}'?" if close else f"there are: {', '.join(hints)}"
            raise VitscopeError(f"{where}: a recipe has no '{name}'; {meant}")
    for field in dataclasses.fields(Recipe):
        if field.default is dataclasses.MISSING and field.name not in values:
            raise VitscopeError(f"{where} does not say '{field.name}'; add a line such as '{field.name}: 1'")
    return {name: _convert(value, hints[name], f"{where}: {name}") for name, value in values.items()}


def _convert(value: Any, hint: Any, where: str) -> Any:
    if get_origin(hint) in (Union, UnionType):
        if value is None:
            return None
        hint = next(option for option in get_args(hint) if option is not NoneType)
    if get_origin(hint) is tuple and isinstance(value, list):
        return tuple(_convert(item, float, where) for item in value)
    if hint is float and isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            return float(value)  # YAML reads 1e-3, without a dot, as text
        except ValueError:
            pass
    if hint in (int, bool, str) and type(value) is hint:
        return value
    if get_origin(hint) is Literal and isinstance(value, str):
        return value
    expected = getattr(hint, "__name__", str(hint)) if get_origin(hint) is None else "a word or a list"
    raise VitscopeError(f"{where} is {value!r}, expected {expected}")


def _words(hint: Any) -> tuple[Any, ...]:
    """The values that a `Literal` (or None) allows; nothing for other types."""
    options = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    literal = [option for option in options if get_origin(option) is Literal]
    return get_args(literal[0]) + ((None,) if NoneType in options else ()) if literal else ()
