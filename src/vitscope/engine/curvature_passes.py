"""What exams of the Hessian share: held training batches, and their Hessians one after the other.

Batches are shared out over processes; or, if a batch is too large for one, each is split over all of them.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import torch
from torch import nn

from vitscope.anatomy import anatomy, preserved
from vitscope.anatomy.taps.preserve import refuse_inference_weights
from vitscope.core import distributed
from vitscope.core.errors import VitscopeError
from vitscope.core.interrupt import Interruptible
from vitscope.core.progress import bar
from vitscope.core.tensors import dtype_of
from vitscope.curvature import HessianProduct, Penalty, hessian_of_loss, select_parameters
from vitscope.curvature.lanczos import OnStep
from vitscope.engine.exam import Rows
from vitscope.engine.facts import data_name, images_digest
from vitscope.engine.held_batches import HeldBatches
from vitscope.engine.own_passes import placed
from vitscope.engine.resuming import PartialResults
from vitscope.findings.hessian import ALL_PARAMETERS
from vitscope.models import name_of
from vitscope.recipes.recipe import Recipe

Measure = Callable[[int, HessianProduct, OnStep], dict[str, Any]]


@dataclass(frozen=True)
class CurvatureSetup:
    """Which Hessian: of what loss, over which parameters, on which batches."""

    batch_size: int  # the spectrum depends on it
    batches: int
    penalty: Penalty  # the l2 term
    params: str | None  # as `curvature.select_parameters` takes them
    recipe: str | Recipe | None  # augments, mixes and smooths; None: images and labels as for evaluation
    split_batch: bool  # each batch over all processes, instead of the batches being shared out
    seed: int  # of the batches and of start vectors


class CurvaturePasses:
    """The Hessians of a model; made by `curvature_passes`."""

    def __init__(self, model: nn.Module, data: Any, setup: CurvatureSetup, name: str | None) -> None:
        if setup.split_batch and setup.batch_size < distributed.world_size():
            raise VitscopeError(
                f"split_batch over {distributed.world_size()} processes needs as many images per batch; "
                f"a batch has {setup.batch_size}; give batch_size={distributed.world_size()} or more, "
                "or split_batch=False"
            )
        self._model, self._setup = model, setup
        self._held = HeldBatches(model, data, setup.batch_size, setup.batches, setup.recipe, setup.seed)
        by_kind = setup.params is not None and "kind:" in setup.params
        self._parts = anatomy(model, tuple(self._held[0].images.shape[1:])) if by_kind else None
        chosen = select_parameters(model, setup.params, self._parts)
        self.about: dict[str, Any] = {  # the fields that all results of Hessians have
            "model": name or name_of(model),
            "data": data_name(data),
            "images_digest": images_digest(data),
            "seed": setup.seed,
            "n": setup.batches * setup.batch_size,
            "batch_size": setup.batch_size,
            "weight_decay": setup.penalty.weight_decay,
            "convention": setup.penalty.convention,
            "decay_all": setup.penalty.decay_all,
            "params": setup.params or ALL_PARAMETERS,
            "parameters": sum(p.numel() for p in chosen.values()),
            "augmentation": self._held.augmentation,
            "task": self._held.task.name,
        }

    def measure(
        self, exam: str, rows: Rows, parts: PartialResults, guess: int, measure: Measure
    ) -> dict[str, Any]:
        """`rows` with one for each batch: what `measure` gives, or gave before an interruption.

        `guess` is how many products a batch may take. A signal may end the work anywhere; finished batches stay.
        """
        setup = self._setup
        names = [f"batch {number}" for number in range(setup.batches)]
        finished = parts.finished(names)
        if distributed.is_main():
            for number, name in enumerate(names):
                rows.fill(number, **finished.get(name, {}))
        todo = [number for number, name in enumerate(names) if name not in finished]
        share = todo if setup.split_batch else [todo[i] for i in distributed.shard(len(todo))]
        with (
            parts,
            Interruptible(patient=distributed.is_active()) as interrupt,
            ProductBar(f"{self.about['model']}: {exam}", len(share), guess) as shown,
        ):
            for number, product in self.products(share):
                with interrupt.at_once():
                    found = measure(number, product, shown.step)
                shown.finish_batch(product.count)
                if distributed.is_main() or not setup.split_batch:
                    rows.fill(number, **found)
                    parts.put(names[number], {name: table[number] for name, table in rows.state().items()})
            interrupt.check()
        return rows.finish()

    def products(self, numbers: Sequence[int]) -> Iterator[tuple[int, HessianProduct]]:
        """The batches of these numbers, each with its Hessian."""
        setup, mine = self._setup, slice(distributed.rank(), None, distributed.world_size())
        for number in numbers:
            batch = self._held[number].to(dtype_of(self._model))
            if setup.split_batch:
                batch = batch.part(mine)
            with torch.inference_mode():
                batch.require_finite(self._model)  # one pass more, before a hundred
            how: dict[str, Any] = {"params": setup.params, "penalty": setup.penalty, "parts": self._parts}
            with hessian_of_loss(self._model, batch.loss, **how, split=setup.split_batch) as product:
                yield number, product

    def start(self, number: int, product: HessianProduct) -> torch.Tensor:
        """A random vector that depends on the seed and the batch alone."""
        generator = torch.Generator().manual_seed(self._setup.seed * 1_000_003 + number)
        return torch.randn(product.size, generator=generator, dtype=product.dtype).to(product.device)


@contextmanager
def curvature_passes(
    model: nn.Module, data: Any, setup: CurvatureSetup, device: str | torch.device | None, name: str | None
) -> Iterator[CurvaturePasses]:
    """Put the model in its place, in evaluation mode, and draw the batches."""
    refuse_inference_weights(model, differentiated=True)
    with preserved(model), placed(model, device):
        yield CurvaturePasses(model, data, setup, name)


class ProductBar:
    """A bar over products, whose number is known only roughly: what finished batches took, times that of batches.

    `guess` is what a batch may take, until the first has finished.
    """

    def __init__(self, heading: str, batches: int, guess: int) -> None:
        self._batches = batches
        self._finished: list[int] = []
        self._bar = bar(guess * batches, heading, "product")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self._bar.close()

    def step(self, products: int) -> None:
        """The batch under way has made so many products."""
        self._bar.total = max(self._bar.total or 0, sum(self._finished) + products)
        self._bar.update(sum(self._finished) + products - self._bar.n)

    def finish_batch(self, products: int) -> None:
        """The batch under way is finished, after so many products."""
        self._finished.append(products)
        self._bar.total = round(sum(self._finished) * self._batches / len(self._finished))
        self._bar.update(sum(self._finished) - self._bar.n)
