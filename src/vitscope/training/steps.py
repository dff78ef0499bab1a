"""One epoch of training: batches in a seeded order, one optimiser step each, from any step on."""

import math
from collections.abc import Callable
from typing import Any

import torch
from timm.optim import create_optimizer_v2
from timm.scheduler import create_scheduler_v2
from torch import Tensor, nn
from torch.utils.data import DataLoader

from vitscope.data import DataConfig
from vitscope.errors import VitscopeError
from vitscope.training.augment import AugmentedData, Mix
from vitscope.training.checkpoint import Progress
from vitscope.training.recipe import Recipe
from vitscope.training.seeding import STEP, order, seed_all

_READ_EVERY = 10  # steps between two looks at the loss, each of which waits for the device


class TrainingDiverged(VitscopeError):
    """The loss is no longer a number."""


class Stepper:
    """Holds what a step needs: model, optimiser, schedule, augmentation.

    Attributes:
        optimizer: timm's, as the recipe names it.
        steps: Steps per epoch.
    """

    def __init__(
        self,
        model: nn.Module,
        data: Any,
        config: DataConfig,
        n_classes: int,
        recipe: Recipe,
        seed: int,
        device: torch.device,
        workers: int = 0,
    ) -> None:
        self.model = model
        self.recipe = recipe
        self.seed = seed
        self.device = device
        self.workers = workers
        self.data = AugmentedData(data, recipe, config, seed)
        self.mix = Mix(recipe, n_classes)
        self.steps = len(_batches(len(data), recipe.batch_size, seed, epoch=0))
        self.optimizer: torch.optim.Optimizer = create_optimizer_v2(
            model.parameters() if recipe.decay_all else model,  # given a model, timm spares biases and tokens
            opt=recipe.optimizer,
            lr=recipe.lr,
            weight_decay=recipe.weight_decay,
        )
        self.schedule, _ = create_scheduler_v2(
            self.optimizer,
            sched="cosine",
            num_epochs=recipe.epochs,
            warmup_epochs=recipe.warmup_epochs,  # type: ignore[arg-type]  # a part of an epoch will do
            warmup_prefix=recipe.warmup_adds,
            warmup_lr=min(recipe.warmup_lr, recipe.lr),
            min_lr=recipe.min_lr,
            step_on_epochs=False,
            updates_per_epoch=self.steps,
        )

    def epoch(self, progress: Progress, after_step: Callable[[int, float], bool]) -> bool:
        """Go on with the epoch that `progress` stands in, and keep `progress` up to date.

        Args:
            progress: Where the training stands.
            after_step: Called after each step with the number of images and the mean loss; true stops here.

        Returns:
            Whether the epoch is complete.

        Raises:
            TrainingDiverged: The loss is infinite or not a number.
        """
        self.model.train()
        self.data.epoch = progress.epoch
        chunks = _batches(len(self.data), self.recipe.batch_size, self.seed, progress.epoch)[progress.step :]
        pinned = self.device.type == "cuda"
        loader = DataLoader(self.data, batch_sampler=chunks, num_workers=self.workers, pin_memory=pinned)
        unread: list[Tensor] = []
        mean = progress.loss_sum / progress.images if progress.images else math.nan
        for images, labels in loader:
            unread.append(self._step(images, labels, progress) * len(labels))
            progress.step += 1
            progress.images += len(labels)
            stop = after_step(len(labels), mean)
            if stop or len(unread) == _READ_EVERY or progress.step == self.steps:
                for loss in unread:
                    progress.loss_sum += float(loss)
                unread.clear()
                mean = progress.loss_sum / progress.images
                if not math.isfinite(mean):
                    raise TrainingDiverged(
                        f"the loss is {mean} in epoch {progress.epoch + 1}, step {progress.step}"
                    )
            if stop:
                return progress.step == self.steps
        return True

    def learning_rate(self) -> float:
        """The rate of the latest step."""
        return float(self.optimizer.param_groups[0]["lr"])

    def _step(self, images: Tensor, labels: Tensor, progress: Progress) -> Tensor:
        seed_all(STEP, self.seed, progress.epoch, progress.step)
        images = images.to(self.device, non_blocking=True, memory_format=torch.channels_last)
        labels = labels.to(self.device, non_blocking=True)
        images, target = self.mix(images, labels)
        loss = nn.functional.cross_entropy(self.model(images), target)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        if self.recipe.clip_norm is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.recipe.clip_norm)
        self.schedule.step_update(progress.epoch * self.steps + progress.step)
        self.optimizer.step()
        return loss.detach()


def _batches(n: int, size: int, seed: int, epoch: int) -> list[list[int]]:
    """The epoch's batches; one image left over is skipped, since batch normalisation cannot do with it."""
    indices = order(n, seed, epoch)
    chunks = [indices[i : i + size] for i in range(0, n, size)]
    return chunks[:-1] if len(chunks) > 1 and len(chunks[-1]) == 1 else chunks
