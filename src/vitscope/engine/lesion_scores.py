"""What the score of a task loses without each unit of a model: mIoU, box AP, soft accuracy of answers.

The whole model and the model without each unit are scored on the same images as under the conditions of other exams
(`condition_scores.py`). In bootstrap replicate r all of them have drawn the same images, so that

    drop_kr = score_r - score_kr

is a replicate of the paired difference. The interval is made of those of both scores and their correlation over
replicates (Zou and Donner): unlike the spread of drop_kr, these know of bias and of few images.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vitscope.anatomy import Unit
from vitscope.core import distributed
from vitscope.core.bootstrap import biased_intervals, correlation, of_few, standard_error
from vitscope.core.errors import warn
from vitscope.core.statistics import Estimate, difference_of, score_interval
from vitscope.engine.condition_scores import Part, condition_scores
from vitscope.engine.conditions import drawn_miou, drawn_score
from vitscope.engine.lesion_passes import LesionPasses
from vitscope.engine.own_passes import OwnPasses
from vitscope.surgery.lesion import Bypass

SCORES = {"segmentation": "miou", "detection": "box_ap", "vqa": "accuracy"}


def score_lesions(
    own: OwnPasses, units: Sequence[Unit], bypasses: Mapping[str, tuple[str, Bypass]]
) -> list[Part]:
    """Sums over all images of all processes, of the whole model and without each unit.

    Where scores are not finite without a unit they count as all equal, and a warning says so.
    """
    passes = LesionPasses(own.model, own.anatomy, units, bypasses, own.shown)
    scores = [condition_scores(own) for _ in range(1 + len(units))]
    silent: set[str] = set()

    def take(images: Tensor, labels: Tensor, indices: Tensor) -> None:
        for some, truth, places in passes.pieces(images.to(own.dtype), labels, indices):
            for k, output in enumerate(passes.outputs(some, places)):
                if isinstance(output, Tensor) and not bool(output.isfinite().all()):
                    silent.add(units[k - 1].name)
                    output = output.where(output.isfinite().all(1, keepdim=True), torch.zeros_like(output))
                scores[k].update(output, truth, places)

    own.accumulate("lesion", {str(k): one for k, one in enumerate(scores)}, take)
    everywhere = {name for own_silent in distributed.gather(sorted(silent)) for name in own_silent}
    if mute := [unit.name for unit in units if unit.name in everywhere]:
        warn(
            f"without {', '.join(mute)} some outputs are not finite (NaN or infinity); all scores count as equal there"
        )
    return [one.finish() for one in scores]


class TaskDrops:
    """The score of the whole model, and what it loses, from (1 + units, 1 + replicates)."""

    def __init__(self, found: Sequence[Part], task: str) -> None:
        self.score, whole = SCORES[task], found[0]
        self._drawn = np.stack([_score_of(part) for part in found])
        self.n = int(whole["n"])
        self._counting = int(whole.get("with_objects", whole["n"]))

    @property
    def intact(self) -> Estimate[float]:
        """The score of the whole model."""
        return self._estimate(self._drawn[0]).each(float)

    @property
    def drops(self) -> Estimate[np.ndarray]:
        """By how much the score drops without each unit."""
        every = [self.mean(weight) for weight in np.eye(len(self._drawn) - 1)]
        return Estimate(*np.array(every).reshape(-1, 3).T)

    def mean(self, weight: np.ndarray) -> Estimate[float]:
        """Of the sum over units with these weights; they add up to 1, or to 0 where groups are compared.

        It is the difference of two mean scores on the same images. One image more, on which these have nothing to do
        with each other, keeps a unit without which nothing changes from being one of which this is certain.
        """
        shares = np.array([weight.sum(), *-weight])
        more, less = (np.maximum(sign * shares, 0.0) @ self._drawn for sign in (1, -1))
        together = correlation(more[1:], less[1:]) * self._counting / (self._counting + 1)
        ends = difference_of(self._estimate(more), self._estimate(less), together)
        return Estimate(more[0] - less[0], *ends).each(float)

    def _estimate(self, drawn: np.ndarray) -> Estimate[Any]:
        """A score with its interval, from the score (1 + replicates,) and its bootstrap replicates."""
        n = self._counting
        if self.score != "accuracy":
            return Estimate(drawn[0], *biased_intervals(drawn, n))
        return Estimate(drawn[0], *score_interval(drawn[0], of_few(standard_error(drawn[1:]), n), n))


def _score_of(part: Part) -> np.ndarray:
    """(1 + replicates,) the score of a model and its bootstrap replicates."""
    miou = drawn_miou(part)
    return drawn_score(part) if miou is None else miou


def no_counts() -> dict[str, Any]:
    """In the place of images that are lost and gained: a score of all images together has none."""
    return dict.fromkeys(("lost", "gained"), np.zeros(0, dtype=np.int64))
