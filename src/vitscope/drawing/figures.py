"""Which figures an exam has (a plot function says so with `@figure`), their axes, and their files."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar, cast

from vitscope.core.arguments import checked
from vitscope.core.interrupt import check_stop
from vitscope.drawing import mpl
from vitscope.drawing.style import legible, styled
from vitscope.results import Result, atomic_write

PlotFunction = TypeVar("PlotFunction", bound="Callable[..., mpl.Axes]")
_DPI = 160
NOTHING = "nothing"  # marks the line that says why there is nothing to draw
Common = Callable[[Sequence[Any]], dict[str, Any]]


@dataclass(frozen=True)
class Plot:
    """A way to draw an exam's result: name of the file, function, and what a caption says.

    `common` gives, from the results of several models, what `draw` needs to draw each of them to the same scale.
    """

    name: str
    draw: Callable[..., mpl.Axes]
    caption: str
    common: Common | None = None


PLOTS: dict[str, list[Plot]] = {}


def figure(
    exam: str, caption: str, name: str | None = None, common: Common | None = None
) -> Callable[[PlotFunction], PlotFunction]:
    """Register a function `plot(result, ax=None, colour=...) -> Axes` as a figure of `exam`.

    Who asks `vs.plots` for it has its arguments looked at; a page, which draws all, gives the right ones.
    """

    def register(draw: PlotFunction) -> PlotFunction:
        @wraps(draw)
        def drawn(*args: Any, **kwargs: Any) -> mpl.Axes:
            ax = draw(*args, **kwargs)
            legible(ax)
            return ax

        PLOTS.setdefault(exam, []).append(Plot(name or exam, drawn, caption, common))
        return cast(PlotFunction, drawn)

    return register


def axes_or_new(ax: mpl.Axes | None) -> mpl.Axes:
    """`ax`, or those of a new figure that `matplotlib.pyplot.show` will show."""
    if ax is not None:
        return ax
    from matplotlib import pyplot

    with styled():
        return pyplot.subplots(figsize=(5.2, 3.6), layout="constrained")[1]


def new_panel(size: tuple[float, float] = (5.2, 3.6)) -> mpl.Axes:
    """Axes of a figure that nobody has to close; call inside `styled()`."""
    check_stop()
    return mpl.Figure(figsize=size, layout="constrained").add_subplot()


def why_empty(ax: mpl.Axes) -> str:
    """What `curves.nothing` said of these axes; "" if something is drawn."""
    return next((text.get_text() for text in ax.texts if text.get_gid() == NOTHING), "")


@checked
def save_figures(result: Result, folder: str | os.PathLike[str]) -> list[Path]:
    """Draw every figure of a result that shows something as `<name>.png` and `<name>.svg`."""
    paths = []
    for plot in PLOTS.get(result.exam, []):
        with styled(**{"svg.hashsalt": plot.name}):
            ax = plot.draw(result, new_panel())  # a plot may put axes of another projection into their place
            for kind in ("png", "svg"):
                path = Path(folder) / f"{plot.name}.{kind}"
                if why_empty(ax):
                    path.unlink(missing_ok=True)  # of an earlier result
                else:
                    atomic_write(path, render(ax, kind))
                    paths.append(path)
    return paths


def render(ax: mpl.Axes, kind: str, **options: Any) -> bytes:
    """The figure of `ax` as the bytes of a `png` or `svg` file, the same bytes each time."""
    check_stop()
    buffer = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    drawing = ax.get_figure()
    assert isinstance(drawing, mpl.Figure)
    for panel in drawing.axes:
        legible(panel)
    _lay_out(drawing, kind)
    drawing.savefig(buffer, format=kind, dpi=_DPI, metadata=metadata, **options)
    return buffer.getvalue()


def _lay_out(drawing: mpl.Figure, kind: str) -> None:
    """Place everything, once; left to `savefig`, each file would be laid out and drawn twice."""
    engine = drawing.get_layout_engine()
    if engine is None:
        return
    canvas, dpi = drawing.canvas, drawing.dpi
    (mpl.FigureCanvasSVG if kind == "svg" else mpl.FigureCanvasAgg)(drawing)  # which measures the text
    drawing.dpi = 72 if kind == "svg" else _DPI
    engine.execute(drawing)
    drawing.set_canvas(canvas)
    drawing.dpi = dpi
    drawing.set_layout_engine(None)


def projected(ax: mpl.Axes, projection: str) -> mpl.Axes:
    """`ax` if it has this projection ("3d", "polar"), else new axes that take its place in the figure."""
    if ax.name == projection:
        return ax
    drawing, place, position = ax.get_figure(), ax.get_subplotspec(), ax.get_position()
    assert isinstance(drawing, mpl.Figure)
    ax.remove()
    if place is not None:
        return drawing.add_subplot(place, projection=projection)
    return drawing.add_axes(position.bounds, projection=projection)
