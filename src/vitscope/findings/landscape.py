"""What `landscape` finds: result, reading and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from vitscope.core import pd
from vitscope.core.arguments import NotEmpty, checked
from vitscope.core.statistics import Estimate
from vitscope.drawing import mpl
from vitscope.drawing.figures import axes_or_new, figure, projected
from vitscope.drawing.style import MODELS, styled
from vitscope.results import About, Result, tidy
from vitscope.results.loss_numbers import CLASSIFICATION, LossPoints
from vitscope.results.numbers import by_name, reads
from vitscope.results.numbers import with_interval as number


@dataclass(frozen=True)
class Mark:
    """Where other weights lie.

    Attributes:
        name: Of the checkpoint or model.
        x: First coordinate of the nearest point of the plane.
        y: Second coordinate of it.
        off: Share of the distance to the centre that leads off the plane: 0 on it, 1 straight above the centre.
        epoch: Of a checkpoint; None for another model.
    """

    name: str
    x: float
    y: float
    off: float
    epoch: float | None


@dataclass(frozen=True)
class Centre:
    """The loss at the model's own weights."""

    nll: Estimate[float]
    accuracy: Estimate[float]
    l2: float


QUANTITIES = ("nll", "l2", "loss", "accuracy", "rise")


@dataclass(frozen=True, eq=False, kw_only=True)
class LandscapeResult(LossPoints, Result, exam="landscape", after="hessian_training", version=2):
    """The loss on a grid; grids are (y, x), n is the number of images."""

    about = About(
        title="Loss landscape",
        shows="The loss on the augmented training images where the weights are moved along two directions; the centre "
        "is the model itself. A wide bowl is a flat minimum, steep walls a sharp one.",
        papers="In the paper the landscape of ViT is flatter than that of ResNet, most of all at the boundary.",
        misleads="Two random directions out of millions show little of the whole, and a smooth picture can hide "
        "directions in which the loss falls. Filter normalisation takes out the scale of weights, not all of what "
        "makes models differ: compare models that were trained alike, on the same images.",
    )
    measures = (*QUANTITIES, *(f"centre {name}" for name in QUANTITIES[:4]), "edge rise", "points not finite")

    x: np.ndarray
    y: np.ndarray
    rise: Estimate[np.ndarray]  # of the NLL over that of the centre, image by image
    centre: Centre
    directions: str
    normalisation: str
    explained: (
        np.ndarray
    )  # (2,) share of the squared distances of the marks along each direction; NaN if not pca
    eigenvalues: np.ndarray  # (2,) curvature along each direction; NaN if not hessian
    residuals: np.ndarray  # (2,) of the eigenvalues
    marks: tuple[Mark, ...]
    moved: tuple[str, ...]  # names of the parameters that are moved
    moved_numbers: int
    parameters: int

    @property
    def edge(self) -> np.ndarray:
        """Which points lie on the boundary of the grid."""
        found = np.ones(self.nll.value.shape, dtype=bool)
        found[1:-1, 1:-1] = False
        return found

    def table(self) -> pd.DataFrame:
        """`nll`, `l2`, `loss`, `accuracy` (if there is one) and `rise` by `x` and `y`, after what `summary` holds."""
        x, y = np.meshgrid(self.x, self.y)
        place = {"x": x.ravel(), "y": y.ravel()}
        grids = []
        for quantity in (name for name in QUANTITIES if name != "accuracy" or self.has_accuracy):
            grids.append(tidy(quantity, *self.of(quantity).each(np.ravel), self.n, **place))
        return pd.concat([self.summary(), *grids], ignore_index=True)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The marks have a table of their own."""
        rows = [(mark.name, mark.epoch, mark.x, mark.y, mark.off) for mark in self.marks]
        marks = pd.DataFrame(rows, columns=["name", "epoch", "x", "y", "off"])
        return {**super().tables(), "landscape_marks": marks}

    def summary(self) -> pd.DataFrame:
        """The centre, the mean rise along the edge of the grid, and the points where the loss is not finite.

        The interval of the mean rise is the mean of its points' intervals, which is never too narrow.
        """
        c, unknown = self.centre, float("nan")
        with np.errstate(invalid="ignore"):
            edge = self.rise.each(lambda part: float(np.mean(part[self.edge])))
        rows: list[tuple[str, float, float, float]] = [
            ("centre nll", *c.nll),
            ("centre l2", c.l2, unknown, unknown),
            ("centre loss", *c.nll.each(lambda number: number + c.l2)),
            *([("centre accuracy", *c.accuracy)] if self.has_accuracy else []),
            ("edge rise", *edge),
            ("points not finite", float(self.not_finite), unknown, unknown),
        ]
        names, values, lows, highs = zip(*rows, strict=True)
        nowhere = np.full(len(rows), np.nan)
        return tidy(names, values, lows, highs, self.n, x=nowhere, y=nowhere)


@reads("landscape")
def _landscape(result: LandscapeResult) -> str:
    rows = by_name(result.summary())
    loss = "NLL" if result.task == CLASSIFICATION else "loss"
    text = f"At the model itself the {loss} is {number(rows['centre nll'])}; along the edge of the grid it is higher "
    text += f"by {number(rows['edge rise'])} on average."
    if result.not_finite:
        text += f" At {result.not_finite} of {result.nll.value.size} points it is not finite."
    return text


COLOURS = "YlGnBu_r"


LEVELS = 14


MARK, WORDS = "#e4572e", "#101418"  # seen on every one of those colours; not the page's own ink


# Colours end at so many times the median's height above the bottom: walls would hide the floor otherwise.
_TALL = 4.0


def common_levels(results: Sequence[LandscapeResult]) -> dict[str, Any]:
    """Levels for the NLL of several models: on the same colours it is seen which one is flat."""
    values = [masked(result.of("nll")[0]).compressed() for result in results]
    together = masked(np.concatenate(values))
    return {"levels": round_levels(together)} if together.count() else {}


@figure(
    "landscape",
    "NLL (of other tasks their loss) on the augmented training images around the weights (cross) along two directions; "
    "l2 left out. Lines join "
    "points of equal loss; grey: not finite.",
    common=common_levels,
)
def plot_landscape(
    result: LandscapeResult,
    ax: mpl.Axes | None = None,
    colour: str = MODELS[0],
    quantity: str = "nll",
    levels: np.ndarray | None = None,
) -> mpl.Axes:
    """Contours of a quantity (nll, l2, loss, accuracy, rise), with the marks on them.

    Checkpoints of a run are joined in the order of the training. Without `levels` they are round numbers between the
    model's own least and largest value.
    """
    ax = axes_or_new(ax)
    values = masked(result.of(quantity)[0])
    ax.set_facecolor("#b9bec4")  # shows where values are masked
    if values.count():
        levels = round_levels(values) if levels is None else levels
        extend = "max" if float(values.max()) > levels[-1] else "neither"
        filled = ax.contourf(result.x, result.y, values, levels=levels, cmap=COLOURS, extend=extend)
        ax.contour(result.x, result.y, values, levels=levels, colors="white", linewidths=0.5, alpha=0.7)
        bar = ax.figure.colorbar(filled, ax=ax, label=result.label(quantity), pad=0.03, aspect=28)
        bar.outline.set_visible(False)
    _marks(ax, result)
    ax.plot(0.0, 0.0, "+", color=MARK, markersize=10, markeredgewidth=1.8, path_effects=_outlined(3.0))
    ax.set_aspect("equal" if _square(result) else "auto")
    ax.set_xlim(result.x[0], result.x[-1])
    ax.set_ylim(result.y[0], result.y[-1])
    ax.set_xlabel(direction(result, 0))
    ax.set_ylabel(direction(result, 1))
    note_missing(ax, result.not_finite, result.nll.value.size)
    return ax


def masked(values: np.ndarray) -> np.ma.MaskedArray[Any, Any]:
    """The values, those that are not finite left out."""
    return np.ma.masked_invalid(values)


def round_levels(values: np.ma.MaskedArray[Any, Any]) -> np.ndarray:
    """Round levels from the bottom up to the top, or to a height beyond which there are only walls."""
    low, high = float(values.min()), float(values.max())
    top = min(high, low + _TALL * (float(np.ma.median(values)) - low))
    if not top > low:
        return np.array([low, low + max(abs(low), 1.0) * 1e-6])
    return np.asarray(mpl.MaxNLocator(LEVELS, steps=[1, 2, 2.5, 5, 10]).tick_values(low, top))


def _marks(ax: mpl.Axes, result: LandscapeResult) -> None:
    """Checkpoints as a way with its start named, other models as diamonds with names."""
    way = [mark for mark in result.marks if mark.epoch is not None]
    others = [mark for mark in result.marks if mark.epoch is None]
    if way:
        x, y = [mark.x for mark in way], [mark.y for mark in way]
        ax.plot(x, y, "-o", color=MARK, linewidth=1.3, markersize=3.6, path_effects=_outlined(2.6))
    for mark in others:
        ax.plot(mark.x, mark.y, "D", color=MARK, markersize=5.0, path_effects=_outlined(2.6))
    for mark in (*way[:1], *(mark for mark in way[1:-1] if mark.name == "warmup"), *others):
        place: dict[str, Any] = {"xytext": (6, 3), "textcoords": "offset points"}
        text = ax.annotate(mark.name, (mark.x, mark.y), fontsize=8.5, color=WORDS, **place)
        text.set_path_effects(_outlined(2.0))


def _outlined(width: float) -> list[mpl.AbstractPathEffect]:
    return [mpl.withStroke(linewidth=width, foreground="white")]


def direction(result: LandscapeResult, place: int) -> str:
    """What stands at an axis."""
    if result.directions == "pca":
        return f"PC {place + 1} ({100 * result.explained[place]:.0f} %)"
    if result.directions == "hessian":
        return f"Eigenvector {place + 1} (λ = {result.eigenvalues[place]:.3g})"
    return ("First direction", "Second direction")[place]


def _square(result: LandscapeResult) -> bool:
    return bool(np.isclose(np.ptp(result.x), np.ptp(result.y), rtol=0.5))


def missing(count: int, total: int) -> str:
    """In words."""
    return f"{count} of {total} points not finite"


def note_missing(ax: mpl.Axes, count: int, total: int) -> None:
    """Say on the figure how many points could not be measured."""
    if count:
        ax.text(0.0, 1.02, missing(count, total), transform=ax.transAxes, fontsize=9.0)


def common_height(results: Sequence[LandscapeResult]) -> dict[str, Any]:
    """Where the surfaces of several models begin and end: beside a single spike all others would be flat."""
    levels = common_levels(results).get("levels") if len(results) > 1 else None
    return {} if levels is None else {"height": (float(levels[0]), float(levels[-1]))}


@figure(
    "landscape",
    "The same as a surface; of several models, walls above the common scale are cut off.",
    "landscape_surface",
    common_height,
)
def plot_landscape_surface(
    result: LandscapeResult,
    ax: mpl.Axes | None = None,
    colour: str = MODELS[0],
    quantity: str = "nll",
    height: tuple[float, float] | None = None,
) -> mpl.Axes:
    """A quantity as a surface in space, as the paper draws it; the axes given are replaced by axes in space.

    `height` is where the vertical axis and the colours begin and end, and where walls are cut off; default: where the
    model's own values begin and end.
    """
    space: Any = projected(axes_or_new(ax), "3d")
    value = masked(result.of(quantity)[0])
    if height is not None:
        value = np.ma.minimum(value, height[1])
    x, y = np.meshgrid(result.x, result.y)
    top = round_levels(value)[-1] if value.count() else 1.0
    space.plot_surface(
        x,
        y,
        value.filled(np.nan),
        cmap=COLOURS,
        vmin=float(value.min()) if value.count() else 0.0,
        vmax=top,
        rcount=len(result.y),
        ccount=len(result.x),
        linewidth=0.25,
        edgecolor=(1.0, 1.0, 1.0, 0.45),
        antialiased=True,
    )
    space.view_init(elev=28, azim=-58)
    space.set_box_aspect((1.0, 1.0, 0.75), zoom=1.0)
    for axis in (space.xaxis, space.yaxis, space.zaxis):
        axis.pane.set_alpha(0.0)
        axis.set_major_locator(mpl.MaxNLocator(5, steps=[1, 2, 5, 10]))
        axis.set_tick_params(labelsize=8.0, pad=0.0)
        axis._axinfo["grid"].update(color="#80808040", linewidth=0.5)
    space.set_xlabel(direction(result, 0), labelpad=0.0)
    space.set_ylabel(direction(result, 1), labelpad=0.0)
    space.set_zlabel(result.label(quantity), labelpad=1.0)
    if height is not None:
        _raise_to(space, height)
    if result.not_finite:
        space.text2D(0.02, 0.96, missing(result.not_finite, result.nll.value.size), transform=space.transAxes)
    return space


@checked
def plot_landscape_surfaces(
    results: Annotated[Sequence[LandscapeResult], NotEmpty], quantity: str = "nll"
) -> list[mpl.Axes]:
    """The surfaces of several models side by side, of equal height, in a new figure."""
    with styled():
        drawing = mpl.Figure(figsize=(4.6 * len(results), 3.6), layout="constrained")
        panels: list[Any] = []
        for place, result in enumerate(results):
            panel = drawing.add_subplot(1, len(results), place + 1, projection="3d")
            panels.append(plot_landscape_surface(result, panel, quantity=quantity))
            panel.set_title(result.model, y=0.97)
            panel.set_box_aspect((1.0, 1.0, 0.75), zoom=0.9)
    values = [masked(result.of(quantity)[0]) for result in results]
    low, high = (float(end) for end in (min(v.min() for v in values), max(v.max() for v in values)))
    for panel in panels:
        _raise_to(panel, (low, high))
    return panels


def _raise_to(space: Any, height: tuple[float, float]) -> None:
    space.set_zlim(*height)
    for surface in space.collections:
        surface.set_clim(*height)
