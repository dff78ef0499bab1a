"""Landscapes in space, as the paper draws them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np

from vitscope.core.arguments import NotEmpty, checked
from vitscope.drawing import mpl
from vitscope.drawing.figures import axes_or_new, figure, projected
from vitscope.drawing.style import MODELS, styled
from vitscope.findings.landscape import (
    COLOURS,
    LandscapeResult,
    common_levels,
    direction,
    masked,
    missing,
    round_levels,
)


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
