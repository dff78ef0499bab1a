"""What `hessian` finds: result, reading and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import numpy as np

from vitscope.core import pd
from vitscope.core.arguments import NotEmpty, checked
from vitscope.core.statistics import Estimate, mean_interval
from vitscope.drawing import mpl
from vitscope.drawing.curves import in_colours, legend_above
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK, MODELS, grid
from vitscope.results import About, Result, tidy
from vitscope.results.codec import stored_as
from vitscope.results.loss_numbers import BatchCurvature
from vitscope.results.numbers import by_name, reads
from vitscope.results.numbers import with_interval as number

ALL_PARAMETERS = "all that learn"


@dataclass(frozen=True, eq=False, kw_only=True)
class HessianResult(BatchCurvature, Result, exam="hessian", after="covariance", version=2):
    """The spectrum of a model; arrays are (batches, k) or (batches,), n is the number of images."""

    about = About(
        title="Hessian max eigenvalue spectrum",
        shows="The eigenvalues of largest magnitude of the Hessian of the training loss, of every mini-batch. Values "
        "below 0 are directions in which the loss curves down (not convex), large ones are steep (sharp).",
        papers="In the paper ViT has many negative eigenvalues and small positive ones, ResNet few negative and large "
        "positive ones; averaging tokens, more data and more heads suppress the negative ones.",
        misleads="It depends on the batch size, the augmentation and the l2 term, which are stated. Weights before a "
        "normalisation can be rescaled without any effect on the output, and the eigenvalues with them: compare models "
        "that were trained alike.",
    )
    measures = ("nep", "ape", "unconverged", "products", "l2", "nll", "loss", "eigenvalue")

    eigenvalues: np.ndarray
    residuals: np.ndarray  # ||H v - λ v|| / |λ|
    converged: np.ndarray  # whether the residual is within tol
    products: np.ndarray
    nll: np.ndarray
    l2: np.ndarray
    mode: str
    tol: float
    negative_share: Estimate[float] = field(metadata=stored_as("nep", "nep_low", "nep_high"))
    positive_mean: Estimate[float] = field(metadata=stored_as("ape", "ape_low", "ape_high"))

    @property
    def nep(self) -> float:
        """The share of negative eigenvalues."""
        return self.negative_share.value

    @property
    def ape(self) -> float:
        """The mean of the positive ones."""
        return self.positive_mean.value

    @property
    def unconverged(self) -> int:
        """How many eigenvalues are not within the tolerance."""
        return int((~self.converged).sum())

    def table(self) -> pd.DataFrame:
        """`nep`, `ape`; `nll`, `l2`, `loss` (means over batches); `products` (all); `eigenvalue` by batch and place.

        `residual` and `converged` belong to eigenvalues; `unconverged` counts those that are not.
        """
        batches, k = self.eigenvalues.shape
        rows = [self._row("nep", *self.negative_share), self._row("ape", *self.positive_mean)]
        rows.append(self._row("unconverged", self.unconverged, np.nan, np.nan))
        rows.append(self._row("products", float(self.products.sum()), np.nan, np.nan))
        rows.append(self._row("l2", float(self.l2.mean()), np.nan, np.nan))
        for quantity, numbers in (("nll", self.nll), ("loss", self.nll + self.l2)):
            found = mean_interval(np.array(numbers.sum()), np.array((numbers**2).sum()), batches)
            rows.append(self._row(quantity, *map(float, found)))
        unknown = np.full(batches * k, np.nan)
        own: dict[str, Any] = {
            "batch": np.repeat(np.arange(batches), k),
            "place": np.tile(np.arange(k), batches),
        }
        own |= {"residual": self.residuals.ravel(), "converged": self.converged.ravel()}
        rows.append(tidy("eigenvalue", self.eigenvalues.ravel(), unknown, unknown, self.batch_size, **own))
        table = pd.concat(rows, ignore_index=True)
        return table.astype({"batch": "Int64", "place": "Int64", "converged": "boolean"})

    def summary(self) -> pd.DataFrame:
        """What describes the spectrum as a whole."""
        table = self.table()
        return table[table["quantity"] != "eigenvalue"].reset_index(drop=True)

    def _row(self, quantity: str, value: float, low: float, high: float) -> pd.DataFrame:
        none: dict[str, Any] = {
            "batch": [pd.NA],
            "place": [pd.NA],
            "residual": [np.nan],
            "converged": [pd.NA],
        }
        return tidy(quantity, [value], [low], [high], self.n, **none)


@reads("hessian")
def _hessian(result: HessianResult) -> str:
    nep, total = by_name(result.summary())["nep"], result.eigenvalues.size
    text = (
        f"{100 * result.nep:.0f} % [{100 * nep.low:.0f}, {100 * nep.high:.0f}] of the {total} largest eigenvalues, "
        f"{result.eigenvalues.shape[1]} per batch of {result.batch_size} images, are negative; the mean of the "
        f"positive ones is {number(by_name(result.summary())['ape'])}."
    )
    if result.unconverged:
        return f"{text} {result.unconverged} have not converged: read them as bounds."
    return f"{text} All have converged."


POINTS = 400


@figure(
    "hessian",
    "Density and marks of the eigenvalues of all mini-batches; crosses, if any, did not converge. NEP: share below 0; "
    "APE: mean of those above.",
)
def plot_hessian(result: HessianResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]) -> mpl.Axes:
    """The Hessian max eigenvalue spectrum of one model."""
    return plot_hessian_spectra([result], ax, [colour])


@checked
def plot_hessian_spectra(
    results: Annotated[Sequence[HessianResult], NotEmpty],
    ax: mpl.Axes | None = None,
    colours: Sequence[str] | None = None,
) -> mpl.Axes:
    """The spectra of several models on one axis, as the paper draws them, each with its NEP and APE.

    Args:
        results: One per model.
        ax: Where to draw.
        colours: One per model; default: the colours of a comparison.
    """
    ax = axes_or_new(ax)
    curves = [_density(result.eigenvalues.ravel()) for result in results]
    row = 0.05 * max(
        float(density.max()) for _, density in curves
    )  # height of a model's marks below the curves
    models = zip(in_colours(results, colours), curves, strict=True)
    for place, ((result, colour), (x, density)) in enumerate(models):
        ax.plot(x, density, color=colour, linewidth=1.6, label=_label(result))
        ax.fill_between(x, density, color=colour, alpha=0.15, linewidth=0)
        _marks(ax, result, colour, -row * (place + 0.6))
    ax.axvline(0.0, color=INK, linewidth=0.8)
    ax.set_ylim(bottom=-row * (len(results) + 0.2))
    ax.yaxis.set_major_locator(_from_zero())
    ax.set_xlabel("Hessian max eigenvalue")
    ax.set_ylabel("Density")
    legend_above(ax, columns=1, handlelength=1.2)
    grid(ax)
    return ax


def _from_zero() -> mpl.AutoLocator:
    """Ticks for what cannot be below 0, whatever is drawn there."""

    class FromZero(mpl.AutoLocator):
        def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
            return super().tick_values(max(vmin, 0.0), max(vmax, 0.0))

    return FromZero()


def _density(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A smooth density of the values below 0 and one of those above: none of it crosses 0, as no value is near it."""
    sides = []
    for side in (values[values < 0], values[values > 0]):
        if len(side):
            width, far = _bandwidth(side), side[np.argmax(np.abs(side))]
            x = np.linspace(0.0, far + 3 * width * np.sign(far), POINTS)
            # as scipy.stats' gaussian_kde, whose import takes 0.6 s of CPU time where all that a page needs takes 0.8
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


def _marks(ax: mpl.Axes, result: HessianResult, colour: str, level: float) -> None:
    """A short line per eigenvalue, below the curves; a cross where it did not converge."""
    values, converged = result.eigenvalues.ravel(), result.converged.ravel()
    for chosen, marker in ((converged, "|"), (~converged, "x")):
        heights = np.full(int(chosen.sum()), level)
        ax.plot(values[chosen], heights, marker, color=colour, markersize=5.5, alpha=0.8, markeredgewidth=0.9)


def _label(result: HessianResult) -> str:
    share, mean = result.negative_share.scaled(100), result.positive_mean
    nep = f"NEP {share.value:.0f} % [{share.low:.0f}, {share.high:.0f}]"
    ape = f"APE {mean.value:.3g} [{mean.low:.3g}, {mean.high:.3g}]"
    rough = f"\n{result.unconverged} of {result.converged.size} not converged" if result.unconverged else ""
    of = "" if result.params == ALL_PARAMETERS else f" ({result.params})"
    return f"{result.model}{of}: {nep}, {ape}{rough}"
