"""A batch of a task that is held: its loss can be asked for at one place of a model's weights after another."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from vitscope.anatomy.watch.example import images_among, runs_on
from vitscope.core.tensors import all_finite
from vitscope.curvature.loss import BatchLoss, numbers_in
from vitscope.engine.not_finite import not_finite
from vitscope.tasks import Task
from vitscope.tasks.task import Draws, Inputs, Targets, converted, taken, to_device


@dataclass(frozen=True, eq=False)
class HeldBatch:
    """Inputs as the model takes them, targets as the task's losses do, and what is drawn for every image."""

    task: Task
    inputs: Inputs
    targets: Targets
    draws: Sequence[Draws]

    def __len__(self) -> int:
        return len(self.draws)

    @property
    def images(self) -> Tensor:
        """(N, C, H, W), of whatever else belongs to the inputs."""
        return images_among(self.inputs) if isinstance(self.inputs, Mapping) else self.inputs

    @property
    def loss(self) -> BatchLoss:
        """What is differentiated."""
        return self.task.loss(self.inputs, self.targets, self.draws)

    def outputs(self, model: nn.Module) -> Any:
        """What the model puts out for the batch."""
        return self.task.forward(model, self.inputs, self.targets, self.draws)

    def to(self, dtype: torch.dtype) -> "HeldBatch":
        """All that is not whole numbers in this type."""
        return self._changed(lambda part: converted(part, dtype))

    def arranged(self, layout: torch.memory_format) -> "HeldBatch":
        """Images in this order in memory."""
        return self._changed(lambda part: to_device(part, self.images.device, layout))

    def part(self, which: slice) -> "HeldBatch":
        """Some of the images, with what is drawn for them in the whole batch."""
        return replace(self._changed(lambda part: taken(part, which)), draws=self.draws[which])

    def require_finite(self, model: nn.Module) -> None:
        """Refuse a model whose numbers for these images are not finite."""
        loss = self.loss
        with runs_on(model, self.images):
            outputs = loss.outputs(model)
        for numbers in numbers_in(outputs):
            if not all_finite(numbers.detach()):
                raise not_finite(model, self.images, numbers, loss.what)

    def _changed(self, change: Callable[[Any], Any]) -> "HeldBatch":
        return replace(self, inputs=change(self.inputs), targets=change(self.targets))
