"""Figures of a training, epoch by epoch: its losses and accuracy (`metrics.csv`), and what its monitors saw."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from vitscope.core import pd
from vitscope.core.arguments import checked
from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadResult
from vitscope.drawing import mpl
from vitscope.drawing.figures import axes_or_new
from vitscope.drawing.style import MODELS, depth_colours, grid
from vitscope.results import Run
from vitscope.results.plain_files import check_plain
from vitscope.results.task_score import task_score

_TRAIN, _HELD_OUT, _SCORE = MODELS[1], MODELS[0], MODELS[2]


@checked
def plot_training(run: str | os.PathLike[str], ax: mpl.Axes | None = None) -> mpl.Axes:
    """Training loss and held-out loss, and on a second axis the score of its task with its 95 % interval.

    The training loss is that of augmented and mixed images; it need not lie below the other one.
    """
    table = _read_metrics(Path(run))
    score = task_score(table.columns, _task(Path(run)))
    columns = dict(zip(score.columns, ("value", "low", "high"), strict=True))
    drawn = table[["epoch", "train_loss", "nll", *columns]].rename(columns=columns)
    return _draw_curves(drawn, score.label, axes_or_new(ax))


def plot_curve(training: Mapping[str, Any], ax: mpl.Axes | None = None) -> mpl.Axes:
    """The same from what the record of an examined model says about its training (`score` and `curve`)."""
    columns = ["epoch", "train_loss", "nll", "value", "low", "high"]
    table = pd.DataFrame(training["curve"], columns=columns, dtype=float)
    return _draw_curves(table, training["score"], axes_or_new(ax))


def _draw_curves(table: pd.DataFrame, score: str, ax: mpl.Axes) -> mpl.Axes:
    """Of columns epoch, train_loss, nll, value, low and high."""
    marker = "o" if len(table) < 30 else None
    style: dict[str, Any] = {"marker": marker, "markersize": 3.5, "linewidth": 1.6}
    label = "training loss (augmented)"
    lines = ax.plot(table["epoch"], table["train_loss"], color=_TRAIN, label=label, **style)
    measured = table[table["value"].notna()]
    if len(measured):
        epoch = measured["epoch"]
        if measured["nll"].notna().any():  # a detector has no loss of held-out images
            lines += ax.plot(epoch, measured["nll"], color=_HELD_OUT, label="held-out loss", **style)
        right = ax.twinx()
        right.spines["right"].set_visible(True)
        name, _, rest = score.partition(" ")
        said = (
            score if name[1:] != name[1:].lower() else f"{name.lower()} {rest}".strip()
        )  # mIoU stays as it is
        if len(table) == 1:  # beside the losses, which it may cover otherwise
            epoch = epoch + 0.1
            ax.set_xlim(0.5, 1.5)
        lines += right.plot(epoch, measured["value"], color=_SCORE, label=f"held-out {said} (95 %)", **style)
        right.fill_between(epoch, measured["low"], measured["high"], color=_SCORE, alpha=0.18, linewidth=0)
        if len(measured) == 1:  # a band has no width there
            right.vlines(epoch, measured["low"], measured["high"], color=_SCORE, alpha=0.6, linewidth=1.4)
        right.yaxis.set_major_formatter(mpl.PercentFormatter(1.0))
        right.set_ylabel(score)
    ax.set_xlabel("Epoch")
    # of objects it is a sum that distances of boxes are part of
    ax.set_ylabel("Loss" if score.endswith(" AP") else "Loss (nats)")
    ax.xaxis.set_major_locator(mpl.MaxNLocator(integer=True, min_n_ticks=1))
    ax.legend(handles=lines, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=2)
    grid(ax)
    return ax


@checked
def plot_monitors(
    run: str | os.PathLike[str], exam: str, quantity: str | None = None, ax: mpl.Axes | None = None
) -> mpl.Axes:
    """A quantity over the epochs (default: the exam's first): a line per unit, coloured by depth, or one for the model.

    Bands are 95 % intervals over the probe images. An eigenvalue that has not converged is drawn hollow.
    """
    table = _read_monitors(Path(run), exam)
    quantity = quantity or str(table["quantity"].iloc[0])
    known = list(dict.fromkeys(table["quantity"]))
    if quantity not in known:
        raise BadResult(f"the monitor '{exam}' of {run} has no '{quantity}'; it has: {', '.join(known)}")
    rows = table[table["quantity"] == quantity]
    ax = axes_or_new(ax)
    by_unit = rows[rows["unit"].notna()]
    if len(by_unit):
        for _, unit in by_unit.groupby("unit", sort=False):
            colour = depth_colours()(float(unit["depth"].iloc[0]))
            ax.plot(unit["epoch"], unit["value"], color=colour, linewidth=1.3, marker="o", markersize=2.5)
        scale = mpl.ScalarMappable(mpl.Normalize(0, 1), depth_colours())
        ax.figure.colorbar(scale, ax=ax, label="Normalised depth", pad=0.02)
    else:
        _draw_whole_model(ax, rows)
    ax.set_xlabel("Epoch")
    ax.set_ylabel(f"{exam}: {quantity}".replace("_", " "))
    ax.xaxis.set_major_locator(mpl.MaxNLocator(integer=True))
    grid(ax)
    return ax


def _draw_whole_model(ax: mpl.Axes, rows: pd.DataFrame) -> None:
    colour = MODELS[0]
    epoch, value = rows["epoch"].to_numpy(), rows["value"].to_numpy()
    ax.plot(epoch, value, color=colour, linewidth=1.6)
    ax.fill_between(epoch, rows["low"], rows["high"], color=colour, alpha=0.2, linewidth=0)
    good, told = np.ones(len(rows), bool), rows["converged"]
    if told.notna().all():
        good = told.astype(bool).to_numpy()
    dots: dict[str, Any] = {"color": colour, "markersize": 4}
    ax.plot(epoch[good], value[good], "o", **dots)
    ax.plot(epoch[~good], value[~good], "o", **dots, markerfacecolor="none", label="not converged")
    if not good.all():
        ax.legend()


def _task(run: Path) -> str | None:
    """What the training in a folder was for, if its record says so."""
    try:
        record = Run.open(run).record
    except BadResult:  # the rows can be drawn all the same
        return None
    told = [(one.get("model") or {}).get("task") for one in (record, *record.get("earlier", []))]
    return next((task for task in told if task), None)


def _read_metrics(run: Path) -> pd.DataFrame:
    table = _read(
        run / "metrics.csv",
        f"{run} holds no training (no metrics.csv); make one: vitscope train MODEL --out {run}",
        "go on with its training: --resume writes it anew",
        dict.fromkeys(("epoch", "train_loss", "nll", "accuracy", "low", "high"), float),
    )
    if table.empty:
        raise BadResult(f"{run} has not finished an epoch yet; wait, or go on with --resume")
    return table


def _read_monitors(run: Path, exam: str) -> pd.DataFrame:
    table = _read(
        run / "monitors.csv",
        f"{run} has no monitors.csv; train with: --monitor {exam}",
        "it cannot be shown",
        {"exam": str},
    )
    rows = table[table["exam"] == exam]
    if rows.empty:
        seen = ", ".join(dict.fromkeys(table["exam"]))
        raise BadResult(f"{run} was not watched by '{exam}'; it was by: {seen}")
    return rows if "converged" in rows else rows.assign(converged=np.nan)


def _read(path: Path, absent: str, damaged: str, types: dict[str, type]) -> pd.DataFrame:
    """A table with columns of these types; `absent` and `damaged` say what to do where there is none such."""
    try:
        check_plain([path])
        return pd.read_csv(path).astype(types)
    except FileNotFoundError:
        raise BadResult(absent) from None
    except (OSError, ValueError, KeyError) as error:
        raise BadResult(f"{path} is damaged ({reason(error)}); {damaged}") from error
