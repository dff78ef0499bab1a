"""Mini-batches of the augmented training set, each drawn once and held, for the task that the data is for.

Which images a batch has, what becomes of them, whom they are mixed with and by how much depends on (seed, batch)
alone: not on the process that asks, nor on how often it does. The images are a subset with the class shares of the
whole, in a random order: files and tensors are usually sorted by class, and a batch must not be. Of data that can only
be read in sequence (a DataLoader) they are the first ones, in its own order. Pictures of other tasks have no class of
their own; frames of a stream that nobody has labelled are left out. What a model draws while it is held to its targets
(the proposals that Mask R-CNN learns from) follows from (seed, batch, place) as well.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from vitscope.anatomy.watch.example import runs_on
from vitscope.core.errors import BadData, VitscopeError, warn
from vitscope.curvature.loss import Convention, Penalty, scores_among
from vitscope.data import ImageData, data_config, load_data
from vitscope.data import batches as prepared_batches
from vitscope.data.batching import Batches, check_finite
from vitscope.data.fetchers import fetcher_for, known_labels, require_labels
from vitscope.data.images import limit_indices
from vitscope.data.task_data import TaskData
from vitscope.engine.held_batch import HeldBatch
from vitscope.engine.image_range import tell_of_far
from vitscope.recipes.augment import AugmentedData
from vitscope.recipes.named import get_recipe
from vitscope.recipes.recipe import Recipe
from vitscope.recipes.seeding import STEP, order, random_state_preserved, seed_all
from vitscope.tasks import find_task, fitting_task
from vitscope.tasks.task import Inputs, Measuring, Targets, to_device

_SEQUENTIAL = (DataLoader, IterableDataset)


USUAL = "auto"  # the recipe that fits to the data
LABELLED = "hdv"  # the one of images with labels


def training_split(data: Any) -> Any:
    """Of named data its training images, whichever split is given; other data, and data without one, as it is."""
    if not isinstance(data, ImageData | TaskData) or data.split == "train":
        return data
    try:
        return load_data(data.spec, split="train")
    except BadData:
        return data


def find_recipe(recipe: str | Recipe | None, data: Any) -> Recipe | None:
    """The recipe that is meant by this argument of an exam on this data."""
    if recipe == USUAL:
        recipe = find_task(None, data).recipe if isinstance(data, TaskData) else LABELLED
    return None if recipe is None else get_recipe(recipe)


def penalty_of(recipe: str | Recipe | None, weight_decay: float, l2: Convention) -> Penalty:
    """The l2 term over the parameters that a recipe decays; without one over all."""
    return Penalty(weight_decay, l2, recipe is None or get_recipe(recipe).decay_all)


def with_targets(data: Any) -> Any:
    """The data without frames of which nobody has said what is in them."""
    if not isinstance(data, TaskData) or data.streams is None:
        return data
    return data.subset([index for index in range(len(data)) if data.labelled(index)])


class HeldBatches:
    """`count` batches of a training epoch, of which the last one may be short: `left_out` is what it lacks.

    Data sets of pictures are augmented as the recipe says. A pair of tensors and a DataLoader give images that are
    prepared already: those are only mixed. Without a recipe images are prepared as for evaluation, and labels stay
    labels. Batches have `batch_size` images, whatever the size of a DataLoader's own. The recipe's own augmentation is
    that of the task: of masks with their pictures, of objects, of pictures that are asked about.
    """

    def __init__(
        self,
        model: nn.Module,
        data: Any,
        batch_size: int,
        count: int,
        recipe: str | Recipe | None,
        seed: int,
        left_out: int = 0,
    ) -> None:
        if batch_size < 1 or count < 1:
            raise BadData(f"batch_size is {batch_size} and batches {count}; expected at least 1 of both")
        self.task, self.recipe = fitting_task(model, data), find_recipe(recipe, data)
        if self.recipe is not None:
            self.task.check_recipe(self.recipe)
        if not isinstance(data, TaskData):
            require_labels(data)
        if isinstance(data, TensorDataset | list):
            data = tuple(data.tensors if isinstance(data, TensorDataset) else data)
        self._model, self._data, self._seed = model, with_targets(data), seed
        self._config = data_config(model)
        self._batch_size, self._count, self._wanted = batch_size, count, batch_size * count - left_out
        self._place = next((p.device for p in model.parameters()), torch.device("cpu"))
        self._given: list[tuple[Tensor, Tensor]] | None = None
        self._augmented: AugmentedData | None = None
        self.augmentation = "none" if self.recipe is None else self.recipe.name
        prepared = isinstance(data, tuple | DataLoader)
        if prepared or (self.recipe is None and not isinstance(data, TaskData)):
            self._given = self._in_sequence() if isinstance(data, _SEQUENTIAL) else self._read()
            self.augmentation += ", mixing only" if self.recipe is not None else ""
        else:
            self._order = self._places(known_labels(self._data), len(self._data))
            if self.recipe is not None:
                self._augmented = self.task.augmented(self._data, self.recipe, self._config, seed)
        self._classes = self._count_classes()

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> HeldBatch:
        with random_state_preserved():
            inputs, targets = self._examples(number)
            self.task.check(targets, self._classes)
            if self.recipe is not None:
                seed_all(STEP, self._seed, 0, number)
                if self._given is not None:  # mixing writes into what it mixes
                    inputs = inputs.clone()
                inputs, targets = self.task.mixed(inputs, targets, self.recipe, self._classes)
            size = min(self._batch_size, self._wanted - number * self._batch_size)
            draws = [(STEP, self._seed, 0, number, place) for place in range(size)]
            inputs, targets = (
                to_device(part, self._place, torch.preserve_format) for part in (inputs, targets)
            )
            return HeldBatch(self.task, inputs, targets, draws)

    def _examples(self, number: int) -> tuple[Inputs, Targets]:
        if self._given is not None:
            return self._given[number]
        chosen = self._order[number * self._batch_size : (number + 1) * self._batch_size]
        if self._augmented is not None:
            return self.task.collate([self._augmented[i] for i in chosen])
        return self.task.plain([self._data[i] for i in chosen], Measuring(self._config, None))

    def _read(self) -> list[tuple[Tensor, Tensor]]:
        """The batches of data that is prepared already, or is to be prepared as for evaluation."""
        data = self._data
        if isinstance(data, tuple):  # keeps its order everywhere else
            pair = fetcher_for(data, self._config, None)  # refuses what is no pair
            chosen = self._places(pair.labels, len(pair))
            data = data[0][chosen], torch.as_tensor(data[1])[chosen]
            # before their places in the pair are lost
            check_finite(torch.as_tensor(data[0]), torch.tensor(chosen), "the pair of tensors")
        how: dict[str, Any] = {"batch_size": self._batch_size, "limit": self._wanted, "seed": self._seed}
        stream = prepared_batches(data, config=self._config, **how)
        self._check_length(stream.n_images)
        found = [(images.cpu(), labels.cpu()) for images, labels, _ in stream]
        self._tell_of_far(stream, found[0][0])
        return found

    def _in_sequence(self) -> list[tuple[Tensor, Tensor]]:
        """The first images of data that can only be read from the beginning, put together to batches anew."""
        stream = prepared_batches(self._data, config=self._config, limit=self._wanted)
        self._check_length(stream.n_images)
        images, labels = (torch.cat(parts).cpu() for parts in list(zip(*stream, strict=True))[:2])
        found = list(zip(images.split(self._batch_size), labels.split(self._batch_size), strict=True))
        self._tell_of_far(stream, found[0][0])
        single = [int(own[0]) for _, own in found if len(own) > 1 and len(own.unique()) == 1]
        if single:
            warn(
                f"{len(single)} of {len(found)} batches of the {type(self._data).__name__} have images of one class "
                f"only (the first: class {single[0]}), unlike those of a training; shuffle it, or give its data set"
            )
        return found

    def _tell_of_far(self, stream: Batches, images: Tensor) -> None:
        if stream.as_given:
            tell_of_far(images, self._config.for_channels(images.shape[1]))

    def _places(self, labels: np.ndarray | None, total: int) -> list[int]:
        """Which images, in the order of the batches."""
        self._check_length(total)
        known = labels if labels is not None else np.zeros(total, np.int64)
        chosen = limit_indices(known, self._wanted, self._seed)
        return [int(chosen[i]) for i in order(len(chosen), self._seed, 0)]

    def _check_length(self, images: int) -> None:
        if images < self._wanted:
            most = images // self._batch_size
            hint = f"use batches={most}" if most else f"give more (in Python also batch_size={images})"
            raise BadData(
                f"{self._count} batches of {self._batch_size} need {self._wanted} images, the data has {images}; {hint}"
            )

    def _count_classes(self) -> int:
        if isinstance(self._data, TaskData):
            try:
                return self.task.outputs(self._model, self._config, self._place)
            except VitscopeError as error:
                raise BadData(f"{self._data.spec} is data of {self.task.name}, and {error}") from error
        parameter = next((p for p in self._model.parameters() if p.is_floating_point()), torch.zeros(()))
        with torch.no_grad(), random_state_preserved():
            first = self._examples(0)[0][:1].to(parameter)
            with runs_on(self._model, first):
                output = self._model(first)
            return scores_among(self._model, output, 1).shape[1]
