"""Axes of another projection in the place of flat ones."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure


def projected(ax: Axes, projection: str) -> Axes:
    """`ax` if it has this projection ("3d", "polar"), else new axes that take its place in the figure."""
    if ax.name == projection:
        return ax
    drawing, place, position = ax.get_figure(), ax.get_subplotspec(), ax.get_position()
    assert isinstance(drawing, Figure)
    ax.remove()
    if place is not None:
        return drawing.add_subplot(place, projection=projection)
    return drawing.add_axes(position.bounds, projection=projection)
