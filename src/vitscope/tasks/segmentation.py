"""A class for every pixel.

    loss of an image   sum over its pixels of -log p(class), divided by their number; pixels without a class count as 0
    IoU of a class     TP / (TP + FP + FN), pixels added up over all images; mIoU: the mean over classes that occur

Scores are brought to the size of the masks first (`upsampled`), of pictures that are larger than the model perhaps by
windows (`windows`). Intervals are of a bootstrap over images.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from vitscope.anatomy.taps.preserve import preserved
from vitscope.anatomy.watch.example import runs_on
from vitscope.core.bootstrap import biased_intervals, mean_interval_of_few, poisson_weights
from vitscope.core.errors import BadData, VitscopeError
from vitscope.core.outputs import class_scores
from vitscope.core.tensors import dtype_of
from vitscope.data import DataConfig
from vitscope.data.task_data import NO_CLASS
from vitscope.models import name_of
from vitscope.recipes.augment import AugmentedData
from vitscope.recipes.recipe import Recipe
from vitscope.tasks.masked import MaskedExample
from vitscope.tasks.task import Measuring, Task, decoded, unhalved, whole_pictures
from vitscope.tasks.upsampled import IN_DOUBLE, at_size, strips
from vitscope.tasks.windows import scaled_picture, windowed_scores

DECODER = "upernet"
_REPLICATES = 1000


class Counts(NamedTuple):
    """Pixels of one image."""

    classes: np.ndarray  # (3, K): right, there, predicted; of the pixels that have a class
    nll: float  # summed over them
    pixels: int  # that have a class


class Segmentation(Task):
    """A class for every pixel, by any backbone with a decoder."""

    name = "segmentation"
    best = "miou"
    columns = ("miou", "miou_low", "miou_high")
    recipe = "dense"
    meaningless = ("auto_augment", "erase", "mixup", "cutmix", "label_smoothing")

    def __init__(self, window: float | None = None) -> None:
        self.window = window  # see `windows`; None: the whole picture at the size of the model

    def model_name(self, name: str | os.PathLike[str]) -> str | os.PathLike[str]:
        """A backbone gets the usual decoder."""
        return decoded(name, DECODER)

    def outputs(self, model: nn.Module, config: DataConfig, device: torch.device) -> int:
        """See `Task`."""
        images = torch.zeros(1, *config.input_size, device=device, dtype=dtype_of(model))
        with preserved(model), torch.no_grad(), runs_on(model, images):
            scores = class_scores(model, model(images), 1)
        if scores.ndim != 4:
            raise VitscopeError(
                f"{name_of(model)} returns {tuple(scores.shape)} for one image; segmentation expects scores of shape "
                f"(1, classes, height, width): give a backbone by name, which gets a decoder, or {DECODER}:NAME"
            )
        return scores.shape[1]

    def augmented(self, data: Any, recipe: Recipe, config: DataConfig, seed: int) -> AugmentedData:
        """See `Task`."""
        return AugmentedData(data, recipe, config, seed, MaskedExample(recipe, config))

    def collate(self, examples: Sequence[tuple[Tensor, Tensor]]) -> tuple[Tensor, Tensor]:
        """See `Task`."""
        images, masks = zip(*examples, strict=True)
        return torch.stack(images), torch.stack(masks)

    def losses(self, model: nn.Module, outputs: Any, targets: Tensor | Sequence[Tensor]) -> Tensor:
        """See `Task`; masks may come one by one, in sizes of their own."""
        scores = unhalved(class_scores(model, outputs, len(targets)))
        if isinstance(targets, Tensor):
            return pixel_losses(scores, targets)
        return torch.cat([pixel_losses(*pair) for pair in _one_by_one(scores, targets)])

    def right(
        self, model: nn.Module, outputs: Any, targets: Tensor | Sequence[Tensor]
    ) -> tuple[Tensor, Tensor]:
        """(N,) how many pixels have their highest score at their class, and (N,) how many have a class."""
        scores, found = class_scores(model, outputs, len(targets)), []
        for own, mask in _one_by_one(scores, targets):
            known = mask != NO_CLASS
            said = at_size(own, mask.shape[1:]).argmax(1)
            found.append(torch.stack([(known & (said == mask)).sum(), known.sum()]))
        right, counted = torch.stack(found, 1)
        return right, counted

    def check(self, targets: Tensor | Sequence[Tensor], n_classes: int) -> None:
        """See `Task`."""
        largest = max(int(mask.max()) for mask in targets)
        if largest >= n_classes:
            raise BadData(
                f"masks have pixels of class {largest}, the model has outputs 0 to {n_classes - 1}; give a model that "
                "was trained on this data"
            )

    def batch(self, items: Sequence[tuple[Any, Any]], how: Measuring) -> tuple[Any, list[Tensor]]:
        """Whole images at the model's size, or a list of larger ones, with their masks at their own."""
        masks = [torch.from_numpy(mask.astype(np.int64)).to(how.device) for _, mask in items]
        pictures = [picture for picture, _ in items]
        if self.window is None:
            return whole_pictures(pictures, how), masks
        self._side = how.config.input_size[1:]
        return [scaled_picture(one, how.config, self.window).to(how.device) for one in pictures], masks

    def sums(self, model: nn.Module, inputs: Any, targets: Sequence[Tensor]) -> list[Any]:
        """`Counts` of every image, as lists."""

        def score(images: Tensor) -> Tensor:
            return class_scores(model, model(images), len(images)).float()

        if isinstance(inputs, Tensor):
            scores: Iterable[Tensor] = score(inputs)
        else:
            scores = (windowed_scores(score, image, self._side) for image in inputs)
        counts = [count_pixels(one, mask) for one, mask in zip(scores, targets, strict=True)]
        return [[one.classes.tolist(), one.nll, one.pixels] for one in counts]

    def scores(self, sums: Iterable[list[Any]]) -> dict[str, float]:
        """See `Task`; accuracy is that of pixels."""
        return summed([Counts(np.array(classes), nll, n) for batch in sums for classes, nll, n in batch])

    def words(self, row: dict[str, Any]) -> str:
        """See `Task`."""
        if math.isnan(row["miou"]):
            return ""
        return (
            f"mIoU {row['miou']:.2%} (95 % interval {row['miou_low']:.2%} to {row['miou_high']:.2%}), pixel accuracy "
            f"{row['accuracy']:.2%}"
        )


