"""What `variance` finds: result, reading and figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vitscope.core import pd
from vitscope.drawing import mpl
from vitscope.drawing.curves import plot_change, plot_depth
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import MODELS, logarithmic
from vitscope.results import About, Result, tidy
from vitscope.results.numbers import reads
from vitscope.results.unit_changes import UnitChanges, changes_in_words


@dataclass(frozen=True, eq=False, kw_only=True)
class VarianceResult(UnitChanges, Result, exam="variance", after="fourier", version=3):
    """Variance of the map after each unit, and its change across the unit; arrays are (units,) or (kinds,)."""

    about = About(
        title="Feature-map variance",
        shows="Variance over the points of the feature map after each unit, averaged over channels and "
        "images. A unit across which the line falls averages points together; one across which it "
        "rises tells them apart.",
        papers="In the paper, attention (grey) lowers the variance while convolutions and MLPs (white) "
        "raise it, it grows with depth, and in a ResNet it peaks at the end of each stage.",
        misleads="The level depends on the scale of the features, which a normalisation layer can change "
        "without any effect on the output: compare the change across a unit, not levels of "
        "different models.",
    )
    measures = ("variance", "change")

    def table(self) -> pd.DataFrame:
        """Quantities `variance` and `change` (paired by image): across each unit, and the mean of each kind."""
        level = tidy("variance", *self.estimate, self.n, self.units)
        return pd.concat([level, self.change_rows()], ignore_index=True)


WIDE = 20.0  # levels further apart than this factor are drawn on a logarithmic axis


@figure("variance", "Variance over the points of the map after each unit; shaded: 95 % interval over images.")
def plot_variance(result: VarianceResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]) -> mpl.Axes:
    """Feature-map variance against depth, over bands for MSA and subsampling."""
    ax = axes_or_new(ax)
    plot_depth(ax, result.units, result.estimate, colour)
    positive = result.value[np.isfinite(result.value) & (result.value > 0)]
    if positive.size and positive.max() > WIDE * positive.min():
        logarithmic(ax)
    else:
        ax.set_ylim(bottom=0.0)
    ax.set_ylabel("Feature-map variance")
    return ax


@figure("variance", "Change across each unit; below 0 it averages points together.", "variance_change")
def plot_variance_change(
    result: VarianceResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Change of the variance across each unit."""
    ax = axes_or_new(ax)
    plot_change(ax, result.units, result.change, colour)
    ax.set_ylabel("Change of the variance")
    return ax


@reads("variance")
def _reading(result: VarianceResult) -> str:
    return changes_in_words(result, "the variance over space changes")
