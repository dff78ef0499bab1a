"""How much uniform attention each layer of a CB_S model has learned to want.

CB_S(x_i) = x_i + λ * mean_j x_j with a learned λ per channel. For the λ of one place, with |λ|_p the quantile p of its
absolute values over channels,

    mean  = mean |λ|                       how much uniform attention is added
    ratio = |λ|_0.1 / |λ|_0.9              how alike channels are in it: 1 if all add the same

Both are exact: no image is needed, and if there are some, they only say what size the model is for. Their intervals are
bootstrap intervals over channels, which say how far a number rests on few of them.
"""

from typing import Any

import numpy as np
from torch import nn

from vitscope.anatomy import Anatomy, Unit, anatomy
from vitscope.core.bootstrap import REPLICATES, percentile_interval
from vitscope.data import batches, data_config
from vitscope.engine.exam import procedure
from vitscope.engine.facts import data_name
from vitscope.engine.not_finite import require_finite_weights
from vitscope.engine.takes_interface import UNASKED, Asked
from vitscope.findings.cb_scale import QUANTITIES, CbScaleResult
from vitscope.models import name_of
from vitscope.results import UnitRow
from vitscope.surgery.broadcast_context import ContextBroadcast


def scale_statistics(scale: np.ndarray) -> np.ndarray:
    """(..., 2): mean and quantile ratio of the absolute values along the last axis; no ratio where all are 0."""
    size = np.abs(scale)
    low, high = np.quantile(size, [0.1, 0.9], axis=-1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.stack([size.mean(-1), np.where(high > 0, low / high, np.nan)], -1)


@procedure(CbScaleResult)
def cb_scale(
    model: nn.Module,
    data: Any = None,
    request: Asked = UNASKED,
) -> CbScaleResult:
    """Read the learned scales of a model that `broadcast_context(kind="cb_s")` was applied to.

    A model without them has an empty result. Of the arguments only `seed` (of the bootstrap) and `name` matter, and of
    the data the size of its images; the others are those that every exam has.
    """
    require_finite_weights(model)
    scales = {
        path: module.scale.detach().double().cpu().numpy()
        for path, module in model.named_modules()
        if isinstance(module, ContextBroadcast) and module.scale is not None
    }
    parts = anatomy(model, _size(model, data)) if scales else None
    places = {path: _owner(parts, path) for path in scales} if parts is not None else {}
    paths = sorted(places, key=lambda path: places[path].depth)
    random = np.random.default_rng(request.seed)
    value, low, high = np.empty((3, len(paths), len(QUANTITIES)))
    for i, path in enumerate(paths):
        scale = scales[path]
        value[i] = scale_statistics(scale)
        draws = random.integers(len(scale), size=(REPLICATES, len(scale)))
        known = np.isfinite(value[i]).all()
        low[i], high[i] = percentile_interval(scale_statistics(scale[draws])) if known else (np.nan, np.nan)
    return CbScaleResult(
        model=request.name or name_of(model),
        data=data_name(data) if data is not None else "",
        n=0,
        seed=request.seed,
        units=tuple(UnitRow.of(places[path]) for path in paths),
        module=tuple(paths),
        channels=np.array([len(scales[path]) for path in paths], dtype=np.int64),
        value=value,
        low=low,
        high=high,
    )


def _size(model: nn.Module, data: Any) -> tuple[int, ...] | None:
    """(C, H, W) of the images that the model is given; without data None, which is its own."""
    if data is None:
        return None
    images, *_ = next(iter(batches(data, config=data_config(model), batch_size=1, limit=1)))
    return tuple(images.shape[1:])


def _owner(parts: Anatomy, path: str) -> Unit:
    """The unit in whose branch a module is: the one whose module holds it most closely, else its block's last."""
    holding = [u for u in parts if u.module and (path + ".").startswith(u.module + ".")]
    if holding:
        return max(holding, key=lambda unit: len(unit.module))
    block = path.rpartition(".")[0]
    while block:
        inside = [u for u in parts if (u.module + ".").startswith(block + ".")]
        if inside:
            return inside[-1]
        block = block.rpartition(".")[0]
    return parts[len(parts) - 1]
