"""Similarity of what units know about images: centred kernel alignment (CKA), of one model or of two.

Over mini-batches b, with K_b and L_b the Gram matrices of two units on the images of a batch,

    CKA(K, L) = mean_b HSIC(K_b, L_b) / sqrt(mean_b HSIC(K_b, K_b) mean_b HSIC(L_b, L_b))

with the unbiased HSIC of `hsic.py`, which makes the mean over batches independent of their number. It is 1 for
units that are rotated, shifted or scaled copies of each other, and about 0, of either sign, for independent ones.
Intervals come from a Poisson bootstrap over batches: the spread s of the replicates over B batches gives
value +- t(B - 1) s sqrt(B / (B - 1)), cut off at -1 and 1.
"""

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.anatomy.taps.capture import Stream
from vitscope.core.errors import VitscopeError
from vitscope.core.statistics import few_interval, poisson_weights
from vitscope.engine.exam import Accumulator, Batch, Subject
from vitscope.engine.features.hsic import LEAST_IMAGES, gram, hsic_of_pairs
from vitscope.engine.one_pass import examine
from vitscope.engine.takes_interface import takes_interface
from vitscope.engine.two_models import examine_pair
from vitscope.findings.cka import CkaResult
from vitscope.results.similarity_blocks import SCORES, score_weights, stages_of

REPLICATES = 200  # enough for a standard error; each one is a matrix of all pairs


class CkaAccumulator(Accumulator):
    """Sums over batches of the HSIC of all pairs, plain and in every bootstrap replicate.

    With the subject of another model, `Batch.values` holds the Gram matrices of the first model's units and
    then those of the other's.
    """

    result = CkaResult
    needs_maps = True
    whole_maps = True
    batch_matters = True
    least_images = LEAST_IMAGES
    measure = staticmethod(gram)

    n: Tensor
    batches: Tensor
    left_out: Tensor
    hsic: Tensor  # (1 + replicates, units, units); the first one is plain

    def __init__(self, subject: Subject, other: Subject | None = None) -> None:
        super().__init__(subject)
        self.other = other
        self.units = subject.units + (other.units if other else ())
        shape = (1 + REPLICATES, len(self.units), len(self.units))
        self.add_sum("hsic", shape)
        for name in ("n", "batches", "left_out"):
            self.add_sum(name, dtype=torch.int64)

    def update(self, batch: Batch) -> None:
        """Take in the Gram matrices of one batch of images."""
        images = len(batch.indices)
        if images < LEAST_IMAGES:
            self.left_out += images
            return
        grams = torch.stack([found.cpu() for found in batch.values])
        self._check_finite(grams)
        # The first image stands for the batch: the weights do not depend on which process has it.
        weights = torch.from_numpy(
            poisson_weights(batch.indices[:1].cpu().numpy(), self.subject.seed, REPLICATES)
        )
        self.hsic.addcmul_(weights.view(-1, 1, 1), hsic_of_pairs(grams))
        self.batches += 1
        self.n += images

    def compute(self) -> dict[str, Any]:
        """CKA of all pairs and the block scores, with their intervals."""
        batches, rows = int(self.batches), len(self.subject.units)
        columns = slice(0, rows) if self.other is None else slice(rows, None)
        cka = _normalised(self.hsic.numpy())[:, :rows, columns]
        low, high = _interval(cka, batches)
        if self.other is None:
            weights = score_weights(stages_of(self.units))
            scores = np.einsum("rij,sij->rs", cka, weights)
        else:
            scores = np.full((1 + REPLICATES, len(SCORES)), np.nan)
        score_low, score_high = _interval(scores, batches)
        return {
            "n": int(self.n),
            "value": cka[0].copy(),
            "low": low,
            "high": high,
            "score": scores[0].copy(),
            "score_low": score_low,
            "score_high": score_high,
            "batches": batches,
            "left_out": int(self.left_out),
        }

    def common(self) -> dict[str, Any]:
        """Units and the other model's name come from the subjects."""
        columns = self.other or self.subject
        other = {"other": self.other.model if self.other else None, "other_units": columns.units}
        return {**super().common(), "units": self.subject.units, **other}

    def _check_finite(self, grams: Tensor) -> None:
        bad = ~torch.isfinite(grams).flatten(1).all(1)
        if bad.any():
            unit = self.units[int(bad.nonzero()[0])].name
            raise VitscopeError(
                f"the features after '{unit}' are not finite; "
                "check the weights and the preprocessing, or run the model in float32"
            )


def _normalised(hsic: np.ndarray) -> np.ndarray:
    """CKA from sums of HSIC (..., units, units); NaN for units that are the same for all images."""
    own = np.sqrt(np.maximum(np.diagonal(hsic, axis1=-2, axis2=-1), 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(hsic / (own[..., :, None] * own[..., None, :]), -1.0, 1.0)


def _interval(replicates: np.ndarray, batches: int) -> tuple[np.ndarray, np.ndarray]:
    """The 95 % interval around the first entry; replicates without any batch are NaN and left out."""
    value = replicates[0]
    known = replicates[1:][np.isfinite(replicates[1:]).reshape(len(replicates) - 1, -1).any(1)]
    if batches < 2 or len(known) < 2:
        return np.full_like(value, np.nan), np.full_like(value, np.nan)
    low, high = few_interval(value, known.std(0, ddof=1), batches)
    return np.clip(low, -1.0, 1.0), np.clip(high, -1.0, 1.0)


@takes_interface
def cka(
    model: nn.Module,
    data: Any,
    limit: int | None = None,
    batch_size: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
    other: nn.Module | None = None,
    stream: Stream = "read",
) -> CkaResult:
    """Examine how alike `model`'s units are to each other, or to those of `other` on the same images.

    `examine` documents the other arguments. The result depends a little on the batch size.
    """
    CkaAccumulator.check_batch_size(batch_size)
    if other is not None:
        found = examine_pair(model, other, data, CkaAccumulator, limit, batch_size, seed, device, stream)
    else:
        found = examine(model, data, [CkaAccumulator], limit, batch_size, seed, device, stream=stream)["cka"]
    result = cast(CkaResult, found)
    if not result.batches:
        raise VitscopeError(
            f"no batch had {LEAST_IMAGES} images or more, which CKA needs ({result.left_out} were left out); "
            f"give more images, or a loader with batches of at least {LEAST_IMAGES}"
        )
    return result
