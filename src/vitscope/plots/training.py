"""Figure of a training: what `metrics.csv` of a run folder holds, epoch by epoch."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from vitscope.core import pd
from vitscope.core.arguments import checked
from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadResult
from vitscope.drawing import mpl
from vitscope.drawing.figures import axes_or_new
from vitscope.drawing.style import MODELS, grid
from vitscope.results.plain_files import check_plain

_TRAIN, _HELD_OUT, _ACCURACY = MODELS[1], MODELS[0], MODELS[2]


@checked
def plot_training(run: str | os.PathLike[str], ax: mpl.Axes | None = None) -> mpl.Axes:
    """Training loss and held-out loss, and on a second axis the held-out accuracy with its 95 % interval.

    The training loss is that of augmented and mixed images; it need not lie below the other one.
    """
    table = _read(Path(run))
    ax = axes_or_new(ax)
    marker = "o" if len(table) < 30 else None
    style: dict[str, Any] = {"marker": marker, "markersize": 3.5, "linewidth": 1.6}
    lines = ax.plot(
        table["epoch"], table["train_loss"], color=_TRAIN, label="training loss (augmented)", **style
    )
    measured = table[table["accuracy"].notna()]
    if len(measured):
        lines += ax.plot(measured["epoch"], measured["nll"], color=_HELD_OUT, label="held-out loss", **style)
        right = ax.twinx()
        right.spines["right"].set_visible(True)
        lines += right.plot(
            measured["epoch"],
            measured["accuracy"],
            color=_ACCURACY,
            label="held-out accuracy (95 %)",
            **style,
        )
        right.fill_between(
            measured["epoch"], measured["low"], measured["high"], color=_ACCURACY, alpha=0.18, linewidth=0
        )
        right.yaxis.set_major_formatter(mpl.PercentFormatter(1.0))
        right.set_ylabel("Accuracy")
    ax.set_xlabel("Epoch")
    ax.set_ylabel("Loss (nats)")
    ax.xaxis.set_major_locator(mpl.MaxNLocator(integer=True, min_n_ticks=1))
    ax.legend(
        lines,
        [str(line.get_label()) for line in lines],
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        ncol=2,
    )
    grid(ax)
    return ax


def _read(run: Path) -> pd.DataFrame:
    path = run / "metrics.csv"
    try:
        check_plain([path])
        table = pd.read_csv(path)
        table = table[["epoch", "train_loss", "nll", "accuracy", "low", "high"]].astype(float)
    except FileNotFoundError:
        raise BadResult(
            f"{run} holds no training (no metrics.csv); make one: vitscope train MODEL --out {run}"
        ) from None
    except (OSError, ValueError, KeyError) as error:
        raise BadResult(
            f"{path} is damaged ({reason(error)}); go on with its training: --resume writes it anew"
        ) from error
    if table.empty:
        raise BadResult(f"{run} has not finished an epoch yet; wait, or go on with --resume")
    return table
