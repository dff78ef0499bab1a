"""Similarity of what units know about images: centred kernel alignment (CKA), of one model or of two.

With X (n, p) what one unit gives for the n images of a batch, K = X X^T without its diagonal, r its row sums and s
their sum, and L, r', s' the same of another unit, the unbiased Hilbert-Schmidt independence criterion of Song et al.
(2012) says how alike they see the images; over mini-batches b it gives CKA:

    HSIC(K, L) = [ <K, L> - 2 r.r' / (n - 2) + s s' / ((n - 1) (n - 2)) ] / (n (n - 3)),    n >= 4
    CKA(K, L)  = mean_b HSIC(K_b, L_b) / sqrt(mean_b HSIC(K_b, K_b) mean_b HSIC(L_b, L_b))

so that every unit is summed up once, matrix products give all pairs, and the mean does not depend on the number of
batches. HSIC does not change if X is shifted: the mean over images is taken off first, which keeps the digits that
matter. CKA is 1 for units that are rotated, shifted or scaled copies of each other, and about 0, of either sign, for
independent ones. Intervals come from a Poisson bootstrap over batches: the spread s of the replicates over B batches
gives value +- t(B - 1) s sqrt(B / (B - 1)), cut off at -1 and 1.
"""

from typing import Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.anatomy.taps.capture import Stream
from vitscope.core.bootstrap import few_interval, poisson_weights
from vitscope.core.errors import VitscopeError
from vitscope.core.statistics import Estimate, without_interval
from vitscope.engine.exam import Accumulator, Batch, Subject
from vitscope.engine.not_finite import overflown
from vitscope.engine.one_pass import examine
from vitscope.engine.own_passes import examine_pair
from vitscope.engine.takes_interface import AskedUnnamed, takes_interface
from vitscope.findings.cka import CkaResult
from vitscope.results.unit_changes import SCORES, score_weights, stages_of

LEAST_IMAGES = 4  # in a batch: HSIC divides by n - 3
CHUNK = 1 << 17  # numbers that are centred at once: few enough to stay in a cache
PIECE = 1 << 12  # of an image at most: a float32 sum of so many is off by 2.5e-4 of its terms on no machine
REPLICATES = 200  # enough for a standard error; each one is a matrix of all pairs


def gram(feature: Tensor) -> Tensor:
    """(N, N), symmetric: inner products of the maps (N, C, H, W) of N images, less their mean over images; float32."""
    # The order of the numbers of an image does not matter, so that of memory is taken: nothing is copied.
    last = feature.shape[1] > 1 and feature.stride(1) == 1
    flat = (feature.permute(0, 2, 3, 1) if last else feature).flatten(1)
    total = torch.zeros(len(flat), len(flat), device=flat.device)
    for piece in flat.split(max(1, min(PIECE, CHUNK // len(flat))), dim=1):
        numbers = piece.float()
        centred = numbers - numbers.mean(0)
        total += centred @ centred.T
    return (total + total.T) / 2  # a matrix product need not add up both halves in the same order


def hsic_of_pairs(grams: Tensor) -> Tensor:
    """(units, units): HSIC of every pair of the Gram matrices (units, N, N), in float64."""
    n = grams.shape[-1]
    off = grams.to(torch.float64, copy=True)
    off.diagonal(dim1=1, dim2=2).zero_()
    rows, flat = off.sum(2), off.flatten(1)
    total = rows.sum(1)
    means = torch.outer(total, total) / ((n - 1) * (n - 2)) - rows @ rows.T * (2 / (n - 2))
    return (flat @ flat.T + means) / (n * (n - 3))


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
        self.add_sums(hsic=(1 + REPLICATES, len(self.units), len(self.units)))
        self.add_counts("n", "batches", "left_out")

    def update(self, batch: Batch) -> None:
        """Take in the Gram matrices of one batch of images."""
        images = len(batch.indices)
        if images < LEAST_IMAGES:
            self.left_out += images
            return
        grams = torch.stack([found.cpu() for found in batch.values])
        if (bad := ~torch.isfinite(grams).flatten(1).all(1)).any():
            raise overflown(f"the features after '{self.units[int(bad.nonzero()[0])].name}' are not finite")
        # The first image stands for the batch: the weights do not depend on which process has it.
        weights = poisson_weights(batch.indices[:1].cpu().numpy(), self.subject.seed, REPLICATES)
        self.hsic.addcmul_(torch.from_numpy(weights).view(-1, 1, 1), hsic_of_pairs(grams))
        self.batches += 1
        self.n += images

    def compute(self) -> dict[str, Any]:
        """CKA of all pairs and the block scores, with their intervals."""
        batches, rows = int(self.batches), len(self.subject.units)
        columns = slice(0, rows) if self.other is None else slice(rows, None)
        cka = _normalised(self.hsic.numpy())[:, :rows, columns]
        if self.other is None:
            weights = score_weights(stages_of(self.units))
            scores = np.einsum("rij,sij->rs", cka, weights)
        else:
            scores = np.full((1 + REPLICATES, len(SCORES)), np.nan)
        return {
            "n": int(self.n),
            **_estimate(cka, batches)._asdict(),
            "score": _estimate(scores, batches),
            "batches": batches,
            "left_out": int(self.left_out),
        }

    def common(self) -> dict[str, Any]:
        """The columns may be another model's units."""
        columns, other = self.other or self.subject, self.other.model if self.other else None
        return {**super().common(), "other": other, "other_units": columns.units}


def _normalised(hsic: np.ndarray) -> np.ndarray:
    """CKA from sums of HSIC (..., units, units); NaN for units that are the same for all images."""
    own = np.sqrt(np.maximum(np.diagonal(hsic, axis1=-2, axis2=-1), 0.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip(hsic / (own[..., :, None] * own[..., None, :]), -1.0, 1.0)


def _estimate(replicates: np.ndarray, batches: int) -> Estimate[np.ndarray]:
    """The first entry and an interval around it; replicates without any batch are NaN and left out."""
    value = replicates[0].copy()
    known = replicates[1:][np.isfinite(replicates[1:]).reshape(len(replicates) - 1, -1).any(1)]
    if batches < 2 or len(known) < 2:
        return without_interval(value)
    return Estimate(value, *few_interval(value, known.std(0, ddof=1), batches)).bounded(-1.0, 1.0)


@takes_interface
def cka(
    model: nn.Module,
    data: Any,
    request: AskedUnnamed,
    other: nn.Module | None = None,
    stream: Stream = "read",
) -> CkaResult:
    """Examine how alike `model`'s units are to each other, or to those of `other` on the same images.

    `examine` documents the other arguments. The result depends a little on the batch size.
    """
    CkaAccumulator.check_batch_size(request.batch_size)
    if other is not None:
        found = examine_pair(model, other, data, CkaAccumulator, request, stream)
    else:
        found = examine(model, data, [CkaAccumulator], **vars(request), stream=stream)["cka"]
    result = cast(CkaResult, found)
    if not result.batches:
        raise VitscopeError(
            f"no batch had {LEAST_IMAGES} images or more, which CKA needs ({result.left_out} were left out); "
            f"give more images, or a loader with batches of at least {LEAST_IMAGES}"
        )
    return result
