"""How much attention each token receives, prefix tokens (class, distillation, registers) and points of the map."""

import math

import torch
from torch import Tensor

from vitscope.anatomy import AttentionMap, Unit
from vitscope.engine.attention.head_moments import attention_matrix, why_not
from vitscope.engine.attention.token_places import every_point_asks, geometry
from vitscope.results import UnitRow


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
