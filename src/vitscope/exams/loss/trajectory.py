"""Trajectory: on what way did a training go from its start to its optimum?

For the weights w_t at checkpoint t, with Δw_t = w_t - w_optimum over all parameters, in polar coordinates around the
optimum:

    r_t = ||Δw_t|| / ||Δw_init||        θ_t = arccos( Δw_t . Δw_init / (||Δw_t|| ||Δw_init||) )

A training that goes straight to its optimum has θ = 0 all the way. How much longer its way is than the straight one:

    detour = sum_t ||w_t+1 - w_t|| / ||Δw_init||        over the checkpoints up to the optimum

The angle is computed as 2 atan2(||u - v||, ||u + v||) of the unit vectors u and v, which keeps its digits near 0.
"""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.core.arguments import checked
from vitscope.core.errors import BadResult, NotFinite
from vitscope.core.tensors import all_finite
from vitscope.curvature.dots import norm
from vitscope.engine.exam import procedure
from vitscope.engine.facts import data_name
from vitscope.engine.landscape_axes import checkpoint_series
from vitscope.engine.not_finite import require_finite_weights
from vitscope.engine.takes_interface import UNASKED, Asked
from vitscope.findings.trajectory import TrajectoryResult
from vitscope.models import Checkpoint, create_model, list_checkpoints, name_of, run_of
from vitscope.models.checkpoints import difference, read_weights

Optimum = Literal["last", "best"]


def polar(step: Tensor, first: Tensor) -> tuple[float, float]:
    """(r, θ) of a vector in the coordinates in which `first` is (1, 0); the angle of a vector of length 0 is NaN."""
    length, unit = norm(step), norm(first)
    if length == 0.0 or unit == 0.0:
        return (length / unit if unit else math.nan), math.nan
    u, v = step / length, first / unit
    return length / unit, 2.0 * math.atan2(norm(u - v), norm(u + v))


@checked
def trajectory(
    run: str | os.PathLike[str],
    optimum: Optimum = "last",
    checkpoints: Sequence[str] | None = None,
    model: nn.Module | None = None,
    name: str | None = None,
    trust_code: bool = False,
) -> TrajectoryResult:
    """The trajectory of a training over the checkpoints that it kept.

    Args:
        run: A run folder of `vitscope train`.
        optimum: "last" or "best": the checkpoint that is seen as the optimum.
        checkpoints: Names of those on the way, the start among them; default: all that the run kept.
        model: Of a run whose model was built in Python, such a model: it tells parameters from other weights.
        name: What to call the run in the result.
        trust_code: Run code that the run folder names (see `create_model`).
    """
    series = checkpoint_series(run, checkpoints)
    end = _optimum(run, optimum, series)
    series = [c for c in series if c.epoch != end.epoch] + [end]
    series.sort(key=lambda checkpoint: checkpoint.epoch)
    if series[0] is end:
        raise BadResult(f"{run} kept no checkpoint before '{end.name}'; train with: --checkpoint-every 1")
    module = model if model is not None else create_model(run, trust_code=trust_code)
    target = _weights(Path(run), module, end)
    first = _weights(Path(run), module, series[0]) - target
    distance = norm(first)
    if distance == 0.0:
        raise BadResult(f"checkpoints '{series[0].name}' and '{end.name}' of {run} are the same weights")
    found, way, before = [], 0.0, first
    for checkpoint in series:
        step = _weights(Path(run), module, checkpoint) - target
        found.append(polar(step, first))
        if checkpoint.epoch <= end.epoch:
            way += norm(step - before)
        before = step
    r, theta = np.array(found).T.copy()
    return TrajectoryResult(
        model=name or Path(run).name,
        data="",
        n=0,
        seed=0,
        checkpoints=tuple(checkpoint.name for checkpoint in series),
        epochs=np.array([float(checkpoint.epoch) for checkpoint in series]),
        r=r,
        theta=theta,
        start=series[0].name,
        optimum=end.name,
        chosen=optimum,
        distance=distance,
        detour=way / distance,
        parameters=len(target),
    )


@procedure(TrajectoryResult)
def trajectory_of_model(
    model: nn.Module,
    data: Any = None,
    request: Asked = UNASKED,
) -> TrajectoryResult:
    """What `diagnose` runs: the trajectory of the run folder that a model came from.

    A model that came from none, or from one without checkpoints, has an empty result. Of the arguments only `name`
    matters; the others are those that every exam has.
    """
    require_finite_weights(model)
    run = run_of(model)
    common: dict[str, Any] = {"data": data_name(data) if data is not None else "", "seed": request.seed}
    if run is not None and len({float(c.epoch) for c in list_checkpoints(run)}) > 1:
        found = trajectory(
            run, name=request.name or name_of(model), trust_code=True
        )  # as when the model was read
        return TrajectoryResult(**{**vars(found), **common})
    nothing: dict[str, Any] = dict.fromkeys(("epochs", "r", "theta"), np.zeros(0))
    nothing |= {"start": "", "optimum": "", "chosen": "last", "distance": math.nan, "detour": math.nan}
    called = request.name or name_of(model)
    return TrajectoryResult(**common, **nothing, model=called, n=0, checkpoints=(), parameters=0)


def _weights(run: Path, model: nn.Module, checkpoint: Checkpoint) -> Tensor:
    """The parameters of a checkpoint as a vector."""
    path = run / checkpoint.file
    weights = read_weights(path, run)
    if problem := difference(model.state_dict(), weights):
        raise BadResult(f"{path} does not fit {run}'s model: {problem}; copy the run again")
    vector = torch.cat([weights[name].reshape(-1).float() for name, _ in model.named_parameters()])
    if not all_finite(vector):
        raise NotFinite(
            f"{path} holds {int((~vector.isfinite()).sum())} weights that are not finite (NaN or infinity); leave "
            "this checkpoint out: checkpoints=..."
        )
    return vector


def _optimum(run: str | os.PathLike[str], optimum: str, series: Sequence[Checkpoint]) -> Checkpoint:
    """The checkpoint of that name; of a training that was stopped, the latest one is the last."""
    named = [checkpoint for checkpoint in list_checkpoints(run) if checkpoint.name == optimum]
    if named:
        return named[0]
    if optimum == "best":
        raise BadResult(f"{run} kept no checkpoint 'best'; take the last one: optimum='last'")
    return series[-1]
