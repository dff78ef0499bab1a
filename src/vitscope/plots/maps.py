"""Figure of the attention maps: a row per image, a column per head."""

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes

from vitscope.engine.attention.layer_maps import THRESHOLD
from vitscope.exams.attention.maps import MapsResult
from vitscope.plots.attention import NO_ATTENTION
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.heads import nothing

MOST_HEADS = 12  # that fit into a figure
MOST_IMAGES = 6
CELL = 96  # pixels of a cell
GAP = 4
HEAT = colormaps["inferno"]


@figure(
    "maps", "Image, heads of the last layer, rollout. White lines: half way between least and most attention."
)
def plot_maps(
    result: MapsResult, ax: Axes | None = None, colour: str | None = None, unit: str | None = None
) -> Axes:
    """Attention maps over the images, each from its own least (dark) to its own largest value (bright).

    Args:
        result: What was found.
        ax: Where to draw; default: axes of a new figure.
        colour: Of the model; maps have colours of their own.
        unit: Whose heads; default: the last layer, beside which the rollout is drawn.
    """
    ax = axes_or_new(ax)
    if not result.units:
        return nothing(ax, NO_ATTENTION)
    chosen = result.layers[-1] if unit is None else result.layer(unit)
    heads, images = min(chosen.heads, MOST_HEADS), result.images.array
    rows = min(len(images), MOST_IMAGES)
    names = ["image", *(f"head {h}" if heads <= 6 else str(h) for h in range(heads))]
    layers = [*np.moveaxis(chosen.scaled[:rows, :heads], 1, 0)]
    if result.rollout is not None and unit is None:
        names, layers = [*names, "rollout"], [*layers, result.rollout.scaled[:rows, 0]]
    columns = len(names)
    for row in range(rows):
        picture = np.moveaxis(images[row], 0, -1) / 255
        top = rows - row
        cells = [picture, *(_overlay(picture, layer[row]) for layer in layers)]
        for column, cell in enumerate(cells):
            inset = GAP / CELL / 2
            box = (column + inset, column + 1 - inset, top - 1 + inset, top - inset)
            ax.imshow(cell, extent=box, interpolation="nearest", origin="upper")
            if column:
                _outline(ax, layers[column - 1][row], box)
    for column, name in enumerate(names):
        ax.text(column + 0.5, rows + 0.06, name, ha="center", va="bottom", fontsize=8)
    ax.set_xlim(0, columns)
    ax.set_ylim(0, rows)
    ax.set_aspect("equal")
    ax.set_axis_off()
    return ax


def _overlay(picture: np.ndarray, attention: np.ndarray) -> np.ndarray:
    """The map in colours over a grey copy of the picture."""
    grey = picture.mean(2, keepdims=True)
    heat = HEAT(_enlarged(attention, grey.shape[:2]))[..., :3]
    return np.asarray(np.clip(0.35 * grey + 0.65 * heat, 0, 1))


def _enlarged(attention: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Each point of the map as the block of pixels it stands for."""
    y = np.arange(size[0]) * attention.shape[0] // size[0]
    x = np.arange(size[1]) * attention.shape[1] // size[1]
    return attention[y][:, x]


def _outline(ax: Axes, attention: np.ndarray, box: tuple[float, float, float, float]) -> None:
    """A line around the points at or above the threshold."""
    marked = np.pad(attention >= THRESHOLD, 1)
    left, right, bottom, top = box
    rows, columns = attention.shape
    wide, tall = (right - left) / columns, (top - bottom) / rows
    xs: list[float] = []
    ys: list[float] = []
    for r, c in zip(
        *np.nonzero(marked[1:, :] != marked[:-1, :]), strict=True
    ):  # edges between rows r-1 and r
        xs += [left + (c - 1) * wide, left + c * wide, np.nan]
        ys += [top - r * tall, top - r * tall, np.nan]
    for r, c in zip(*np.nonzero(marked[:, 1:] != marked[:, :-1]), strict=True):
        xs += [left + c * wide, left + c * wide, np.nan]
        ys += [top - (r - 1) * tall, top - r * tall, np.nan]
    ax.plot(xs, ys, color="white", linewidth=0.7, solid_capstyle="round")
