"""What `covariance` finds: result, reading and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vitscope.core import pd
from vitscope.drawing import mpl
from vitscope.drawing.curves import colour_bar
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK, depth_colours, grid
from vitscope.results import About, Result, UnitRow, tidy
from vitscope.results.numbers import reads
from vitscope.results.numbers import with_interval as number
from vitscope.results.table import Estimated


@dataclass(frozen=True, eq=False, kw_only=True)
class CovarianceResult(Estimated, Result, exam="covariance", after="uncertainty", version=2):
    """Covariance of each unit's points with its centre point; n is the number of noise images."""

    makes_images = True
    about = About(
        title="Feature covariance",
        shows="How alike the points of a feature map are to its centre point when the input is pure noise, by distance "
        "in pixels of the image. A curve that falls slowly is a unit whose points already speak for their neighbours.",
        papers="In the papers one 3x3 convolution ties together points up to three pixels apart, and a deep CNN does "
        "so more strongly and further.",
        misleads="Noise is not an image: this shows what the architecture and its weights mix, not what natural images "
        "have in common. Position embeddings and biases are the same for all images and drop out.",
    )
    measures = ("correlation",)

    units: tuple[UnitRow, ...]
    stride: np.ndarray  # (units,) pixels of the image from one point of the map to the next
    point_unit: np.ndarray  # (points,) all points of all maps, row by row: position of the unit
    covariance: np.ndarray
    correlation: np.ndarray
    row_unit: np.ndarray  # (rows,) all distances of all maps
    radius: np.ndarray  # in points of the map

    def covariance_map(self, position: int) -> np.ndarray:
        """(H, W) of the unit at this position."""
        return self._map(self.covariance, position)

    def correlation_map(self, position: int) -> np.ndarray:
        """(H, W) of the unit at this position."""
        return self._map(self.correlation, position)

    def table(self) -> pd.DataFrame:
        """Quantity `correlation`, a row per unit and distance: `radius` in points, `pixels` in those of the image."""
        units = [self.units[i] for i in self.row_unit]
        own = {"radius": self.radius, "pixels": self.radius * self.stride[self.row_unit]}
        return tidy("correlation", *self.estimate, self.n, units, **own)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The maps have a table of their own."""
        shapes = [unit.map_shape for unit in self.units]
        places = [np.divmod(np.arange(h * w), w) for _, h, w in (s for s in shapes if s is not None)]
        points = pd.DataFrame(
            {
                "unit": [self.units[i].name for i in self.point_unit],
                "row": np.concatenate([rows for rows, _ in places]),
                "column": np.concatenate([columns for _, columns in places]),
                "covariance": self.covariance,
                "correlation": self.correlation,
            }
        )
        return {**super().tables(), "covariance_map": points}

    def summary(self) -> pd.DataFrame:
        """The correlation of direct neighbours."""
        table = self.table()
        return table[table["radius"] == 1].reset_index(drop=True)

    def _map(self, numbers: np.ndarray, position: int) -> np.ndarray:
        shape = self.units[position].map_shape
        assert shape is not None
        return numbers[self.point_unit == position].reshape(shape[1:])


MAPS = 4  # units shown as maps


LEAST_SCALE = 0.05  # of the colours: what is less is noise


@figure("covariance", "Correlation with the centre point under noise, by distance; at 0 it is 1.")
def plot_covariance(
    result: CovarianceResult, ax: mpl.Axes | None = None, colour: str | None = None
) -> mpl.Axes:
    """Correlation with the centre point against the distance in pixels, one line per unit, coloured by depth."""
    ax = axes_or_new(ax)
    for i, unit in enumerate(result.units):
        rows = (result.row_unit == i) & (result.radius > 0)  # with itself the centre point always agrees
        pixels = result.radius[rows] * result.stride[i]
        shade = depth_colours()(unit.depth)
        ax.fill_between(pixels, result.low[rows], result.high[rows], color=shade, alpha=0.18, linewidth=0)
        ax.plot(pixels, result.value[rows], "-o", color=shade, linewidth=1.3, markersize=2.6, alpha=0.9)
    ax.axhline(0.0, color=INK, linewidth=0.8)
    ax.set_xlim(left=0.0)
    ax.set_xlabel("Distance from the centre point (pixels)")
    ax.set_ylabel("Correlation")
    grid(ax)
    colour_bar(ax)
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
    result: CovarianceResult,
    ax: mpl.Axes | None = None,
    colour: str | None = None,
    limit: float | None = None,
) -> mpl.Axes:
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
        panel.add_patch(mpl.Rectangle(centre, 1, 1, fill=False, edgecolor=INK, linewidth=1.0))
        panel.spines[:].set_visible(True)
        panel.set_xticks([])
        panel.set_yticks([])
        panel.set_title(result.units[i].name, fontsize=9.0, pad=3.0)
    colours = mpl.ScalarMappable(mpl.Normalize(-limit, limit), "RdBu_r")
    colour_bar(ax, "Correlation", colours, extend="max")
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


@reads("covariance")
def _covariance(result: Result) -> str:
    near = result.summary()
    near = near[near["value"].notna()]
    if near.empty:
        return ""
    first, *_, last = near.itertuples()
    return (
        f"On noise, neighbouring points correlate by {number(first)} after {first.unit} and by {number(last)} after "
        f"{last.unit}, {last.pixels:g} pixels of the image apart."
    )
