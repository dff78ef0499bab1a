"""Learning from a teacher as DeiT does.

    hard: (1 - w) CE(z, y) + w CE(z', argmax t)
    soft: (1 - w) CE(z, y) + w T^2 KL(softmax(t / T) || softmax(z' / T))

z are the logits of the class token, z' those of the distillation token (z itself if the model has none), t the
teacher's, for the same augmented and mixed image. The mean is over images; DeiT's published code divides the soft
term by the number of classes too, its paper does not.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitscope.core.errors import VitscopeError
from vitscope.core.interface import shown_classes
from vitscope.core.outputs import class_scores, place_of_scores
from vitscope.data import DataConfig, data_config
from vitscope.models import name_of
from vitscope.recipes.recipe import Recipe


def distillation_loss(
    outputs: tuple[Tensor, Tensor], target: Tensor, taught: Tensor, recipe: Recipe
) -> Tensor:
    """The loss of each image, (N,), of logits z and z', probabilities y and the teacher's logits t, (N, classes)."""
    own, distilled = outputs
    if recipe.distill == "hard":
        from_teacher = F.cross_entropy(distilled, taught.argmax(1), reduction="none")
    else:
        t = recipe.temperature
        student, teacher = F.log_softmax(distilled / t, 1), F.log_softmax(taught / t, 1)
        from_teacher = t * t * F.kl_div(student, teacher, reduction="none", log_target=True).sum(1)
    alone = F.cross_entropy(own, target, reduction="none")
    return (1 - recipe.distill_weight) * alone + recipe.distill_weight * from_teacher


class Teacher:
    """A model to learn from, which sees the student's images as it is used to: its normalisation, its size.

    The module is put into evaluation mode.
    """

    def __init__(self, module: nn.Module, student: DataConfig, n_classes: int, device: torch.device) -> None:
        self.module = module.to(device).eval()
        config = data_config(module)
        if config.input_size[0] != student.input_size[0]:
            raise VitscopeError(
                f"the teacher {name_of(module)} takes {config.input_size[0]} channels and the student "
                f"{student.input_size[0]}; expected the same: take another teacher"
            )
        self.size = config.input_size[1:]
        mean, std, own_mean, own_std = (
            torch.tensor(values, device=device).view(1, -1, 1, 1)
            for values in (student.mean, student.std, config.mean, config.std)
        )
        self.gain, self.shift = std / own_std, (mean - own_mean) / own_std
        with torch.no_grad():
            images = torch.zeros(1, *config.input_size, device=device)
            with shown_classes(module, n_classes):
                self._place = place_of_scores(module, module(images), 1)
            outputs = self._scores(images).shape[1]
        if outputs != n_classes:
            raise VitscopeError(
                f"the teacher {name_of(module)} has {outputs} outputs for {n_classes} classes; expected one trained on "
                "the same data: vitscope train ... --out runs/teacher"
            )

    @torch.no_grad()
    def __call__(self, images: Tensor) -> Tensor:
        """Logits for images that are normalised for the student."""
        images = images * self.gain + self.shift
        if images.shape[-2:] != self.size:
            images = F.interpolate(images, self.size, mode="bilinear", antialias=True)
        return self._scores(images).float()

    def _scores(self, images: Tensor) -> Tensor:
        return class_scores(self.module, self.module(images), len(images), self._place)


def find_teacher(
    recipe: Recipe, teacher: nn.Module | None, student: DataConfig, n_classes: int, device: torch.device
) -> Teacher | None:
    """The recipe's teacher; refuses one without a use, and a use without one."""
    if recipe.distill is None:
        if teacher is not None:
            raise VitscopeError(
                "there is a teacher, but the recipe does not distil; take --recipe deit-distill"
            )
        return None
    if teacher is None:
        raise VitscopeError(
            f"the recipe distils ({recipe.distill}) and needs a teacher: --teacher RUN_FOLDER or a model's name"
        )
    return Teacher(teacher, student, n_classes, device)


def has_distillation_token(model: nn.Module) -> bool:
    """Whether the model can return the logits of two tokens (timm's protocol)."""
    return callable(getattr(model, "set_distilled_training", None))


@contextmanager
def both_tokens(model: Any, wanted: bool) -> Iterator[None]:
    """Inside, a model with a distillation token that is in training mode returns the logits of both tokens."""
    if not wanted or not has_distillation_token(model):
        yield
        return
    model.set_distilled_training(True)
    try:
        yield
    finally:
        model.set_distilled_training(False)
