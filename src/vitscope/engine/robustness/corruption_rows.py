"""Scores by type, family and severity of a corruption, and the mean corruption error.

Means over corruptions are formed replicate by replicate, so that their intervals are those of the mean over the same
images. With E_k the mean error over severities of type k, E the error on clean images, and R those of a reference,

    mCE = mean over k of E_k / R_k        relative mCE = mean over k of (E_k - E) / (R_k - R)
"""

from collections.abc import Mapping, Sequence

import numpy as np
from torch import Tensor

from vitscope.core.errors import VitscopeError
from vitscope.data.corruptions import FAMILIES
from vitscope.engine.robustness.conditions import mean_scores
from vitscope.findings.corruption import ALL, CLEAN, Row
from vitscope.results.condition_rows import Headline
from vitscope.results.scores import QUANTITIES, ConditionTable, drop_interval

_ACCURACY = QUANTITIES.index("accuracy")


def part_name(kind: str, severity: int) -> str:
    """Of one type and severity."""
    return Row(kind, severity).condition


def rows_of(types: Sequence[str], severities: Sequence[int]) -> tuple[Row, ...]:
    """Clean images first, then from the most general to single types and severities."""
    families = [family for family, kinds in FAMILIES.items() if set(kinds) & set(types)]
    names = [ALL, *families, *types]
    return Row(CLEAN), *(Row(name, severity) for name in names for severity in (0, *severities))


class Replicates:
    """Every row's quantities, plain and in every bootstrap replicate: (rows, 1 + replicates, quantities)."""

    def __init__(
        self, found: Mapping[str, Mapping[str, Tensor]], types: Sequence[str], severities: Sequence[int]
    ) -> None:
        self.rows = rows_of(types, severities)
        self.n = int(found[CLEAN]["n"])
        scored = [mean_scores(_members(row, found, types, severities), self.n) for row in self.rows]
        self.drawn, self.low, self.high = (np.stack(numbers) for numbers in zip(*scored, strict=True))
        self.drops = self.drawn[0, :, _ACCURACY] - self.drawn[:, :, _ACCURACY]

    def of(self, row: Row) -> np.ndarray:
        """(1 + replicates, quantities)."""
        found: np.ndarray = self.drawn[self.rows.index(row)]
        return found

    def table(self) -> ConditionTable:
        """Values and intervals of all rows."""
        drop_low, drop_high = drop_interval(self.drops, self.n)
        return ConditionTable(
            n=self.n,
            value=self.drawn[:, 0],
            low=self.low,
            high=self.high,
            drop=self.drops[:, 0],
            drop_low=drop_low,
            drop_high=drop_high,
        )

    def headlines(self, images: str) -> list[Headline]:
        """Means over all corruptions, and the accuracy of each family."""
        every, whole = f"{images} corruptions", self.rows.index(Row(ALL))
        drop = Headline.of_drop(every, self.drops[whole], self.n)
        scores = [self._headline(quantity, every, whole) for quantity in ("accuracy", "nll", "ece")]
        families = [row for row in self.rows if row.corruption in FAMILIES and not row.severity]
        return [scores[0], drop, *scores[1:]] + [
            self._headline("accuracy", f"{images} {row.corruption}", self.rows.index(row)) for row in families
        ]

    def _headline(self, quantity: str, condition: str, row: int) -> Headline:
        i = QUANTITIES.index(quantity)
        drawn, low, high = self.drawn[row, :, i], float(self.low[row, i]), float(self.high[row, i])
        return Headline(quantity, condition, float(drawn[0]), low, high, drawn.copy())

    def against(
        self, types: Sequence[str], reference: str, errors: np.ndarray, clean: float
    ) -> list[Headline]:
        """Both mean corruption errors; the relative one only if every type costs the reference some accuracy.

        Args:
            types: Types of corruption.
            reference: The name of the reference model.
            errors: (types,), its mean error over severities; its own uncertainty is not counted.
            clean: Its error on clean images.
        """
        own = np.stack([1 - self.of(Row(kind))[:, _ACCURACY] for kind in types])
        own_clean = 1 - self.of(Row(CLEAN))[:, _ACCURACY]
        if (errors <= 0).any():
            raise VitscopeError(
                f"{reference} makes no mistakes under {types[int(np.argmin(errors))]}, so no error can be relative to "
                "it; take another reference model, or more images"
            )
        found = {"mce": own / errors[:, None]}
        if (errors > clean).all():
            found["relative_mce"] = (own - own_clean) / (errors - clean)[:, None]
        return [Headline.of(name, f"against {reference}", drawn.mean(0)) for name, drawn in found.items()]


def _members(
    row: Row, found: Mapping[str, Mapping[str, Tensor]], types: Sequence[str], severities: Sequence[int]
) -> list[Mapping[str, Tensor]]:
    """The conditions that a row is the mean of."""
    if row.corruption == CLEAN:
        return [found[CLEAN]]
    kinds = types if row.corruption == ALL else FAMILIES.get(row.corruption, (row.corruption,))
    chosen = [row.severity] if row.severity else severities
    return [found[part_name(kind, s)] for kind in types if kind in kinds for s in chosen]
