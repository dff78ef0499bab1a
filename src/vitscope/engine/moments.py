"""Mean and spread over images of numbers measured on every unit's map: what feature exams have in common.

A map is measured as points, in whichever order memory has them: copying it costs more than measuring it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitscope.core.statistics import Estimate, mean_interval
from vitscope.engine.exam import Accumulator, Batch, Subject
from vitscope.engine.not_finite import overflown

Centred = tuple[Tensor, Tensor, bool]
_shared: ContextVar[dict[int, Centred] | None] = ContextVar("shared", default=None)


class FeatureMoments(Accumulator):
    """Sums over images of what `measure` gives per unit, and of the change of its last numbers across a unit.

    The change is taken image by image, so its interval is much narrower than that of either level. That of a kind
    is the mean over its units, image by image. Changes are of the last number alone, an entry per unit, or of the
    last `changing` numbers, (units, changing).
    """

    needs_maps = True

    n: Tensor
    total: Tensor
    squares: Tensor
    change_total: Tensor
    change_squares: Tensor
    kind_total: Tensor
    kind_squares: Tensor

    def __init__(self, subject: Subject, widths: tuple[int, ...], changing: int | None = None) -> None:
        super().__init__(subject)
        last = np.cumsum(widths) - 1  # column of each unit's last number
        self.ends = last if changing is None else last[:, None] + np.arange(1 - changing, 1)
        self.owner = np.repeat(np.arange(len(widths)), widths)  # unit of each column
        known = np.where(self.comparable(), [unit.kind for unit in subject.units], "")
        self.kinds = tuple(dict.fromkeys(kind for kind in known.tolist() if kind))
        self.members = [np.flatnonzero(known == kind) for kind in self.kinds]
        numbers = () if changing is None else (changing,)
        columns, units, kinds = (sum(widths),), (len(widths), *numbers), (len(self.kinds), *numbers)
        self.add_sums(total=columns, squares=columns, change_total=units, change_squares=units)
        self.add_sums(kind_total=kinds, kind_squares=kinds)
        self.add_counts("n")

    def update(self, batch: Batch) -> None:
        """Take in the numbers of one batch of images."""
        values = torch.cat([v.flatten(1) for v in batch.values], 1).cpu().double()  # (N, columns)
        bad = ~torch.isfinite(values) & torch.from_numpy(self.defined()[self.owner])
        if bad.any():
            image, column = bad.nonzero()[0].tolist()
            unit, place = self.subject.units[self.owner[column]].name, int(batch.indices[image])
            raise overflown(f"the features after '{unit}' are not finite for image {place}")
        last = values[:, self.ends]
        change = last.diff(dim=1, prepend=last[:, :1])
        self.n += len(values)
        self.total += values.sum(0)
        self.squares += values.square().sum(0)
        self.change_total += change.sum(0)
        self.change_squares += change.square().sum(0)
        for i, members in enumerate(self.members):
            of_kind = change[:, members].mean(1)
            self.kind_total[i] += of_kind.sum(0)
            self.kind_squares[i] += of_kind.square().sum(0)

    def levels(self) -> Estimate[np.ndarray]:
        """Every number, in the order of the columns."""
        return self._estimate(self.total, self.squares)

    def changes(self) -> Estimate[np.ndarray]:
        """Per unit, the last number minus that of the unit before; NaN where the two cannot be compared."""
        total = self.change_total.clone()
        total[~torch.from_numpy(self.comparable())] = torch.nan
        return self._estimate(total, self.change_squares)

    def changes_by_kind(self) -> Estimate[np.ndarray]:
        """Per kind in `kinds`, the mean change across its units that can be compared with the unit before."""
        return self._estimate(self.kind_total, self.kind_squares)

    def _estimate(self, total: Tensor, squares: Tensor) -> Estimate[np.ndarray]:
        return mean_interval(total.numpy().copy(), squares.numpy().copy(), int(self.n))

    def change_fields(self) -> dict[str, Any]:
        """The changes under the names they have in a result."""
        return {"change": self.changes(), "kinds": self.kinds, "kind_change": self.changes_by_kind()}

    def comparable(self) -> np.ndarray:
        """Per unit, whether its last number can be compared with that of the unit before."""
        defined = self.defined()
        return defined & np.append(False, defined[:-1])[: len(defined)]

    def defined(self) -> np.ndarray:
        """Per unit, whether its numbers exist at all (a single point has no variance)."""
        return np.ones(len(self.subject.units), dtype=bool)


@contextmanager
def centred_once() -> Iterator[None]:
    """Inside the block a map is centred once, however often it is asked for; it must not change meanwhile."""
    token = _shared.set({})
    try:
        yield
    finally:
        _shared.reset(token)


def centred_points(feature: Tensor) -> Centred:
    """A map (N, C, H, W) less its mean over points, in float32; not to be written to.

    Returns:
        The centred map: (N, points, C) where memory runs over channels first, as in a transformer, else
        (N, C, points); the mean over points, of the same number of axes; and whether it is the first of the two.
    """
    shared = _shared.get()
    if shared is not None and id(feature) in shared:
        return shared[id(feature)]
    points = feature.flatten(2).float()
    channels_last = feature.shape[1] > 1 and points.stride(1) == 1
    if channels_last:
        points = points.transpose(1, 2)
    mean = points.mean(1 if channels_last else 2, keepdim=True)
    found = points - mean, mean, channels_last
    if shared is not None:
        shared[id(feature)] = found
    return found
