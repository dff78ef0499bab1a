"""What `temporal` finds: result, reading and figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vitscope.core import pd
from vitscope.core.statistics import Estimate
from vitscope.drawing import mpl
from vitscope.drawing.curves import draw_bars, legend_above, nothing
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK, MODELS, grid
from vitscope.results import About, Result, column, tidy
from vitscope.results.condition_rows import QUANTITIES as SCORES
from vitscope.results.numbers import by_name, reads
from vitscope.results.numbers import with_interval as number
from vitscope.results.table import Estimated

QUANTITIES = (*SCORES, "consistency")


SHOWN = ("nll", "accuracy", "ece", "consistency", "throughput")


RATIOS = ("error", "nll", "brier", "ece", "flips")


KEPT = (
    "accuracy",
    "nll",
    "ece",
    "consistency",
)  # whose replicates are kept, to compare models by


@dataclass(frozen=True, eq=False, kw_only=True)
class TemporalResult(Estimated, Result, exam="temporal", after="passes", version=3):
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
    measures = (
        *(*QUANTITIES, "throughput", "label consistency"),
        *(f"{name} change" for name in QUANTITIES),
        *(f"{name} ratio" for name in RATIOS),
    )
    needs = "a stream of frames (--data frames:PATH, coral-stream)"

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
    change: Estimate[np.ndarray]  # (conditions, QUANTITIES): of smoothed ones to the condition before them
    ratio: Estimate[np.ndarray]  # (conditions, RATIOS)
    throughput: np.ndarray  # (conditions, 3): relative to the first condition, and its interval over frames
    labels: np.ndarray  # (3,): consistency of the labels themselves, and its interval
    trace: np.ndarray  # (conditions, frames): probability of the true class in the first sequence
    drawn: np.ndarray  # (conditions, KEPT, 1 + replicates)

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
        rows = [self._rows(name, column(self, QUANTITIES, name), self.n) for name in QUANTITIES]
        rows.append(self._rows("throughput", Estimate(*self.throughput.T), self.timed))
        for i, quantity in enumerate(QUANTITIES):
            numbers = self.change.at((slice(None), i))
            rows.append(self._rows(f"{quantity} change", numbers, self.n)[self.temporal])
        for i, quantity in enumerate(RATIOS):
            numbers = self.ratio.at((slice(None), i))
            rows.append(self._rows(f"{quantity} ratio", numbers, self.n)[self.temporal])
        if not self.why:
            rows.append(tidy("label consistency", *Estimate(*self.labels[:, None]), self.n))
        return pd.concat(rows, ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """Accuracy, NLL, ECE, consistency and throughput, by `condition`."""
        table = self.table()
        quantities = ["accuracy", "nll", "ece", "consistency", "throughput"]
        rows = table[table["quantity"].isin(quantities)].reset_index(drop=True)
        rows["condition"] = self.names * len(quantities)
        return rows.drop(columns=["way", "spatial", "temporal"])

    def tables(self) -> dict[str, pd.DataFrame]:
        """All quantities one below the other, and the conditions one below the other."""
        return {**super().tables(), "combinations": self.combinations()}

    def combinations(self) -> pd.DataFrame:
        """A row per condition with `SHOWN` and their intervals: what each smoothing does, and both together."""
        rows: dict[str, Any] = {
            "way": list(self.way),
            "spatial": self.spatial.astype(bool),
            "temporal": self.temporal.astype(bool),
        }
        for name in SHOWN:
            ends = self._shown(name)
            rows |= {name: ends.value, f"{name}_low": ends.low, f"{name}_high": ends.high}
        return pd.DataFrame({**rows, "frames": self.n, "blocks": self.blocks})

    def _shown(self, name: str) -> Estimate[np.ndarray]:
        return Estimate(*self.throughput.T) if name == "throughput" else column(self, QUANTITIES, name)

    def _rows(self, quantity: str, numbers: Estimate[np.ndarray], n: int) -> pd.DataFrame:
        conditions: dict[str, Any] = {
            "way": list(self.way),
            "spatial": self.spatial,
            "temporal": self.temporal,
        }
        return tidy(quantity, *numbers, n, **conditions)


LABELS = {"error": "error", "nll": "NLL", "brier": "Brier", "ece": "ECE", "flips": "flips"}


_HEADS = {
    "nll": "NLL",
    "accuracy": "Accuracy",
    "ece": "ECE",
    "consistency": "Consistency",
    "throughput": "Throughput",
}


@figure(
    "temporal",
    "What smoothing over time leaves of each quantity; less is better. 95 % interval over blocks of frames.",
)
def plot_temporal(result: TemporalResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]) -> mpl.Axes:
    """Ratio of smoothed to unsmoothed error, NLL, Brier score, calibration error and flips between frames."""
    ax = axes_or_new(ax)
    if result.why:
        return nothing(ax, result.why)
    chosen = np.flatnonzero(result.temporal)
    step = 0.7 / len(chosen)
    for i, row in enumerate(chosen):
        x = np.arange(len(RATIOS)) + (i - (len(chosen) - 1) / 2) * step
        label = result.names[row].removesuffix(" + temporal")
        style: dict[str, Any] = {"markersize": 5.5, "elinewidth": 1.2, "capsize": 2.0, "label": label}
        _points(ax, x, result.ratio.at(row), fmt=MARKERS[i % len(MARKERS)], color=colour, **style)
    ax.axhline(1.0, color=INK, linewidth=0.8)
    ax.set_xticks(range(len(RATIOS)), [LABELS[name] for name in RATIOS])
    ax.set_xlim(-0.5, len(RATIOS) - 0.5)
    ax.yaxis.set_major_formatter(mpl.PercentFormatter(1.0, decimals=0))
    ax.set_ylabel("Smoothed / unsmoothed")
    if len(chosen) > 1:
        _legend(ax)
    grid(ax)
    return ax


@figure(
    "temporal",
    "Every way to predict frames without and with smoothing over space and over time, with 95 % intervals over blocks "
    "of frames (of throughput: over frames); the best of each column is in the model's colour.",
    "temporal_combinations",
)
def plot_temporal_combinations(
    result: TemporalResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """The table of `combinations`."""
    ax = axes_or_new(ax)
    if result.why:
        return nothing(ax, result.why)
    rows = len(result.names)
    places = 0.34 + 0.66 * (np.arange(len(SHOWN)) + 0.5) / len(SHOWN)
    size = 7.5 if rows <= 8 else 6.5
    for x, name in zip(places, SHOWN, strict=True):
        ax.text(x, rows + 0.1, _HEADS[name], ha="center", va="bottom", fontsize=size, color=INK)
        numbers = result._shown(name).scaled(1.0 if name == "nll" else 100.0)
        less = name in ("nll", "ece")
        best = int(np.nanargmin(numbers.value) if less else np.nanargmax(numbers.value))
        for i, (value, low, high) in enumerate(zip(*numbers, strict=True)):
            text, ends = (f"{value:.3f}", f"{low:.3f} – {high:.3f}")
            if name != "nll":
                text, ends = f"{value:.1f} %", f"{low:.1f} – {high:.1f}"
            y = rows - i - 0.5
            chosen: dict[str, Any] = {"color": colour, "weight": "bold"} if i == best else {"color": INK}
            known = bool(np.isfinite(low) and np.isfinite(high))
            ax.text(x, y + (0.14 if known else 0.0), text, ha="center", va="center", fontsize=size, **chosen)
            if known:
                ax.text(x, y - 0.24, ends, ha="center", va="center", fontsize=size - 2, color=INK, alpha=0.7)
    for i, name in enumerate(result.names):
        ax.text(0.0, rows - i - 0.5, name, ha="left", va="center", fontsize=size, color=INK)
        if i % 2 == 0:
            ax.axhline(rows - i, color=INK, linewidth=0.5, alpha=0.4)
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, rows + 0.5)
    ax.set_axis_off()
    return ax


MARKERS = "os^Dv"  # of ways to predict; the colour is the model's


@figure(
    "temporal",
    "NLL against throughput relative to one pass per frame; hollow: smoothed over time; bars: 95 % interval.",
    "temporal_throughput",
)
def plot_temporal_throughput(
    result: TemporalResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """NLL against relative throughput, an arrow from every way to predict to its smoothed version."""
    ax = axes_or_new(ax)
    if result.why:
        return nothing(ax, result.why)
    nll = column(result, QUANTITIES, "nll")
    speed = 100.0 * result.throughput[:, 0]
    for i, smoothed in enumerate(np.flatnonzero(result.temporal)):
        marker = MARKERS[i % len(MARKERS)]
        pair = [smoothed - 1, smoothed]
        ax.plot(speed[pair], nll.value[pair], "-", color=colour, linewidth=1.2, alpha=0.7)
        for row, fill in zip(pair, (colour, "white"), strict=True):
            one, label = slice(row, row + 1), result.names[row] if row != smoothed else None
            style: dict[str, Any] = {"markersize": 6.0, "elinewidth": 0.9, "capsize": 1.5, "label": label}
            style |= {"fmt": marker, "color": colour, "markerfacecolor": fill}
            _points(ax, speed[one], nll.at(one), **style)
    ax.set_xlim(0.0, max(105.0, 1.05 * float(speed.max())))
    ax.xaxis.set_major_formatter(mpl.PercentFormatter(decimals=0))
    ax.set_xlabel("Relative throughput")
    ax.set_ylabel("NLL (nats)")
    if result.temporal.sum() > 1:
        _legend(ax)
    grid(ax)
    return ax


@figure(
    "temporal",
    "Probability of the true class in the first sequence, frame by frame; faint: of each frame alone.",
    "temporal_trace",
)
def plot_temporal_trace(
    result: TemporalResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Probability of the true class along the first sequence, of one pass per frame and smoothed."""
    ax = axes_or_new(ax)
    if result.why:
        return nothing(ax, result.why)
    frames = np.arange(result.trace.shape[1])
    faint: dict[str, Any] = {"alpha": 0.4, "linewidth": 1.0, "markersize": 2.5}
    ax.plot(frames, result.trace[0], "-o", color=colour, label="each frame alone", **faint)
    ax.plot(frames, result.trace[1], "-", color=colour, linewidth=2.0, label="smoothed over time")
    ax.set_ylim(0.0, 1.0)
    ax.set_xlim(0, max(len(frames) - 1, 1))
    ax.set_xlabel("Frame")
    ax.set_ylabel("Probability of the true class")
    _legend(ax)
    grid(ax)
    return ax


