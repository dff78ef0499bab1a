"""Where in a model an operation belongs, from the profile of what was measured."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, cast

import numpy as np

from vitscope.claims.features import end_excess
from vitscope.findings.lesion import LesionResult
from vitscope.findings.variance import VarianceResult
from vitscope.prescribe.examined_model import ExaminedModel
from vitscope.prescribe.prescription import Evidence
from vitscope.surgery.tools.replaceable import LARGE_DATA, LARGE_HEAD, SMALL_DATA, closed_form, conv_stages

# AlterNet-50 has 3 heads where its maps have 256 channels, and twice as many wherever these double.
CHANNELS_PER_HEAD = 256 / 3


@dataclass(frozen=True)
class StageEnd:
    """The convolution at the end of a stage of two or more blocks."""

    stage: int  # as anatomy counts
    unit: str
    peak: bool  # the variance after it is the highest of the stage
    certain: bool  # and the interval of the rise across it leaves out 0
    excess: np.ndarray  # of its variance over that of the others, with its interval, in per cent
    lesion: tuple[Evidence, ...]  # what it costs to lose it, if that was measured

    @property
    def needed(self) -> bool:
        """It certainly costs more than a convolution does on average."""
        return any(evidence.calls for evidence in self.lesion)


def stage_ends(examined: ExaminedModel) -> list[StageEnd]:
    """The ends of all stages that have two or more blocks and end in a convolution."""
    variance = cast(VarianceResult, examined.results["variance"])
    known = [i for i, value in enumerate(variance.value) if np.isfinite(value)]
    blocks = [i for i in known if variance.units[i].kind in ("conv", "msa")]
    ends = []
    for stage, members in groupby(blocks, key=lambda i: variance.units[i].stage):
        inside = list(members)
        last = inside[-1]
        if len(inside) < 2 or variance.units[last].kind != "conv":
            continue
        peak = bool(variance.value[last] == variance.value[inside].max())
        ends.append(
            StageEnd(
                stage,
                variance.units[last].name,
                peak,
                certain=peak and bool(variance.change.low[last] > 0),
                excess=100
                * np.array(end_excess(variance.value[inside], variance.low[inside], variance.high[inside])),
                lesion=_loss(examined, variance.units[last].name),
            )
        )
    return ends


def _loss(examined: ExaminedModel, unit: str) -> tuple[Evidence, ...]:
    """What the model loses without a unit, against the mean over all convolutions."""
    found = examined.results.get("lesion")
    if not isinstance(found, LesionResult):
        return ()
    names = [row.name for row in found.units]
    convs = [i for i, row in enumerate(found.units) if row.kind == "conv"]
    if unit not in names or not convs:
        return ()
    i, usual = names.index(unit), float(found.value[convs].mean())
    what = f"accuracy lost without {unit}, against the mean Conv"
    return (Evidence.above("lesion", what, [found.value[i], found.low[i], found.high[i]], found.n, usual),)


def msa_blocks(examined: ExaminedModel, stages: Sequence[int]) -> dict[str, Any]:
    """Arguments of `alternate`: MSAs at the ends of these stages, from the last one backwards, up to the budget."""
    there = conv_stages(examined.body)
    outputs = examined.body.graph[examined.body.graph.outputs[0]].shape[-1]
    room = [
        len(stage.replaceable) if stage.replaceable and stage.replaceable[0].unit.stage in stages else 0
        for stage in there
    ]
    counts = closed_form(room, LARGE_DATA if outputs >= LARGE_HEAD else SMALL_DATA) if any(room) else room
    widths = [max((block.channels for block in stage.replaceable), default=1) for stage in there]
    return {"msa": counts, "heads": [max(1, round(width / CHANNELS_PER_HEAD)) for width in widths]}


def following_mlps(examined: ExaminedModel, attending: Sequence[str]) -> tuple[str, list[str]]:
    """Where Context Broadcasting goes: the MLPs after these MSAs, or these MSAs if one of them has no MLP after it."""
    units = [unit for unit in examined.body.parts if unit.kind in ("msa", "mlp") and unit.residual]
    after = {unit.name: following for unit, following in pairwise(units)}
    mlps = [after[name].name for name in attending if name in after and after[name].kind == "mlp"]
    return ("mlp", mlps) if len(mlps) == len(attending) else ("msa", list(attending))
