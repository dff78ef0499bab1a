"""Lesion: how much accuracy does a model lose without one of its units?

For image i let r_i = 1 if the whole model is right about it, and r_ik = 1 if it is right without unit k, whose
branch is left out so that the stream passes by (through a projection, if its shortcut is one). The drop of unit k is

    d_k = 1/n sum_i (r_i - r_ik) = (lost_k - gained_k) / n

over the same images, so its interval comes from the pairs (r_i, r_ik): only images that are lost or gained count. It is
that of Agresti and Min (2005), which adds half an image to each of the four cases. A group's drop is the mean over its
units, image by image.

Of a model of pixels, objects or questions the score of the task drops: mIoU, box AP, soft accuracy. These are scores of
all images together; their pairs are bootstrap replicates (`engine/lesion_scores.py`).
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.anatomy import dissect
from vitscope.core.errors import warn
from vitscope.core.statistics import Estimate, paired_interval, share_interval
from vitscope.engine.exam import ProcedureSums, procedure
from vitscope.engine.lesion_passes import LesionPasses, contrasts, group_weights, positions
from vitscope.engine.lesion_scores import TaskDrops, no_counts, score_lesions
from vitscope.engine.own_passes import own_passes
from vitscope.engine.takes_interface import Asked
from vitscope.findings.lesion import Contrast, Group, KeptUnit, LesionResult
from vitscope.results import UnitRow
from vitscope.surgery.lesion import Bypass, Part, middle_convolution
from vitscope.surgery.tools.record import CannotOperate


class LesionOutcomes(ProcedureSums):
    """Counts, for every pair of units, the images on which both removals changed the outcome."""

    n: Tensor
    right: Tensor
    changed: Tensor
    products: Tensor

    def __init__(self, units: int) -> None:
        super().__init__()
        self.add_counts("n", "right")
        self.add_sum("changed", (units,), torch.int64)
        self.add_sum("products", (units, units), torch.int64)

    def update(self, right: Tensor) -> None:
        """Take in which images are classified rightly: (1 + units, N), the whole model first."""
        right = right.cpu().double()  # exact, and unlike integers has a fast matrix product
        difference = right[:1] - right[1:]
        self.n += right.shape[1]
        self.right += right[0].sum().long()
        self.changed += difference.sum(1).long()
        self.products += (difference @ difference.T).long()


def summarise(
    units: tuple[UnitRow, ...],
    position: tuple[str, ...],
    n: int,
    right: int,
    changed: np.ndarray,
    products: np.ndarray,
) -> dict[str, Any]:
    """The result's own fields from the counts."""
    squares = np.diagonal(products)
    low, high = paired_interval(changed, squares, n)

    def mean_drop(weight: np.ndarray) -> Estimate[float]:
        total, square = float(weight @ changed), float(weight @ products @ weight)
        return Estimate(total / n, *paired_interval(total, square, n)).each(float)

    return {
        "n": n,
        "accuracy": Estimate(right / n, *share_interval(right, n)).each(float),
        "value": changed / n,
        "low": low,
        "high": high,
        "lost": (squares + changed) // 2,
        "gained": (squares - changed) // 2,
        **_grouped(units, position, mean_drop),
    }


def summarise_task(units: tuple[UnitRow, ...], position: tuple[str, ...], found: TaskDrops) -> dict[str, Any]:
    """The same where the score of a task drops."""
    value, low, high = found.drops
    return {
        "n": found.n,
        "score": found.score,
        "accuracy": found.intact,
        "value": value,
        "low": low,
        "high": high,
        **no_counts(),
        **_grouped(units, position, found.mean),
    }


def _grouped(
    units: tuple[UnitRow, ...], position: tuple[str, ...], mean_drop: Callable[[np.ndarray], Estimate[float]]
) -> dict[str, Any]:
    """Groups of units and differences between them; `mean_drop` goes from weights of units to a drop."""
    weights = group_weights(units, position)
    return {
        "groups": tuple(Group(*key, int((w > 0).sum()), mean_drop(w)) for key, w in weights.items()),
        "contrasts": tuple(
            Contrast(" ".join(more), " ".join(less), mean_drop(weights[more] - weights[less]))
            for more, less in contrasts(weights)
        ),
    }


