"""Spectra along a series: over the checkpoints of a training, and over models that differ in one size.

A power law y = c m^s of NEP or APE in the size m is a straight line of slope s in log y against log m. Least squares
give it, and a bootstrap over the batches of every model its interval. Theory has s = -1/2 for heads and for dimensions
per head.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from vitscope.core.arguments import checked
from vitscope.core.bootstrap import few_interval, standard_error
from vitscope.core.errors import BadResult, VitscopeError
from vitscope.core.statistics import Estimate
from vitscope.exams.loss.hessian import hessian
from vitscope.findings.hessian import HessianResult
from vitscope.findings.hessian_training import HessianTrainingResult, Slope
from vitscope.models import create_model, list_checkpoints
from vitscope.results.loss_numbers import Quantity, replicates


@checked
def hessian_training(
    run: str | os.PathLike[str],
    data: Any,
    checkpoints: Sequence[str] | None = None,
    trust_code: bool = False,
    **options: Any,
) -> HessianTrainingResult:
    """The spectrum of a run's model at its checkpoints, all on the same batches.

    Args:
        run: A run folder of `vitscope train`.
        data: The training images, as `hessian` takes them.
        checkpoints: Their names; default: all that the run kept.
        trust_code: Run code that the run folder names (see `create_model`).
        **options: Of `hessian`.
    """
    kept = {checkpoint.name: checkpoint for checkpoint in list_checkpoints(Path(run))}
    names = list(kept) if checkpoints is None else list(checkpoints)
    if not names:
        raise BadResult(
            f"{run} kept no checkpoints; train with --checkpoint-every 1, or examine its model with hessian"
        )
    spectra = []
    for name in names:
        model = create_model(run, checkpoint=name, trust_code=trust_code)
        spectra.append(hessian(model, data, **{"name": f"{Path(run).name} ({name})", **options}))
    first = spectra[0]
    return HessianTrainingResult(
        model=Path(run).name,
        data=first.data,
        n=first.n,
        seed=first.seed,
        checkpoints=tuple(names),
        epochs=tuple(float(kept[name].epoch) for name in names),
        spectra=tuple(spectra),
    )


@checked
def log_log_slope(
    sizes: Sequence[float], results: Sequence[HessianResult], quantity: Quantity = "ape"
) -> Slope:
    """The exponent of NEP or APE in the size (heads, dimensions per head) that the models differ in.

    Args:
        sizes: One positive number per model.
        results: The spectrum of each.
        quantity: "nep" or "ape".
    """
    x = np.asarray(sizes, dtype=np.float64)
    if len(x) != len(results) or len(np.unique(x)) < 2 or (x <= 0).any():
        raise VitscopeError(
            f"{len(x)} sizes {x.tolist()} for {len(results)} spectra; expected two or more, a positive size for each, "
            "not all equal"
        )
    drawn = [replicates(r.eigenvalues, quantity, r.seed * 1_000_003 + i) for i, r in enumerate(results)]
    y = np.stack(drawn)  # (models, 1 + replicates)
    if not (y[:, 0] > 0).all():
        empty = results[int(np.argmin(np.nan_to_num(y[:, 0])))].model
        raise VitscopeError(
            f"the {quantity} of {empty} is {np.nan_to_num(y[:, 0]).min():g}: it has no logarithm; leave it out"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.where(y > 0, np.log(y), np.nan)
    centred = np.log(x) - np.log(x).mean()
    slopes = centred @ logs / (centred @ centred)
    fewest = min(len(result.eigenvalues) for result in results)
    exponent = Estimate(slopes[0], *few_interval(slopes[0], standard_error(slopes[1:]), fewest))
    return Slope(
        exponent.each(float),
        intercept=float(logs[:, 0].mean() - slopes[0] * np.log(x).mean()),
        n=len(x),
    )
