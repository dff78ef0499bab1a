"""The figure of a claim, from the tables of its study: along the depth where the papers draw it so, else arm by arm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vitscope.core import pd
from vitscope.drawing import mpl
from vitscope.plots.study import (
    arms_of,
    depth_quantities,
    plot_study_curves,
    plot_study_depth,
    plot_study_numbers,
)
from vitscope.results.study_result import StudyResult

TRAINING = "training"
BY_DEPTH = {  # what the papers draw against depth
    "fourier": "high_frequency",
    "variance": "variance",
    "attention": "entropy",
    "lesion": "drop",
    "cb_scale": "mean",
    "low_pass": "rate",
    "uncertainty": "data_std",
}
Draw = Callable[[mpl.Axes], mpl.Axes]


def claim_figure(result: StudyResult) -> tuple[str, Draw, tuple[float, float]] | None:
    """What shows the first comparison: a title, what draws it, and how large; None if nothing is known yet."""
    for row in result.comparisons().itertuples():
        label, _, rest = str(row.quantity).partition(".")
        name = rest.partition("[")[0]
        exam = _exam(result, label)
        known = depth_quantities(result, label)
        wanted = BY_DEPTH.get(exam)
        if known and (wanted is not None or name in known):
            quantity = name if name in known and name != "change" else wanted if wanted in known else known[0]
            return exam, _depth(result, label, str(quantity)), (5.2, 3.2)
        if label == TRAINING:
            return "training", lambda ax: plot_study_curves(result, "train_loss", ax=ax), (5.2, 3.2)
        condition = _condition(result, label, name, rest)
        if condition is not False:
            height = 1.2 + 0.34 * len(arms_of(result))
            return exam, _numbers(result, label, name, condition), (5.2, height)
    return None


def _depth(result: StudyResult, label: str, quantity: str) -> Draw:
    def draw(ax: mpl.Axes) -> mpl.Axes:
        ax = plot_study_depth(result, label, quantity, ax=ax)
        if len(ax.get_lines()) > 1:
            ax.legend(frameon=False, fontsize=8)
        return ax

    return draw


def _numbers(result: StudyResult, label: str, name: str, condition: Any) -> Draw:
    return lambda ax: plot_study_numbers(result, label, name, condition, ax=ax)


def _exam(result: StudyResult, label: str) -> str:
    looks = {look["label"]: look["exam"] for look in result.study["looks"]}
    return str(looks.get(label, label))


def _condition(result: StudyResult, label: str, name: str, written: str) -> str | bool | None:
    """The condition of the number in the table; False if the table has no such number of whole models."""
    table = result.table()
    rows = table[(table["exam"] == label) & (table["quantity"] == name) & table["unit"].isna()]
    if rows.empty:
        return False
    said = written.partition("condition=")[2].removesuffix("]").partition(",")[0]
    known: pd.Series = rows["condition"]
    if said:
        return said if (known == said).any() else False
    return None if known.isna().any() else False
