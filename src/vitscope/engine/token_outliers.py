"""Tokens that are far longer than the rest of their image, where they sit, and what attention they receive.

With m the median of the norms that are not 0, an outlier has a norm of more than FACTOR m.
"""

import math

import torch
from torch import Tensor, nn

from vitscope.anatomy import AttentionMap, Unit
from vitscope.engine.heads import attention_matrix, every_point_asks, geometry, why_not
from vitscope.results import UnitRow

FACTOR = 4.0  # the artefacts that registers cure are at 5 to 10 times the median, other tokens stay below 3


def norms_of(feature: Tensor) -> Tensor:
    """(N, points): the norm of every point of maps (N, C, H, W)."""
    return torch.linalg.vector_norm(feature.flatten(2).float(), dim=1)


def medians_of(norms: Tensor) -> Tensor:
    """(N,): the median of the norms (N, points) that are not 0; infinite where all are."""
    known = torch.where(norms > 0, norms, torch.nan)
    return torch.nan_to_num(torch.nanquantile(known, 0.5, dim=1), nan=torch.inf)


def outliers_of(norms: Tensor, factor: float = FACTOR) -> Tensor:
    """(N, points), 1 for the tokens that are outliers among those of their image."""
    return (norms > factor * medians_of(norms)[:, None]).to(norms)


def border(grid: tuple[int, int]) -> Tensor:
    """(points,): 1 in the outermost rows and columns."""
    found = torch.ones(grid, dtype=torch.float64)
    found[1:-1, 1:-1] = 0.0
    return found.flatten()


def patch_contrast(images: Tensor, grid: tuple[int, int]) -> Tensor:
    """(N, points): the standard deviation of the pixels under each point, divided by its mean over the image's points.

    It is 1 everywhere on a plain image, and NaN where a point is a single pixel.
    """
    if any(side <= cells for side, cells in zip(images.shape[2:], grid, strict=True)):
        return torch.full((len(images), math.prod(grid)), torch.nan)
    pixels = images.float()
    pixels = pixels - pixels.mean((2, 3), keepdim=True)
    mean, square = (nn.functional.adaptive_avg_pool2d(x, grid).flatten(2) for x in (pixels, pixels.square()))
    deviation = (square - mean.square()).mean(1).clamp(min=0).sqrt()
    level = deviation.mean(1, keepdim=True)
    return torch.where(level > 0, deviation / level, 1.0)


def received(unit: Unit, seen: AttentionMap, n_images: int) -> Tensor:
    """(N, prefix + points + 1): what an average query on the map gives to each prefix token, to each point, to padding.

    The average is over heads and the queries of all windows, so that the numbers of an image sum to 1.
    """
    seen = every_point_asks(unit, seen)
    places = seen.places
    assert places is not None
    asking = geometry(unit, seen).on_map  # (windows, queries), sums to 1
    weights = attention_matrix(seen).unflatten(0, (n_images, -1)).mean(2)  # (N, windows, queries, keys)
    given = torch.einsum("nwqk,wq->nwk", weights, asking.to(weights)).flatten(1)
    prefix, points = prefix_keys(unit, places.keys), math.prod(places.key_grid)
    nowhere = places.keys < 0
    own = nowhere.long().cumsum(1) - 1 if prefix else torch.full_like(places.keys, prefix + points)
    column = torch.where(nowhere, own, places.keys + prefix).flatten()
    return given.new_zeros(n_images, prefix + points + 1).index_add_(1, column.to(given.device), given)


def prefix_keys(unit: Unit, keys: Tensor) -> int:
    """How many of the keys (windows, keys) are prefix tokens; keys that are nowhere in another number are padding."""
    nowhere = (keys < 0).sum(1)
    if unit.attention is not None and unit.attention.pattern == "class":
        return int(nowhere[0])
    return unit.prefix_tokens if bool((nowhere == unit.prefix_tokens).all()) else 0


def prefix_of(unit: Unit) -> set[int]:
    """How many prefix tokens the attentions of a unit see: one number, unless they differ."""
    assert unit.attention is not None
    return {prefix_keys(unit, site.places.keys) for site in unit.attention.sites if site.places is not None}


def not_of_its_map(unit: Unit, before: UnitRow | None) -> str | None:
    """Why attention of a unit cannot be held against the tokens it reads, after `before`; None if it can."""
    if reason := why_not(unit):
        return reason
    if before is None or before.map_shape is None:
        return "no map is known that it reads"
    assert unit.attention is not None
    grids = {site.places.key_grid for site in unit.attention.sites if site.places is not None}
    if grids != {before.map_shape[1:]}:
        return "its keys are not the points of the map it reads"
    return None if len(prefix_of(unit)) == 1 else "its attentions see different prefix tokens"