def _points(ax: mpl.Axes, x: Any, numbers: Estimate[np.ndarray], **style: Any) -> None:
    """With a bar of no length where the interval is unknown."""
    known = np.isfinite(numbers.low) & np.isfinite(numbers.high)
    draw_bars(ax, x, numbers.each(lambda end: np.where(known, end, numbers.value)), **style)


def _legend(ax: mpl.Axes) -> None:
    entries = len(ax.get_legend_handles_labels()[1])
    legend_above(ax, 3 if entries <= 3 else 2, handlelength=1.4, columnspacing=None)


@reads("temporal")
def _temporal(result: TemporalResult) -> str:
    if not result.temporal.any():
        return ""
    smoothed = int(result.temporal.argmax())  # the first that is; what it smooths stands before it
    rows = by_name(result.summary())
    before, after = result.names[smoothed - 1], result.names[smoothed]
    accuracy, nll, steady = (
        (rows[f"{quantity}, {before}"], rows[f"{quantity}, {after}"])
        for quantity in ("accuracy", "nll", "consistency")
    )
    return (
        f"Averaged with the last frames, predictions are right about {number(accuracy[1])} instead of "
        f"{number(accuracy[0])} of {result.n} frames, with an NLL of {nll[1].value:.3g} instead of {nll[0].value:.3g}. "
        f"The predicted class stays the same in {100 * steady[1].value:.0f} % instead of "
        f"{100 * steady[0].value:.0f} % of the steps from frame to frame."
    )
