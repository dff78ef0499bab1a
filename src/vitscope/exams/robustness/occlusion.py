"""Occlusion: what a model still sees when a part of the picture is masked.

    x_masked = x (1 - m) + fill m        m = 1 where a pixel is masked

Centre: m = 1 on the middle half of each side, a quarter of the area (112 x 112 of 224 pixels in the papers). Patch
drop: the picture is cut into 8 x 8 patches, as equal as pixels allow, and the first share r of them in some order is
masked:

    random        in an order drawn for each image from the seed and its place in the data
    salient       those first that the model's decision hangs on most
    non-salient   those first that it hangs on least

A larger share masks all that a smaller one does. The fill is the model's mean colour, which is 0 in what the model is
shown ("zero-masked" tensors), or black, which is 0 in the picture. The decision hangs on patch p by

    s_p = sum over pixels and channels of p of |g (x - fill)|        g = d logit_c / d x,  c the predicted class

To first order, g (x - fill) is what the score of the predicted class loses when that pixel is masked. No label is
used, and nothing is known of the model but its gradient. Of a model of pixels, the mean of their largest scores takes
the place of logit_c; what a pixel is stays the same when it is masked.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.core.arguments import Count, Share
from vitscope.core.errors import VitscopeError
from vitscope.engine.conditions import main_headlines, score_conditions, scored
from vitscope.engine.exam import procedure
from vitscope.engine.own_passes import own_passes
from vitscope.engine.pixels import PATCHES, PixelModel, best_scores, image_generators
from vitscope.engine.resuming import PartialResults
from vitscope.engine.takes_interface import Asked
from vitscope.findings.occlusion import CENTRE, CLEAN, NON_SALIENT, RANDOM, SALIENT, Occluded, OcclusionResult
from vitscope.results.condition_rows import Headline

Fill = Literal["mean", "black"]
SHARES = (0.3, 0.6, 0.9)


def patch_numbers(height: int, width: int, side: int) -> Tensor:
    """(H, W): to which of the side x side patches each pixel belongs."""
    rows, columns = torch.arange(height) * side // height, torch.arange(width) * side // width
    return rows[:, None] * side + columns[None, :]


def patch_saliency(gradient: Tensor, pixels: Tensor, fill: Tensor, number: Tensor, patches: int) -> Tensor:
    """(N, patches): how much a score, such as the largest logit, hangs on each patch, from its gradient.

    `fill` (1, C, 1, 1) stands in masked places, `number` (H, W) says which patch a pixel belongs to.
    """
    effect = (gradient * (pixels - fill)).abs().sum(1).flatten(1)
    total = torch.zeros(len(pixels), patches, dtype=effect.dtype, device=effect.device)
    return total.index_add_(1, number.flatten().to(effect.device), effect)


def random_ranks(seed: int, indices: Tensor, patches: int) -> Tensor:
    """(N, patches): a random order for each image, as the rank of every patch."""
    orders = [g.permutation(patches) for g in image_generators(PATCHES, seed, indices)]
    return torch.from_numpy(np.stack(orders))


def ranks(saliency: Tensor) -> Tensor:
    """(N, patches): 0 for the most salient patch of an image; equal ones in the order of their numbers."""
    return saliency.argsort(dim=1, descending=True, stable=True).argsort(1)


def centre_mask(height: int, width: int) -> Tensor:
    """(H, W): 1.0 on the middle half of each side; an odd remainder goes to the lower right."""
    mask = torch.zeros(height, width)
    top, left = (height - height // 2) // 2, (width - width // 2) // 2
    mask[top : top + height // 2, left : left + width // 2] = 1.0
    return mask


def masked(pixels: Tensor, mask: Tensor, fill: Tensor) -> Tensor:
    """Pictures in which `fill` stands where the mask is 1; the mask is (H, W) or (N, 1, H, W)."""
    return torch.where(mask.bool(), fill, pixels)


@procedure(OcclusionResult, evaluation=True, resumable=True, needs_labels=True, or_task=True)
def occlusion(
    model: nn.Module,
    data: Any,
    request: Asked,
    parts: PartialResults | None = None,
    fill: Fill = "mean",
    side: Count = 8,
    shares: Sequence[Share] = SHARES,
) -> OcclusionResult:
    """Score `model` on pictures of which parts are masked; `examine` documents the other arguments.

    Args:
        model: A classifier; one without a gradient is measured in random order only.
        fill: What stands in masked places: the model's mean colour, or black.
        side: Patches along each side of the picture; the patches of a side of 32 pixels are 4 pixels wide.
        shares: Of the patches that are dropped.
    """
    if side < 2 or not shares or not all(0 < share < 1 for share in shares):
        raise VitscopeError(
            f"side is {side}, shares are {tuple(shares)}; expected 2 or more, and numbers between 0 and 1"
        )
    with own_passes(model, data, request, labelled=True, parts=parts, or_task=True) as own:
        height, width = own.input_shape[1:]
        if side > min(height, width):
            raise VitscopeError(
                f"side is {side}, and the model sees {height} x {width} pixels: its patches would be smaller than one; "
                f"expected 2 to {min(height, width)}"
            )
        model.requires_grad_(False)  # the image's gradient is wanted; `own_passes` puts this back
        seen = PixelModel.of(own)
        mean = seen.space.config.mean if fill == "mean" else 0.0
        colour = torch.tensor(mean, device=own.device).view(1, -1, 1, 1)
        size = (height, width)
        number, centre = patch_numbers(*size, side).to(own.device), centre_mask(*size).to(own.device)
        guided = seen.has_gradient(own.noise(1))
        orders = (RANDOM, SALIENT, NON_SALIENT) if guided else (RANDOM,)
        conditions = _conditions(orders, sorted(set(shares)), side**2)

        def predict(images: Tensor, labels: Tensor, indices: Tensor) -> Iterator[tuple[str, Tensor]]:
            pixels = seen.pixels(images)
            yield CLEAN, seen.clean(images, indices)
            yield CENTRE, seen.logits(masked(pixels, centre, colour), indices)
            rank = {RANDOM: random_ranks(request.seed, indices, side**2).to(pixels.device)}
            if guided:

                def score(said: Any) -> Tensor:
                    return best_scores(own.readout(said, labels, indices)[0])

                gradient = seen.gradient(pixels, score, indices)
                rank[SALIENT] = ranks(patch_saliency(gradient, pixels, colour, number, side**2))
                rank[NON_SALIENT] = side**2 - 1 - rank[SALIENT]
            for own_order in conditions[2:]:
                dropped = rank[own_order.order] < round(own_order.share * side**2)
                mask = dropped[:, number.flatten()].view(len(pixels), 1, *size)
                yield own_order.condition, seen.logits(masked(pixels, mask, colour), indices)

        names = [o.condition for o in conditions]
        found = score_conditions("occlusion", own, names, predict)
        scores = scored([found[condition] for condition in names], reference=found[CLEAN])
        return OcclusionResult(
            **own.common,
            n=scores.n,
            fill=fill,
            side=side,
            occluded=conditions,
            scores=scores,
            headlines=_headlines(conditions, orders, found),
        )


def _conditions(orders: Sequence[str], shares: Sequence[float], patches: int) -> tuple[Occluded, ...]:
    """All conditions; the share is that of whole patches."""
    dropped = [
        Occluded(f"{order} {100 * share:g} % masked", order, round(share * patches) / patches)
        for order in orders
        for share in shares
    ]
    return Occluded(CLEAN, "", 0.0), Occluded(CENTRE, "", 0.25), *dropped


def _headlines(
    conditions: Sequence[Occluded], orders: Sequence[str], found: Mapping[str, Mapping[str, Tensor]]
) -> tuple[Headline, ...]:
    by_order = {order: [found[o.condition] for o in conditions if o.order == order] for order in orders}
    found_by = {CENTRE: [found[CENTRE]], **{f"{order} patches masked": by_order[order] for order in orders}}
    return tuple(headline for name, parts in found_by.items() for headline in main_headlines(name, parts))
