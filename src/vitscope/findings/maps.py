"""What `maps` finds: result, reading and figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vitscope.core import pd
from vitscope.core.errors import VitscopeError
from vitscope.core.statistics import mean_interval
from vitscope.drawing import mpl
from vitscope.drawing.curves import nothing
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.findings.attention import NO_ATTENTION
from vitscope.results import About, Result, UnitRow, tidy
from vitscope.results.codec import ByteArray
from vitscope.results.numbers import extremes, reads, rows_of


def normalised(maps: np.ndarray) -> np.ndarray:
    """Maps (..., H, W) from 0 to 1, each by its own least and largest value; a constant map is 0."""
    low, high = maps.min((-2, -1), keepdims=True), maps.max((-2, -1), keepdims=True)
    return np.where(high > low, (maps - low) / np.where(high > low, high - low, 1), 0)


STEPS = 255


THRESHOLD = 0.5  # of m': what is marked


@dataclass(frozen=True, eq=False)
class LayerMaps:
    """Attention of the heads of one layer in a few images."""

    query: str  # whose attention it is
    steps: ByteArray  # (images, heads, H, W)
    least: np.ndarray  # (images, heads)
    highest: np.ndarray  # (images, heads)

    @classmethod
    def of(cls, maps: np.ndarray, query: str) -> LayerMaps:
        """The maps (images, heads, H, W) of a layer."""
        exact = maps.astype(np.float64)
        steps = np.rint(STEPS * normalised(exact)).astype(np.uint8)
        return cls(query, ByteArray.of(steps), exact.min((2, 3)), exact.max((2, 3)))

    @property
    def heads(self) -> int:
        """How many there are."""
        return self.steps.shape[1]

    @property
    def scaled(self) -> np.ndarray:
        """(images, heads, H, W): each map from its own least value, 0, to its own largest, 1."""
        return self.steps.array / STEPS

    @property
    def attention(self) -> np.ndarray:
        """(images, heads, H, W): the maps themselves; at most 1/510 of a map's range is lost."""
        low, high = self.least[:, :, None, None], self.highest[:, :, None, None]
        return np.asarray(low + self.scaled * (high - low))

    @property
    def area(self) -> np.ndarray:
        """(images, heads): the share of the map that is at least half way from its least to its largest value."""
        return np.asarray((self.scaled >= THRESHOLD).mean((2, 3)))


@dataclass(frozen=True, eq=False, kw_only=True)
class MapsResult(Result, exam="maps", after="token_norms", version=2):
    """Attention of every layer in a few images, and the rollout."""

    about = About(
        title="Attention maps",
        shows="What each head looks at, image by image, and the rollout through the layers of the last stage. The "
        "figure shows the last layer. Each map is scaled by its own least and largest value; white lines mark what is "
        "above half way.",
        papers="In the paper, heads of a ViT spread over the whole image, while with Context Broadcasting they pick "
        "objects: the uniform part is taken care of.",
        misleads="A map shows where values are taken from, not what is in them. After several layers a token at a "
        "point holds much of its surroundings. Scaled maps hide how strong they are: see `highest` in the table.",
    )
    measures = ("area", "highest", "rollout area", "rollout highest")
    needs = "a model with attention"

    units: tuple[UnitRow, ...]  # the layers, first to last
    skipped: tuple[tuple[str, str], ...]  # units without a map, and why
    layers: tuple[LayerMaps, ...]  # of each unit
    rollout: LayerMaps | None  # as a layer of one head
    rollout_units: tuple[str, ...]
    images: ByteArray  # (images, 3, side, side)
    indices: np.ndarray  # (images,): their places in the data

    def layer(self, unit: str) -> LayerMaps:
        """The maps of one layer by the unit's name."""
        names = [one.name for one in self.units]
        if unit not in names:
            raise VitscopeError(f"no maps of '{unit}'; there are: {', '.join(names) or 'none'}")
        return self.layers[names.index(unit)]

    def table(self) -> pd.DataFrame:
        """Quantities `area` and `highest` per layer and head, and of the rollout; means over the images shown."""
        shown = [*zip(self.units, self.layers, strict=True)]
        units = [unit for unit, layer in shown for _ in range(layer.heads)]
        heads = [str(head) for _, layer in shown for head in range(layer.heads)]
        if self.rollout is not None:
            shown, units, heads = (
                [*shown, (units[-1], self.rollout)],
                [*units, units[-1]],
                [*heads, "rollout"],
            )
        tables = []
        for name in ("area", "highest"):
            parts = [np.zeros((self.n, 0)), *(getattr(layer, name) for _, layer in shown)]
            numbers = np.concatenate(parts, 1).T  # (heads of all layers, images)
            found = mean_interval(numbers.sum(1), np.square(numbers).sum(1), self.n)
            ends = found.bounded(most=1.0 if name == "area" else np.inf)
            tables.append(tidy(name, *ends, self.n, units, head=heads))
        return pd.concat(tables, ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """The rows of the rollout."""
        table = self.table()
        rollout = table[table["head"] == "rollout"].drop(columns="head").reset_index(drop=True)
        return rollout.assign(quantity=[f"rollout {name}" for name in rollout["quantity"]])


MOST_HEADS = 12  # that fit into a figure


MOST_IMAGES = 6


CELL = 96  # pixels of a cell


GAP = 4


HEAT = "inferno"


@figure(
    "maps", "Image, heads of the last layer, rollout. White lines: half way between least and most attention."
)
def plot_maps(
    result: MapsResult, ax: mpl.Axes | None = None, colour: str | None = None, unit: str | None = None
) -> mpl.Axes:
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
    heat = mpl.colormaps[HEAT](_enlarged(attention, grey.shape[:2]))[..., :3]
    return np.asarray(np.clip(0.35 * grey + 0.65 * heat, 0, 1))


def _enlarged(attention: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Each point of the map as the block of pixels it stands for."""
    y = np.arange(size[0]) * attention.shape[0] // size[0]
    x = np.arange(size[1]) * attention.shape[1] // size[1]
    return attention[y][:, x]


def _outline(ax: mpl.Axes, attention: np.ndarray, box: tuple[float, float, float, float]) -> None:
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


@reads("maps")
def _maps(result: MapsResult) -> str:
    area = rows_of(result.table(), "area")
    if area.empty:
        return ""
    heads = area[area["head"] != "rollout"]
    first, last = (heads[heads["unit"] == result.units[place].name] for place in (0, -1))
    small, large = extremes(last)
    text = (
        f"In {result.units[-1].name}, heads mark {100 * small.value:.0f} % (head {small.head}) to "
        f"{100 * large.value:.0f} % (head {large.head}) of the map, over {result.n} images; the attention is that of "
        f"the {result.layers[-1].query}."
    )
    if len(result.units) == 1:
        return text
    means = [100 * rows["value"].mean() for rows in (first, last)]
    return f"{text} On average it is {means[1]:.0f} %, and {means[0]:.0f} % in {result.units[0].name}."
