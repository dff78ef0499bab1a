"""What `hessian_density` finds: result, reading and figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vitscope.core import pd
from vitscope.core.statistics import Estimate
from vitscope.drawing import mpl
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK, MODELS, grid
from vitscope.results import About, Result, tidy
from vitscope.results.loss_numbers import BatchCurvature
from vitscope.results.numbers import by_name, reads
from vitscope.results.numbers import with_interval as number
from vitscope.results.table import Estimated


@dataclass(frozen=True, eq=False, kw_only=True)
class HessianDensityResult(
    BatchCurvature, Estimated, Result, exam="hessian_density", after="hessian", version=2
):
    """The density of a model's Hessian at the points of `grid`; n is the number of images."""

    about = About(
        title="Hessian spectral density",
        shows="How the eigenvalues of the Hessian of the training loss are distributed: a bulk around 0 and a few "
        "outliers, on a logarithmic axis.",
        papers="The paper draws the largest eigenvalues only (exam `hessian`); here they stand beside all others.",
        misleads="It is smoothed, and one eigenvalue among millions is a peak as low as one in their number: the "
        "outliers that matter most are hardly visible. Their places come from `hessian`.",
    )

    grid: np.ndarray  # (points,)
    nodes: np.ndarray  # (batches, steps)
    weights: np.ndarray  # (batches, steps)
    width: float
    trace: Estimate[float]
    negative: Estimate[
        float
    ]  # share of the eigenvalues below -width: further from 0 than the drawing resolves

    def table(self) -> pd.DataFrame:
        """`trace`, `negative` (share of the eigenvalues), and `density` by `eigenvalue`."""
        value, low, high = zip(self.trace, self.negative, strict=True)
        whole = tidy(["trace", "negative"], value, low, high, self.n, eigenvalue=[np.nan, np.nan])
        density = tidy("density", *self.estimate, self.n, eigenvalue=self.grid)
        return pd.concat([whole, density], ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """Trace and share of negative eigenvalues."""
        return self.table().head(2)


@reads("hessian_density")
def _density(result: Result) -> str:
    rows = by_name(result.summary())
    negative = rows["negative"]
    return (
        f"The trace of the Hessian is {number(rows['trace'])}; {100 * negative.value:.2g} % of all eigenvalues "
        "are clearly below 0."
    )


@figure(
    "hessian_density",
    "Density of all eigenvalues, smoothed; shaded: 95 % interval over batches.",
    "hessian_density",
)
def plot_hessian_density(
    result: HessianDensityResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """The spectral density on a logarithmic axis."""
    ax = axes_or_new(ax)
    least = 1.0 / (result.parameters * result.width)  # about one eigenvalue within the width
    shown = result.value > least
    value = np.where(shown, result.value, np.nan)
    low, high = np.maximum(result.low, least), np.maximum(result.high, least)
    ax.fill_between(result.grid, low, high, where=shown.tolist(), color=colour, alpha=0.25, linewidth=0)
    ax.plot(result.grid, value, color=colour, linewidth=1.6)
    ax.axvline(0.0, color=INK, linewidth=0.8)
    ax.set_yscale("log")
    ax.text(0.0, 1.02, _trace(result), transform=ax.transAxes)
    ax.set_xlabel("Eigenvalue")
    ax.set_ylabel("Density")
    grid(ax)
    return ax


def _trace(result: HessianDensityResult) -> str:
    value, low, high = result.trace
    return f"trace {value:.3g} [{low:.3g}, {high:.3g}]"