def _one_by_one(scores: Tensor, masks: Iterable[Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
    """(1, K, h, w) and (1, H, W) of every image."""
    return ((own[None], mask[None]) for own, mask in zip(scores, masks, strict=True))


def pixel_losses(scores: Tensor, masks: Tensor) -> Tensor:
    """(N,) of scores (N, K, h, w) and masks (N, H, W); see the head of this file."""
    losses = F.cross_entropy(at_size(scores, masks.shape[1:]), masks, ignore_index=NO_CLASS, reduction="none")
    return losses.mean((1, 2))


def count_pixels(scores: Tensor, mask: Tensor) -> Counts:
    """Of one image: scores (K, h, w) against a mask (H, W)."""
    classes, total, nll = len(scores), torch.zeros(3, len(scores), dtype=torch.int64), 0.0
    for rows, whole in strips(scores, mask.shape):
        known = mask[rows] != NO_CLASS
        truth, values = mask[rows][known], whole[:, known]
        said = values.argmax(0)
        for piece in torch.arange(len(truth), device=truth.device).split(max(1, IN_DOUBLE // classes)):
            nll += float(F.cross_entropy(values[:, piece].T.double(), truth[piece], reduction="sum"))
        counted = [torch.bincount(one, minlength=classes) for one in (truth[said == truth], truth, said)]
        total += torch.stack(counted).cpu()
    return Counts(total.numpy(), nll, int((mask != NO_CLASS).sum()))


def summed(counts: Sequence[Counts]) -> dict[str, float]:
    """Scores of all images together, with intervals over them."""
    weights = poisson_weights(np.arange(len(counts)), 0, _REPLICATES)  # (n, 1 + replicates)
    tables = np.tensordot(weights, np.stack([one.classes for one in counts]).astype(np.float64), (0, 0))
    pixels = weights.T @ np.array([one.pixels for one in counts], np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        scores = {"miou": mean_iou(tables), "accuracy": tables[:, 0].sum(-1) / pixels}
        nll = sum(one.nll for one in counts) / (sum(one.pixels for one in counts) or math.nan)
    counted = sum(one.pixels > 0 for one in counts)
    ends = {
        "miou": biased_intervals(scores["miou"], counted),
        "accuracy": mean_interval_of_few(scores["accuracy"][1:], counted),
    }
    return {
        "nll": float(nll),
        "accuracy": float(scores["accuracy"][0]),
        "low": float(ends["accuracy"][0]),
        "high": float(ends["accuracy"][1]),
        "miou": float(scores["miou"][0]),
        "miou_low": float(ends["miou"][0]),
        "miou_high": float(ends["miou"][1]),
        "n": float(len(counts)),
    }


def class_iou(tables: np.ndarray) -> np.ndarray:
    """(..., K) of counts (..., 3, K); NaN of classes that neither occur nor are predicted."""
    right, there, predicted = np.moveaxis(tables, -2, 0)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: np.ndarray = right / (there + predicted - right)
    return found


def mean_iou(tables: np.ndarray) -> np.ndarray:
    """(...) the mean over classes."""
    iou = class_iou(tables)
    occurs = ~np.isnan(iou)
    with np.errstate(invalid="ignore"):
        found: np.ndarray = np.where(occurs, iou, 0.0).sum(-1) / occurs.sum(-1)
    return found
