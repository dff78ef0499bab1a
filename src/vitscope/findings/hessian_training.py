"""What `hessian_training` finds: result, reading and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from vitscope.core import pd
from vitscope.core.arguments import NotEmpty, checked
from vitscope.core.statistics import Estimate, HasEstimate
from vitscope.drawing import mpl
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK, MODELS, grid, logarithmic
from vitscope.findings.hessian import HessianResult
from vitscope.results import About, Result
from vitscope.results.loss_numbers import Quantity


@dataclass(frozen=True, eq=False, kw_only=True)
class HessianTrainingResult(Result, exam="hessian_training", after="hessian_density"):
    """The spectrum at each checkpoint of a run, in the order of the training."""

    about = About(
        title="Hessian spectrum over training",
        shows="Share of negative eigenvalues (NEP) and mean of the positive ones (APE) at the checkpoints of a "
        "training.",
        papers="In the paper the negative eigenvalues of ViT disturb the early phase of training; averaging tokens and "
        "more data suppress them there.",
        misleads="All checkpoints are measured on the same batches, so differences between them are surer than their "
        "intervals, which are over batches, suggest.",
    )

    checkpoints: tuple[str, ...]
    epochs: tuple[float, ...]
    spectra: tuple[HessianResult, ...]

    def table(self) -> pd.DataFrame:
        """The tables of all checkpoints, with columns `checkpoint` and `epoch`."""
        rows = zip(self.checkpoints, self.epochs, self.spectra, strict=True)
        tables = [spectrum.table().assign(checkpoint=name, epoch=epoch) for name, epoch, spectrum in rows]
        return pd.concat(tables, ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """NEP and APE of each checkpoint."""
        table = self.table()
        return table[table["quantity"].isin(["nep", "ape", "unconverged"])].reset_index(drop=True)


@dataclass(frozen=True)
class Slope(HasEstimate[float]):
    """A power law y = exp(intercept) m^value over a series of models, with the 95 % interval of its exponent."""

    estimate: Estimate[float]
    intercept: float
    n: int  # models


@figure("hessian_training", "At the checkpoints of a training; bars: 95 % interval over batches.")
def plot_hessian_training(
    result: HessianTrainingResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """NEP and APE over the epochs of a training, on two axes."""
    ax = axes_or_new(ax)
    right = ax.twinx()
    right.spines["right"].set_visible(True)
    lines = []
    for panel, quantity, shade in ((ax, "nep", colour), (right, "ape", MODELS[1])):
        value, reach = _with_reach(result.spectra, quantity)
        bars = panel.errorbar(
            result.epochs,
            value,
            reach,
            fmt="-o",
            color=shade,
            label=quantity.upper(),
            markersize=4.0,
            capsize=2.0,
        )
        lines.append(bars)
        panel.set_ylim(bottom=0.0)
    ax.yaxis.set_major_formatter(mpl.PercentFormatter(1.0, decimals=0))
    ax.set_xlabel("Epoch")
    ax.set_ylabel("NEP: share of negative eigenvalues")
    right.set_ylabel("APE: mean of the positive ones")
    ax.legend(handles=lines, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2)
    grid(ax)
    return ax


@checked
def plot_hessian_slope(
    sizes: Sequence[float],
    results: Annotated[Sequence[HessianResult], NotEmpty],
    slope: Slope,
    quantity: Quantity = "ape",
    size_name: str = "Heads",
    ax: mpl.Axes | None = None,
    colour: str = MODELS[0],
) -> mpl.Axes:
    """NEP or APE against a size that the models differ in, on logarithmic axes, with the power law that fits them."""
    ax = axes_or_new(ax)
    value, reach = _with_reach(results, quantity)
    ax.errorbar(sizes, value, reach, fmt="o", color=colour, markersize=4.5, capsize=2.0, elinewidth=0.9)
    ends = np.array([min(sizes), max(sizes)], dtype=np.float64)
    label = f"slope {slope.value:.2f} [{slope.low:.2f}, {slope.high:.2f}]"
    ax.plot(ends, np.exp(slope.intercept) * ends**slope.value, "--", color=INK, linewidth=1.2, label=label)
    ax.set_xscale("log")
    logarithmic(ax)
    ax.set_xticks(list(sizes), [f"{size:g}" for size in sizes])
    ax.xaxis.set_minor_locator(mpl.NullLocator())
    ax.set_xlabel(size_name)
    ax.set_ylabel(quantity.upper())
    ax.legend()
    grid(ax)
    return ax


def _with_reach(spectra: Sequence[HessianResult], quantity: str) -> tuple[np.ndarray, np.ndarray]:
    """(models,) of NEP or APE, and (2, models) how far the interval reaches down and up; 0 where there is none."""
    numbers = [one.negative_share if quantity == "nep" else one.positive_mean for one in spectra]
    value, low, high = np.array(numbers).T
    return value, np.nan_to_num(np.abs(np.stack([value - low, high - value])))
