"""How a model is spoken to: which of its outputs holds the class scores, and how its images were normalised.

    vs.declare(model, output="logits")               # for good; saved with the model in a run folder
    vs.exams.fourier(model, data, output="logits")   # for one exam

What nobody says stays None, and is found by rule: the output by `vitscope.core.outputs`, the normalisation by
`vitscope.data.data_config`. It is a plain attribute of the model, so that copies of the model keep it.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

from torch import nn

from vitscope.core.arguments import Number, Positive, check, checked, names_checked
from vitscope.core.errors import BadArgument

ATTRIBUTE = "vitscope_interface"
DATA_CLASSES = "vitscope_data_classes"
ASKED_OUTPUT = "vitscope_asked_output"


@names_checked
@dataclass(frozen=True)
class Interface:
    """What a user says about a model; None: not said.

    Attributes:
        output: The key, attribute or index of the class scores in what the model returns.
        mean: Of the normalisation of its images, per channel or one number for all, of pixels from 0 to 1.
        std: The same.
    """

    output: str | int | None = None
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check(self.output, str | int | None, "output")
        for name, number in (("mean", Number), ("std", Positive)):
            given = getattr(self, name)
            if given is not None:
                several = given if isinstance(given, Iterable) and not isinstance(given, str) else (given,)
                several = tuple(check(one, number, name) for one in several)
                if not several:
                    raise BadArgument(
                        f"{name} is empty; expected numbers, one per channel, such as 0.5 0.5 0.5"
                    )
                object.__setattr__(self, name, several)

    def to_dict(self) -> dict[str, Any]:
        """What was said, as JSON-ready values."""
        said = {key: value for key, value in asdict(self).items() if value is not None}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in said.items()}

    def merged(
        self,
        output: str | int | None = None,
        mean: Iterable[float] | float | None = None,
        std: Iterable[float] | float | None = None,
    ) -> "Interface":
        """The same with what is given in place of what was there."""
        given: dict[str, Any] = {"output": output, "mean": mean, "std": std}
        return replace(self, **{key: value for key, value in given.items() if value is not None})


NOTHING_SAID = Interface()


def interface_of(model: nn.Module) -> Interface:
    """What was said about the model."""
    found = getattr(unwrap(model), ATTRIBUTE, None)
    return found if isinstance(found, Interface) else NOTHING_SAID


@checked
def declare(
    model: nn.Module,
    output: str | int | None = None,
    mean: Iterable[float] | float | None = None,
    std: Iterable[float] | float | None = None,
) -> nn.Module:
    """Say for good how a model is spoken to; what is None stays as it was.

    Args:
        model: Is changed, and returned.
        output: The key, attribute or index of the class scores in what the model returns.
        mean: What was subtracted from pixels from 0 to 1 in the images it is given, one number per channel or one.
        std: What they were divided by.
    """
    setattr(unwrap(model), ATTRIBUTE, interface_of(model).merged(output, mean, std))
    return model


@contextmanager
def declared(
    model: nn.Module,
    output: str | int | None = None,
    mean: Iterable[float] | float | None = None,
    std: Iterable[float] | float | None = None,
) -> Iterator[Interface]:
    """`declare` for the length of a block; afterwards, also after an exception, the model says what it said before."""
    attributes = vars(unwrap(model))
    before = {name: attributes[name] for name in (ATTRIBUTE, ASKED_OUTPUT) if name in attributes}
    declare(model, output, mean, std)
    if output is not None:
        attributes[ASKED_OUTPUT] = output
    try:
        yield interface_of(model)
    finally:
        for name in (ATTRIBUTE, ASKED_OUTPUT):
            attributes.pop(name, None)
        attributes.update(before)


def asked_output(model: nn.Module) -> str | int | None:
    """Which output somebody asks for just now; unlike one that was declared for good, which training may need."""
    found = getattr(unwrap(model), ASKED_OUTPUT, None)
    return found if isinstance(found, str | int) else None


def class_count(model: nn.Module) -> int | None:
    """Number of classes the model tells apart, or None if it does not say (or has no classifier)."""
    model = unwrap(model)
    for attribute in ("num_classes", "num_labels"):
        count = getattr(model, attribute, None)
        if isinstance(count, int) and count > 0:
            return count
    return None


def classes_of_data(model: nn.Module) -> int | None:
    """How many classes the data has that the model is being examined on, if it says so."""
    found = getattr(unwrap(model), DATA_CLASSES, None)
    return found if isinstance(found, int) else None


@contextmanager
def shown_classes(model: nn.Module, classes: int | None) -> Iterator[None]:
    """Inside, the model is known to be shown data of so many classes; None: as many as were known before."""
    said = vars(unwrap(model))
    before = said.get(DATA_CLASSES)
    said[DATA_CLASSES] = classes or before
    try:
        yield
    finally:
        said[DATA_CLASSES] = before
        if before is None:
            del said[DATA_CLASSES]


def unwrap(model: nn.Module) -> nn.Module:
    """The model inside a data-parallel or compiled wrapper."""
    for attribute in ("_orig_mod", "module"):
        inner = getattr(model, attribute, None)
        if isinstance(inner, nn.Module) and not hasattr(model, "pretrained_cfg"):
            return unwrap(inner)
    return model
