"""Figure of what a training's monitors saw: one quantity of one exam, epoch by epoch."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from vitscope.core import pd
from vitscope.core.arguments import checked
from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadResult
from vitscope.drawing import mpl
from vitscope.drawing.figures import axes_or_new
from vitscope.drawing.style import MODELS, depth_colours, grid
from vitscope.results.plain_files import check_plain


@checked
def plot_monitors(
    run: str | os.PathLike[str], exam: str, quantity: str | None = None, ax: mpl.Axes | None = None
) -> mpl.Axes:
    """A quantity over the epochs (default: the exam's first): a line per unit, coloured by depth, or one for the model.

    Bands are 95 % intervals over the probe images. An eigenvalue that has not converged is drawn hollow.
    """
    table = _read(Path(run), exam)
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
    good = (
        rows["converged"].astype(bool).to_numpy()
        if rows["converged"].notna().all()
        else np.ones(len(rows), bool)
    )
    ax.plot(epoch[good], value[good], "o", color=colour, markersize=4)
    ax.plot(
        epoch[~good],
        value[~good],
        "o",
        color=colour,
        markersize=4,
        markerfacecolor="none",
        label="not converged",
    )
    if not good.all():
        ax.legend()


def _read(run: Path, exam: str) -> pd.DataFrame:
    path = run / "monitors.csv"
    try:
        check_plain([path])
        table = pd.read_csv(path)
        seen = list(dict.fromkeys(table["exam"]))
        rows = table[table["exam"] == exam]
    except FileNotFoundError:
        raise BadResult(f"{run} has no monitors.csv; train with: --monitor {exam}") from None
    except (OSError, ValueError, KeyError) as error:
        raise BadResult(f"{path} is damaged ({reason(error)}); it cannot be shown") from error
    if rows.empty:
        raise BadResult(f"{run} was not watched by '{exam}'; it was by: {', '.join(seen)}")
    return rows if "converged" in rows else rows.assign(converged=np.nan)
