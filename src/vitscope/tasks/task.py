"""What a task has to say for a model to be trained and measured for it.

An item of a data set is (picture, target). `augmented` makes examples of items, `collate` batches of examples, `losses`
a number per image; `prepared`, `sums` and `scores` measure a model on held-out items: sums per batch, which processes
gather in the order of the batches, so that any number of them finds the same digits.
"""

import itertools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from vitscope.data import DataConfig
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


class Task:
    """One kind of target; `Classification` is the plain case.

    Attributes:
        name: As `--task` calls it.
        best: Column of `metrics.csv` that says which epoch is the best.
        columns: Of `metrics.csv`, besides nll, accuracy, low and high.
        batch_size: Of held-out images.
        recipe: Where none is named.
    """

    name: ClassVar[str]
    best: ClassVar[str] = "accuracy"
    columns: ClassVar[tuple[str, ...]] = ()
    batch_size: ClassVar[int] = 16
    recipe: ClassVar[str] = "mini"

    def model_name(self, name: str | os.PathLike[str]) -> str | os.PathLike[str]:
        """What `create_model` is asked for where somebody names `name` for this task."""
        return name

    def model_arguments(self, name: str | os.PathLike[str], data: Any) -> dict[str, Any]:
        """What a new model of this name has to know of the data it is to be trained on."""
        return {}

    def bind(self, model: nn.Module) -> None:
        """Take from the model what makes examples of items."""

    def check_recipe(self, recipe: Recipe) -> None:
        """Refuse choices that mean nothing here."""

    def outputs(self, model: nn.Module, config: DataConfig, device: torch.device) -> int:
        """How many classes the model tells apart, found with one image; refuses a model made for another task."""
        raise NotImplementedError

    def augmented(self, data: Any, recipe: Recipe, config: DataConfig, seed: int) -> AugmentedData:
        """The items as examples to learn from."""
        raise NotImplementedError

    def collate(self, examples: Sequence[Any]) -> tuple[Inputs, Targets]:
        """A batch of examples."""
        raise NotImplementedError

    def mixed(
        self, inputs: Inputs, targets: Targets, recipe: Recipe, n_classes: int
    ) -> tuple[Inputs, Targets]:
        """Inputs and targets of a batch as the loss takes them; draws from torch's generator."""
        return inputs, targets

    def forward(self, running: nn.Module, inputs: Inputs, targets: Targets, draws: Sequence[Draws]) -> Any:
        """What the loss is made of. `running` may be wrapped for several processes, and has to be called once."""
        return running(inputs)

    def losses(self, model: nn.Module, outputs: Any, targets: Targets) -> Tensor:
        """(N,) the loss of every image, in at least float32."""
        raise NotImplementedError

    def prepared(
        self,
        data: Any,
        model: nn.Module,
        config: DataConfig,
        device: torch.device | None,
        rank: int,
        world: int,
        batch_size: int | None = None,
    ) -> Prepared:
        """This process's batches of held-out items: batch b goes to process b mod world."""
        raise NotImplementedError

    def blank(self, config: DataConfig, device: torch.device | None) -> Inputs:
        """Inputs of one image that shows nothing, to keep a process in step that has no batch left."""
        return torch.zeros(1, *config.input_size, device=device)

    def sums(self, model: nn.Module, inputs: Inputs, targets: Targets) -> Any:
        """What `scores` needs of one batch, of what JSON can hold."""
        raise NotImplementedError

    def scores(self, sums: Iterable[Any]) -> dict[str, float]:
        """nll, accuracy, low, high and `columns`, from the sums of all batches in their order."""
        raise NotImplementedError

    def words(self, row: dict[str, Any]) -> str:
        """How good a model is, in a few words; empty where nothing was measured."""
        raise NotImplementedError


def has_decoder(name: str | os.PathLike[str]) -> bool:
    """Whether a name, or the model in a run folder, is more than a backbone."""
    text = os.fspath(name)
    if (config := Path(text) / CONFIG).is_file():
        text = str(read_config(config.parent)["model"]["name"])
    return dense.has(text)


def decoded(name: str | os.PathLike[str], decoder: str) -> str | os.PathLike[str]:
    """The name of a backbone with a decoder; a model that has one is taken as it is."""
    return name if has_decoder(name) else f"{decoder}:{os.fspath(name)}"


def moved(batch: Any, device: torch.device, layout: torch.memory_format) -> Any:
    """Inputs or targets on a device; images, which have four axes, in this order in memory."""
    if isinstance(batch, Tensor):
        images = batch.ndim == 4 and batch.is_floating_point()
        return (
            batch.to(device, non_blocking=True, memory_format=layout)
            if images
            else batch.to(device, non_blocking=True)
        )
    if isinstance(batch, dict):
        return {key: moved(value, device, layout) for key, value in batch.items()}
    return [
        moved(one, device, layout) if isinstance(one, Tensor | dict | list) else one.to(device)
        for one in batch
    ]


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
