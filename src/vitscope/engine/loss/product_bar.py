"""Progress of work whose length is known only roughly: products with a Hessian until each batch has converged."""

import sys
from types import TracebackType
from typing import Self

from tqdm import tqdm

from vitscope.core import distributed


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
