"""Scores under conditions as tables, and the few numbers of them that people look at first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vitscope.core import pd
from vitscope.core.bootstrap import percentile_interval, standard_error
from vitscope.core.statistics import Estimate, HasEstimate, difference_interval
from vitscope.results import Result, column, tidy
from vitscope.results.numbers import by_name, with_interval

BINS = 15
MEANS = ("accuracy", "top5", "nll", "brier", "confidence")
QUANTITIES = (*MEANS, "ece")
AP_QUANTITIES = ("box_ap", "box_ap50", "mask_ap", "mask_ap50")  # those of masks only where there are some
CONDITION_QUANTITIES = (
    "accuracy",
    "nll",
    "ece",
    "drop",
    "miou",
    *AP_QUANTITIES,
)  # of tables, whatever the task


@dataclass(frozen=True)
class Headline(HasEstimate[float]):
    """A number of a whole model, with its bootstrap replicates.

    Replicate r draws the same images for every model with the same data and seed, so that differences of replicates
    are replicates of the paired difference.
    """

    quantity: str
    condition: str
    estimate: Estimate[float]
    drawn: np.ndarray  # (1 + replicates,): the value, then what each replicate gives

    @classmethod
    def of(cls, quantity: str, condition: str, drawn: np.ndarray) -> Headline:
        """From (1 + replicates,): the plain number comes first."""
        numbers = Estimate(drawn[0], *percentile_interval(drawn[1:]))
        return cls(quantity, condition, numbers.each(float), drawn.copy())

    @classmethod
    def of_drop(cls, condition: str, drawn: np.ndarray, n: int) -> Headline:
        """What accuracy loses over `n` images, from (1 + replicates,): the plain number comes first."""
        numbers = Estimate(drawn[:1], *drop_interval(drawn[None], n)).at(0)
        return cls("drop", condition, numbers.each(float), drawn.copy())

    @property
    def label(self) -> str:
        """The name that tables and pages give it."""
        return f"{self.quantity}, {self.condition}"


def headline_rows(headlines: Sequence[Headline], n: int) -> pd.DataFrame:
    """A tidy table with a column `condition`."""
    numbers = Estimate(*np.array([h.estimate for h in headlines]).reshape(-1, 3).T)
    names = [h.quantity for h in headlines]
    return tidy(names, *numbers, n, condition=[h.condition for h in headlines])


@dataclass(frozen=True, eq=False, kw_only=True)
class Headlined:
    """A result with headlines: people see them first, and models are compared by them."""

    n: int
    headlines: tuple[Headline, ...]

    def summary(self) -> pd.DataFrame:
        """A row per headline."""
        return headline_rows(self.headlines, self.n)

    def replicates(self) -> dict[str, np.ndarray]:
        """The rows of `summary` by label, (1 + replicates,): the value, then what each bootstrap replicate gives."""
        return {h.label: h.drawn for h in self.headlines}


@dataclass(frozen=True)
class ConditionTable:
    """Scores by condition; arrays are (conditions, quantities) in the order of `QUANTITIES`.

    `drop` is what accuracy loses against the reference condition on the same images, (conditions,). Where every pixel
    is a prediction, there is the `miou` besides: (3, conditions), values and both ends of their intervals. Of objects
    there is the `ap` alone, (3, conditions, 2 or 4) in the order of `AP_QUANTITIES`; all else is NaN, and `drop` is
    what the AP of boxes loses.
    """

    n: int
    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    drop: Estimate[np.ndarray]
    miou: np.ndarray | None = None
    ap: np.ndarray | None = None

    @property
    def main(self) -> str:
        """The quantity that figures show."""
        if self.ap is not None:
            return AP_QUANTITIES[0]
        return "accuracy" if self.miou is None else "miou"

    @property
    def dropping(self) -> str:
        """The quantity that `drop` is of."""
        return "accuracy" if self.ap is None else AP_QUANTITIES[0]

    def known(self, quantities: Sequence[str]) -> tuple[str, ...]:
        """Of these quantities of predictions, those there are, after what the task has of its own."""
        if self.ap is not None:
            return AP_QUANTITIES[: self.ap.shape[-1]]
        return (*quantities,) if self.miou is None else ("miou", *quantities)

    def of(self, quantity: str, rows: Any = slice(None)) -> Estimate[np.ndarray]:
        """Value and interval of one quantity under some or all conditions."""
        if quantity == "miou" and self.miou is not None:
            return Estimate(*self.miou).at(rows)
        if quantity in AP_QUANTITIES and self.ap is not None:
            return Estimate(*self.ap).at((rows, AP_QUANTITIES.index(quantity)))
        return column(self, QUANTITIES, quantity, rows)


def condition_rows(
    conditions: Sequence[str],
    scores: ConditionTable,
    quantities: Sequence[str] = ("accuracy", "nll", "ece"),
    **own: Sequence[Any] | np.ndarray,
) -> pd.DataFrame:
    """A tidy table: each quantity, and `drop` against the first condition, per condition; `own` are further columns."""
    columns: dict[str, Any] = {"condition": list(conditions), **own}
    pieces = [tidy(name, *scores.of(name), scores.n, **columns) for name in scores.known(quantities)]
    drops = tidy("drop", *scores.drop, scores.n, **columns)
    return pd.concat([*pieces, drops.iloc[1:]], ignore_index=True)


SCORES = {
    "box_ap": "Box AP",
    "miou": "mIoU",
    "accuracy": "Accuracy",
}  # what models are compared by first, and how it is written


def main_quantity(table: pd.DataFrame) -> str:
    """By which a model is judged: AP of boxes or mIoU where there is one, else accuracy."""
    return next(name for name in SCORES if name == "accuracy" or (table["quantity"] == name).any())


def main_scores_of(result: Result) -> list[Any]:
    """The rows of the summary that are accuracies, or mIoUs or APs where there are some, lowest first."""
    summary = result.summary()
    quantity = main_quantity(summary)
    rows = [row for row in by_name(summary).values() if row.quantity == quantity]
    return sorted(rows, key=lambda row: float(row.value))


def conditions_in_words(result: Result) -> str:
    """What the score is on the images as they are, and under the mildest and the worst condition."""
    table, rows = result.table(), main_scores_of(result)
    quantity = main_quantity(table)
    clean = by_name(table).get(f"{quantity}, clean")
    if clean is None or not rows:
        return ""
    mildest, worst = rows[-1], rows[0]
    return (
        f"{SCORES[quantity]} is {with_interval(clean)} on the images as they are, {with_interval(mildest)} under "
        f"{mildest.condition} and {with_interval(worst)} under {worst.condition}."
    )


def drop_interval(drops: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Of what accuracy loses on the same images, from (conditions, 1 + replicates)."""
    return difference_interval(drops[:, 0], standard_error(drops[:, 1:].T), n)