@procedure(LesionResult, needs_labels=True, or_task=True)
def lesion(
    model: nn.Module,
    data: Any,
    request: Asked,
    part: Part = "branch",
) -> LesionResult:
    """Remove every unit that can be removed, one at a time, and count what `model` gets wrong without it.

    `examine` documents the other arguments. What comes before a unit is not computed again to remove it. An answer that
    is not finite without a unit is a wrong one. Data may be of a task that the model is for: then its score drops.

    Args:
        part: What goes with a unit: its "branch"; or, of bottlenecks, the spatial "convolution" alone, as in the
            papers, so that the 1x1 convolutions around it stay. Other units lose their branch then, too.
    """
    with own_passes(model, data, request, labelled=True, or_task=True) as own:
        bypasses, obstacles = _bypasses(model, own.input_shape) if part == "convolution" else ({}, {})
        obstacles |= {u.name: u.obstacle for u in own.anatomy if u.obstacle and u.name not in bypasses}
        removed = [unit for unit in own.anatomy if unit.name not in obstacles]
        rows = tuple(UnitRow.of(unit) for unit in removed)
        place = positions(own.anatomy)
        position = tuple(place[unit.name] for unit in removed)
        kept = tuple(KeptUnit(UnitRow.of(u), obstacles[u.name]) for u in own.anatomy if u.name in obstacles)
        if not removed:
            nothing: dict[str, Any] = dict.fromkeys(("value", "low", "high"), np.zeros(0))
            nothing |= no_counts()
            nothing["accuracy"] = Estimate(*[float("nan")] * 3)
            nothing |= dict.fromkeys(("units", "position", "groups", "contrasts"), ())
            return LesionResult(**own.common, **nothing, n=0, kept=kept)
        known: dict[str, Any] = {"units": rows, "position": position, "kept": kept}
        known["removed"] = tuple("convolution" if unit.name in bypasses else "branch" for unit in removed)
        if own.pictures is not None:
            found = TaskDrops(score_lesions(own, removed, bypasses), own.pictures.task)
            return LesionResult(**own.common, **known, **summarise_task(rows, position, found))
        outcomes = LesionOutcomes(len(removed))
        speechless = torch.zeros(1 + len(removed), dtype=torch.bool)
        with own.progress("lesion") as advance:
            passes = LesionPasses(model, own.anatomy, removed, bypasses)
            for images, labels, _ in own.stream:
                for some, truth in passes.pieces(images.to(own.dtype), labels):
                    logits = passes.logits(some)
                    finite = logits.isfinite().all(2)  # NaN would count as the largest score
                    speechless |= ~finite.all(1).cpu()
                    outcomes.update((logits.argmax(2) == truth) & finite)
                    advance(len(truth))
        if silent := [unit.name for unit, mute in zip(removed, speechless[1:].tolist(), strict=True) if mute]:
            warn(
                f"without {', '.join(silent)} some outputs are not finite (NaN or infinity); such an answer counts as "
                "wrong"
            )
        return LesionResult(**own.common, **known, **summarise(rows, position, **outcomes.finish()))


def _bypasses(
    model: nn.Module, shape: tuple[int, ...]
) -> tuple[dict[str, tuple[str, Bypass]], dict[str, str]]:
    """By unit, the spatial convolution of every bottleneck and what takes its place, or why it cannot go."""
    body = dissect(model, shape)
    found, refused = {}, {}
    for unit in body.parts:
        try:
            middle = middle_convolution(body, unit)
        except CannotOperate as error:
            refused[unit.name] = str(error)
        else:
            if middle is not None:
                found[unit.name] = (middle[0], middle[1].eval())
    return found, refused
