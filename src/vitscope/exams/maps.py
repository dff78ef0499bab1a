"""Attention maps: what each head of a layer looks at in each image, and what all layers together do.

For one image and head, m is the attention that the class token pays to every point of the map; without a class token,
the mean over all queries. It is shown as

    m' = (m - min m) / (max m - min m),      marked where m' >= 0.5

with the least and largest value over the points of that one map. So a map looks the same whatever models, heads
or images are shown beside it, and maps of two models can be compared. The same rule holds for attention rollout
(`rollout.py`). `area` is the share of a map that is marked: small where attention picks few points.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from vitscope.anatomy import Anatomy, Tap, Unit, anatomy, preserved
from vitscope.data import batches, data_config
from vitscope.errors import VitscopeError
from vitscope.exams.base import procedure
from vitscope.exams.head_moments import attention_matrix, why_not
from vitscope.exams.identity import data_name
from vitscope.exams.interval import mean_interval
from vitscope.exams.key_maps import has_class_token, key_map, normalised
from vitscope.exams.one_pass import placed
from vitscope.exams.rollout import rollout, rollout_run
from vitscope.exams.token_places import geometry
from vitscope.models import name_of
from vitscope.results import About, Result, UnitRow, tidy

THRESHOLD = 0.5
COUNT = 8  # images
SIDE = 64  # of the images that are kept to draw on


@dataclass(frozen=True, eq=False, kw_only=True)
class MapsResult(Result, exam="maps"):
    """Attention of one layer, as it is (a map sums to at most 1), and the rollout."""

    about = About(
        title="Attention maps",
        shows="What each head of the last layer looks at, image by image, and the rollout through the layers of "
        "its stage. Each map is scaled by its own least and largest value; white lines mark what is above half way.",
        papers="In the paper, heads of a ViT spread over the whole image, while with Context Broadcasting they pick "
        "objects: the uniform part is taken care of.",
        misleads="A map shows where values are taken from, not what is in them. After several layers a token at a "
        "point holds much of its surroundings. Scaled maps hide how strong they are: see `highest` in the table.",
    )

    units: tuple[UnitRow, ...]  # the layer shown, or none
    skipped: tuple[tuple[str, str], ...]  # units without a map, and why
    query: str  # whose attention it is
    maps: np.ndarray  # (images, heads, H, W)
    rollout: np.ndarray  # (images, H', W')
    rollout_units: tuple[str, ...]
    images: np.ndarray  # (images, 3, side, side), 0 to 255
    indices: np.ndarray  # (images,): their places in the data

    def table(self) -> pd.DataFrame:
        """Quantities `area` and `highest` per head, and of the rollout; means over the images shown."""
        if not self.units:
            return tidy("area", [], [], [], self.n, []).assign(head=[])
        maps, heads = [*np.moveaxis(self.maps, 1, 0)], [*map(str, range(self.maps.shape[1]))]
        if self.rollout_units:
            maps, heads = [*maps, self.rollout], [*heads, "rollout"]
        area = np.stack([(normalised(m) >= THRESHOLD).mean((1, 2)) for m in maps])
        highest = np.stack([m.max((1, 2)) for m in maps])
        tables = []
        for name, numbers in (("area", area), ("highest", highest.astype(np.float64))):
            found = mean_interval(numbers.sum(1), np.square(numbers).sum(1), self.n)
            tables.append(tidy(name, *found, self.n, [self.units[0]] * len(heads), head=heads))
        return pd.concat(tables, ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """The rows of the rollout."""
        table = self.table()
        return table[table["head"] == "rollout"].drop(columns="head").reset_index(drop=True)


@procedure(MapsResult)
def maps(
    model: nn.Module,
    data: Any,
    limit: int | None = None,
    batch_size: int = 128,
    seed: int = 0,
    device: str | torch.device | None = None,
    name: str | None = None,
    count: int = COUNT,
    unit: str | None = None,
) -> MapsResult:
    """Take the attention maps of `model` on the first images of the seeded order.

    Under torchrun every process takes the same few images. A model without attention has an empty result.

    Args:
        model: Any vision model that anatomy understands.
        data: As for `examine`.
        limit: Take the images from a seeded subset of this many.
        batch_size: Images per forward pass.
        seed: Of the order.
        device: Where to run; default: where the model is.
        name: What to call the model.
        count: How many images.
        unit: Whose heads; default: the last unit whose attention lies on the map.
    """
    if count < 1:
        raise VitscopeError(f"count is {count}; expected at least 1 image")
    with preserved(model), placed(model, device) as place, torch.inference_mode():
        stream = batches(
            data,
            config=data_config(model),
            batch_size=min(count, batch_size),
            limit=limit,
            seed=seed,
            device=place,
        )
        shown, indices = _first_images(stream, count)
        parts = anatomy(model, tuple(shown.shape[1:]))
        fields = _look(model, parts, shown, batch_size, unit)
    return MapsResult(
        model=name or name_of(model),
        data=data_name(data),
        n=len(shown),
        seed=seed,
        skipped=tuple((u.name, reason) for u in parts if u.attention and (reason := why_not(u))),
        images=_thumbnails(shown.cpu()),
        indices=indices.cpu().numpy().astype(np.int64),
        **fields,
    )


def _first_images(stream: Any, count: int) -> tuple[Tensor, Tensor]:
    images, indices = [], []
    for batch, _, places in stream:
        images.append(batch)
        indices.append(places)
        if sum(map(len, images)) >= count:
            break
    return torch.cat(images)[:count], torch.cat(indices)[:count]


def _look(
    model: nn.Module, parts: Anatomy, images: Tensor, batch_size: int, name: str | None
) -> dict[str, Any]:
    """The fields of the result that come from a forward pass."""
    usable = [u for u in parts if why_not(u) is None]
    chosen = _chosen(parts, name) if name is not None else usable[-1] if usable else None
    if chosen is None:
        none = np.zeros((len(images), 0, 0), np.float32)
        return {"units": (), "query": "", "maps": none[:, None], "rollout": none, "rollout_units": ()}
    run = rollout_run(usable[: usable.index(chosen) + 1])
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    heads, rolled = [], []
    for piece in images.split(batch_size):
        with Tap(model, parts, {u.name for u in (chosen, *run)}, attention=True) as tap:
            model(piece.to(dtype))
        found = tap.attention[chosen.name]
        heads.append(
            _stacked(
                [key_map(attention_matrix(one), one, geometry(chosen, one), len(piece)) for one in found]
            )
        )
        if run:
            rolled.append(rollout([(u, tap.attention[u.name]) for u in run], len(piece)))
    return {
        "units": (UnitRow.of(chosen),),
        "query": "class token" if has_class_token(geometry(chosen, found[0])) else "mean of all queries",
        "maps": torch.cat(heads).cpu().numpy(),
        "rollout": torch.cat(rolled).numpy() if rolled else np.zeros((len(images), 0, 0), np.float32),
        "rollout_units": tuple(u.name for u in run),
    }


def _stacked(maps: Sequence[Tensor]) -> Tensor:
    """The heads of a unit that attends several times, as far as their maps have the size of the first."""
    return torch.cat([m for m in maps if m.shape[2:] == maps[0].shape[2:]], 1)


def _chosen(parts: Anatomy, name: str) -> Unit:
    reason = why_not(parts[name])
    if reason is not None:
        raise VitscopeError(
            f"'{name}' has no attention map: {reason}; `vitscope anatomy` lists units with attention"
        )
    return parts[name]


def _thumbnails(images: Tensor) -> np.ndarray:
    """Small copies to draw on, each from its own darkest to its brightest value."""
    images = (
        images.float() if images.shape[1] == 3 else images.float().mean(1, keepdim=True).expand(-1, 3, -1, -1)
    )
    size = [min(SIDE, side) for side in images.shape[2:]]
    small = nn.functional.interpolate(images, size=size, mode="area")
    low, high = small.amin((1, 2, 3), keepdim=True), small.amax((1, 2, 3), keepdim=True)
    return ((small - low) / (high - low).clamp(min=1e-12) * 255).round().long().numpy()
