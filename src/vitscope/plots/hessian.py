"""Figures of the Hessian exams: spectra, their density over all eigenvalues, their course over training, power laws."""

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import AutoLocator, NullLocator, PercentFormatter

from vitscope.core.arguments import NotEmpty, checked
from vitscope.engine.loss.curvature_passes import ALL_PARAMETERS
from vitscope.results.spectrum_numbers import Quantity
from vitscope.exams.loss.hessian import HessianResult
from vitscope.exams.loss.hessian_density import HessianDensityResult
from vitscope.exams.loss.hessian_training import HessianTrainingResult, Slope
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK, MODELS, grid, logarithmic, model_colour

POINTS = 400


@figure(
    "hessian",
    "Density and marks of the eigenvalues of all mini-batches; crosses, if any, did not converge. NEP: share below 0; "
    "APE: mean of those above.",
)
def plot_hessian(result: HessianResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """The Hessian max eigenvalue spectrum of one model."""
    return plot_hessian_spectra([result], ax, [colour])


@checked
def plot_hessian_spectra(
    results: Annotated[Sequence[HessianResult], NotEmpty],
    ax: Axes | None = None,
    colours: Sequence[str] | None = None,
) -> Axes:
    """The spectra of several models on one axis, as the paper draws them, each with its NEP and APE.

    Args:
        results: One per model.
        ax: Where to draw.
        colours: One per model; default: the colours of a comparison.
    """
    ax = axes_or_new(ax)
    colours = colours or [model_colour(i) for i in range(len(results))]
    curves = [_density(result.eigenvalues.ravel()) for result in results]
    row = 0.05 * max(
        float(density.max()) for _, density in curves
    )  # height of a model's marks below the curves
    for place, (result, colour, (x, density)) in enumerate(zip(results, colours, curves, strict=True)):
        ax.plot(x, density, color=colour, linewidth=1.6, label=_label(result))
        ax.fill_between(x, density, color=colour, alpha=0.15, linewidth=0)
        _marks(ax, result, colour, -row * (place + 0.6))
    ax.axvline(0.0, color=INK, linewidth=0.8)
    ax.set_ylim(bottom=-row * (len(results) + 0.2))
    ax.yaxis.set_major_locator(_FromZero())
    ax.set_xlabel("Hessian max eigenvalue")
    ax.set_ylabel("Density")
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2, handlelength=1.2)
    grid(ax)
    return ax


@figure(
    "hessian_density",
    "Density of all eigenvalues, smoothed; shaded: 95 % interval over batches.",
    "hessian_density",
)
def plot_hessian_density(
    result: HessianDensityResult, ax: Axes | None = None, colour: str = MODELS[0]
) -> Axes:
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


@figure("hessian_training", "At the checkpoints of a training; bars: 95 % interval over batches.")
def plot_hessian_training(
    result: HessianTrainingResult, ax: Axes | None = None, colour: str = MODELS[0]
) -> Axes:
    """NEP and APE over the epochs of a training, on two axes."""
    ax = axes_or_new(ax)
    right = ax.twinx()
    right.spines["right"].set_visible(True)
    lines = []
    for panel, quantity, shade in ((ax, "nep", colour), (right, "ape", MODELS[1])):
        value, low, high = (
            np.array([getattr(spectrum, f"{quantity}{end}") for spectrum in result.spectra])
            for end in ("", "_low", "_high")
        )
        reach = np.nan_to_num(np.abs(np.stack([value - low, high - value])))
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
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
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
    ax: Axes | None = None,
    colour: str = MODELS[0],
) -> Axes:
    """NEP or APE against a size that the models differ in, on logarithmic axes, with the power law that fits them."""
    ax = axes_or_new(ax)
    value, low, high = (
        np.array([getattr(result, f"{quantity}{end}") for result in results]) for end in ("", "_low", "_high")
    )
    reach = np.nan_to_num(np.abs(np.stack([value - low, high - value])))
    ax.errorbar(sizes, value, reach, fmt="o", color=colour, markersize=4.5, capsize=2.0, elinewidth=0.9)
    ends = np.array([min(sizes), max(sizes)], dtype=np.float64)
    label = f"slope {slope.value:.2f} [{slope.low:.2f}, {slope.high:.2f}]"
    ax.plot(ends, np.exp(slope.intercept) * ends**slope.value, "--", color=INK, linewidth=1.2, label=label)
    ax.set_xscale("log")
    logarithmic(ax)
    ax.set_xticks(list(sizes), [f"{size:g}" for size in sizes])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlabel(size_name)
    ax.set_ylabel(quantity.upper())
    ax.legend()
    grid(ax)
    return ax


class _FromZero(AutoLocator):
    """Ticks for what cannot be below 0, whatever is drawn there."""

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        return super().tick_values(max(vmin, 0.0), max(vmax, 0.0))


def _density(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A smooth density of the values below 0 and one of those above: none of it crosses 0, as no value is near it."""
    sides = []
    for side in (values[values < 0], values[values > 0]):
        if len(side):
            width, far = _bandwidth(side), side[np.argmax(np.abs(side))]
            x = np.linspace(0.0, far + 3 * width * np.sign(far), POINTS)
            bells = sum(np.exp(-0.5 * ((x[:, None] - centre) / width) ** 2) for centre in (side, -side))
            sides.append((x, bells.sum(1) / (len(values) * width * np.sqrt(2 * np.pi))))
    below = [(x[::-1], y[::-1]) for x, y in sides if x[-1] < 0]
    both = [*below, *[(x, y) for x, y in sides if x[-1] > 0]] or [(np.zeros(1), np.zeros(1))]
    return np.concatenate([x for x, _ in both]), np.concatenate([y for _, y in both])


def _bandwidth(values: np.ndarray) -> float:
    """Silverman's rule with the robust spread; for equal values, a small share of them."""
    quartiles = np.percentile(values, [25, 75])
    spread = min(float(values.std()), float(np.diff(quartiles)[0]) / 1.349) or float(values.std())
    return 0.9 * spread * len(values) ** -0.2 or 0.05 * abs(float(values[0]))


def _marks(ax: Axes, result: HessianResult, colour: str, level: float) -> None:
    """A short line per eigenvalue, below the curves; a cross where it did not converge."""
    values, converged = result.eigenvalues.ravel(), result.converged.ravel()
    for chosen, marker in ((converged, "|"), (~converged, "x")):
        heights = np.full(int(chosen.sum()), level)
        ax.plot(values[chosen], heights, marker, color=colour, markersize=5.5, alpha=0.8, markeredgewidth=0.9)


def _label(result: HessianResult) -> str:
    nep = f"NEP {100 * result.nep:.0f} % [{100 * result.nep_low:.0f}, {100 * result.nep_high:.0f}]"
    ape = f"APE {result.ape:.3g} [{result.ape_low:.3g}, {result.ape_high:.3g}]"
    rough = f"\n{result.unconverged} of {result.converged.size} not converged" if result.unconverged else ""
    of = "" if result.params == ALL_PARAMETERS else f" ({result.params})"
    return f"{result.model}{of}: {nep}, {ape}{rough}"


def _trace(result: HessianDensityResult) -> str:
    return f"trace {result.trace:.3g} [{result.trace_low:.3g}, {result.trace_high:.3g}]"
