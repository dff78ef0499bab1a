"""What a task has to say for a model to be trained and measured for it.

An item of a data set is (picture, target). `augmented` makes examples of items, `collate` batches of examples, `losses`
a number per image; `plain` makes batches that `losses` takes without augmentation. `prepared`, `sums` and `scores`
measure a model on held-out items: sums per batch, which processes gather in the order of the batches, so that any
number of them finds the same digits.
"""

import itertools
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from vitscope.core.errors import BadArgument
from vitscope.curvature.loss import BatchLoss
from vitscope.data import DataConfig
from vitscope.data.preprocessing import preprocess
from vitscope.models.sources import dense
from vitscope.models.sources.run_folder import CONFIG, read_config
from vitscope.recipes.augment import AugmentedData
from vitscope.recipes.recipe import Recipe

Inputs = Any  # Tensor, or a dict of tensors
Targets = Any  # Tensor, a dict of tensors, or a list with one of anything per image
Draws = tuple[int, ...]  # what the random numbers of one image follow from


class Prepared(Protocol):
    """Batches of (inputs, targets), as a model is measured on them."""

    def __len__(self) -> int: ...

    def __iter__(self) -> Any: ...


@dataclass(frozen=True)
class Measuring:
    """How a model is measured: its images prepared so, on this device, by one of several processes."""

    config: DataConfig
    device: torch.device | None
    rank: int = 0
    world: int = 1
    batch_size: int | None = None  # None: the task's


class Items:
    """Held-out items in the order of the data; batch b goes to process b mod world."""

    def __init__(self, task: "Task", data: Any, how: Measuring) -> None:
        self._task, self._data, self._how = task, data, how
        size = how.batch_size or task.batch_size
        pieces = [range(start, min(start + size, len(data))) for start in range(0, len(data), size)]
        self._pieces = pieces[how.rank :: how.world]

    def __len__(self) -> int:
        return len(self._pieces)

    def __iter__(self) -> Iterator[tuple[Inputs, Targets]]:
        for piece in self._pieces:
            yield self._task.batch([self._data[index] for index in piece], self._how)


class Task(ABC):
    """One kind of target; `Classification` is the plain case.

    Attributes:
        name: As `--task` calls it.
        best: Column of `metrics.csv` that says which epoch is the best.
        columns: Of `metrics.csv`, besides nll, accuracy, low and high.
        batch_size: Of held-out images.
        recipe: Where none is named.
        yes_or_no: Whether an image is either right or wrong; else it may be so in part.
        meaningless: Choices of a recipe that mean nothing here.
    """

    name: ClassVar[str]
    best: ClassVar[str] = "accuracy"
    columns: ClassVar[tuple[str, ...]] = ()
    batch_size: ClassVar[int] = 16
    recipe: ClassVar[str] = "mini"
    yes_or_no: ClassVar[bool] = False
    meaningless: ClassVar[tuple[str, ...]] = ()

    def model_name(self, name: str | os.PathLike[str]) -> str | os.PathLike[str]:
        """What `create_model` is asked for where somebody names `name` for this task."""
        return name

    def model_arguments(self, name: str | os.PathLike[str], data: Any) -> dict[str, Any]:
        """What a new model of this name has to know of the data it is to be trained on."""
        return {}

    def bind(self, model: nn.Module) -> None:  # noqa: B027 most have nothing to take
        """Take from the model what makes examples of items."""

    def check_recipe(self, recipe: Recipe) -> None:
        """Refuse choices that mean nothing here."""
        given = [name for name in self.meaningless if getattr(recipe, name)]
        if given:
            choices = ", ".join(f"{name} is {getattr(recipe, name)}" for name in given)
            raise BadArgument(
                f"recipe {recipe.name}: {choices}; {self.name} knows no such thing: give --recipe dense, or set them "
                "to 0 or null in a recipe of your own"
            )

    @abstractmethod
    def outputs(self, model: nn.Module, config: DataConfig, device: torch.device) -> int:
        """How many classes the model tells apart, found with one image; refuses a model made for another task."""

    @abstractmethod
    def augmented(self, data: Any, recipe: Recipe, config: DataConfig, seed: int) -> AugmentedData:
        """The items as examples to learn from."""

    @abstractmethod
    def collate(self, examples: Sequence[Any]) -> tuple[Inputs, Targets]:
        """A batch of examples."""

    def mixed(
        self, inputs: Inputs, targets: Targets, recipe: Recipe, n_classes: int
    ) -> tuple[Inputs, Targets]:
        """Inputs and targets of a batch as the loss takes them; draws from torch's generator."""
        return inputs, targets

    def forward(self, running: nn.Module, inputs: Inputs, targets: Targets, draws: Sequence[Draws]) -> Any:
        """What the loss is made of. `running` may be wrapped for several processes, and has to be called once."""
        return running(inputs)

    @abstractmethod
    def losses(self, model: nn.Module, outputs: Any, targets: Targets) -> Tensor:
        """(N,) the loss of every image, in at least float32."""

    def loss(self, inputs: Inputs, targets: Targets, draws: Sequence[Draws]) -> BatchLoss:
        """The loss of a batch that is held, as its curvature is taken of."""
        return TaskLoss(self, inputs, targets, draws)

    def right(self, model: nn.Module, outputs: Any, targets: Targets) -> tuple[Tensor, Tensor] | None:
        """(N,) how much of every image the model is right about, and (N,) out of how much; None: nothing is counted."""
        return None

    def plain(self, items: Sequence[tuple[Any, Any]], how: Measuring) -> tuple[Inputs, Targets]:
        """Items as `losses` takes them, prepared as for a measurement."""
        return self.batch(items, how)

    def check(self, targets: Targets, n_classes: int) -> None:  # noqa: B027 nothing, where nothing can be wrong
        """Refuse targets of a batch that a model of so many classes cannot be held to."""

    def prepared(self, data: Any, model: nn.Module, how: Measuring) -> Prepared:
        """This process's batches of held-out items."""
        self.bind(model)
        return Items(self, data, how)

    def batch(self, items: Sequence[tuple[Any, Any]], how: Measuring) -> tuple[Inputs, Targets]:
        """Held-out items as `sums` takes them."""
        raise TypeError(f"{type(self).__name__} has batches of its own")

    def blank(self, config: DataConfig, device: torch.device | None) -> Inputs:
        """Inputs of one image that shows nothing, to keep a process in step that has no batch left."""
        return torch.zeros(1, *config.input_size, device=device)

    @abstractmethod
    def sums(self, model: nn.Module, inputs: Inputs, targets: Targets) -> Any:
        """What `scores` needs of one batch, of what JSON can hold."""

    @abstractmethod
    def scores(self, sums: Iterable[Any]) -> dict[str, float]:
        """nll, accuracy, low, high and `columns`, from the sums of all batches in their order."""

    def words(self, row: dict[str, Any]) -> str:
        """How good a model is, in a few words; empty where nothing was measured."""
        if math.isnan(row["accuracy"]):
            return ""
        return f"accuracy {row['accuracy']:.2%} (95 % interval {row['low']:.2%} to {row['high']:.2%})"


