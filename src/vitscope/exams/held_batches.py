"""Mini-batches of the augmented training set, each drawn once and held.

Which images a batch has, what becomes of them, whom they are mixed with and by how much depends on (seed, batch)
alone: not on the process that asks, nor on how often it does.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

from vitscope.curvature.loss import scores_of_images
from vitscope.data import ImageData, check_labels, data_config, load_data
from vitscope.data import batches as prepared_batches
from vitscope.errors import BadData
from vitscope.training.augment import AugmentedData, Mix
from vitscope.training.named import get_recipe
from vitscope.training.recipe import Recipe
from vitscope.training.seeding import STEP, order, preserved, seed_all


def training_split(data: Any) -> Any:
    """Of named data its training images, whichever split is given; other data, and data without one, as it is."""
    if not isinstance(data, ImageData) or data.split == "train":
        return data
    try:
        return load_data(data.spec, split="train")
    except BadData:
        return data


@dataclass(frozen=True)
class HeldBatch:
    """Images (N, C, H, W) as the model takes them, and targets: labels (N,), or probabilities (N, classes)."""

    images: Tensor
    targets: Tensor


class HeldBatches:
    """The first `count` batches of a training epoch.

    Data sets of pictures are augmented as the recipe says. A pair of tensors and a DataLoader give images that are
    prepared already: those are only mixed. Without a recipe images are prepared as for evaluation, and labels stay
    labels.

    Attributes:
        recipe: What augments and mixes them, or None.
        augmentation: The same in words.
    """

    def __init__(
        self, model: nn.Module, data: Any, batch_size: int, count: int, recipe: str | Recipe | None, seed: int
    ) -> None:
        if batch_size < 1 or count < 1:
            raise BadData(f"batch_size is {batch_size} and batches {count}; expected at least 1 of both")
        self.recipe = None if recipe is None else get_recipe(recipe)
        self._model, self._data, self._seed = model, data, seed
        self._batch_size, self._count = batch_size, count
        self._place = next((p.device for p in model.parameters()), torch.device("cpu"))
        self._given: list[tuple[Tensor, Tensor]] | None = None
        if self.recipe is None or isinstance(data, tuple | DataLoader):
            self._given = self._read()
            self.augmentation = "none" if self.recipe is None else f"{self.recipe.name}, mixing only"
        else:
            self._augmented = AugmentedData(data, self.recipe, data_config(model), seed)
            self._check_length(len(self._augmented))
            self._order = order(len(self._augmented), seed, 0)
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
        stream = prepared_batches(
            self._data, config=data_config(self._model), batch_size=self._batch_size, seed=self._seed
        )
        found: list[tuple[Tensor, Tensor]] = []
        for images, labels, _ in stream:
            if len(found) == self._count:
                break
            found.append((images.cpu(), labels.cpu()))
        if not isinstance(self._data, DataLoader):
            self._check_length(sum(len(labels) for _, labels in found))
        elif len(found) < self._count:
            raise BadData(
                f"the DataLoader has {len(found)} batches; expected {self._count}: use batches={len(found)}"
            )
        return found

    def _check_length(self, images: int) -> None:
        wanted = self._batch_size * self._count
        if images < wanted:
            most = images // self._batch_size
            hint = f"use batches={most}" if most else f"use batch_size={images}"
            raise BadData(
                f"{self._count} batches of {self._batch_size} need {wanted} images, the data has {images}; {hint}"
            )

    def _count_classes(self) -> int:
        parameter = next((p for p in self._model.parameters() if p.is_floating_point()), torch.zeros(()))
        with torch.no_grad(), preserved():
            return scores_of_images(self._model, self._images(0)[0][:1].to(parameter)).shape[1]
