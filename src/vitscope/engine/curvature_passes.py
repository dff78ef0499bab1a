"""What exams of the Hessian share: held training batches, and their Hessians one after the other.

Batches are shared out over processes; or, if a batch is too large for one, each is split over all of them.

Progress of work whose length is known only roughly: products with a Hessian until each batch has converged.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import torch
from torch import nn
from tqdm import tqdm

from vitscope.anatomy import anatomy, preserved
from vitscope.core import distributed
from vitscope.core.errors import VitscopeError
from vitscope.core.interrupt import Interruptible, Stopped
from vitscope.curvature import HessianProduct, Penalty, hessian_of, select_parameters
from vitscope.engine.exam import OwnNumbers
from vitscope.engine.facts import data_name, images_digest
from vitscope.engine.held_batches import HeldBatches
from vitscope.engine.not_finite import finite_scores
from vitscope.engine.own_passes import placed
from vitscope.engine.resuming import Parts
from vitscope.findings.hessian import ALL_PARAMETERS
from vitscope.models import name_of
from vitscope.recipes.recipe import Recipe


@dataclass(frozen=True)
class CurvatureSetup:
    """Which Hessian: of what loss, over which parameters, on which batches.

    Attributes:
        batch_size: Images per batch; the spectrum depends on it.
        batches: How many batches.
        penalty: The l2 term; None for none.
        params: Parameters, as `curvature.select_parameters` takes them.
        recipe: Whose augmentation, mixing and label smoothing; None for evaluation images and labels as they are.
        split_batch: Whether each batch is split over processes, instead of the batches being shared out.
        seed: Of the batches and of start vectors.
    """

    batch_size: int
    batches: int
    penalty: Penalty
    params: str | None
    recipe: str | Recipe | None
    split_batch: bool
    seed: int


class CurvaturePasses:
    """The Hessians of a model; made by `curvature_passes`."""

    def __init__(self, model: nn.Module, data: Any, setup: CurvatureSetup, name: str | None) -> None:
        if setup.split_batch and setup.batch_size < distributed.world_size():
            raise VitscopeError(
                f"split_batch over {distributed.world_size()} processes needs as many images per batch; "
                f"a batch has {setup.batch_size}"
            )
        self._model, self._setup = model, setup
        self._dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
        self._held = HeldBatches(model, data, setup.batch_size, setup.batches, setup.recipe, setup.seed)
        by_kind = setup.params is not None and "kind:" in setup.params
        self._parts = anatomy(model, tuple(self._held[0].images.shape[1:])) if by_kind else None
        chosen = select_parameters(model, setup.params, self._parts)
        self.share: Sequence[int] = (
            range(setup.batches) if setup.split_batch else distributed.shard(setup.batches)
        )
        # whether this process's numbers are to be kept
        self.counts = distributed.is_main() or not setup.split_batch
        self._numbers: OwnNumbers | None = None
        self._kept = Parts()
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
        }

    def resume(self, numbers: OwnNumbers, parts: Parts) -> None:
        """Put batches that were finished earlier back into `numbers`, and keep those to come in `parts`.

        Every sum of `numbers` has a row for each batch, which is filled in before the next batch is asked for.
        """
        self._numbers, self._kept = numbers, parts
        names = [_part(number) for number in range(self._setup.batches)]
        finished = parts.finished(names)
        todo = [number for number, name in enumerate(names) if name not in finished]
        if distributed.is_main():
            for name, rows in finished.items():
                for state, total in numbers.state().items():
                    total[names.index(name)] = rows[state]
        self.share = todo if self._setup.split_batch else [todo[i] for i in distributed.shard(len(todo))]

    def __iter__(self) -> Iterator[tuple[int, HessianProduct]]:
        """This process's batches by number, each with its Hessian."""
        setup, part = self._setup, slice(distributed.rank(), None, distributed.world_size())
        for number in self.share:
            batch = self._held[number]
            images, targets = batch.images, batch.targets
            if setup.split_batch:
                images, targets = images[part], targets[part]
            with torch.inference_mode():
                finite_scores(self._model, images.to(self._dtype))  # one pass more, before a hundred
            with hessian_of(
                self._model,
                images,
                targets,
                params=setup.params,
                penalty=setup.penalty,
                parts=self._parts,
                split=setup.split_batch,
            ) as product:
                yield number, product
            if self._numbers is not None and self.counts:
                rows = {state: total[number] for state, total in self._numbers.state().items()}
                self._kept.put(_part(number), rows)

    @contextmanager
    def interruptible(self) -> Iterator[Callable[[], AbstractContextManager[None]]]:
        """Gives what to enter for work on a batch that a signal may end anywhere; finished batches stay."""
        with Interruptible(patient=distributed.is_active()) as interrupt:
            yield interrupt.at_once
            if interrupt.asked:
                raise Stopped

    def start(self, number: int, product: HessianProduct) -> torch.Tensor:
        """A random vector that depends on the seed and the batch alone."""
        generator = torch.Generator().manual_seed(self._setup.seed * 1_000_003 + number)
        return torch.randn(product.size, generator=generator, dtype=product.dtype).to(product.device)


def _part(number: int) -> str:
    return f"batch {number}"


@contextmanager
def curvature_passes(
    model: nn.Module,
    data: Any,
    setup: CurvatureSetup,
    device: str | torch.device | None,
    name: str | None,
) -> Iterator[CurvaturePasses]:
    """Put the model in its place, in evaluation mode, and draw the batches."""
    with preserved(model), placed(model, device):
        yield CurvaturePasses(model, data, setup, name)


class ProductBar:
    """A bar over products; its total is what the finished batches took, times the number of batches.

    Args:
        heading: What stands in front of it.
        batches: How many there are for this process.
        guess: Products that a batch may take, until the first has finished.
    """

    def __init__(self, heading: str, batches: int, guess: int) -> None:
        self._batches = batches
        self._finished: list[int] = []
        self._bar = tqdm(
            total=guess * batches,
            desc=heading,
            unit="product",
            delay=1.0,
            mininterval=0.2 if sys.stderr.isatty() else 30.0,
            leave=False,
            disable=not distributed.is_main(),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
