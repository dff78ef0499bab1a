"""Which tokens attention goes to: maps over the keys, and rollout through several layers.

With A_l the attention of layer l averaged over heads, as a matrix over the T tokens (prefix tokens, then points), half
of what leaves a layer is taken to come through the attention and half along the stream:

    R = B_L ... B_2 B_1,    B_l = (A_l + I) / 2, rows made to sum to 1

Windows become blocks of one T x T matrix, a pooled key is shared out evenly over the points that it pools. A token that
does not attend (a point, in class attention) keeps what it has.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from vitscope.anatomy import AttentionMap, Unit
from vitscope.anatomy.watch.places import Places
from vitscope.engine.heads import Geometry, attention_matrix, why_not


def key_map(weights: Tensor, seen: AttentionMap, places: Geometry, n_images: int) -> Tensor:
    """(N, heads, rows, columns) of the keys' grid: attention of the class token, else of the mean query.

    `weights` are (images x windows, heads, queries, keys).
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
    return bool(places.prefix.any())


def _asking(places: Geometry) -> Tensor:
    """(windows, queries): weight of each query in the map."""
    if not has_class_token(places):
        return places.on_map
    first = torch.zeros_like(places.asking)
    window, query = places.prefix.nonzero()[0].tolist()
    first[window, query] = 1
    return first


def rollout_run(units: Sequence[Unit]) -> tuple[Unit, ...]:
    """The last attending units whose queries lie on one grid, up to where a unit changes the grid."""
    run: list[Unit] = []
    for unit in reversed([u for u in units if why_not(u) is None]):
        places = _places(unit)
        if any(p.query_grid != _places(run[0] if run else unit)[0].query_grid for p in places):
            break
        if any(p.key_grid[0] > p.query_grid[0] or p.key_grid[1] > p.query_grid[1] for p in places):
            break
        run.insert(0, unit)
    return tuple(run)


def rollout(run: Sequence[tuple[Unit, Sequence[AttentionMap]]], n_images: int) -> Tensor:
    """(N, H, W): what the class token, or the mean point where there is none, hears of each point of the map."""
    height, width = _places(run[0][0])[0].query_grid
    prefix = max(_prefix(unit) for unit, _ in run)
    tokens = prefix + height * width
    total = torch.eye(tokens).expand(n_images, tokens, tokens)
    for unit, seen in run:
        matrices = [token_matrix(one, _prefix(unit), prefix, n_images) for one in seen]
        attention = torch.stack(matrices).mean(0)
        sums = attention.sum(2, keepdim=True)
        attention = torch.where(sums > 0, attention / sums.clamp(min=1e-30), torch.eye(tokens))
        total = (attention @ total + total) / 2
    heard = total[:, 0] if prefix else total.mean(1)
    return heard[:, prefix:].unflatten(1, (height, width))


def token_matrix(seen: AttentionMap, own_prefix: int, prefix: int, n_images: int) -> Tensor:
    """(N, T, T): the mean attention of all heads between prefix tokens and points; 0 where a token does not ask.

    A layer has `own_prefix` prefix tokens, of which more than those off the map are padding, the matrix `prefix`.
    """
    places = seen.places
    assert places is not None
    height, width = places.query_grid
    tokens = prefix + height * width
    weights = attention_matrix(seen).mean(1).cpu().unflatten(0, (n_images, -1))  # (N, windows, queries, keys)
    rows = weights @ _spread(places, own_prefix, prefix, tokens)  # (N, windows, queries, T)
    index = _token(places.queries, own_prefix, prefix)
    asks = index >= 0
    matrix = torch.zeros(n_images, tokens, tokens)
    return matrix.index_add_(1, index[asks], rows[:, asks])


def _spread(places: Places, own_prefix: int, prefix: int, tokens: int) -> Tensor:
    """(windows, keys, T): over which tokens a key is shared out."""
    (height, width), (rows, columns) = places.query_grid, places.key_grid
    y, x = torch.arange(height) * rows // height, torch.arange(width) * columns // width
    cell = (y[:, None] * columns + x).flatten()  # of each point, the key that pools it
    found = torch.zeros(*places.keys.shape, tokens)
    found[:, :, prefix:] = (places.keys[:, :, None] == cell).float()
    index = _token(places.keys, own_prefix, prefix)
    windows, keys = ((places.keys < 0) & (index >= 0)).nonzero().T
    found[windows, keys, index[windows, keys]] = 1
    return found / found.sum(2, keepdim=True).clamp(min=1)


def _token(points: Tensor, own_prefix: int, prefix: int) -> Tensor:
    """Number of each token in the matrix: prefix tokens first; -1 for padding."""
    nowhere = points < 0
    order = nowhere.long().cumsum(1) - 1
    is_prefix = (nowhere.sum(1, keepdim=True) == own_prefix) & nowhere
    return torch.where(nowhere, torch.where(is_prefix, order, -1), points + prefix)


def _prefix(unit: Unit) -> int:
    if unit.attention is not None and unit.attention.pattern == "class":
        return max(int((places.keys < 0).sum(1).max()) for places in _places(unit))
    return unit.prefix_tokens


def _places(unit: Unit) -> list[Places]:
    return [s.places for s in unit.attention.sites if s.places is not None] if unit.attention else []
