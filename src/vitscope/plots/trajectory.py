"""Figure of the trajectory exam: trainings in polar coordinates around their optimum, as the paper draws them."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from matplotlib.axes import Axes

from vitscope.core.arguments import NotEmpty, checked
from vitscope.exams.loss.trajectory import TrajectoryResult
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.heads import nothing
from vitscope.drawing.projection import projected
from vitscope.drawing.style import INK, MODELS, model_colour

NO_RUN = "no checkpoints: not read from a run folder that kept some"


@figure(
    "trajectory",
    "Checkpoints of the training around its optimum (centre): distance in units of that of the start, and angle "
    "against the direction to the start.",
)
def plot_trajectory(result: TrajectoryResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """The trajectory of one training; flat axes are replaced by polar ones."""
    return plot_trajectories([result], ax, [colour])


@checked
def plot_trajectories(
    results: Annotated[Sequence[TrajectoryResult], NotEmpty],
    ax: Axes | None = None,
    colours: Sequence[str] | None = None,
) -> Axes:
    """The trajectories of several trainings on one axis.

    Args:
        results: One per training.
        ax: Where to draw.
        colours: One per training; default: the colours of a comparison.
    """
    ax = axes_or_new(ax)
    shown = [result for result in results if result.checkpoints]
    if not shown:
        return nothing(ax, NO_RUN)
    disc: Any = projected(ax, "polar")
    colours = colours or [model_colour(place) for place in range(len(results))]
    for result, colour in zip(results, colours, strict=True):
        theta = np.where(np.isnan(result.theta), _last_angle(result.theta), result.theta)
        label = f"{result.model}: {result.chosen} checkpoint, detour {result.detour:.2f}"
        disc.plot(theta, result.r, "-o", color=colour, linewidth=1.5, markersize=3.6, label=label)
    widest = max(float(np.nanmax(result.theta)) for result in shown)
    end = max(90, int(np.ceil(np.degrees(widest) / 30)) * 30)
    angles = range(0, 181, 30)  # also those beyond the end: panels that share their axes may reach further
    disc.set_thetagrids(angles, ["start", *(f"{a}°" for a in angles[1:])])
    disc.set_thetamin(0)
    disc.set_thetamax(end)
    disc.set_rmax(max(1.0, *(float(result.r.max()) for result in shown)) * 1.04)
    disc.set_rmin(0.0)
    disc.set_rticks([0.25, 0.5, 0.75, 1.0])
    disc.grid(color="#808080", alpha=0.3, linewidth=0.6)
    disc.spines[:].set_color(INK)
    below = 18 if end <= 90 else -4  # the numbers; a wider sector leaves room for them by itself
    disc.set_xlabel("distance from the optimum / that of the start", labelpad=below)
    disc.legend(loc="lower center", bbox_to_anchor=(0.5, 1.08), handlelength=1.4)
    return disc


def _last_angle(theta: np.ndarray) -> float:
    """The angle from which the optimum is reached, where it has none of its own."""
    known = theta[~np.isnan(theta)]
    return float(known[-1]) if len(known) else 0.0
