"""What results about predictions have in common: quantities with replicates, and confidence against what is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from vitscope.core import pd
from vitscope.core.statistics import Estimate
from vitscope.results.codec import stored_as
from vitscope.results.condition_rows import BINS
from vitscope.results.table import Estimated


@dataclass(frozen=True, eq=False, kw_only=True)
class Calibrated(Estimated):
    """The part of a result whose numbers follow `quantities`, with bins of confidence."""

    quantities: ClassVar[tuple[str, ...]]
    in_bins: ClassVar[str]  # what the bins hold: pixels, questions ...

    drawn: np.ndarray  # (replicates, quantities): of other models on the same images, replicates are paired
    bin_count: np.ndarray  # (15,) how many are in each
    bin_confidence: np.ndarray  # mean in each bin; NaN in an empty one
    bin_accuracy: Estimate[np.ndarray] = field(metadata=stored_as("bin_accuracy", "bin_low", "bin_high"))

    @property
    def ece(self) -> float:
        """Expected calibration error."""
        return self.quantity("ece")

    def quantity(self, name: str) -> float:
        """The value of one of the quantities."""
        return float(self.value[self.quantities.index(name)])

    def told(self, name: str, label: str) -> str:
        """One of the quantities in per cent, as it stands over a figure."""
        value, low, high = self.estimate.at(self.quantities.index(name)).scaled(100)
        return f"{label} {value:.1f} % [{low:.1f}, {high:.1f}]"

    def replicates(self) -> dict[str, np.ndarray]:
        """Every quantity, (1 + replicates,): the value, then what each bootstrap replicate gives."""
        return {q: np.append(self.value[i], self.drawn[:, i]) for i, q in enumerate(self.quantities)}

    def reliability_table(self) -> pd.DataFrame:
        """The reliability diagram bin by bin."""
        edges = np.arange(BINS + 1) / BINS
        bins = {"low_edge": edges[:-1], "high_edge": edges[1:], self.in_bins: self.bin_count}
        names = ("accuracy", "accuracy_low", "accuracy_high")
        bins |= {"confidence": self.bin_confidence, **dict(zip(names, self.bin_accuracy, strict=True))}
        return pd.DataFrame(bins)


def class_columns(
    rows: np.ndarray, names: tuple[str, ...], by_class: Estimate[np.ndarray], quantities: Mapping[str, int]
) -> dict[str, Any]:
    """Columns of a table of these classes; `quantities` say which column of `by_class` each is."""
    columns: dict[str, Any] = {"class": rows, "name": [names[row] for row in rows]}
    for quantity, i in quantities.items():
        value, low, high = by_class.at((rows, i))
        columns |= {quantity: value, f"{quantity}_low": low, f"{quantity}_high": high}
    return columns


def calibration_in_words(
    signed: Any,
    over: str = "it is more confident than right",
    under: str = "it is more often right than it says",
) -> str:
    """What is certain of a signed calibration error, a row with its interval."""
    if signed.low > 0:
        return over
    return under if signed.high < 0 else "neither over- nor under-confidence is certain"
