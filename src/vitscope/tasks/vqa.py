"""Answers to questions about pictures.

An answer is right to a degree: a target holds, for every answer, how right it is (0 to 1).

    loss of a question   sum over answers of the binary cross-entropy between its score and how right it is
    accuracy             the mean of how right the answer with the highest score is

Intervals are of a bootstrap over questions.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch
from timm.data.transforms import str_to_interp_mode
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision import transforms

from vitscope.core.bootstrap import of_few
from vitscope.core.errors import BadData, VitscopeError
from vitscope.core.interface import unwrap
from vitscope.core.outputs import class_scores
from vitscope.core.statistics import score_interval
from vitscope.data import DataConfig
from vitscope.data.preprocessing import preprocess
from vitscope.models import name_of
from vitscope.models.dense.words import Words
from vitscope.recipes.augment import AugmentedData
from vitscope.recipes.recipe import Recipe
from vitscope.tasks.task import Measuring, Prepared, Task, unhalved


class VQA(Task):
    """Visual question answering: a picture and a question in, scores of answers out."""

    name = "vqa"
    batch_size = 64
    recipe = "vqa-mini"
    # a mirrored picture has other answers
    meaningless = ("auto_augment", "erase", "flip", "mixup", "cutmix", "label_smoothing")

    def __init__(self) -> None:
        self._words: Any = None
        self._pictures: Any = None  # (N,) which picture each held-out question is about

    def bind(self, model: nn.Module) -> None:
        """Questions become numbers as this model wants them."""
        self._words = getattr(
            unwrap(model), "vitscope_words", None
        )  # without the model: loaders are given it

    def prepared(self, data: Any, model: nn.Module, how: Measuring) -> Prepared:
        """See `Task`; intervals are over pictures, with all questions about each of them."""
        self._pictures = data.picture_numbers
        return super().prepared(data, model, how)

    def model_arguments(self, name: str | os.PathLike[str], data: Any) -> dict[str, Any]:
        """The words of the questions to learn from, for a model that does not bring its own."""
        return {"vocabulary": Words.of(data.questions).vocabulary} if os.fspath(name) == "vilt_mini" else {}

    def outputs(self, model: nn.Module, config: DataConfig, device: torch.device) -> int:
        """See `Task`."""
        if getattr(unwrap(model), "vitscope_task", None) != self.name:
            raise VitscopeError(
                f"{name_of(model)} answers no questions; give vilt_mini, or a ViLT of Hugging Face (hf:owner/name)"
            )
        return int(unwrap(model).num_classes)  # type: ignore[arg-type]

    def augmented(self, data: Any, recipe: Recipe, config: DataConfig, seed: int) -> AugmentedData:
        """See `Task`."""
        return AugmentedData(data, recipe, config, seed, QuestionExample(recipe, config))

    def collate(
        self, examples: Sequence[tuple[tuple[Tensor, str], Tensor]]
    ) -> tuple[dict[str, Tensor], Tensor]:
        """See `Task`."""
        shown, targets = zip(*examples, strict=True)
        pictures, questions = zip(*shown, strict=True)
        return {"pixel_values": torch.stack(pictures), **self._words(list(questions))}, torch.stack(targets)

    def losses(self, model: nn.Module, outputs: Any, targets: Tensor) -> Tensor:
        """See `Task`."""
        scores = unhalved(class_scores(model, outputs, len(targets)))
        return F.binary_cross_entropy_with_logits(scores, targets.to(scores.dtype), reduction="none").sum(1)

    def right(self, model: nn.Module, outputs: Any, targets: Tensor) -> tuple[Tensor, Tensor]:
        """(N,) how right the answer with the highest score is, from 0 to 1, and (N,) ones."""
        best = class_scores(model, outputs, len(targets)).argmax(1, keepdim=True)
        found = targets.gather(1, best)[:, 0]
        return found, torch.ones_like(found)

    def check(self, targets: Tensor, n_classes: int) -> None:
        """See `Task`."""
        if targets.shape[1] != n_classes:
            raise BadData(
                f"questions have {targets.shape[1]} answers, the model {n_classes}; give a model that was trained on "
                "this data"
            )

    def blank(self, config: DataConfig, device: torch.device | None) -> dict[str, Tensor]:
        """See `Task`."""
        words = {key: value.to(device) for key, value in self._words([""]).items()}
        return {"pixel_values": torch.zeros(1, *config.input_size, device=device), **words}

    def batch(self, items: Sequence[tuple[Any, Any]], how: Measuring) -> tuple[dict[str, Tensor], Tensor]:
        """Pictures with questions, and how right each answer is."""
        examples = [
            (
                (preprocess([picture], how.config.whole())[0], question),
                torch.from_numpy(np.asarray(target, np.float32)),
            )
            for (picture, question), target in items
        ]
        inputs, targets = self.collate(examples)
        return {key: value.to(how.device) for key, value in inputs.items()}, targets.to(how.device)

    def sums(self, model: nn.Module, inputs: dict[str, Tensor], targets: Tensor) -> list[list[float]]:
        """How right each answer is, and its loss."""
        scores = class_scores(model, model(inputs), len(targets)).float()
        right = targets.gather(1, scores.argmax(1, keepdim=True))[:, 0]
        loss = F.binary_cross_entropy_with_logits(scores.double(), targets.double(), reduction="none").sum(1)
        found: list[list[float]] = torch.stack([right.double(), loss], 1).tolist()
        return found

    def scores(self, sums: Iterable[list[list[float]]]) -> dict[str, float]:
        """See `Task`; nll is the loss."""
        rows = np.array([row for batch in sums for row in batch])
        accuracy, pictures = rows[:, 0].mean(), int(self._pictures.max()) + 1
        surplus = np.bincount(self._pictures, rows[:, 0] - accuracy)  # of the questions about each picture
        error = of_few(np.sqrt(np.square(surplus).sum()) / len(rows), pictures)
        low, high = score_interval(accuracy, error, pictures)
        return {
            "accuracy": float(accuracy),
            "low": float(low),
            "high": float(high),
            "nll": float(rows[:, 1].mean()),
            "n": float(len(rows)),
        }


class QuestionExample:
    """Picture and question in; the picture at the model's size, its colours changed perhaps, and the question out."""

    def __init__(self, recipe: Recipe, config: DataConfig) -> None:
        change = recipe.colour_jitter
        steps: list[Any] = [
            transforms.Resize(config.input_size[1:], interpolation=str_to_interp_mode(config.interpolation))
        ]
        steps += [transforms.ColorJitter(change, change, change)] if change else []
        steps += [transforms.Grayscale()] if config.input_size[0] == 1 else []
        steps += [transforms.ToTensor(), transforms.Normalize(config.mean, config.std)]
        self.transform = transforms.Compose(steps)

    def __call__(self, shown: tuple[Any, str], target: np.ndarray) -> tuple[tuple[Tensor, str], Tensor]:
        """Draws from torch's generator."""
        picture, question = shown
        return (self.transform(picture.convert("RGB")), question), torch.from_numpy(
            np.asarray(target, np.float32)
        )
