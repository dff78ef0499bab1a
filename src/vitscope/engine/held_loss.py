"""The loss of a model on held images, at one place of its weights after another: what landscapes share.

Images, their augmentation, and random draws that the model makes are the same at every place. Places are shared out
over processes, and those that were finished before an interruption are not visited again. The rise at a place is the
mean over images i of NLL_i there - NLL_i at a reference, so that its interval comes from pairs and is much narrower
than that of the NLL.

Convolutions are faster with channels last, or slower, depending on their sizes and on the machine: which order in
memory is taken is found out by trying. Results differ by rounding only.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from vitscope.core import distributed
from vitscope.core.errors import VitscopeError
from vitscope.core.interrupt import Interruptible
from vitscope.core.tensors import arrange, dtype_of
from vitscope.curvature.loss import Penalty
from vitscope.curvature.plane import Plane
from vitscope.data import batches, data_config
from vitscope.engine.exam import Rows
from vitscope.engine.facts import data_name, images_digest
from vitscope.engine.held_batch import HeldBatch
from vitscope.engine.held_batches import HeldBatches, with_targets
from vitscope.engine.held_scores import COLUMNS, Scores, score
from vitscope.engine.own_passes import progress
from vitscope.engine.pass_scores import Stopwatch
from vitscope.engine.resuming import PartialResults
from vitscope.models import name_of
from vitscope.recipes.recipe import Recipe
from vitscope.recipes.seeding import STEP, seed_all

MemoryFormat = Literal["auto", "contiguous", "channels_last"]
FORMATS = {"contiguous": torch.contiguous_format, "channels_last": torch.channels_last}
BatchNorm = Literal["kept", "estimated"]
Place = tuple[float, ...]
_ROUNDS, _IMAGES = 3, 32
_GAIN = 0.95  # of the usual layout's time that another one may take to be preferred
_FORMAT = "memory format"  # the part that remembers it: other digits would not fit to finished places


@contextmanager
def laid_out(model: nn.Module, memory_format: str) -> Iterator[None]:
    """The model's weights in this order inside; outside they are the very tensors they were."""
    parameters = [(parameter, parameter.data) for parameter in model.parameters()]
    buffers = [
        (module, name, buffer)
        for module in model.modules()
        for name, buffer in module._buffers.items()
        if buffer is not None
    ]
    try:
        if memory_format != "contiguous":
            arrange(model, FORMATS[memory_format])
        yield
    finally:
        for parameter, data in parameters:
            parameter.data = data
        for module, name, buffer in buffers:
            module._buffers[name] = buffer


def faster_format(model: nn.Module, batch: HeldBatch) -> str:
    """The quicker memory format for passes over such a batch; the main process measures it for all."""
    found = "contiguous"
    if distributed.is_main() and sum(isinstance(module, nn.Conv2d) for module in model.modules()) > 1:
        least, watch = dict.fromkeys(FORMATS, float("inf")), Stopwatch(batch.images.device)
        for _ in range(_ROUNDS):
            for name, layout in FORMATS.items():
                with laid_out(model, name), torch.inference_mode():
                    arranged = batch.part(slice(_IMAGES)).arranged(layout)
                    with watch.from_zero():
                        arranged.outputs(model)
                    least[name] = min(least[name], watch.seconds)
        if least["channels_last"] < _GAIN * least["contiguous"]:
            found = "channels_last"
    return str(distributed.broadcast(found))


def check_format(memory_format: str) -> None:
    """Refuse a name that is none."""
    if memory_format not in get_args(MemoryFormat):
        raise VitscopeError(
            f"memory_format is '{memory_format}'; expected {', '.join(get_args(MemoryFormat))}"
        )


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
        # as many whole batches as the limit and the data allow; fewer images than a batch are one
        wanted = batches(with_targets(data), config=data_config(model), limit=limit).n_images
        size = max(1, min(batch_size, wanted))
        held = HeldBatches(model, data, size, max(1, wanted // size), recipe, seed)
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
        """The statistics of batch norms on these images, as a mean over batches."""
        momenta = [norm.momentum for norm in self._norms]
        try:
            for norm in self._norms:
                norm.reset_running_stats()
                norm.momentum = None
                norm.train()
            for batch in self.batches:
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
    names = [" ".join(map(repr, place)) for place in places]
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
