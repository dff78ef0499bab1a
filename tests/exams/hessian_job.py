"""Spectra of a small network as numbers; run by `test_hessian.py` in its own process, and with torchrun in two."""

import json
import sys
from pathlib import Path
from typing import Any

from tests.curvature.networks import batch, small_vit
from tests.exams.task_cases import PixelNet, detector, squares
from vitscope.core import distributed
from vitscope.core.errors import VitscopeError
from vitscope.exams.loss.hessian import hessian
from vitscope.exams.loss.hessian_density import hessian_density


def numbers(split: bool) -> dict[str, Any]:
    images, targets = batch(12)
    data, options = (images, targets.argmax(1)), {"batch_size": 4, "batches": 3, "weight_decay": 0.1}
    spectrum = hessian(small_vit(), data, k=3, tol=1e-8, split_batch=split, **options)
    density = hessian_density(small_vit(), data, steps=10, split_batch=split, **options)
    return {
        "values": spectrum.eigenvalues.tolist(),
        "residuals": spectrum.residuals.tolist(),
        "converged": spectrum.converged.tolist(),
        "losses": [spectrum.nll.tolist(), spectrum.l2.tolist()],
        "summed up": [*spectrum.negative_share, *spectrum.positive_mean],
        "density": [*density.trace, *density.value.tolist()],
    }


def of_tasks(split: bool) -> dict[str, Any]:
    """The same of pixels and objects: what is drawn for an image follows from its place in the whole batch."""
    how: dict[str, Any] = {"k": 1, "batch_size": 2, "batches": 2, "tol": 1e-8, "split_batch": split}
    pixels = hessian(PixelNet(), squares("segmentation"), recipe=None, **how)
    objects = hessian(
        detector(), squares("detection", side=32), params="head.roi_heads.box_predictor.cls_score", **how
    )
    return {one.task: [*one.eigenvalues[:, 0], *one.nll] for one in (pixels, objects)}


def refusal() -> str:
    """What is said of a batch that is smaller than the number of processes; nothing if it is not."""
    images, targets = batch(2)
    try:
        hessian(small_vit(), (images, targets.argmax(1)), k=1, batch_size=1, batches=2, split_batch=True)
    except VitscopeError as error:
        return str(error)
    return ""


if __name__ == "__main__":
    with distributed.process_group():
        found = {"shared": numbers(split=False), "split": numbers(split=True), "refusal": refusal()}
        found |= {"tasks": of_tasks(split=False), "split tasks": of_tasks(split=True)}
        Path(sys.argv[1], f"{distributed.rank()}.json").write_text(json.dumps(found))
