"""What `lesion` finds: result, reading and figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vitscope.core import pd
from vitscope.core.statistics import Estimate, HasEstimate
from vitscope.drawing import mpl
from vitscope.drawing.curves import draw_bars, legend_above, nothing, plot_change
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK, MODELS, MSA_BAR, grid
from vitscope.results import About, Result, UnitRow, tidy
from vitscope.results.condition_rows import SCORES
from vitscope.results.numbers import extremes, reads, rows_of
from vitscope.results.numbers import with_interval as number
from vitscope.results.table import Estimated

POSITIONS = ("first", "middle", "last", "only")
_KINDS = ("stem", "conv", "msa", "mlp", "subsample", "mixer", "other")
# what the papers compare: which hurts more at the beginning, and at the end, of a stage
COMPARED = (("mlp first", "msa first"), ("msa last", "mlp last"), ("conv first", "conv last"))


@dataclass(frozen=True)
class Group(HasEstimate[float]):
    """The mean drop over some units, with its interval over images."""

    kind: str
    position: str  # "": anywhere
    units: int
    estimate: Estimate[float]

    @property
    def name(self) -> str:
        """As in `msa last`."""
        return f"{self.kind} {self.position}".strip()


@dataclass(frozen=True)
class Contrast(HasEstimate[float]):
    """How much more it hurts to lose a unit of one group than of another, image by image."""

    more: str
    less: str
    estimate: Estimate[float]


@dataclass(frozen=True)
class KeptUnit:
    """A unit that cannot be removed, and why."""

    unit: UnitRow
    reason: str


@dataclass(frozen=True, eq=False, kw_only=True)
class LesionResult(Estimated, Result, exam="lesion", after="cb_scale", version=3):
    """Accuracy lost without each unit; arrays are (units,)."""

    about = About(
        title="Lesion study",
        shows="Accuracy that the trained model loses when one unit's branch is left out at test time, on the same "
        "images. A high bar is a unit that the rest cannot do without.",
        papers="In the papers the drop repeats with every stage: convolutions hurt most at the beginning of a stage; "
        "in Swin, MLPs at the beginning and MSAs at the end.",
        misleads="Units that cannot be removed, because everything passes through them, have no bar; lesion_kept.csv "
        "lists them. Where a stage begins with a block that projects its shortcut, the projection stays. What follows "
        "a removed unit was trained with it, so the drop also shows how far the stream is moved, not only what the "
        "unit knows.",
    )
    needs = "a model with a unit that can be left out"
    measures = (
        "drop",
        *(f"intact {score}" for score in SCORES),
        *(f"drop {kind} {place}".strip() for kind in _KINDS for place in ("", *POSITIONS)),
        *(f"drop {more} minus {less}" for more, less in COMPARED),
    )

    units: tuple[UnitRow, ...]
    position: tuple[str, ...]  # first, middle, last or only one of its kind in its stage
    accuracy: Estimate[float]  # of the whole model; or whatever `score` is
    lost: np.ndarray  # images that only the whole model gets right; none of a score of all images together
    gained: np.ndarray  # images that only the model without the unit gets right
    groups: tuple[Group, ...]
    contrasts: tuple[Contrast, ...]
    kept: tuple[KeptUnit, ...]
    removed: tuple[str, ...] = ()  # branch, or convolution where that of a bottleneck alone was left out
    score: str = "accuracy"  # what drops: that, miou or box_ap

    def table(self) -> pd.DataFrame:
        """Quantity `drop` per unit; `drop <kind> <position>` per group and `... minus ...` for whole models."""
        own: dict[str, Any] = {"position": self.position}
        if len(self.lost) == len(self.units):
            own |= {"lost": pd.array(self.lost, "Int64"), "gained": pd.array(self.gained, "Int64")}
        if "convolution" in self.removed:
            own["removed"] = self.removed
        units = tidy("drop", *self.estimate, self.n, self.units, **own)
        return pd.concat([units, self._whole()], ignore_index=True) if self.units else units

    def tables(self) -> dict[str, pd.DataFrame]:
        """The units that cannot be removed have a table of their own."""
        return {**super().tables(), "lesion_kept": self.kept_table()}

    def kept_table(self) -> pd.DataFrame:
        """Unit, kind, stage, depth and the reason why it cannot be removed."""
        rows = [(k.unit.name, k.unit.kind, k.unit.stage, k.unit.depth, k.reason) for k in self.kept]
        return pd.DataFrame(rows, columns=["unit", "kind", "stage", "depth", "reason"])

    def _whole(self) -> pd.DataFrame:
        accuracy = (f"intact {self.score}", None, None, *self.accuracy)
        groups = [(f"drop {g.name}", g.kind, g.position or None, *g.estimate) for g in self.groups]
        pairs = [(f"drop {c.more} minus {c.less}", None, None, *c.estimate) for c in self.contrasts]
        names, kinds, places, value, low, high = zip(accuracy, *groups, *pairs, strict=True)
        table = tidy(names, value, low, high, self.n, position=places)
        table["kind"] = kinds
        return table


NOTHING = "no unit can be removed"


@figure("lesion", "Accuracy lost without each unit, with its 95 % interval; ×: cannot be removed.")
def plot_lesion(result: LesionResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]) -> mpl.Axes:
    """Accuracy drop against depth: a bar over the step of each unit that was removed."""
    ax = axes_or_new(ax)
    if not result.units:
        return nothing(ax, NOTHING)
    kept = [entry.unit for entry in result.kept if entry.unit.kind != "head"]
    units = sorted((*result.units, *kept), key=lambda unit: unit.depth)
    removed = {unit.name: i for i, unit in enumerate(result.units)}
    drop = result.estimate.each(
        lambda numbers: (
            100.0 * np.array([numbers[removed[u.name]] if u.name in removed else np.nan for u in units])
        )
    )
    plot_change(ax, units, drop, colour)
    depth = np.array([unit.depth for unit in units])
    middle = depth - np.diff(depth, prepend=depth[:1]) / 2
    crosses = [i for i, unit in enumerate(units) if unit.name not in removed and i > 0]
    ax.plot(middle[crosses], np.zeros(len(crosses)), "x", color=INK, markersize=4.5, markeredgewidth=1.0)
    ax.set_ylabel(f"{SCORES[result.score]} drop (points)")
    return ax


@figure(
    "lesion", "Mean drop by kind, over the thirds of a stage; 95 % interval over images.", "lesion_groups"
)
def plot_lesion_groups(result: LesionResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]) -> mpl.Axes:
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
        drop = Estimate(*np.array([group.estimate for group in own]).T).scaled(100)
        label = kind.upper() if kind in ("msa", "mlp") else kind
        ax.bar(x, drop.value, 0.9 * width, color=_shade(kind, kinds, colour), linewidth=0, label=label)
        draw_bars(ax, x, drop, fmt="none", ecolor=INK, elinewidth=0.9, capsize=1.5)
    ax.axhline(0.0, color=INK, linewidth=0.8)
    ax.set_xticks(
        range(len(places)), ["only one" if place == "only" else f"{place} third" for place in places]
    )
    ax.set_xlim(-0.5, len(places) - 0.5)
    ax.set_xlabel("Place in its stage, among its kind")
    name = "accuracy" if result.score == "accuracy" else SCORES[result.score]
    ax.set_ylabel(f"Mean {name} drop (points)")
    legend_above(ax, len(kinds), handlelength=1.2, columnspacing=None)
    grid(ax)
    return ax


def _shade(kind: str, kinds: list[str], colour: str) -> str:
    """MSAs are grey, as in every figure; the other kinds begin with the model's colour."""
    if kind == "msa":
        return MSA_BAR
    rest = [other for other in kinds if other != "msa"]
    return [colour, *(other for other in MODELS if other != colour)][rest.index(kind)]


@reads("lesion")
def _lesion(result: Result) -> str:
    table = result.table()
    drops = rows_of(table, "drop")
    drops = drops[drops["unit"].notna()]
    if drops.empty:
        return ""
    _, worst = extremes(drops)
    clear = int((drops["low"] > 0).sum())
    rest = len(drops) - clear
    left = f"{rest} of {len(drops)} units can be removed one at a time without a clear loss."
    intact = next(name for name in SCORES if (table["quantity"] == f"intact {name}").any())
    lost = {"accuracy": "accuracy", "box_ap": "box AP"}.get(intact, SCORES[intact])
    return f"It hurts most to lose {worst.unit} ({worst.kind}), which costs {number(worst)} of {lost}. {left}"
