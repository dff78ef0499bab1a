"""What an exam is: an accumulator that shares the one pass over the data, or a procedure with passes of its own.

A new exam is one file with a function, an accumulator and a result, and one line in `exams/__init__.py` that
imports it; defining the accumulator, or decorating the function with `@procedure`, registers it under its
result's exam name.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal, ParamSpec, TypeVar

from torch import Tensor

from vitscope.anatomy import AttentionMap, Unit
from vitscope.core.errors import VitscopeError
from vitscope.core.exam_names import ALL, check_exam_names
from vitscope.data.readouts import PLAIN, Readout
from vitscope.engine.sums import Sums
from vitscope.engine.takes_interface import TakesInterface, takes_interface
from vitscope.results import Result, UnitRow

EXAMS: dict[str, "type[Accumulator] | Procedure"] = {}
Parameters = ParamSpec("Parameters")
Found = TypeVar("Found", bound=Result)
# diagnosis: what goes on inside; evaluation: how good and how robust the predictions are
Purpose = Literal["diagnosis", "evaluation"]


@dataclass(frozen=True)
class Subject:
    """What is examined: the names that go into the result, and the units that are measured."""

    model: str
    data: str
    units: tuple[UnitRow, ...] = ()  # whose maps are measured
    seed: int = 0
    attending: tuple[Unit, ...] = ()  # whose attention is measured
    readout: Readout = PLAIN  # how outputs are read as answers
    images_digest: str = ""  # see `Result`


@dataclass(frozen=True)
class Batch:
    """What a forward pass left for one exam."""

    logits: Tensor  # (N, classes)
    labels: Tensor  # (N,)
    indices: Tensor  # (N,) place of each image in the data
    values: tuple[Tensor, ...] = ()  # what `measure` gave on each unit's map, each (N, ...)
    # what `measure_attention` gave on each attending unit: one entry for every time it attends in a pass
    attention: tuple[tuple[Tensor, ...], ...] = ()
    images: Tensor | None = None  # (N, C, H, W) as the model was shown them


class Accumulator(Sums):
    """Base of every streaming exam: bounded memory in the number of images, and states that merge by sums.

    Attributes:
        result: The type `finish` returns; its exam name is the accumulator's name.
        needs_maps: Whether `measure` is to be called on every unit's map.
        whole_maps: Whether `measure` wants the map of the whole batch at once, not piece by piece.
        needs_attention: Whether `measure_attention` is to be called on every MSA.
        needs_labels: Whether labels have to fit the model's classes.
        batch_matters: Whether the result depends on how images are put together to batches.
        least_images: How many images a batch needs at least to be of use.
        evaluation: Whether it is a part of an evaluation as well as of a diagnosis.
        by_default: Whether a diagnosis does it without being asked; one that takes half as long as the pass itself is
            named, or comes with "all".
        settings: Options that change the result, as JSON, for the key it is found by.
        OPTIONS: Options that `with_options` takes, with their types.
    """

    result: ClassVar[type[Result]]
    needs_maps: ClassVar[bool] = False
    whole_maps: ClassVar[bool] = False
    needs_attention: ClassVar[bool] = False
    needs_labels: ClassVar[bool] = False
    batch_matters: ClassVar[bool] = False
    least_images: ClassVar[int] = 1
    evaluation: ClassVar[bool] = False
    by_default: ClassVar[bool] = True
    settings: ClassVar[str] = ""
    OPTIONS: ClassVar[Mapping[str, Any]] = MappingProxyType({})

    def __init__(self, subject: Subject) -> None:
        super().__init__()
        self.subject = subject

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "result" in cls.__dict__:
            EXAMS[cls.result.exam] = cls

    @classmethod
    def check_batch_size(cls, batch_size: int) -> None:
        """Refuse batches that are too small for this exam before the pass begins."""
        if batch_size < cls.least_images:
            raise VitscopeError(
                f"batch_size is {batch_size}, '{cls.result.exam}' needs at least {cls.least_images} images in a batch; "
                f"use --batch-size {cls.least_images} or more, or leave it out of the exams"
            )

    @classmethod
    def with_options(cls, **options: Any) -> "type[Accumulator]":
        """The exam with these of its `OPTIONS`."""
        raise NotImplementedError

    @staticmethod
    def measure(feature: Tensor) -> Tensor:
        """Reduce a map (N, C, H, W) to numbers per image (N, ...)."""
        raise NotImplementedError

    @staticmethod
    def measure_attention(unit: Unit, seen: AttentionMap, n_images: int) -> Tensor:
        """Reduce what an MSA did to numbers per image (N, ...).

        The first axis of `seen` runs over images, and inside an image over windows: `n_images` tells them apart.
        """
        raise NotImplementedError

    def update(self, batch: Batch) -> None:
        """Take one batch in."""
        raise NotImplementedError

    def compute(self) -> dict[str, Any]:
        """The result's own fields from the sums over all batches."""
        raise NotImplementedError

    def finish(self) -> Result:
        """The result over all batches of all processes."""
        with self.of_all_processes():
            found = self.compute()
        return self.result(**self.common(), **found)

    def common(self) -> dict[str, Any]:
        """The fields that do not depend on the data."""
        own = self.subject
        return {"model": own.model, "data": own.data, "seed": own.seed, "images_digest": own.images_digest}


