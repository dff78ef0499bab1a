"""Figures of the lesion exam."""

import numpy as np
from matplotlib.axes import Axes

from vitscope.engine.features.lesion_groups import POSITIONS
from vitscope.exams.features.lesion import LesionResult
from vitscope.drawing.depth import plot_change
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.heads import nothing
from vitscope.drawing.style import INK, MODELS, MSA_BAR, grid

NOTHING = "no unit can be removed"


@figure("lesion", "Accuracy lost without each unit, with its 95 % interval; ×: cannot be removed.")
def plot_lesion(result: LesionResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Accuracy drop against depth: a bar over the step of each unit that was removed."""
    ax = axes_or_new(ax)
    if not result.units:
        return nothing(ax, NOTHING)
    kept = [entry.unit for entry in result.kept if entry.unit.kind != "head"]
    units = sorted((*result.units, *kept), key=lambda unit: unit.depth)
    removed = {unit.name: i for i, unit in enumerate(result.units)}
    value, low, high = (
        100.0 * np.array([numbers[removed[u.name]] if u.name in removed else np.nan for u in units])
        for numbers in (result.value, result.low, result.high)
    )
    plot_change(ax, units, value, low, high, colour)
    depth = np.array([unit.depth for unit in units])
    middle = depth - np.diff(depth, prepend=depth[:1]) / 2
    crosses = [i for i, unit in enumerate(units) if unit.name not in removed and i > 0]
    ax.plot(middle[crosses], np.zeros(len(crosses)), "x", color=INK, markersize=4.5, markeredgewidth=1.0)
    ax.set_ylabel("Accuracy drop (points)")
    return ax


@figure(
    "lesion", "Mean drop by kind, over the thirds of a stage; 95 % interval over images.", "lesion_groups"
)
def plot_lesion_groups(result: LesionResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """Mean accuracy drop of the units of each kind at the beginning, in the middle and at the end of stages."""
    ax = axes_or_new(ax)
    groups = [group for group in result.groups if group.position]
    if not groups:
        return nothing(ax, NOTHING)
    kinds = list(dict.fromkeys(group.kind for group in groups))
    places = [place for place in POSITIONS if any(group.position == place for group in groups)]
    width = min(0.4, 0.8 / len(kinds))
    for i, kind in enumerate(kinds):
        own = [group for group in groups if group.kind == kind]
        x = np.array([places.index(group.position) + (i - (len(kinds) - 1) / 2) * width for group in own])
        value, low, high = 100.0 * np.array([(group.value, group.low, group.high) for group in own]).T
        label = kind.upper() if kind in ("msa", "mlp") else kind
        ax.bar(x, value, 0.9 * width, color=_shade(kind, kinds, colour), linewidth=0, label=label)
        reach = np.abs(np.stack([value - low, high - value]))
        ax.errorbar(x, value, reach, fmt="none", ecolor=INK, elinewidth=0.9, capsize=1.5)
    ax.axhline(0.0, color=INK, linewidth=0.8)
    ax.set_xticks(
        range(len(places)), ["only one" if place == "only" else f"{place} third" for place in places]
    )
    ax.set_xlim(-0.5, len(places) - 0.5)
    ax.set_xlabel("Place in its stage, among its kind")
    ax.set_ylabel("Mean accuracy drop (points)")
    ax.legend(
        ncols=len(kinds), loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2, handlelength=1.2
    )
    grid(ax)
    return ax


def _shade(kind: str, kinds: list[str], colour: str) -> str:
    """MSAs are grey, as in every figure; the other kinds begin with the model's colour."""
    if kind == "msa":
        return MSA_BAR
    rest = [other for other in kinds if other != "msa"]
    return [colour, *(other for other in MODELS if other != colour)][rest.index(kind)]
