"""The loss of a model on held images, at one place of its weights after another: what landscapes share.

Images, their augmentation, and random draws that the model makes are the same at every place. Places are shared out
over processes, and those that were finished before an interruption are not visited again. The rise at a place is the
mean over images i of NLL_i there - NLL_i at a reference, so that its interval comes from pairs and is much narrower
than that of the NLL.

The loss of an image is that of its task; NLL is what it is called here, whichever it is. Where the task counts what is
right (images, pixels, answers in part), the accuracy is what is right of all that counts,

    R = Σ r_i / Σ c_i

Its interval is Wilson's, of images that are right or wrong, or with the standard error of that ratio, which is made of
the r_i - R c_i.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from vitscope.core import distributed
from vitscope.core.bootstrap import of_few
from vitscope.core.interrupt import Interruptible
from vitscope.core.progress import progress
from vitscope.core.statistics import Estimate, mean_interval, score_interval, share_interval
from vitscope.core.tensors import dtype_of
from vitscope.curvature.loss import Penalty
from vitscope.curvature.plane import Plane
from vitscope.data import batches, data_config
from vitscope.engine.exam import Rows
from vitscope.engine.facts import data_name, images_digest
from vitscope.engine.held_batch import HeldBatch
from vitscope.engine.held_batches import HeldBatches, with_targets
from vitscope.engine.memory_format import FORMATS, check_format, faster_format, laid_out
from vitscope.engine.resuming import PartialResults
from vitscope.models import name_of
from vitscope.recipes.recipe import Recipe
from vitscope.recipes.seeding import STEP, seed_all
from vitscope.results.possible import within_possible

BatchNorm = Literal["kept", "estimated"]
Place = tuple[float, ...]
COLUMNS = 7  # NLL, NLL², rise, rise², right, right², right times counted
_FORMAT = "memory format"  # the part that remembers it: other digits would not fit to finished places


class Scores(NamedTuple):
    """Of every image, (n,) float64."""

    nll: Tensor
    right: Tensor  # how much of it the model is right about; NaN if the task counts nothing
    counted: Tensor  # out of how much


def score(found: Scores, reference: Tensor) -> Tensor:
    """(COLUMNS,) sums over the images of one place."""
    nll, right, counted = found
    rise = nll - reference
    products = (nll, nll.square(), rise, rise.square(), right, right.square(), right * counted)
    return torch.stack([product.sum() for product in products])


def summarise(sums: np.ndarray, counted: np.ndarray, yes_or_no: bool) -> dict[str, Any]:
    """Estimates `nll`, `rise` and `accuracy`, each of the shape of `sums` without its last axis.

    `counted` (n,) is what accuracies are out of, and `yes_or_no` whether images are right or wrong.
    """
    n = len(counted)
    with np.errstate(invalid="ignore", over="ignore"):  # places where the loss is not finite
        found = {
            "nll": within_possible("nll", mean_interval(sums[..., 0], sums[..., 1], n)),
            "rise": mean_interval(sums[..., 2], sums[..., 3], n),
        }
    right = sums[..., 4]
    if yes_or_no:
        return {**found, "accuracy": Estimate(right / n, *share_interval(right, n))}
    with np.errstate(invalid="ignore", divide="ignore"):  # NaN where nothing is counted
        share = right / counted.sum()
        errors = sums[..., 5] - 2 * share * sums[..., 6] + np.square(share) * np.square(counted).sum()
        error = np.sqrt(np.maximum(errors, 0.0)) / counted.sum()
        return {**found, "accuracy": Estimate(share, *score_interval(share, of_few(error, n), n))}


class HeldLoss:
    """NLL of every held image, and how much of it the model is right about, where its weights are now."""

    def __init__(
        self,
        model: nn.Module,
        data: Any,
        limit: int | None,
        batch_size: int,
        recipe: str | Recipe | None,
        batch_norm: BatchNorm,
        seed: int,
    ) -> None:
        wanted = batches(with_targets(data), config=data_config(model), limit=limit).n_images
        size = max(1, min(batch_size, wanted))
        count = max(1, math.ceil(wanted / size))
        held = HeldBatches(model, data, size, count, recipe, seed, left_out=count * size - max(wanted, size))
        self.batches = [held[i].to(dtype_of(model)) for i in range(len(held))]
        self.n = sum(len(batch) for batch in self.batches)
        self.task = held.task
        self.augmentation = held.augmentation  # what was done to the images, in words
        self._model, self._seed, self._batch_norm = model, seed, batch_norm
        estimated = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.running_mean is not None]
        self._norms = estimated if batch_norm == "estimated" else []
        first = self.batches[0].part(slice(1)).loss
        with torch.inference_mode():  # refuses what does not fit
            first.total(model, first.outputs(model))

    def about(self, name: str | None, data: Any, penalty: Penalty) -> dict[str, Any]:
        """The fields that all results of landscapes have."""
        return {
            "model": name or name_of(self._model),
            "data": data_name(data),
            "images_digest": images_digest(data),
            "n": self.n,
            "seed": self._seed,
            "weight_decay": penalty.weight_decay,
            "convention": penalty.convention,
            "decay_all": penalty.decay_all,
            "augmentation": self.augmentation,
            "batch_norm": self._batch_norm,
            "task": self.task.name,
        }

    @contextmanager
    def arranged(self, memory_format: str, parts: PartialResults) -> Iterator[None]:
        """Weights and images in this order in memory; "auto": the faster one, or that of before an interruption."""
        check_format(memory_format)
        if memory_format == "auto":
            if known := parts.finished([_FORMAT]):
                memory_format = list(FORMATS)[int(known[_FORMAT]["place"])]
            else:
                memory_format = faster_format(self._model, self.batches[0])
        self._format, layout, before = memory_format, FORMATS[memory_format], self.batches
        self.batches = [batch.arranged(layout) for batch in before]
        try:
            with laid_out(self._model, memory_format):
                yield
        finally:
            self.batches = before

    def remember_format(self, parts: PartialResults) -> None:
        """Keep the order in memory for the time after an interruption."""
        if distributed.is_main():
            parts.put(_FORMAT, {"place": torch.tensor(list(FORMATS).index(self._format))})

    def __call__(self) -> Scores:
        """Of all images, on the CPU."""
        with torch.inference_mode():
            if self._norms:
                self._estimate()
            seed_all(STEP, self._seed)  # a model that draws random numbers draws the same everywhere
            found = [self._score(batch) for batch in self.batches]
        return Scores(*(torch.cat(numbers) for numbers in zip(*found, strict=True)))

    def of_a_model(self) -> Scores:
        """The same where the weights are those of a model, not of a point beside it: they have to be finite there."""
        found = self()
        with torch.inference_mode():
            for batch in self.batches:
                batch.require_finite(self._model)
        return found

    def _score(self, batch: HeldBatch) -> Scores:
        outputs = batch.outputs(self._model)
        nll = self.task.losses(self._model, outputs, batch.targets)
        counts = self.task.right(self._model, outputs, batch.targets)
        right, counted = (nll.new_full((2, len(batch)), torch.nan)) if counts is None else counts
        if counts is not None:
            right = right * nll.isfinite()  # NaN would count as the largest score
        return Scores(*(numbers.double().cpu() for numbers in (nll, right, counted)))

    def _estimate(self) -> None:
        """The statistics of batch norms on these images, as a mean over batches that counts images.

        An image that is alone in the last batch has no spread, and is left out of them.
        """
        momenta, seen = [norm.momentum for norm in self._norms], 0
        try:
            for norm in self._norms:
                norm.reset_running_stats()
                norm.train()
            for batch in [one for one in self.batches if len(one) > 1] or self.batches:
                seen += len(batch)
                for norm in self._norms:
                    norm.momentum = len(batch) / seen
                batch.outputs(self._model)
        finally:
            for norm, momentum in zip(self._norms, momenta, strict=True):
                norm.momentum = momentum
                norm.eval()

    @contextmanager
    def statistics_restored(self) -> Iterator[None]:
        """Batch norms have their own statistics again afterwards."""
        buffers = [buffer for norm in self._norms for buffer in norm.buffers()]
        before = [buffer.clone() for buffer in buffers]
        try:
            yield
        finally:
            for buffer, value in zip(buffers, before, strict=True):
                buffer.copy_(value)


def visit(
    loss: HeldLoss,
    plane: Plane,
    places: Sequence[Place],
    reference: Callable[[Place], Tensor],
    parts: PartialResults,
    heading: str,
) -> np.ndarray:
    """(places, COLUMNS): the sums of every place; this process visits its share, as far as `parts` do not have it.

    `reference` gives, per place, the NLL of every image that the rise is counted from.
    """
    # not sums over other images, as an earlier version may have left
    names = [f"{' '.join(map(repr, place))} of {loss.n}" for place in places]
    finished = {
        name: part for name, part in parts.finished(names).items() if part["sums"].shape == (COLUMNS,)
    }  # not those of an earlier version
    loss.remember_format(parts)
    rows = Rows(sums=(len(places), COLUMNS))
    if distributed.is_main():
        for number, name in enumerate(names):
            rows.fill(number, **finished.get(name, {}))
    todo = [number for number, name in enumerate(names) if name not in finished]
    share = [todo[i] for i in distributed.shard(len(todo))]
    with (
        progress(len(share) * loss.n, heading) as advance,
        Interruptible(patient=distributed.is_active()) as interrupt,
    ):
        for number in share:
            with interrupt.at_once():
                plane.move(*places[number])
                sums = score(loss(), reference(places[number]))
            rows.fill(number, sums=sums)
            parts.put(names[number], {"sums": sums})
            advance(loss.n)
        interrupt.check()
    found: np.ndarray = rows.finish()["sums"]
    return found
