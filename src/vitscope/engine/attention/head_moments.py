"""Mean and spread over images of numbers measured on every head: what attention exams have in common."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from vitscope.anatomy import AttentionMap, Unit
from vitscope.core.errors import VitscopeError
from vitscope.core.statistics import mean_interval
from vitscope.engine.exam import Accumulator, Batch, Subject
from vitscope.results import UnitRow
from vitscope.results.head_rows import ALL_HEADS

SHARES = (
    "prefix",
    "diagonal",
    "similarity",
    "gradient",
    "share",
)  # quantities that are at most 1; all are at least 0


def attention_matrix(seen: AttentionMap) -> Tensor:
    """(N, heads, queries, keys), float32: the matrix that averages the values.

    That is what multiplies them, unless its rows are no averages (heads are mixed after the softmax): then it is
    the softmax.
    """
    if seen.weights.data_ptr() != seen.probabilities.data_ptr():
        sums = seen.weights.sum(-1)
        averages = bool((seen.weights >= 0).all()) and bool(((sums - 1).abs() < 1e-2).all())
        return (seen.weights if averages else seen.probabilities).float()
    return seen.weights.float()


def why_not(unit: Unit) -> str | None:
    """Why the attention of a unit has no meaning on the map; None if it has one."""
    if unit.attention is None:
        return "it does not attend"
    if unit.attention.pattern == "channel":
        return "it attends over channels, not over points"
    if any(site.places is None for site in unit.attention.sites):
        return "which points its queries and keys are cannot be told"
    return None


def visible_keys(unit: Unit) -> int:
    """How many keys a query of `unit` can see at most."""
    assert unit.attention is not None
    keys = max(site.places.keys.shape[1] for site in unit.attention.sites if site.places is not None)
    if unit.attention.pattern == "local" and unit.attention.window is not None:
        return min(keys, math.prod(unit.attention.window) + unit.prefix_tokens)
    return keys


def _without_weights(subject: Subject) -> tuple[tuple[str, str], ...]:
    """Units that mix points, but form no attention that could be captured, and why they are left out."""
    attending = {unit.name for unit in subject.attending}
    return tuple(
        (unit.name, "it mixes points without attention weights that could be captured")
        for unit in subject.units
        if unit.kind in ("msa", "mixer") and unit.name not in attending
    )


class HeadMoments(Accumulator):
    """Sums over images of what `measure_heads` gives, per head and for the heads of a layer together."""

    needs_attention = True
    quantities: ClassVar[tuple[str, ...]]

    n: Tensor
    total: Tensor  # (rows, quantities)
    squares: Tensor

    def __init__(self, subject: Subject) -> None:
        super().__init__(subject)
        reasons = [self.why_not(unit) for unit in subject.attending]
        self.chosen = [i for i, reason in enumerate(reasons) if reason is None]
        self.units = tuple(subject.attending[i] for i in self.chosen)
        self.skipped = tuple(
            (unit.name, reason)
            for unit, reason in zip(subject.attending, reasons, strict=True)
            if reason is not None
        ) + _without_weights(subject)
        heads = [sum(site.heads for site in unit.attention.sites) for unit in self.units if unit.attention]
        self.row_unit = np.repeat(np.arange(len(heads)), [1 + h for h in heads])
        self.head = np.array([h for count in heads for h in range(ALL_HEADS, count)], dtype=np.int64)
        for name in ("total", "squares"):
            self.add_sum(name, (len(self.head), len(self.quantities)))
        self.add_sum("n", dtype=torch.int64)

    @staticmethod
    def why_not(unit: Unit) -> str | None:
        """Why this exam leaves a unit out; None if it does not."""
        return why_not(unit)

    @staticmethod
    def measure_heads(unit: Unit, seen: AttentionMap, n_images: int) -> Tensor:
        """(N, heads, quantities ...) of one attention."""
        raise NotImplementedError

    @classmethod
    def measure_attention(cls, unit: Unit, seen: AttentionMap, n_images: int) -> Tensor:
        """What `measure_heads` gives; nothing for a unit that is left out."""
        if cls.why_not(unit) is not None:
            return torch.zeros(n_images, 0)
        return cls.measure_heads(unit, seen, n_images)

    def update(self, batch: Batch) -> None:
        """Take in the numbers of one batch of images."""
        self.n += len(batch.indices)
        if not self.units:
            return
        found = [torch.cat(batch.attention[i], 1).cpu().double() for i in self.chosen]  # (N, heads, ...)
        self._check_finite(found, batch.indices)
        rows = torch.cat([part for heads in found for part in (heads.mean(1, keepdim=True), heads)], 1)
        values = rows[:, :, : len(self.quantities)]
        self.total += values.sum(0)
        self.squares += values.square().sum(0)
        self.take(rows[:, :, len(self.quantities) :])

    def take(self, more: Tensor) -> None:
        """Take in what an exam measures beside its quantities, (N, rows, ...)."""

    def means(self) -> dict[str, Any]:
        """The mean over images of every quantity; arrays are (rows, quantities)."""
        n = int(self.n)
        value, low, high = mean_interval(self.total.numpy().copy(), self.squares.numpy().copy(), n)
        most = np.array([1.0 if quantity in SHARES else np.inf for quantity in self.quantities])
        return {"n": n, "value": value, "low": np.maximum(low, 0.0), "high": np.minimum(high, most)}

    def compute(self) -> dict[str, Any]:
        """The means, for exams that have nothing else."""
        return self.means()

    def common(self) -> dict[str, Any]:
        """What the rows are."""
        return {
            **super().common(),
            "units": tuple(UnitRow.of(unit) for unit in self.units),
            "skipped": self.skipped,
            "row_unit": self.row_unit.astype(np.int64),
            "head": self.head,
        }

    def _check_finite(self, found: Sequence[Tensor], indices: Tensor) -> None:
        for unit, heads in zip(self.units, found, strict=True):
            bad = ~torch.isfinite(heads[:, :, 0]).all(1)
            if bad.any():
                raise VitscopeError(
                    f"the attention of '{unit.name}' is not finite for image {int(indices[bad.cpu()][0])}; "
                    "check the weights and the preprocessing, or run the model in float32"
                )