@dataclass(frozen=True, eq=False)
class TaskLoss:
    """The loss of a task on a batch that is held; what is drawn follows from `draws`."""

    task: Task
    inputs: Inputs
    targets: Targets
    draws: Sequence[Draws]
    what = "outputs"

    def __len__(self) -> int:
        return len(self.draws)

    def outputs(self, model: nn.Module) -> Any:
        """What the task's losses are made of."""
        return self.task.forward(model, self.inputs, self.targets, self.draws)

    def total(self, model: nn.Module, outputs: Any) -> Tensor:
        """The sum over the images."""
        return self.task.losses(model, outputs, self.targets).sum()


def whole_pictures(pictures: Sequence[Any], how: Measuring) -> Tensor:
    """Pictures of any size as images of the model's."""
    config = how.config.whole()
    return torch.cat([preprocess([picture], config) for picture in pictures]).to(how.device)


def has_decoder(name: str | os.PathLike[str]) -> bool:
    """Whether a name, or the model in a run folder, is more than a backbone."""
    text = os.fspath(name)
    if (config := Path(text) / CONFIG).is_file():
        text = str(read_config(config.parent)["model"]["name"])
    return dense.has(text)


def decoded(name: str | os.PathLike[str], decoder: str) -> str | os.PathLike[str]:
    """The name of a backbone with a decoder; a model that has one is taken as it is."""
    return name if has_decoder(name) else f"{decoder}:{os.fspath(name)}"


def to_device(batch: Any, device: torch.device, layout: torch.memory_format) -> Any:
    """Inputs or targets on a device; images, which have four axes, in this order in memory."""
    if isinstance(batch, Tensor):
        images = batch.ndim == 4 and batch.is_floating_point()
        return (
            batch.to(device, non_blocking=True, memory_format=layout)
            if images
            else batch.to(device, non_blocking=True)
        )
    if isinstance(batch, dict):
        return {key: to_device(value, device, layout) for key, value in batch.items()}
    return [
        to_device(one, device, layout) if isinstance(one, Tensor | dict | list) else one.to(device)
        for one in batch
    ]


def converted(batch: Any, dtype: torch.dtype) -> Any:
    """Inputs or targets with all that is not whole numbers in this type."""
    if isinstance(batch, Tensor):
        return batch.to(dtype) if batch.is_floating_point() else batch
    if isinstance(batch, dict):
        return {key: converted(value, dtype) for key, value in batch.items()}
    return [converted(one, dtype) for one in batch]


def taken(batch: Any, which: slice) -> Any:
    """Inputs or targets of some images."""
    return {key: value[which] for key, value in batch.items()} if isinstance(batch, dict) else batch[which]


def cut(batch: Any, parts: int) -> list[Any]:
    """Inputs or targets in so many parts, as `Tensor.tensor_split` cuts them."""
    if isinstance(batch, Tensor):
        return list(batch.tensor_split(parts))
    if isinstance(batch, dict):
        split = {key: cut(value, parts) for key, value in batch.items()}
        return [{key: value[i] for key, value in split.items()} for i in range(parts)]
    bounds = [i * (len(batch) // parts) + min(i, len(batch) % parts) for i in range(parts + 1)]
    return [batch[low:high] for low, high in itertools.pairwise(bounds)]


def unhalved(numbers: Tensor) -> Tensor:
    """In at least float32, as a softmax wants them."""
    return numbers.float() if numbers.dtype in (torch.float16, torch.bfloat16) else numbers
