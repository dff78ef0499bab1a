"""Images with one label each."""

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from vitscope.anatomy.taps.preserve import preserved
from vitscope.anatomy.watch.example import runs_on
from vitscope.core.errors import VitscopeError
from vitscope.core.outputs import class_scores
from vitscope.core.statistics import share_interval
from vitscope.core.tensors import dtype_of
from vitscope.curvature.loss import BatchLoss, CrossEntropy
from vitscope.data import DataConfig, batches, check_labels
from vitscope.models import name_of
from vitscope.recipes.augment import AugmentedData, Mix
from vitscope.recipes.recipe import Recipe
from vitscope.tasks.task import Draws, Measuring, Prepared, Task, unhalved


class Classification(Task):
    """One label per image; the loss is the cross-entropy with what mixing makes of the labels."""

    name = "classification"
    batch_size = 250
    yes_or_no = True

    def outputs(self, model: nn.Module, config: DataConfig, device: torch.device) -> int:
        """See `Task`."""
        images = torch.zeros(1, *config.input_size, device=device, dtype=dtype_of(model))
        with preserved(model), torch.no_grad(), runs_on(model, images):
            logits = class_scores(model, model(images), 1)
        if logits.ndim != 2:
            raise VitscopeError(
                f"{name_of(model)} returns {tuple(logits.shape)} for one image; training expects logits of shape "
                "(1, classes)"
            )
        return logits.shape[1]

    def augmented(self, data: Any, recipe: Recipe, config: DataConfig, seed: int) -> AugmentedData:
        """See `Task`."""
        return AugmentedData(data, recipe, config, seed)

    def collate(self, examples: Sequence[tuple[Tensor, int]]) -> tuple[Tensor, Tensor]:
        """See `Task`."""
        images, labels = zip(*examples, strict=True)
        return torch.stack(images), torch.tensor(labels)

    def mixed(self, inputs: Tensor, targets: Tensor, recipe: Recipe, n_classes: int) -> tuple[Tensor, Tensor]:
        """Images and labels (N,) in, mixed images and target probabilities (N, classes) out."""
        return Mix(recipe, n_classes)(inputs, targets)

    def losses(self, model: nn.Module, outputs: Any, targets: Tensor) -> Tensor:
        """See `Task`."""
        scores = unhalved(class_scores(model, outputs, len(targets)))
        soft = targets.is_floating_point()
        return cross_entropy(scores, targets.to(scores.dtype) if soft else targets, reduction="none")

    def loss(self, inputs: Tensor, targets: Tensor, draws: Sequence[Draws]) -> BatchLoss:
        """See `Task`."""
        return CrossEntropy(inputs, targets)

    def right(self, model: nn.Module, outputs: Any, targets: Tensor) -> tuple[Tensor, Tensor]:
        """(N,) whether the highest score of each image is that of its likeliest class, and (N,) ones."""
        scores = class_scores(model, outputs, len(targets))
        truth = targets if targets.ndim == 1 else targets.argmax(1)
        return scores.argmax(1) == truth, torch.ones_like(truth)

    def check(self, targets: Tensor, n_classes: int) -> None:
        """See `Task`; of labels before they are mixed."""
        check_labels(targets.numpy(force=True), n_classes, "the training data")

    def prepared(self, data: Any, model: nn.Module, how: Measuring) -> Prepared:
        """See `Task`; any form of labelled images."""
        size = how.batch_size or self.batch_size
        return batches(
            data, model, how.config, batch_size=size, device=how.device, rank=how.rank, world=how.world
        )

    def sums(self, model: nn.Module, inputs: Tensor, targets: Tensor) -> tuple[int, float, int]:
        """Right answers, loss and images of a batch."""
        output = model(inputs.contiguous(memory_format=torch.channels_last))
        logits = class_scores(model, output, len(inputs)).float()
        loss = cross_entropy(logits, targets, reduction="sum")
        return int((logits.argmax(1) == targets).sum()), float(loss), len(targets)

    def scores(self, sums: Iterable[tuple[int, float, int]]) -> dict[str, float]:
        """Accuracy with its 95 % interval, and mean negative log-likelihood, over `n` images."""
        correct, loss, n = (sum(values) for values in zip(*sums, strict=True))
        low, high = share_interval(correct, n)
        return {"accuracy": correct / n, "low": float(low), "high": float(high), "nll": loss / n, "n": n}