@dataclass(frozen=True)
class Procedure:
    """An exam that needs passes of its own, because it changes the model, the images, or their number.

    Attributes:
        result: The type that `run` returns.
        run: Called with (model, data, limit=, batch_size=, seed=, device=, name=).
        costly: Takes minutes: done only if named.
        batch_matters: Whether the result depends on the batch size.
        evaluation: A part of an evaluation, not of a diagnosis.
        resumable: `run` also takes `parts`, where it keeps what it has finished of its work.
        needs_maps: `run` also takes `stream`, which says what the map after a unit is.
        needs_frames: The data has to be a stream of frames.
        settings: Options that `run` was given, as JSON, for the key a result is found by.
        options: The function whose arguments `run` hands on, if it has others than its own.
    """

    result: type[Result]
    run: Callable[..., Result]
    costly: bool = False
    batch_matters: bool = False
    evaluation: bool = False
    resumable: bool = False
    needs_maps: bool = False
    needs_frames: bool = False
    settings: str = ""
    options: Callable[..., Result] | None = None


def procedure(
    result: type[Result],
    costly: bool = False,
    batch_matters: bool = False,
    evaluation: bool = False,
    resumable: bool = False,
    needs_maps: bool = False,
    needs_frames: bool = False,
    options: Callable[..., Result] | None = None,
) -> Callable[[Callable[Parameters, Found]], TakesInterface[Parameters, Found]]:
    """Register a function (model, data, limit, batch_size, seed, device, name) as the exam of `result`.

    It then takes `output`, `mean` and `std` by name, too: how the model is spoken to.
    """

    def register(function: Callable[Parameters, Found]) -> TakesInterface[Parameters, Found]:
        exam = takes_interface(function)
        EXAMS[result.exam] = Procedure(
            result,
            exam,
            costly,
            batch_matters,
            evaluation,
            resumable,
            needs_maps,
            needs_frames,
            options=options,
        )
        return exam

    return register


def find_exams(
    names: Iterable[str] | None = None, purpose: Purpose = "diagnosis"
) -> list[type[Accumulator] | Procedure]:
    """The exams of these names, in this order and once each, whatever their purpose.

    The name "all" stands for every exam of the purpose that is not costly. Without names: in a diagnosis those that
    share one pass and add little to it, in an evaluation all.
    """
    cheap = [name for name, exam in EXAMS.items() if _serves(exam, purpose)]
    unasked = [name for name in cheap if isinstance(exam := EXAMS[name], type) and exam.by_default]
    default = unasked if purpose == "diagnosis" else cheap
    chosen: Sequence[str] = default if names is None else list(names)
    chosen = list(dict.fromkeys(found for name in chosen for found in (cheap if name == ALL else [name])))
    check_exam_names(chosen, (*EXAMS, ALL))
    if not chosen:
        raise VitscopeError(f"no exam was named; there are: {', '.join(EXAMS)}, or {ALL}")
    return [EXAMS[name] for name in chosen]


def _serves(exam: "type[Accumulator] | Procedure", purpose: Purpose) -> bool:
    if isinstance(exam, Procedure) and exam.costly:
        return False
    if purpose == "evaluation":
        return exam.evaluation
    return isinstance(exam, type) or not exam.evaluation
