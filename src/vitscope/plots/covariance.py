"""Figures of the covariance exam."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle

from vitscope.exams.features.covariance import CovarianceResult
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import DEPTH, INK, grid

MAPS = 4  # units shown as maps
LEAST_SCALE = 0.05  # of the colours: what is less is noise


@figure("covariance", "Correlation with the centre point under noise, by distance; at 0 it is 1.")
def plot_covariance(result: CovarianceResult, ax: Axes | None = None, colour: str | None = None) -> Axes:
    """Correlation with the centre point against the distance in pixels, one line per unit, coloured by depth."""
    ax = axes_or_new(ax)
    for i, unit in enumerate(result.units):
        rows = (result.row_unit == i) & (result.radius > 0)  # with itself the centre point always agrees
        pixels = result.radius[rows] * result.stride[i]
        shade = DEPTH(unit.depth)
        ax.fill_between(pixels, result.low[rows], result.high[rows], color=shade, alpha=0.18, linewidth=0)
        ax.plot(pixels, result.value[rows], "-o", color=shade, linewidth=1.3, markersize=2.6, alpha=0.9)
    ax.axhline(0.0, color=INK, linewidth=0.8)
    ax.set_xlim(left=0.0)
    ax.set_xlabel("Distance from the centre point (pixels)")
    ax.set_ylabel("Correlation")
    grid(ax)
    drawing = ax.get_figure()
    if drawing is not None:
        bar = drawing.colorbar(ScalarMappable(Normalize(0, 1), DEPTH), ax=ax, pad=0.02, aspect=30)
        bar.set_label("Normalised depth")
        bar.outline.set_visible(False)
    return ax


def common_limit(results: Sequence[CovarianceResult]) -> dict[str, Any]:
    """Where the colours of several models end."""
    return {"limit": max(_limit(_pictures(result)) for result in results)}


@figure(
    "covariance",
    "As maps, for units from the first to the last; the square is the centre point.",
    "covariance_maps",
    common_limit,
)
def plot_covariance_maps(
    result: CovarianceResult, ax: Axes | None = None, colour: str | None = None, limit: float | None = None
) -> Axes:
    """Correlation of every point with the centre point, as a map, for a few units from first to last.

    Colours end at `limit`, by default at the largest value that is drawn.
    """
    ax = axes_or_new(ax)
    pictures = _pictures(result)
    limit = _limit(pictures) if limit is None else limit
    ax.set_axis_off()
    columns = 2
    rows = -(-len(pictures) // columns)
    for place, (i, picture) in enumerate(pictures.items()):
        row, column = divmod(place, columns)
        width, height = 0.84 / columns, 0.84 / rows
        box = (column * (width + 0.05), 1.0 - height - row * (height + 0.14), width, height)
        panel = ax.inset_axes(box)
        panel.imshow(picture, cmap="RdBu_r", vmin=-limit, vmax=limit, interpolation="nearest")
        centre = (picture.shape[1] // 2 - 0.5, picture.shape[0] // 2 - 0.5)
        panel.add_patch(Rectangle(centre, 1, 1, fill=False, edgecolor=INK, linewidth=1.0))
        panel.spines[:].set_visible(True)
        panel.set_xticks([])
        panel.set_yticks([])
        panel.set_title(result.units[i].name, fontsize=9.0, pad=3.0)
    drawing = ax.get_figure()
    if drawing is not None:
        bar = drawing.colorbar(
            ScalarMappable(Normalize(-limit, limit), "RdBu_r"), ax=ax, aspect=30, extend="max"
        )
        bar.set_label("Correlation")
        bar.outline.set_visible(False)
    return ax


def _pictures(result: CovarianceResult) -> dict[int, np.ndarray]:
    """The maps that are shown, by the unit's number."""
    chosen = np.unique(np.linspace(0, len(result.units) - 1, MAPS).round().astype(int))
    return {int(i): result.correlation_map(int(i)) for i in chosen}


def _limit(pictures: dict[int, np.ndarray]) -> float:
    """The largest value: but for the centre point, which is 1 and would make all others pale."""
    largest = [np.nanmax(np.abs(_around(picture)), initial=0.0) for picture in pictures.values()]
    return max(LEAST_SCALE, *map(float, largest))


def _around(picture: np.ndarray) -> np.ndarray:
    """All points but the centre."""
    centre = (picture.shape[0] // 2) * picture.shape[1] + picture.shape[1] // 2
    return np.delete(picture.ravel(), centre)
