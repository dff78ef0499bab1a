"""Figures of a study: its arms side by side by number, over the epochs of their trainings, and along their depth.

Arms keep their colours. Small dots are single trainings; large ones, lines and bars are means over the seeds with their
95 % interval over seeds and images.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vitscope.core import pd
from vitscope.core.arguments import checked
from vitscope.core.errors import BadResult, did_you_mean
from vitscope.drawing import mpl
from vitscope.drawing.curves import along_depth
from vitscope.drawing.figures import axes_or_new
from vitscope.drawing.style import INK, grid, model_colour
from vitscope.results.numbers import capital, scale_of, spoken
from vitscope.results.study_result import StudyResult

CURVES = {"train_loss": "Training loss", "nll": "Held-out loss", "accuracy": "Held-out accuracy"}
_LINES = ("-", "--", ":", "-.")


@checked
def plot_study_numbers(
    result: StudyResult, exam: str, quantity: str, condition: str | None = None, ax: mpl.Axes | None = None
) -> mpl.Axes:
    """One number of every arm: its trainings, their mean and its interval."""
    ax = axes_or_new(ax)
    table = result.table()
    rows = _chosen(table[table["unit"].isna()], exam, quantity)
    rows = rows[rows["condition"].isna() if condition is None else rows["condition"] == condition]
    arms = [arm for arm in arms_of(result) if arm in set(rows["arm"])]
    scale, unit = scale_of(quantity)
    for place, arm in enumerate(arms):
        colour, arm_rows = colour_of(result, arm), rows[rows["arm"] == arm]
        single, mean = arm_rows[arm_rows["seed"].notna()], arm_rows[arm_rows["seed"].isna()]
        height = np.full(len(single), place + 0.16)
        ax.plot(scale * single["value"], height, "o", color=colour, markersize=3.2, alpha=0.55)
        value, low, high = (scale * mean[end].to_numpy() for end in ("value", "low", "high"))
        known = np.isfinite(low) & np.isfinite(high)
        style: dict[str, Any] = {"color": colour, "elinewidth": 2.0}
        bars = np.abs(np.stack([value - low, high - value]))[:, known]
        ax.errorbar(value[known], np.full(int(known.sum()), place), xerr=bars, fmt="none", **style)
        ax.plot(value, [place] * len(value), "o", color=colour, markersize=6.5)
    ax.set_yticks(range(len(arms)), arms)
    ax.set_ylim(len(arms) - 0.5, -0.5)
    ax.set_xlabel(f"{capital(spoken(quantity))}{f' ({unit})' if unit else ''}")
    ax.grid(axis="x", color="#808080", alpha=0.25, linewidth=0.6)
    ax.set_axisbelow(True)
    ax.xaxis.set_major_locator(mpl.MaxNLocator(5))
    return ax


@checked
def plot_study_curves(
    result: StudyResult, quantity: str = "accuracy", ax: mpl.Axes | None = None
) -> mpl.Axes:
    """A column of the trainings' metrics by epoch: the mean over seeds, and a band from the least to the most."""
    ax = axes_or_new(ax)
    curves = result.tables["curves"]
    if quantity not in curves:
        raise BadResult(f"trainings have no '{quantity}'; {did_you_mean(quantity, CURVES)}")
    known = curves[curves[quantity].notna()]
    for arm in arms_of(result):
        own = known[known["arm"] == arm]
        if own.empty:
            continue
        by_epoch = own.groupby("epoch")[quantity]
        mean, least, most = by_epoch.mean(), by_epoch.min(), by_epoch.max()
        x = mean.index.to_numpy(dtype=float)
        colour, marker = colour_of(result, arm), "o" if len(x) < 30 else None
        ax.fill_between(x, least.to_numpy(float), most.to_numpy(float), color=colour, alpha=0.2, linewidth=0)
        style: dict[str, Any] = {"linewidth": 1.6, "linestyle": line_of(result, arm)}
        ax.plot(x, mean.to_numpy(float), color=colour, marker=marker, markersize=3, label=arm, **style)
    if quantity == "accuracy":
        ax.yaxis.set_major_formatter(mpl.PercentFormatter(1.0, symbol=" %"))
    ax.set_xlabel("Epoch")
    ax.set_ylabel(CURVES.get(quantity, spoken(quantity)))
    ax.xaxis.set_major_locator(mpl.MaxNLocator(integer=True, min_n_ticks=1))
    grid(ax)
    return ax


@checked
def plot_study_depth(
    result: StudyResult,
    exam: str,
    quantity: str,
    ax: mpl.Axes | None = None,
    arms: Sequence[str] | None = None,
) -> mpl.Axes:
    """One number of every unit along the depth of each arm; bands are intervals over seeds and images."""
    ax = axes_or_new(ax)
    table = result.table()
    rows = _chosen(table[table["unit"].notna() & table["seed"].isna()], exam, quantity)
    for arm in arms or arms_of(result):
        own = rows[(rows["arm"] == arm) & rows["value"].notna()].sort_values("depth", kind="stable")
        if own.empty:
            continue
        x, value, low, high = (own[column].to_numpy(float) for column in ("depth", "value", "low", "high"))
        colour = colour_of(result, arm)
        ax.fill_between(x, low, high, color=colour, alpha=0.2, linewidth=0)
        style: dict[str, Any] = {"markersize": 3.4, "linewidth": 1.6, "linestyle": line_of(result, arm)}
        ax.plot(x, value, marker="o", color=colour, label=arm, **style)
    if quantity == "change" or quantity.endswith("_change"):
        ax.axhline(0.0, color=INK, linewidth=0.8)
    along_depth(ax)
    ax.set_ylabel(capital(spoken(quantity)))
    return ax


def depth_quantities(result: StudyResult, exam: str) -> list[str]:
    """The numbers of an exam that several units have, in the order of its table."""
    table = result.table()
    rows = table[
        (table["exam"] == exam) & table["unit"].notna() & table["seed"].isna() & table["value"].notna()
    ]
    counts = rows.groupby("quantity", sort=False)["unit"].nunique()
    return [str(quantity) for quantity, units in counts.items() if units > 1]


def arms_of(result: StudyResult) -> list[str]:
    """The arms in the study's order."""
    return list(result.tables["arms"]["arm"])


def colour_of(result: StudyResult, arm: str) -> str:
    """The colour of an arm, the same in all figures; what is of several arms together has that of the text."""
    arms = arms_of(result)
    return model_colour(arms.index(arm)) if arm in arms else INK


def line_of(result: StudyResult, arm: str) -> str:
    """Arms beyond the sixth have the colours of the first, with another line."""
    return _LINES[arms_of(result).index(arm) // 6 % len(_LINES)]


def _chosen(table: pd.DataFrame, exam: str, quantity: str) -> pd.DataFrame:
    exams = list(dict.fromkeys(table["exam"]))
    if exam not in exams:
        raise BadResult(f"the study has no such numbers of '{exam}'; {did_you_mean(exam, exams)}")
    own = table[table["exam"] == exam]
    names = list(dict.fromkeys(own["quantity"]))
    if quantity not in names:
        raise BadResult(f"{exam} has no '{quantity}' here; {did_you_mean(quantity, names)}")
    return own[own["quantity"] == quantity]
