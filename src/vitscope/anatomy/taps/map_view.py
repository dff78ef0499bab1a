"""Read a residual stream of any layout as a (N, C, H, W) map, and write a map back into it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from vitscope.anatomy.watch.places import NOWHERE, Layout, constant_along


@dataclass(frozen=True)
class MapView:
    """How to read a stream tensor as a (N, C, H, W) map, and how to write a map back."""

    shape: tuple[int, int, int]  # C, H, W
    channel_axis: int
    batch_axis: int
    parts_per_image: int  # windows that share the batch axis with the images
    order: Tensor | None  # for each grid point, where it stands among an image's tokens; None: as they come
    prefix_tokens: int

    def is_map(self, dimensions: int) -> bool:
        """Whether a tensor of so many dimensions is (N, C, H, W) or (N, H, W, C), with nothing but the points of the
        grid, row by row: it then tells its size by itself."""
        return dimensions == 4 and self.order is None and self.parts_per_image == 1 and self.batch_axis == 0

    def read(self, stream: Tensor) -> Tensor:
        """The stream's grid points as a (N, C, H, W) map, prefix tokens left out; a view where that is possible."""
        if self._is_plain_nchw(stream):
            return stream
        tokens = self._tokens(stream)
        channels, height, width = self.shape
        if self.order is not None:
            first, count = int(self.order[0]), len(self.order)
            if torch.equal(self.order, torch.arange(first, first + count)):
                tokens = tokens[:, first : first + count]
            else:
                tokens = tokens[:, self.order.to(tokens.device)]
        return tokens.transpose(1, 2).reshape(tokens.shape[0], channels, height, width)

    def write(self, stream: Tensor, feature_map: Tensor) -> Tensor:
        """A copy of `stream` with its grid points replaced by those of the map; prefix tokens stay."""
        stream = stream.clone(memory_format=torch.contiguous_format)
        if self._is_plain_nchw(stream):
            return stream.copy_(feature_map)
        rows = torch.arange(self._tokens(stream).shape[1]) if self.order is None else self.order
        index = torch.arange(stream.numel(), device=stream.device).view(stream.shape)
        where = self._tokens(index)[:, rows.to(stream.device)]
        values = feature_map.flatten(2).transpose(1, 2).reshape(-1)
        stream.view(-1)[where.reshape(-1)] = values.to(stream.dtype)
        return stream

    def _is_plain_nchw(self, stream: Tensor) -> bool:
        in_order = self.order is None and self.channel_axis == 1 and self.parts_per_image == 1
        return in_order and tuple(stream.shape[2:]) == self.shape[1:]

    def _tokens(self, stream: Tensor) -> Tensor:
        """(N, tokens, C), in the stream's own order."""
        stream = stream.movedim(self.channel_axis, -1)
        axis = self.batch_axis
        images = stream.shape[axis] // self.parts_per_image
        stream = stream.unflatten(axis, (images, self.parts_per_image)).movedim(axis, 0)
        return stream.reshape(images, -1, stream.shape[-1])


def tensor_axes(layout: Layout | None, images: int) -> tuple[int, int, int] | None:
    """Channel axis, batch axis once the channels are last, and windows per image; None where there are none."""
    if layout is None or layout.positions.dim() < 3:  # (N, C): pooled
        return None
    positions = layout.positions
    constant = [a for a in range(positions.dim()) if constant_along(positions, a)]
    if not constant:
        return None
    channel_axis = max(constant, key=lambda a: (positions.shape[a], a))
    per_image = positions.movedim(channel_axis, -1)[..., 0]
    batch_axis = _batch_axis(torch.where(per_image >= 0, per_image // layout.points, NOWHERE), images)
    if batch_axis is None:
        return None
    return channel_axis, batch_axis, per_image.shape[batch_axis] // images


def map_view(layout: Layout | None, images: int) -> MapView | None:
    """The view of a tensor with this layout, or None where its elements are not the points of one grid."""
    axes = tensor_axes(layout, images)
    if layout is None or axes is None:
        return None
    channel_axis, batch_axis, parts = axes
    positions, (height, width) = layout.positions, layout.grid
    per_image = positions.movedim(channel_axis, -1)[..., 0]
    tokens = per_image.unflatten(batch_axis, (images, parts)).movedim(batch_axis, 0).reshape(images, -1)
    points = torch.where(tokens >= 0, tokens % layout.points, NOWHERE)
    own_image = tokens // layout.points == torch.arange(images)[:, None]
    if not bool((points == points[:1]).all()) or not bool(own_image[tokens >= 0].all()):
        return None
    here = points[0]
    count = int((here >= 0).sum())
    if count != layout.points or int(torch.bincount(here[here >= 0].long()).amax()) != 1:
        return None
    order = torch.empty(count, dtype=torch.long)
    order[here[here >= 0].long()] = torch.nonzero(here >= 0).flatten()
    plain = len(here) == count and torch.equal(order, torch.arange(count))
    return MapView(
        shape=(positions.shape[channel_axis], height, width),
        channel_axis=channel_axis,
        batch_axis=batch_axis,
        parts_per_image=parts,
        order=None if plain else order,
        prefix_tokens=len(here) - count,
    )


def _batch_axis(image: Tensor, images: int) -> int | None:
    """The axis that runs over images (outermost, if it also runs over windows)."""
    for axis in range(image.dim()):
        if image.shape[axis] % images:
            continue
        split = image.unflatten(axis, (images, -1)).movedim(axis, 0).reshape(images, -1)
        wanted = torch.arange(images).unsqueeze(1)
        if bool(((split == wanted) | (split == NOWHERE)).all()) and bool((split >= 0).any()):
            return axis
    return None
