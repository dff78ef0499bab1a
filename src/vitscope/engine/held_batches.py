"""Mini-batches of the augmented training set, each drawn once and held.

Which images a batch has, what becomes of them, whom they are mixed with and by how much depends on (seed, batch)
alone: not on the process that asks, nor on how often it does. The images are a subset with the class shares of the
whole, in a random order: files and tensors are usually sorted by class, and a batch must not be. Of data that can only
be read in sequence (a DataLoader) they are the first ones, in its own order.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from vitscope.anatomy.watch.example import runs_on
from vitscope.core.errors import BadData, warn
from vitscope.curvature.loss import Convention, Penalty, scores_among
from vitscope.data import ImageData, check_labels, data_config, load_data
from vitscope.data import batches as prepared_batches
from vitscope.data.batching import check_finite
from vitscope.data.fetchers import fetcher_for, known_labels, require_labels
from vitscope.data.images import limit_indices
from vitscope.recipes.augment import AugmentedData, Mix
from vitscope.recipes.named import get_recipe
from vitscope.recipes.recipe import Recipe
from vitscope.recipes.seeding import STEP, order, preserved, seed_all

_SEQUENTIAL = (DataLoader, IterableDataset)


def training_split(data: Any) -> Any:
    """Of named data its training images, whichever split is given; other data, and data without one, as it is."""
    if not isinstance(data, ImageData) or data.split == "train":
        return data
    try:
        return load_data(data.spec, split="train")
    except BadData:
        return data


def penalty_of(recipe: str | Recipe | None, weight_decay: float, l2: Convention) -> Penalty:
    """The l2 term over the parameters that a recipe decays; without one over all."""
    return Penalty(weight_decay, l2, recipe is None or get_recipe(recipe).decay_all)


@dataclass(frozen=True)
class HeldBatch:
    """Images (N, C, H, W) as the model takes them, and targets: labels (N,), or probabilities (N, classes)."""

    images: Tensor
    targets: Tensor

    def to(self, dtype: torch.dtype) -> "HeldBatch":
        """Images, and targets that are probabilities, in this type."""
        soft = self.targets.is_floating_point()
        return HeldBatch(self.images.to(dtype), self.targets.to(dtype) if soft else self.targets)


class HeldBatches:
    """`count` batches of a training epoch.

    Data sets of pictures are augmented as the recipe says. A pair of tensors and a DataLoader give images that are
    prepared already: those are only mixed. Without a recipe images are prepared as for evaluation, and labels stay
    labels. Batches have `batch_size` images, whatever the size of a DataLoader's own.
    """

    def __init__(
        self, model: nn.Module, data: Any, batch_size: int, count: int, recipe: str | Recipe | None, seed: int
    ) -> None:
        if batch_size < 1 or count < 1:
            raise BadData(f"batch_size is {batch_size} and batches {count}; expected at least 1 of both")
        require_labels(data)
        self.recipe = None if recipe is None else get_recipe(recipe)
        if isinstance(data, TensorDataset | list):
            data = tuple(data.tensors if isinstance(data, TensorDataset) else data)
        self._model, self._data, self._seed = model, data, seed
        self._batch_size, self._count, self._wanted = batch_size, count, batch_size * count
        self._place = next((p.device for p in model.parameters()), torch.device("cpu"))
        self._given: list[tuple[Tensor, Tensor]] | None = None
        if self.recipe is None or isinstance(data, tuple | DataLoader):
            self._given = self._in_sequence() if isinstance(data, _SEQUENTIAL) else self._read()
            self.augmentation = "none" if self.recipe is None else f"{self.recipe.name}, mixing only"
        else:
            self._augmented = AugmentedData(data, self.recipe, data_config(model), seed)
            self._order = self._places(known_labels(data), len(data))
            self.augmentation = self.recipe.name
        self._classes = self._count_classes()
        self._mix = None if self.recipe is None else Mix(self.recipe, self._classes)

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, number: int) -> HeldBatch:
        with preserved():
            images, labels = self._images(number)
            check_labels(labels.numpy(), self._classes, "the training data")
            targets = labels
            if self._mix is not None:
                seed_all(STEP, self._seed, 0, number)
                images, targets = self._mix(images.clone(), labels)
            return HeldBatch(images.to(self._place), targets.to(self._place))

    def _images(self, number: int) -> tuple[Tensor, Tensor]:
        if self._given is not None:
            return self._given[number]
        chosen = self._order[number * self._batch_size : (number + 1) * self._batch_size]
        found = [self._augmented[i] for i in chosen]
        return torch.stack([image for image, _ in found]), torch.tensor([label for _, label in found])

    def _read(self) -> list[tuple[Tensor, Tensor]]:
        """The batches of data that is prepared already, or is to be prepared as for evaluation."""
        data = self._data
        if isinstance(data, tuple):  # keeps its order everywhere else
            pair = fetcher_for(data, data_config(self._model), None)  # refuses what is no pair
            chosen = self._places(pair.labels, len(pair))
            data = data[0][chosen], torch.as_tensor(data[1])[chosen]
            # before their places in the pair are lost
            check_finite(torch.as_tensor(data[0]), torch.tensor(chosen), "the pair of tensors")
        how: dict[str, Any] = {"batch_size": self._batch_size, "limit": self._wanted, "seed": self._seed}
        stream = prepared_batches(data, config=data_config(self._model), **how)
        self._check_length(stream.n_images)
        return [(images.cpu(), labels.cpu()) for images, labels, _ in stream]

    def _in_sequence(self) -> list[tuple[Tensor, Tensor]]:
        """The first images of data that can only be read from the beginning, put together to batches anew."""
        stream = prepared_batches(self._data, config=data_config(self._model), limit=self._wanted)
        self._check_length(stream.n_images)
        images, labels = (torch.cat(parts).cpu() for parts in list(zip(*stream, strict=True))[:2])
        found = list(zip(images.split(self._batch_size), labels.split(self._batch_size), strict=True))
        single = [int(own[0]) for _, own in found if len(own) > 1 and len(own.unique()) == 1]
        if single:
            warn(
                f"{len(single)} of {len(found)} batches of the {type(self._data).__name__} have images of one class "
                f"only (the first: class {single[0]}), unlike those of a training; shuffle it, or give its data set"
            )
        return found

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
        parameter = next((p for p in self._model.parameters() if p.is_floating_point()), torch.zeros(()))
        with torch.no_grad(), preserved():
            first = self._images(0)[0][:1].to(parameter)
            with runs_on(self._model, first):
                output = self._model(first)
            return scores_among(self._model, output, 1).shape[1]
