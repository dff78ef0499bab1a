"""What an exam is: an accumulator that shares the one pass over the data, or a procedure with passes of its own.

Both collect named sums batch by batch, which merge by addition over parts and over processes. Defining an accumulator,
or decorating a function with `@procedure`, registers it under its result's exam name.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, ParamSpec, Self, TypeVar

import torch
from torch import Tensor

from vitscope.anatomy import AttentionMap, Unit
from vitscope.core import distributed
from vitscope.core.errors import VitscopeError
from vitscope.data import DataConfig
from vitscope.data.labels import PLAIN, Readout
from vitscope.data.task_data import TaskData
from vitscope.engine.takes_interface import TakesInterface, takes_interface
from vitscope.results import Result, UnitRow

EXAMS: dict[str, "Exam"] = {}
Parameters = ParamSpec("Parameters")
Found = TypeVar("Found", bound=Result)


class Sums:
    """Base of accumulators: tensors on the CPU that start at zero and to which `update` adds, without gradients.

    A subclass declares them with `add_sums` and `add_counts` and finds them as its attributes. What is no sum, and has
    to be kept one by one, are rows (`add_rows`), which come one after the other instead.
    """

    update: Callable[..., None]

    def __init__(self) -> None:
        self._names: list[str] = []
        self._rows: list[str] = []

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "update" in cls.__dict__:
            cls.update = torch.no_grad()(cls.__dict__["update"])

    def add_sum(self, name: str, shape: tuple[int, ...] = (), dtype: torch.dtype = torch.float64) -> None:
        """A sum of this shape, zero at first."""
        self._names.append(name)
        setattr(self, name, torch.zeros(shape, dtype=dtype))

    def add_sums(self, **shapes: tuple[int, ...]) -> None:
        """Sums of these names and shapes."""
        for name, shape in shapes.items():
            self.add_sum(name, shape)

    def add_counts(self, *names: str) -> None:
        """Whole numbers of these names."""
        for name in names:
            self.add_sum(name, dtype=torch.int64)

    def add_rows(self, name: str, width: int, dtype: torch.dtype = torch.float64) -> None:
        """Rows of `width` numbers, none at first; `update` puts new ones after those that are there."""
        self.add_sum(name, (0, width), dtype)
        self._rows.append(name)

    def state(self) -> dict[str, Tensor]:
        """The sums of this process so far, by name."""
        return {name: getattr(self, name) for name in self._names}

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on from sums that `state` gave."""
        for name in self._names:
            setattr(self, name, state[name].clone())

    def merge_state(self, other: Self) -> None:
        """Take in what another one of the same kind has collected from other images."""
        for name, tensor in other.state().items():
            own = getattr(self, name)
            setattr(self, name, torch.cat([own, tensor]) if name in self._rows else own + tensor)

    @contextmanager
    def of_all_processes(self) -> Iterator[None]:
        """Inside, the sums are those over all processes; afterwards again this one's own."""
        own = self.state()
        if distributed.is_active():
            for name, tensor in own.items():
                total = _in_its_place(tensor) if name in self._rows else tensor.clone()
                distributed.all_reduce(total, group=distributed.cpu_group())
                setattr(self, name, total)
        try:
            yield
        finally:
            self.load_state(own)


def _in_its_place(rows: Tensor) -> Tensor:
    """This process's rows among those of all, which are 0 here: the sum over processes is all rows."""
    counts = distributed.gather(len(rows))
    start = sum(counts[: distributed.rank()])
    total = rows.new_zeros(sum(counts), *rows.shape[1:])
    total[start : start + len(rows)] = rows
    return total


class ProcedureSums(Sums):
    """Base of what an exam with passes of its own collects."""

    def compute(self) -> dict[str, Any]:
        """What follows from the sums: unless an exam says more, the sums themselves, in numpy."""
        return {
            name: total.numpy().copy() if total.dim() else total.item()
            for name, total in self.state().items()
        }

    def finish(self) -> dict[str, Any]:
        """What `compute` gives over all images of all processes."""
        with self.of_all_processes():
            return self.compute()


class Rows(ProcedureSums):
    """Tables with a row for each batch, place or group, of which each process fills in its own."""

    def __init__(self, **shapes: tuple[int, ...]) -> None:
        super().__init__()
        self.add_sums(**shapes)

    def fill(self, row: int | slice, **numbers: Any) -> None:
        """Put numbers into the tables of these names."""
        for name, found in numbers.items():
            self.state()[name][row] = torch.as_tensor(found, dtype=torch.float64)


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
    pictures: TaskData | None = None  # with their targets, where the data is of a task
    config: DataConfig | None = None  # how its images are prepared
    score: Callable[[Tensor], Tensor] | None = None  # class scores of further images


