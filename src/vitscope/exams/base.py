"""What every exam's accumulator is: a torchmetrics metric that takes batches and gives a result.

A new exam is one file with a function, an accumulator and a result, and one line in `exams/__init__.py` that
imports it; defining the accumulator registers it under its result's exam name.
"""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor
from torchmetrics import Metric

from vitscope import distributed
from vitscope.errors import VitscopeError
from vitscope.results import Result, UnitRow

EXAMS: dict[str, type["Accumulator"]] = {}


@dataclass(frozen=True)
class Subject:
    """What is examined: the names that go into the result, and the units whose maps are measured."""

    model: str
    data: str
    units: tuple[UnitRow, ...] = ()
    seed: int = 0


@dataclass(frozen=True)
class Batch:
    """What a forward pass left for one exam."""

    logits: Tensor  # (N, classes)
    labels: Tensor  # (N,)
    indices: Tensor  # (N,) place of each image in the data
    values: tuple[Tensor, ...] = ()  # what `measure` gave on each unit's map, each (N, ...)


class Accumulator(Metric):
    """Base of every streaming exam: bounded memory in the number of images, and states that merge by sums.

    Attributes:
        result: The type `finish` returns; its exam name is the accumulator's name.
        version: Raised when the definition changes, so that results of the old one are made again.
        needs_maps: Whether `measure` is to be called on every unit's map.
        needs_labels: Whether labels have to fit the model's classes.
    """

    full_state_update = False
    result: ClassVar[type[Result]]
    version: ClassVar[int] = 1
    needs_maps: ClassVar[bool] = False
    needs_labels: ClassVar[bool] = False

    def __init__(self, subject: Subject) -> None:
        super().__init__(process_group=distributed.cpu_group())
        self.subject = subject

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "result" in cls.__dict__:
            EXAMS[cls.result.exam] = cls

    @staticmethod
    def measure(feature: Tensor) -> Tensor:
        """Reduce a map (N, C, H, W) to numbers per image (N, ...)."""
        raise NotImplementedError

    def update(self, batch: Batch) -> None:
        """Take one batch in."""
        raise NotImplementedError

    def compute(self) -> dict[str, Any]:
        """The result's own fields over all batches of all processes (torchmetrics allows no dataclass)."""
        raise NotImplementedError

    def finish(self) -> Result:
        """The result over all batches of all processes."""
        with warnings.catch_warnings():  # a process without a share of the data is not a mistake
            warnings.filterwarnings("ignore", message="The ``compute`` method of metric")
            found = self.compute()
        return self.result(**self.common(), **found)

    def common(self) -> dict[str, Any]:
        """The fields that do not depend on the data."""
        return {"model": self.subject.model, "data": self.subject.data, "seed": self.subject.seed}


def find_exams(names: Iterable[str] | None = None) -> list[type[Accumulator]]:
    """The accumulators of these exams, in this order and once each; of all exams if no names are given."""
    chosen: Sequence[str] = list(EXAMS) if names is None else list(dict.fromkeys(names))
    if unknown := [name for name in chosen if name not in EXAMS]:
        raise VitscopeError(f"no exam '{unknown[0]}'; there are: {', '.join(EXAMS)}")
    if not chosen:
        raise VitscopeError(f"no exam was named; there are: {', '.join(EXAMS)}")
    return [EXAMS[name] for name in chosen]
