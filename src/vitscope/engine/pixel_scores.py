"""Predictions of a class for every pixel, scored as those of whole images are: every pixel is a prediction.

Scores are brought to the size of the mask first; pixels without a class do not count. What an image adds to all sums
are two small arrays, whatever its size:

    columns   pixels, then summed over them what `MEANS` are the means of; the calibration gap of each bin; how many
              pixels each bin holds, and how many of them are right
    table     (3, classes): pixels that are right, there, predicted, as in `tasks/segmentation.py`

Pixels of an image are not independent, images are: intervals are of a bootstrap over images.
"""

import hashlib
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

from vitscope.core.errors import BadData, UnsupportedModel
from vitscope.data.task_data import NO_CLASS, TaskData
from vitscope.results.condition_rows import BINS, MEANS
from vitscope.tasks.segmentation import DECODER
from vitscope.tasks.task import unhalved
from vitscope.tasks.upsampled import IN_DOUBLE, strips

SUMMED = 1 + len(MEANS)  # pixels, and the sum of each score
PIXEL_COLUMNS = SUMMED + 3 * BINS
TOP = 5


def require_maps(scores: Tensor, model: str) -> None:
    """Refuse scores of whole images where those of pixels are needed."""
    if scores.ndim != 4:
        raise UnsupportedModel(
            f"{model} puts out {tuple(scores.shape)}, expected (images, classes, height, width), scores of every "
            f"pixel: take a model that was trained for segmentation, such as {DECODER}:vit_mini"
        )


def mask_of(data: TaskData, index: int, classes: int) -> Tensor:
    """(H, W) int64, the class of every pixel of an image, which has to be one that the model knows."""
    mask = torch.from_numpy(np.asarray(data.target(index), dtype=np.int64))
    if int(mask.max()) >= classes:
        raise BadData(
            f"{data.name(index)} has pixels of class {int(mask.max())}, the model has outputs 0 to {classes - 1}; give "
            "the model as many classes as the data"
        )
    return mask


def order_of_showing(index: int, seed: int) -> int:
    """A number above 0 by which images are chosen to be shown, the lowest first: all exams show the same ones."""
    return 1 + int.from_bytes(hashlib.blake2b(f"{seed} {index}".encode(), digest_size=7).digest())


@torch.no_grad()
def score_pixels(scores: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Columns, table and predicted classes (H, W) of one image: scores (K, h, w) against a mask (H, W)."""
    scores = unhalved(scores.detach())
    scores = scores.cpu() if scores.device.type == "mps" else scores  # which has no float64
    mask, classes = mask.to(scores.device), len(scores)
    columns = torch.zeros(PIXEL_COLUMNS, dtype=torch.float64, device=scores.device)
    table = torch.zeros(3, classes, dtype=torch.int64, device=scores.device)
    maps = []
    for rows, whole in strips(scores, mask.shape):
        said = whole.argmax(0)
        known = mask[rows] != NO_CLASS
        truth, chosen, values = mask[rows][known], said[known], whole[:, known]
        right = chosen == truth
        for piece in torch.arange(len(truth), device=scores.device).split(max(1, IN_DOUBLE // classes)):
            columns += _columns(values[:, piece].double(), truth[piece], right[piece])
        table += torch.stack(
            [torch.bincount(one, minlength=classes) for one in (truth[right], truth, chosen)]
        )
        maps.append(said.cpu())
    return columns.cpu(), table.double().cpu(), torch.cat(maps)


@torch.no_grad()
def score_images(
    scores: Iterable[Tensor], indices: Tensor, data: TaskData
) -> tuple[Tensor, Tensor, list[tuple[Tensor, Tensor]]]:
    """Columns (N, ...) and tables (N, 3, K) of scores (N, K, h, w), and of each image truth and prediction (H, W)."""
    columns, tables, maps = [], [], []
    for index, own in zip(indices.tolist(), scores, strict=True):
        mask = mask_of(data, index, len(own))
        found, table, said = score_pixels(own, mask)
        columns.append(found)
        tables.append(table)
        maps.append((mask, said))
    return torch.stack(columns), torch.stack(tables), maps


def replicate_tables(classes: Tensor) -> np.ndarray:
    """(1 + replicates, 3, K) of what is collected as (K, 3, 1 + replicates)."""
    return np.moveaxis(classes.numpy(), -1, 0).swapaxes(1, 2)


def _columns(values: Tensor, truth: Tensor, right: Tensor) -> Tensor:
    """(PIXEL_COLUMNS,) of scores (K, pixels)."""
    own = values.gather(0, truth[None])[0]
    best = (values > own).sum(0) < TOP
    log_p = values.log_softmax(0)
    p = log_p.exp()
    confidence = p.amax(0)
    brier = p.square().sum(0) - 2 * p.gather(0, truth[None])[0] + 1
    nll = -log_p.gather(0, truth[None])[0]
    ones, hits = torch.ones_like(nll), right.to(nll.dtype)
    edges = torch.arange(1, BINS, dtype=torch.float64, device=values.device) / BINS
    bins = torch.bucketize(confidence, edges, right=False)
    sums = [ones.sum(), hits.sum(), best.sum(), nll.sum(), brier.sum(), confidence.sum()]
    by_bin = [torch.bincount(bins, one, BINS) for one in (confidence - hits, ones, hits)]
    return torch.cat([torch.stack([one.double() for one in sums]), *by_bin])
