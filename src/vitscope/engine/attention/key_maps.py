"""What a head looks at, as a map over the keys' grid, and how such maps are made comparable (`maps.py` says why)."""

import torch
from torch import Tensor

from vitscope.anatomy import AttentionMap
from vitscope.engine.attention.token_places import Geometry


def key_map(weights: Tensor, seen: AttentionMap, places: Geometry, n_images: int) -> Tensor:
    """(N, heads, rows, columns) of the keys' grid: attention of the class token, else of the mean query.

    Args:
        weights: (images x windows, heads, queries, keys).
        seen: Tells where the keys are.
        places: Of the queries and keys.
        n_images: Number of images.
    """
    assert seen.places is not None
    asking = _asking(places).to(weights)
    received = torch.einsum("nwhqk,wq->nhwk", weights.unflatten(0, (n_images, -1)), asking).flatten(2)
    points, (rows, columns) = seen.places.keys.flatten(), seen.places.key_grid
    on_map = points >= 0
    found = weights.new_zeros(*received.shape[:2], rows * columns)
    found.index_add_(2, points[on_map].to(weights.device), received[:, :, on_map.to(weights.device)])
    return found.unflatten(2, (rows, columns))


def has_class_token(places: Geometry) -> bool:
    """Whether a query is a prefix token: the first one is taken as the class token."""
    return bool(_prefix_queries(places).any())


def _prefix_queries(places: Geometry) -> Tensor:
    return (places.asking > 0) & ~((places.on_map > 0) & places.placed)


def _asking(places: Geometry) -> Tensor:
    """(windows, queries): weight of each query in the map."""
    if not has_class_token(places):
        return places.on_map
    first = torch.zeros_like(places.asking)
    window, query = _prefix_queries(places).nonzero()[0].tolist()
    first[window, query] = 1
    return first
