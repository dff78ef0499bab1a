"""Figures of the temporal exam."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from vitscope.engine.streams.frame_scores import QUANTITIES, RATIOS
from vitscope.exams.streams.temporal import TemporalResult
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.heads import nothing
from vitscope.drawing.style import INK, MODELS, grid

LABELS = {"error": "error", "nll": "NLL", "brier": "Brier", "ece": "ECE", "flips": "flips"}
MARKERS = "os^Dv"  # of ways to predict; the colour is the model's


@figure(
    "temporal",
    "What smoothing over time leaves of each quantity; less is better. 95 % interval over blocks of frames.",
)
def plot_temporal(result: TemporalResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Ratio of smoothed to unsmoothed error, NLL, Brier score, calibration error and flips between frames."""
    ax = axes_or_new(ax)
    if result.why:
        return nothing(ax, result.why)
    chosen = np.flatnonzero(result.temporal)
    step = 0.7 / len(chosen)
    for i, row in enumerate(chosen):
        x = np.arange(len(RATIOS)) + (i - (len(chosen) - 1) / 2) * step
        value, low, high = result.ratio[row], result.ratio_low[row], result.ratio_high[row]
        reach = np.nan_to_num(np.abs(np.stack([value - low, high - value])))
        ax.errorbar(
            x,
            value,
            reach,
            fmt=MARKERS[i % len(MARKERS)],
            color=colour,
            markersize=5.5,
            elinewidth=1.2,
            capsize=2.0,
            label=result.names[row].removesuffix(" + temporal"),
        )
    ax.axhline(1.0, color=INK, linewidth=0.8)
    ax.set_xticks(range(len(RATIOS)), [LABELS[name] for name in RATIOS])
    ax.set_xlim(-0.5, len(RATIOS) - 0.5)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_ylabel("Smoothed / unsmoothed")
    if len(chosen) > 1:
        _legend(ax)
    grid(ax)
    return ax


@figure(
    "temporal",
    "NLL against throughput relative to one pass per frame; hollow: smoothed over time; bars: 95 % interval.",
    "temporal_throughput",
)
def plot_temporal_throughput(result: TemporalResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """NLL against relative throughput, an arrow from every way to predict to its smoothed version."""
    ax = axes_or_new(ax)
    if result.why:
        return nothing(ax, result.why)
    column = QUANTITIES.index("nll")
    nll, low, high = result.value[:, column], result.low[:, column], result.high[:, column]
    speed = 100.0 * result.throughput[:, 0]
    for i, smoothed in enumerate(np.flatnonzero(result.temporal)):
        marker = MARKERS[i % len(MARKERS)]
        pair = [smoothed - 1, smoothed]
        ax.plot(speed[pair], nll[pair], "-", color=colour, linewidth=1.2, alpha=0.7)
        for row, fill in zip(pair, (colour, "white"), strict=True):
            reach = np.nan_to_num([[nll[row] - low[row]], [high[row] - nll[row]]])
            ax.errorbar(
                speed[row],
                nll[row],
                reach,
                fmt=marker,
                color=colour,
                markerfacecolor=fill,
                markersize=6.0,
                elinewidth=0.9,
                capsize=1.5,
                label=result.names[row] if row != smoothed else None,
            )
    ax.set_xlim(0.0, max(105.0, 1.05 * float(speed.max())))
    ax.xaxis.set_major_formatter(PercentFormatter(decimals=0))
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
def plot_temporal_trace(result: TemporalResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Probability of the true class along the first sequence, of one pass per frame and smoothed."""
    ax = axes_or_new(ax)
    if result.why:
        return nothing(ax, result.why)
    frames = np.arange(result.trace.shape[1])
    ax.plot(
        frames,
        result.trace[0],
        "-o",
        color=colour,
        alpha=0.4,
        linewidth=1.0,
        markersize=2.5,
        label="each frame alone",
    )
    ax.plot(frames, result.trace[1], "-", color=colour, linewidth=2.0, label="smoothed over time")
    ax.set_ylim(0.0, 1.0)
    ax.set_xlim(0, max(len(frames) - 1, 1))
    ax.set_xlabel("Frame")
    ax.set_ylabel("Probability of the true class")
    _legend(ax)
    grid(ax)
    return ax


def _legend(ax: Axes) -> None:
    entries = len(ax.get_legend_handles_labels()[1])
    ax.legend(
        ncols=3 if entries <= 3 else 2,
        loc="lower left",
        bbox_to_anchor=(0.0, 1.0),
        borderaxespad=0.2,
        handlelength=1.4,
    )
