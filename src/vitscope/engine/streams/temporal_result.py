"""What smoothing over the frames of a stream does: the result of the exam `temporal`."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from vitscope.engine.streams.frame_scores import KEPT, QUANTITIES, RATIOS
from vitscope.results import About, Result, tidy


@dataclass(frozen=True, eq=False, kw_only=True)
class TemporalResult(Result, exam="temporal"):
    """Scores of frames, each condition as it is and then smoothed over time; `n` counts frames."""

    about = About(
        title="Streams",
        shows="Predictions of frames alone and averaged with those of the last frames: NLL, accuracy, calibration, how "
        "often the predicted class stays the same from frame to frame, and how much slower it is.",
        papers="In the papers smoothing over time beats MC dropout in all of these on street scenes, at nearly the "
        "speed of a single pass, and raises consistency.",
        misleads="Consistency rises by itself if predictions are merely slow: look at accuracy where labels change. "
        "Frames of one scene are alike, so intervals come from blocks of frames; few blocks, wide intervals.",
    )
    needs = "a stream of frames (--data frames:PATH)"

    why: str  # there is nothing to see; "": there is
    sequences: int
    blocks: int  # of frames that the bootstrap draws
    block: int  # frames in one; 0: a sequence is a block
    rate: float
    previous: int
    passes: int  # of MC dropout
    source: str  # what is random in them; "": nothing, or it was not asked for
    clock: str  # what throughput was measured by
    timed: int  # frames that it was measured on
    way: tuple[str, ...]  # (conditions,): one pass, mc dropout, one draw
    spatial: np.ndarray  # (conditions,): with spatial smoothing
    temporal: np.ndarray  # (conditions,): smoothed over time
    value: np.ndarray  # (conditions, QUANTITIES)
    low: np.ndarray
    high: np.ndarray
    change: np.ndarray  # (conditions, QUANTITIES): of smoothed ones to the condition before them
    change_low: np.ndarray
    change_high: np.ndarray
    ratio: np.ndarray  # (conditions, RATIOS)
    ratio_low: np.ndarray
    ratio_high: np.ndarray
    throughput: np.ndarray  # (conditions, 3): relative to the first condition, and its interval over frames
    labels: np.ndarray  # (3,): consistency of the labels themselves, and its interval
    trace: np.ndarray  # (conditions, frames): probability of the true class in the first sequence
    drawn: np.ndarray  # (2, KEPT, 1 + replicates): of the first two conditions

    def replicates(self) -> dict[str, np.ndarray]:
        """`KEPT` by "quantity, condition", over the same blocks of frames as those of another model."""
        return {
            f"{quantity}, {self.names[row]}": self.drawn[row, i]
            for row in range(len(self.drawn))
            for i, quantity in enumerate(KEPT)
        }

    @property
    def names(self) -> list[str]:
        """What to call the conditions."""
        marks = ((self.spatial, "spatial"), (self.temporal, "temporal"))
        return [
            " + ".join([way, *(mark for chosen, mark in marks if chosen[i])])
            for i, way in enumerate(self.way)
        ]

    def table(self) -> pd.DataFrame:
        """Every quantity by `way`, `spatial` and `temporal`.

        `... change` and `... ratio` compare what is smoothed over time with what is not. `n` counts frames. The
        consistency of the labels is the row `label consistency`.
        """
        rows = []
        for i, quantity in enumerate(QUANTITIES):
            rows.append(self._rows(quantity, self.value[:, i], self.low[:, i], self.high[:, i], self.n))
        speed, slow, fast = self.throughput.T
        rows.append(self._rows("throughput", speed, slow, fast, self.timed))
        for i, quantity in enumerate(QUANTITIES):
            numbers = (self.change[:, i], self.change_low[:, i], self.change_high[:, i])
            rows.append(self._rows(f"{quantity} change", *numbers, self.n)[self.temporal])
        for i, quantity in enumerate(RATIOS):
            numbers = (self.ratio[:, i], self.ratio_low[:, i], self.ratio_high[:, i])
            rows.append(self._rows(f"{quantity} ratio", *numbers, self.n)[self.temporal])
        if not self.why:
            value, low, high = self.labels[:, None]
            rows.append(tidy("label consistency", value, low, high, self.n))
        return pd.concat(rows, ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """Accuracy, NLL, ECE, consistency and throughput, by `condition`."""
        table = self.table()
        quantities = ["accuracy", "nll", "ece", "consistency", "throughput"]
        rows = table[table["quantity"].isin(quantities)].reset_index(drop=True)
        rows["condition"] = self.names * len(quantities)
        return rows.drop(columns=["way", "spatial", "temporal"])

    def _rows(self, quantity: str, value: Any, low: Any, high: Any, n: int) -> pd.DataFrame:
        return tidy(
            quantity, value, low, high, n, way=list(self.way), spatial=self.spatial, temporal=self.temporal
        )
