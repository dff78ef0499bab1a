"""Answers to questions about pictures, scored as predictions of images are: every question is a prediction.

An answer k is right to a degree t_k, from 0 to 1, and the model gives it a score z_k. With p = sigmoid(z) and the
chosen answer c = argmax z:

    accuracy = mean of t_c                                      top5  = mean of the best t among the 5 highest scores
    nll      = mean of sum_k -t_k log p_k - (1 - t_k) log(1 - p_k), the loss that such models are trained with
    brier    = mean of sum_k (p_k - t_k)^2                      confidence = mean of p_c
    ece      = sum over bins of p_c of |sum (p_c - t_c)| / n

Questions about one picture are not independent, pictures are: intervals are of a bootstrap over pictures, and `n`
counts those that were asked about, each of them once, by a bit of its own.
"""

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from vitscope.core import distributed
from vitscope.core.errors import BadData, UnsupportedModel
from vitscope.data.task_data import TaskData
from vitscope.engine.scores import WORD, confidence_bins, lengthened

TOP = 5


def highest(scores: Tensor) -> Tensor:
    """(..., at most 5) answers with the highest scores, in falling order; of equal ones the first, as in argmax."""
    return scores.argsort(dim=-1, descending=True, stable=True)[..., :TOP]


@torch.no_grad()
def score_answers(scores: Tensor, indices: Tensor, data: TaskData, model: str) -> Tensor:
    """(N, columns): 1, what `MEANS` are the means of, the gap of each bin; then the bins, and how right each is."""
    scores = scores.detach().cpu().double()
    targets = targets_of(scores, indices, data, model)
    p = scores.sigmoid()
    order = highest(scores)
    rightness = targets.gather(1, order)
    right, confidence = rightness[:, 0], p.gather(1, order)[:, 0]
    nll = F.binary_cross_entropy_with_logits(scores, targets, reduction="none").sum(1)
    brier = (p - targets).square().sum(1)
    bins = confidence_bins(confidence)
    means = [torch.ones_like(right), right, rightness.amax(1), nll, brier, confidence]
    gaps = bins * (confidence - right)[:, None]
    return torch.cat([torch.stack(means, 1), gaps, bins, bins * right[:, None]], 1)


def targets_of(scores: Tensor, indices: Tensor, data: TaskData, model: str) -> Tensor:
    """(N, answers) how right each answer is, in float64; the model has to know as many answers as the data."""
    if scores.ndim != 2:
        raise UnsupportedModel(
            f"{model} puts out {tuple(scores.shape)}, expected (questions, answers): take a model that answers "
            "questions, such as vilt_mini"
        )
    found = torch.from_numpy(np.stack([data.target(index) for index in indices.tolist()])).double()
    if found.shape != scores.shape:
        raise BadData(
            f"{data.spec} has {found.shape[1]} answers to choose from, {model} has {scores.shape[1]}; take a model "
            "that was trained for these, or list its answers, in its order, in answers.txt of the data"
        )
    return found


def with_pictures(words: Tensor, numbers: np.ndarray) -> Tensor:
    """`words`, as long as needed, with the bits of these pictures set, some of which may be set already."""
    new = torch.from_numpy(np.unique(numbers))
    longer = lengthened(words, int(new.max()) // WORD + 1) if len(new) else words
    new = new[(longer[new // WORD] >> (new % WORD)) & 1 == 0]
    return longer.index_add(0, new // WORD, torch.ones_like(new) << (new % WORD))


def either(first: Tensor, second: Tensor) -> Tensor:
    """The bits that are set in one of two."""
    length = max(len(first), len(second))
    return lengthened(first, length) | lengthened(second, length)


def seen_once(words: Tensor) -> Tensor:
    """This process's bits without those of processes before it, as long as the longest: the sum has each bit once."""
    every = [torch.tensor(one, dtype=torch.int64) for one in distributed.gather(words.tolist())]
    before = torch.zeros(max(len(one) for one in every), dtype=torch.int64)
    for one in every[: distributed.rank()]:
        before = either(before, one)
    return lengthened(words, len(before)) & ~before


def bits_set(words: Tensor) -> int:
    """How many bits are set in all words together."""
    return int(np.unpackbits(words.numpy().view(np.uint8)).sum())
