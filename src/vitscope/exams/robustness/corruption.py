"""Corruptions: how much of its accuracy does a model keep when pictures get worse?

The 15 types of Hendrycks and Dietterich (2019), noise, blur, weather and digital, at 5 severities each. With r_i = 1
where the model is right about image i, and r_iks = 1 where it is right about its corruption of type k and severity s,

    accuracy = mean over i, k, s of r_iks        drop = mean over i, k, s of (r_i - r_iks)

Scores are those of `prediction`; their intervals, and those of means over corruptions, are bootstrap intervals over
images. Images are corrupted as the model is shown them: resized and cut, as 8-bit pictures, before they are normalised.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import nn

from vitscope.core import distributed
from vitscope.core.errors import VitscopeError
from vitscope.data.corruptions import SEVERITIES, TYPES
from vitscope.data.corruptions.published import open_published
from vitscope.data.corruptions.registry import CHANNELS, SMALLEST, check_conditions, rule
from vitscope.data.images import limit_indices
from vitscope.engine.conditions import nothing_scored
from vitscope.engine.corruption_passes import CorruptionPasses, Replicates
from vitscope.engine.exam import procedure
from vitscope.engine.facts import data_name
from vitscope.engine.own_passes import own_passes
from vitscope.engine.resuming import PartialResults
from vitscope.engine.takes_interface import Asked
from vitscope.findings.corruption import CLEAN, CorruptionResult

GENERATED, PUBLISHED = "generated", "published"


@procedure(CorruptionResult, evaluation=True, resumable=True, needs_labels=True, or_task=True)
def corruption(
    model: nn.Module,
    data: Any,
    request: Asked,
    parts: PartialResults | None = None,
    types: Sequence[str] = TYPES,
    severities: Sequence[int] = SEVERITIES,
    source: str | Path | None = None,
    reference: CorruptionResult | None = None,
    workers: int | None = None,
    cache: bool | None = None,
) -> CorruptionResult:
    """Score `model` on corrupted images; `examine` documents the other arguments.

    Args:
        types: Which corruptions.
        severities: How severe, 1 to 5.
        source: A folder with the published files of these data (CIFAR-10-C, CIFAR-100-C, ImageNet-C); default: images
            are corrupted here.
        reference: Another model's result on the same images, for the mean corruption error.
        workers: Processes that corrupt images while the model looks at others; default: one per core.
        cache: Keep corrupted images on disk for the next run and other models of the same input size; default: if
            they take less than 4 GB.
    """
    types, severities = tuple(dict.fromkeys(types)), tuple(sorted(set(severities)))
    check_conditions(types, severities)
    if reference is not None:
        _check_reference(reference, types, severities, data_name(data), request.seed)
    conditions = [(kind, severity) for kind in types for severity in severities]
    published = None
    if source is not None:
        published = open_published(source, data, conditions, _chosen(data, request.limit, request.seed))
    parts = parts or PartialResults()
    with own_passes(model, data, request, labelled=True, or_task=True) as own, parts:
        asked = (
            own.pictures is not None and own.pictures.task == "vqa"
        )  # images are shown once for each question
        if (
            reference is not None
            and not asked
            and reference.n != (n := sum(distributed.gather(own.n_images)))
        ):
            raise VitscopeError(
                f"the reference is of {reference.n} images; expected the same {n}; use its limit"
            )
        passes = CorruptionPasses(model, own, conditions, request.seed, request.batch_size, parts)
        if published is None:
            side = min(own.input_shape[1:])
            common = {**own.common, "images": GENERATED, "how": f"{rule(side)}, at {side} pixels"}
            if obstacle := _obstacle(own.input_shape):
                return _nothing(common, obstacle)
            found = passes.generated(cache, workers)
        else:
            common = {**own.common, "images": PUBLISHED, "how": f"the files in {Path(source or '').name}"}
            found = passes.published(published)
    drawn = Replicates(found, types, severities)
    headlines = drawn.headlines(common["images"])
    if reference is not None:
        errors = np.array([1 - reference.of(kind) for kind in types])
        headlines += drawn.against(types, reference.model, errors, 1 - reference.of(CLEAN))
    return CorruptionResult(
        **common,
        n=drawn.n,
        types=types,
        severities=severities,
        obstacle="",
        rows=drawn.rows,
        scores=drawn.table(),
        headlines=tuple(headlines),
    )


def _nothing(common: dict[str, Any], obstacle: str) -> CorruptionResult:
    """The result of a model or data that cannot be corrupted."""
    none: dict[str, Any] = dict.fromkeys(("types", "severities", "rows", "headlines"), ())
    return CorruptionResult(**common, **none, n=0, obstacle=obstacle, scores=nothing_scored())


def _obstacle(input_shape: Sequence[int]) -> str:
    channels, *sides = input_shape
    if channels not in CHANNELS:
        return f"images of {channels} channels have no corruptions; they are made for 1, 3 and 4"
    if min(sides) < SMALLEST:
        return f"images of {min(sides)} pixels are too small; corruptions need {SMALLEST}"
    return ""


def _chosen(data: Any, limit: int | None, seed: int) -> np.ndarray:
    """Places of the images that are going to be shown."""
    labels = getattr(data, "labels", np.zeros(0, np.int64))
    return np.arange(len(labels)) if limit is None else limit_indices(labels, limit, seed)


def _check_reference(
    reference: CorruptionResult, types: Sequence[str], severities: Sequence[int], data: str, seed: int
) -> None:
    if reference.scores.ap is not None:
        raise VitscopeError(
            "a mean corruption error is made of accuracies, which models of objects do not have; leave reference= out"
        )
    seen = (reference.data, reference.seed, reference.types, reference.severities)
    if seen != (data, seed, tuple(types), tuple(severities)):
        raise VitscopeError(
            f"the reference is of {reference.data}, seed {reference.seed}, {len(reference.types)} types at severities "
            f"{reference.severities}; expected {data}, seed {seed} and the same {len(types)} types at "
            f"{tuple(severities)}; examine both models with the same options"
        )
