"""The design of a study: arms that are compared, exams that look at them, comparisons with their rules."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from vitscope.claims.verdict import Rule
from vitscope.core.arguments import Count, Fraction, NotEmpty, Seed, check_fields, names_checked
from vitscope.core.errors import BadArgument, did_you_mean
from vitscope.core.names import EXAM_NAMES, OPERATION_NAMES, check_exam_names

Operation = str | Mapping[str, Any]  # "smooth", "localize kernel=5", {"localize": {"kernel": 5}}
TRAINING = "training"  # the label of what a training itself recorded: training.accuracy
OF_THE_ARM = "arm"  # as a recipe among an exam's options: the one that the arm was trained with
VALIDATION = "validation"  # the split of training images that were held out
QUANTITY = "LABEL.QUANTITY, such as prediction.accuracy or fourier.change[kind=msa]"
_QUANTITY = re.compile(r"[\w-]+\.[^\[\]\s][^\[\]]*(\[[^\[\]]+\])?")
_SIDES = ("above", "below", "within")


@names_checked
@dataclass(frozen=True)
class Arm:
    """One thing that is compared: how a model is made, operated on and trained, each time with another seed.

    Attributes:
        name: What tables call it.
        model: What `create_model` takes. Of an arm with `start`, the name of the model that it goes back to.
        arguments: Of `create_model`; the number of classes and the side of the images follow from the data.
        operations: In order; as `vs.operate` takes them.
        recipe: A name or a YAML file.
        changes: Of the recipe.
        data: What `load_data` takes; its training images.
        fraction: Part of every class of them.
        seeds: One training each.
        start: The arm whose trained model is operated on ("from" in a file); None: a new model.
        checkpoint_every: Epochs between two checkpoints of the training to keep besides init, warmup, best and last.
        train: Whether it is trained here. If not, and without `start`, it has the weights that come with its name.
    """

    name: str
    model: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    operations: tuple[Operation, ...] = ()
    recipe: str = "mini"
    changes: Mapping[str, Any] = field(default_factory=dict)
    data: str = "fashion"
    fraction: Fraction = 1.0
    seeds: Annotated[tuple[Seed, ...], NotEmpty] = (0, 1, 2)
    start: str | None = None
    train: bool = True
    checkpoint_every: Count | None = None

    @property
    def is_trained(self) -> bool:
        """Whether its weights come from a training of this study, its own or that of the arm it starts from."""
        return self.train or self.start is not None

    def __post_init__(self) -> None:
        check_fields(self, f"arm {self.name}: ")
        object.__setattr__(self, "seeds", tuple(self.seeds))
        refuse_twice(map(str, self.seeds), f"arm {self.name}: seed")
        for said in self.operations:
            for word in [said.partition(" ")[0]] if isinstance(said, str) else said:
                name = str(word).replace("-", "_")
                if name not in OPERATION_NAMES:
                    raise BadArgument(
                        f"arm {self.name}: no operation '{word}'; {did_you_mean(name, OPERATION_NAMES)}"
                    )


@names_checked
@dataclass(frozen=True)
class Look:
    """One exam of the trained models.

    Attributes:
        label: What tables and quantities call it.
        exam: Its name; default: the label.
        options: Of the exam. A recipe "arm" is the one that the arm was trained with.
        split: "test", "train" (the images that the arm was trained on), "validation", or what else the data has.
        limit: Use this many images.
        batch_size: Images per forward pass.
        data: What `load_data` takes; None: the data of the arm.
        labels: Published labels of these images: "imagenet", "numeric" or "real:PATH"; see `relabel`.
        classes: Which outputs may be chosen: "present", or a file that names them.
        arms: Those that are examined; empty: all.
        checkpoint: The moment of the training to look at ("init", "warmup", "best" ...); None: its end.
    """

    label: str
    exam: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)
    split: str = "test"
    limit: Count | None = None
    batch_size: Count = 128
    data: str | None = None
    labels: str | None = None
    classes: str | None = None
    arms: tuple[str, ...] = ()
    checkpoint: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "exam", self.exam or self.label)
        check_fields(self, f"exam {self.label}: ")
        check_word(self.label, "an exam's label")
        if self.label == TRAINING:
            raise BadArgument(
                f"an exam is labelled '{TRAINING}', which stands for the training itself; rename it"
            )
        check_exam_names([self.exam], EXAM_NAMES)


@names_checked
@dataclass(frozen=True)
class Comparison:
    """A number of one arm, or of several together, and where its interval has to lie.

    Attributes:
        name: What tables call it.
        statement: What holds if the rule is met.
        of: An arm; None if `contrast` or `slope` says which.
        against: The arm whose number is subtracted, training by training; None: the number of `of` alone.
        quantity: `LABEL.QUANTITY[column=value,...]`, as in prediction.accuracy or fourier.change[kind=msa].
        rule: Decides the verdict.
        contrast: Weights of arms whose numbers are added up: {a: 1, b: -1, c: -1, d: 1} is (a - b) - (c - d).
        slope: Arms with a number each, or with a quantity: the number's slope against that, by least squares.
        log: Of the number's logarithm; in a slope, against the logarithm.
    """

    name: str
    statement: str
    of: str | None
    against: str | None
    quantity: str
    rule: Rule
    contrast: Mapping[str, float] = field(default_factory=dict)
    slope: Mapping[str, float | str] = field(default_factory=dict)
    log: bool = False

    def __post_init__(self) -> None:
        where = f"comparison {self.name}"
        for quantity in self.quantities:
            if not _QUANTITY.fullmatch(quantity):
                raise BadArgument(f"{where}: quantity is '{quantity}'; expected {QUANTITY}")
        said = [name for name in ("of", "contrast", "slope") if getattr(self, name)]
        if len(said) != 1 or (self.against and not self.of):
            raise BadArgument(
                f"{where}: {' and '.join(said) or 'no arm'}; expected one of: of (and against), contrast, slope"
            )
        if 0 < len(self.slope) < 2:
            raise BadArgument(f"{where}: a slope over one arm; name two or more")
        if self.log and any(not isinstance(x, str) and x <= 0 for x in self.slope.values()):
            raise BadArgument(f"{where}: log of a number that is not above 0 in slope")

    @property
    def label(self) -> str:
        """The exam that the quantity is of."""
        return self.quantity.partition(".")[0]

    @property
    def quantities(self) -> tuple[str, ...]:
        """The quantity, and those that a slope is against."""
        return (self.quantity, *(x for x in self.slope.values() if isinstance(x, str)))

    @property
    def labels(self) -> tuple[str, ...]:
        """All exams that are needed."""
        return tuple(quantity.partition(".")[0] for quantity in self.quantities)

    @property
    def named_arms(self) -> tuple[tuple[str, str], ...]:
        """All arms that it is about, each with the key that names it."""
        single = (("of", self.of), ("against", self.against))
        several = (("contrast", self.contrast), ("slope", self.slope))
        named = [(key, name) for key, name in single if name]
        return (*named, *((key, name) for key, names in several for name in names))

    @property
    def arms(self) -> tuple[str, ...]:
        """All arms that it is about."""
        return tuple(name for _, name in self.named_arms)

    @property
    def subject(self) -> str:
        """What the number is of, beside the arm that is subtracted."""
        if self.slope:
            return f"slope over {', '.join(self.slope)}"
        signed = [f"{weight:+g} {arm}" for arm, weight in self.contrast.items()]
        return self.of or " ".join(signed).replace("+1 ", "+ ").replace("-1 ", "- ").removeprefix("+ ")


def read_rule(text: str, where: str) -> Rule:
    """ "above 0", "below -0.1" or "within 0.01" as a rule."""
    side, _, bound = text.strip().partition(" ")
    try:
        number = float(bound)
        if side not in _SIDES or not math.isfinite(number):
            raise ValueError
        if side == "within" and number <= 0:
            raise ValueError
    except ValueError:
        raise BadArgument(
            f"{where}: rule is '{text}'; expected 'above 0', 'below 0' or 'within 0.01', with a number of yours"
        ) from None
    return Rule(side, number)  # type: ignore[arg-type]


def check_word(word: str, what: str) -> None:
    """Refuse a name that cannot stand in a file's name or a quantity's."""
    if not re.fullmatch(r"\w[\w-]*", word):
        raise BadArgument(f"{what} is '{word}'; expected letters, digits, - and _")


def refuse_twice(names: Iterable[str], kind: str) -> None:
    """Refuse a name that comes again."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise BadArgument(f"{kind} {name} stands there twice; name each once")
        seen.add(name)
