"""What `trajectory` finds: result, reading and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from vitscope.core import pd
from vitscope.core.arguments import NotEmpty, checked
from vitscope.drawing import mpl
from vitscope.drawing.curves import in_colours, nothing
from vitscope.drawing.figures import axes_or_new, figure, projected
from vitscope.drawing.style import INK, MODELS
from vitscope.results import About, Result, tidy
from vitscope.results.numbers import reads


@dataclass(frozen=True, eq=False, kw_only=True)
class TrajectoryResult(Result, exam="trajectory", after="landscape_line"):
    """A training in polar coordinates around its optimum; arrays are (checkpoints,). No images are seen: n is 0."""

    about = About(
        title="Trajectory of the training",
        shows="The weights at the checkpoints of a training as seen from its optimum: distance, in units of that of "
        "the start, and angle against the direction to the start.",
        papers="In the paper ResNet follows an irregular trajectory, most of all early in training, and ViT comes to "
        "its optimum on a smooth one.",
        misleads="In so many dimensions nearly all random steps are at right angles, so angles grow with every step "
        "that is not straight, and the more so the larger the learning rate. The optimum is only the last (or best) "
        "checkpoint. Weights before a normalisation can grow without any effect on the output.",
    )
    measures = ("distance", "detour", "r", "theta", "largest theta")
    needs = "a run folder of vitscope train with checkpoints of several epochs"

    checkpoints: tuple[str, ...]
    epochs: np.ndarray
    r: np.ndarray
    theta: np.ndarray  # in radians; NaN at the optimum
    start: str  # the checkpoint at r = 1, θ = 0
    optimum: str  # the checkpoint at r = 0
    chosen: str  # how the optimum was chosen: last or best
    distance: float  # between start and optimum
    detour: float
    parameters: int

    def table(self) -> pd.DataFrame:
        """`r` and `theta` by `checkpoint` and `epoch`, `distance` and `detour`: exact, so without intervals."""
        if not self.checkpoints:
            return _rows("r", (), (), ())
        whole = [
            _rows(name, [value], [self.optimum], [np.nan])
            for name, value in (("distance", self.distance), ("detour", self.detour))
        ]
        polar = [_rows(name, getattr(self, name), self.checkpoints, self.epochs) for name in ("r", "theta")]
        return pd.concat([*whole, *polar], ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """Distance, detour, and the largest angle before the optimum."""
        table = self.table()
        if not self.checkpoints:
            return table
        turn = table[table["quantity"] == "theta"].nlargest(1, "value").assign(quantity="largest theta")
        whole = table[table["quantity"].isin(["distance", "detour"])]
        return pd.concat([whole, turn], ignore_index=True)


def _rows(
    quantity: str, value: Sequence[float] | np.ndarray, checkpoint: Sequence[str], epoch: Any
) -> pd.DataFrame:
    unknown = np.full(len(value), np.nan)
    own: dict[str, Any] = {"checkpoint": list(checkpoint), "epoch": np.asarray(epoch, dtype=np.float64)}
    return tidy(quantity, value, unknown, unknown, 0, **own)


NO_RUN = "no checkpoints: not read from a run folder that kept some"


@figure(
    "trajectory",
    "Checkpoints of the training around its optimum (centre): distance in units of that of the start, and angle "
    "against the direction to the start.",
)
def plot_trajectory(
    result: TrajectoryResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """The trajectory of one training; flat axes are replaced by polar ones."""
    return plot_trajectories([result], ax, [colour])


@checked
def plot_trajectories(
    results: Annotated[Sequence[TrajectoryResult], NotEmpty],
    ax: mpl.Axes | None = None,
    colours: Sequence[str] | None = None,
) -> mpl.Axes:
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
    for result, colour in in_colours(results, colours):
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


@reads("trajectory")
def _trajectory(result: TrajectoryResult) -> str:
    return (
        f"From {result.start} to {result.optimum} the weights moved by {result.distance:.3g}; the path was "
        f"{result.detour:.2f} times as long as the straight line."
    )
