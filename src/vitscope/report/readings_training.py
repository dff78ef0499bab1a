"""Readings of the exams about the loss: curvature, landscape, path of the training."""

from vitscope.engine.loss.landscape_result import LandscapeResult
from vitscope.exams.loss.hessian import HessianResult
from vitscope.exams.loss.trajectory import TrajectoryResult
from vitscope.results.numbers import with_interval as number
from vitscope.results.wording import by_name, reads
from vitscope.results import Result


@reads("hessian")
def _hessian(result: HessianResult) -> str:
    nep, total = by_name(result.summary())["nep"], result.eigenvalues.size
    text = (
        f"{100 * result.nep:.0f} % [{100 * nep.low:.0f}, {100 * nep.high:.0f}] of the {total} largest eigenvalues, "
        f"{result.eigenvalues.shape[1]} per batch of {result.batch_size} images, are negative; the mean of the "
        f"positive ones is {number(by_name(result.summary())['ape'])}."
    )
    if result.unconverged:
        return f"{text} {result.unconverged} have not converged: read them as bounds."
    return f"{text} All have converged."


@reads("hessian_density")
def _density(result: Result) -> str:
    rows = by_name(result.summary())
    negative = rows["negative"]
    return (
        f"The trace of the Hessian is {number(rows['trace'])}; {100 * negative.value:.2g} % of all eigenvalues "
        "are clearly below 0."
    )


@reads("landscape")
def _landscape(result: LandscapeResult) -> str:
    rows = by_name(result.summary())
    text = f"At the model itself the NLL is {number(rows['centre nll'])}; along the edge of the grid it is higher by "
    text += f"{number(rows['edge rise'])} on average."
    if result.not_finite:
        text += f" At {result.not_finite} of {result.nll.size} points it is not finite."
    return text


@reads("landscape_line")
def _line(result: Result) -> str:
    barrier = by_name(result.summary()).get("barrier")
    if barrier is None:
        return ""
    return f"On the straight line between the two models the loss rises by at most {number(barrier)} above its ends."


@reads("trajectory")
def _trajectory(result: TrajectoryResult) -> str:
    return (
        f"From {result.start} to {result.optimum} the weights moved by {result.distance:.3g}; the path was "
        f"{result.detour:.2f} times as long as the straight line."
    )
