"""Attention maps: what each head of each layer looks at in each image, and what all layers together do.

For one image and head, m is the attention that the class token pays to every point of the map; without a class token,
the mean over all queries. It is shown as

    m' = (m - min m) / (max m - min m),      marked where m' >= 0.5

with the least and largest value over the points of that one map. So a map looks the same whatever models, layers, heads
or images are shown beside it, and maps of two models can be compared. The same rule holds for attention rollout
(`engine/token_attention.py`). `area` is the share of a map that is marked: small where attention picks few points. A
map is kept as a byte per point (`findings/maps.py`).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vitscope.anatomy import Anatomy, AttentionMap, Tap, Unit, anatomy, preserved
from vitscope.core.arguments import Count
from vitscope.core.errors import VitscopeError
from vitscope.core.tensors import dtype_of
from vitscope.data import batches, data_config
from vitscope.data.images import limit_indices
from vitscope.data.task_data import TaskData
from vitscope.engine.exam import procedure
from vitscope.engine.facts import data_name
from vitscope.engine.heads import attention_matrix, every_point_asks, geometry, why_not
from vitscope.engine.not_finite import finite_scores_in
from vitscope.engine.own_passes import placed
from vitscope.engine.pixel_scores import order_of_showing
from vitscope.engine.takes_interface import Asked, Request
from vitscope.engine.token_attention import has_class_token, key_map, rollout, rollout_run
from vitscope.findings.maps import LayerMaps, MapsResult
from vitscope.models import name_of
from vitscope.results import UnitRow
from vitscope.results.codec import ByteArray

COUNT = 8  # images
SIDE = 64  # of the images that are kept to draw on


@procedure(MapsResult)
def maps(
    model: nn.Module,
    data: Any,
    request: Asked,
    count: Count = COUNT,
    unit: str | None = None,
) -> MapsResult:
    """Take the attention maps of `model` on the first images of the seeded order, or those that `segmentation` shows.

    Under torchrun every process takes the same few images. A model without attention has an empty result.

    `examine` documents the other arguments.

    Args:
        count: How many images.
        unit: The last layer to take, where the rollout ends; default: the last whose attention lies on the map.
    """
    with preserved(model), placed(model, request.device) as place, torch.inference_mode():
        how: dict[str, Any] = {"config": data_config(model), "batch_size": min(count, request.batch_size)}
        if isinstance(data, TaskData):
            chosen = _shown_elsewhere(data, count, request)
            shown, places = _first_images(batches(data.subset(chosen), device=place, **how), count)
            shown, indices = shown[places.argsort()], torch.tensor(chosen)
        else:
            how |= {"limit": request.limit, "seed": request.seed}
            shown, indices = _first_images(batches(data, device=place, **how), count)
        parts = anatomy(model, tuple(shown.shape[1:]))
        fields = _look(model, parts, shown, request.batch_size, unit)
    return MapsResult(
        model=request.name or name_of(model),
        data=data_name(data),
        n=len(shown),
        seed=request.seed,
        skipped=tuple((u.name, reason) for u in parts if u.attention and (reason := why_not(u))),
        images=ByteArray.of(_thumbnails(shown.cpu())),
        indices=indices.cpu().numpy().astype(np.int64),
        **fields,
    )


def _shown_elsewhere(data: TaskData, count: int, request: Request) -> list[int]:
    """The places of the images that `segmentation` shows of the same data, and of as many more as are wanted."""
    places: Sequence[int] = range(len(data))
    if request.limit is not None:
        places = limit_indices(np.zeros(len(data), np.int64), request.limit, request.seed).tolist()
    return sorted(places, key=lambda place: order_of_showing(place, request.seed))[:count]


def _first_images(stream: Any, count: int) -> tuple[Tensor, Tensor]:
    images, indices = [], []
    for batch, _, places in stream:
        images.append(batch)
        indices.append(places)
        if sum(map(len, images)) >= count:
            break
    return torch.cat(images)[:count], torch.cat(indices)[:count]


def _look(
    model: nn.Module, parts: Anatomy, images: Tensor, batch_size: int, last: str | None
) -> dict[str, Any]:
    """The fields of the result that come from a forward pass."""
    layers = [u for u in parts if why_not(u) is None]
    if last is not None:
        layers = layers[: layers.index(_attending(parts, last)) + 1]
    run = rollout_run(layers)
    watches = []
    for piece in images.to(dtype_of(model)).split(batch_size) if layers else ():
        watches.append(_Watch(len(piece), {u.name for u in run}))
        with Tap(model, parts, layers, on_attention=watches[-1].look):
            output = model(piece)
        finite_scores_in(model, output, piece)
    joined = [torch.cat([_stacked(watch.maps[u.name]) for watch in watches]).cpu().numpy() for u in layers]
    queries = [watches[0].query[u.name] for u in layers]
    rolled = [rollout([(u, watch.means[u.name]) for u in run], watch.count) for watch in watches if run]
    return {
        "units": tuple(UnitRow.of(u) for u in layers),
        "layers": tuple(LayerMaps.of(*found) for found in zip(joined, queries, strict=True)),
        "rollout": LayerMaps.of(torch.cat(rolled)[:, None].numpy(), queries[-1]) if rolled else None,
        "rollout_units": tuple(u.name for u in run),
    }


class _Watch:
    """What is kept of the attention in one pass: maps, and the mean over heads where the rollout needs it."""

    def __init__(self, count: int, rolled: set[str]) -> None:
        self.count = count
        self.maps: dict[str, list[Tensor]] = {}
        self.query: dict[str, str] = {}
        self.means: dict[str, list[AttentionMap]] = {}
        self._rolled = rolled

    def look(self, unit: Unit, seen: AttentionMap) -> None:
        seen = every_point_asks(unit, seen)
        weights, places = attention_matrix(seen), geometry(unit, seen)
        self.maps.setdefault(unit.name, []).append(key_map(weights, seen, places, self.count))
        asking = "class token" if has_class_token(places) else "mean of all queries"
        self.query.setdefault(unit.name, asking)
        if unit.name in self._rolled:
            mean, nothing = weights.mean(1, keepdim=True), weights.new_empty(0)
            reduced = replace(seen, weights=mean, probabilities=mean, values=nothing, output=nothing)
            self.means.setdefault(unit.name, []).append(reduced)


def _stacked(maps: list[Tensor]) -> Tensor:
    """The heads of a unit that attends several times, as far as their maps have the size of the first."""
    return torch.cat([m for m in maps if m.shape[2:] == maps[0].shape[2:]], 1)


def _attending(parts: Anatomy, name: str) -> Unit:
    reason = why_not(parts[name])
    if reason is not None:
        raise VitscopeError(
            f"'{name}' has no attention map: {reason}; `vitscope anatomy` lists units with attention"
        )
    return parts[name]


def _thumbnails(images: Tensor) -> np.ndarray:
    """Small copies to draw on, each from its own darkest to its brightest value."""
    images = images.float()
    if images.shape[1] != 3:
        images = images.mean(1, keepdim=True).expand(-1, 3, -1, -1)
    size = [min(SIDE, side) for side in images.shape[2:]]
    small = nn.functional.interpolate(images, size=size, mode="area")
    low, high = small.amin((1, 2, 3), keepdim=True), small.amax((1, 2, 3), keepdim=True)
    return ((small - low) / (high - low).clamp(min=1e-12) * 255).round().byte().numpy()