@dataclass(frozen=True)
class Batch:
    """What a forward pass left for one exam."""

    logits: Tensor  # (N, classes), or (N, classes, H, W)
    labels: Tensor  # (N,)
    indices: Tensor  # (N,) place of each image in the data
    values: tuple[Tensor, ...] = ()  # what `measure` gave on each unit's map, each (N, ...)
    # what `measure_attention` gave on each attending unit: one entry for every time it attends in a pass
    attention: tuple[tuple[Tensor, ...], ...] = ()
    images: Tensor | None = None  # (N, C, H, W) as the model was shown them
    output: Any = None  # what the model returned; of a detector, what it has found in each image


class Accumulator(Sums):
    """Base of every streaming exam: bounded memory in the number of images, and states that merge by sums."""

    result: ClassVar[type[Result]]  # what `finish` returns; its exam name is the accumulator's name
    needs_maps: ClassVar[bool] = False  # `measure` is to be called on every unit's map
    whole_maps: ClassVar[bool] = False  # on that of the whole batch at once, not piece by piece
    needs_attention: ClassVar[bool] = False  # `measure_attention` is to be called on every MSA
    needs_labels: ClassVar[bool] = False  # labels have to fit the model's classes
    task: ClassVar[str] = ""  # that data and model have to be for (`Subject.pictures`, `Batch.output`)
    batch_matters: ClassVar[bool] = False  # the result depends on how images are put together to batches
    least_images: ClassVar[int] = 1  # that make a batch of use
    evaluation: ClassVar[bool] = False  # a part of an evaluation as well as of a diagnosis
    # a diagnosis does it unasked; one that takes half as long as the pass itself is named, or comes with "all"
    by_default: ClassVar[bool] = True
    settings: ClassVar[str] = ""  # options that change the result, as JSON, for the key it is found by
    # what else may be asked, with its type; an attribute of the same name is what holds if nothing is said
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
    def with_options(cls, **options: Any) -> type[Self]:
        """The exam with these of its `OPTIONS`; itself, and known by the same key, if they say what holds anyway."""
        said = {name: value for name, value in sorted(options.items()) if value != getattr(cls, name)}
        if not said:
            return cls
        settings = json.dumps(said, default=str)
        return type(cls.__name__, (cls,), {**said, "settings": settings, "__module__": cls.__module__})

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
        names = {"model": own.model, "data": own.data, "seed": own.seed, "images_digest": own.images_digest}
        return {**names, "units": own.units} if self.needs_maps else names


@dataclass(frozen=True)
class Procedure:
    """An exam that needs passes of its own, because it changes the model, the images, or their number."""

    result: type[Result]  # what `run` returns
    run: Callable[..., Result]  # called with (model, data, limit=, batch_size=, seed=, device=, name=)
    costly: bool = False  # takes minutes: done only if named
    batch_matters: bool = False  # the result depends on the batch size
    evaluation: bool = False  # a part of an evaluation, not of a diagnosis
    resumable: bool = False  # `run` also takes `parts`, where it keeps what it has finished of its work
    needs_maps: bool = False  # `run` also takes `stream`, which says what the map after a unit is
    needs_frames: bool = False  # the data has to be a stream of frames
    needs_labels: bool = False  # the images have to have labels
    or_task: bool = False  # or to be of a task that the model was trained for
    settings: str = ""  # options that `run` was given, as JSON, for the key a result is found by
    options: Callable[..., Result] | None = None  # whose arguments `run` hands on, if not its own


Exam = type[Accumulator] | Procedure


def procedure(
    result: type[Result], **fields: Any
) -> Callable[[Callable[Parameters, Found]], TakesInterface[Parameters, Found]]:
    """Register a function (model, data, limit, batch_size, seed, device, name) as the exam of `result`.

    It then takes `output`, `mean` and `std` by name, too: how the model is spoken to. `fields` are of `Procedure`.
    """

    def register(function: Callable[Parameters, Found]) -> TakesInterface[Parameters, Found]:
        exam = takes_interface(function)
        EXAMS[result.exam] = Procedure(result, exam, **fields)
        return exam

    return register
