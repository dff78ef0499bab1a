"""The tokens of one image in a tensor of any layout: (N, L, C), (N, C, H, W), (N, H, W, C), (N x windows, L, C).

mean over an image's tokens, prefix tokens among them:  m = 1/L sum_j x_j
"""

from dataclasses import dataclass, field

from torch import Tensor

from vitscope.anatomy import Dissection
from vitscope.anatomy.taps.map_view import tensor_axes
from vitscope.surgery.tools.map_source import MapNotes, Windows


@dataclass(frozen=True)
class ImageTokens:
    """Which axes of a tensor run over the images and the channels; all others run over an image's tokens."""

    dimensions: int
    channel_axis: int
    batch_axis: int = 0
    parts_per_image: int = (
        1  # windows that share the batch axis with the images, at the size that was watched
    )
    windows: Windows | None = field(default=None, compare=False)  # tells how many at another size

    @property
    def token_axes(self) -> tuple[int, ...]:
        """The axes, other than that of the images, along which an image's tokens lie."""
        return tuple(a for a in range(self.dimensions) if a not in (self.channel_axis, self.batch_axis))

    def mean(self, x: Tensor) -> Tensor:
        """Each image's mean token, shaped so that it meets every token of `x`; of all its windows together."""
        means = x.mean(self.token_axes, keepdim=True)
        parts = self._parts(x, self.batch_axis)
        if parts == 1:
            return means
        by_image = means.unflatten(self.batch_axis, (-1, parts))
        window_axis = self.batch_axis + 1
        overall = by_image.mean(window_axis, keepdim=True).expand_as(by_image)
        return overall.flatten(self.batch_axis, window_axis)

    def along_channels(self, vector: Tensor) -> Tensor:
        """A vector with one entry per channel, shaped so that it meets every token."""
        return vector.reshape(-1, *(1 for _ in range(self.channel_axis + 1, self.dimensions)))

    def read(self, x: Tensor) -> Tensor:
        """The tokens as (N, L, C), in the tensor's own order."""
        by_image = self._split(x)
        return by_image.reshape(by_image.shape[0], -1, by_image.shape[-1])

    def write(self, tokens: Tensor, like: Tensor) -> Tensor:
        """Tokens (N, L, C) in the layout of `like`, which tokens of that shape were read from."""
        axis = self._batch_axis
        x = tokens.reshape(self._split(like).shape).movedim((0, 1), (axis, axis + 1))
        return x.flatten(axis, axis + 1).movedim(-1, self.channel_axis)

    def _split(self, x: Tensor) -> Tensor:
        """(N, windows, ..., C)."""
        axis = self._batch_axis
        x = x.movedim(self.channel_axis, -1)
        x = x.unflatten(axis, (-1, self._parts(x, axis)))
        return x.movedim((axis, axis + 1), (0, 1))

    def _parts(self, x: Tensor, axis: int) -> int:
        return self.parts_per_image if self.windows is None else self.windows.count(x, axis)

    @property
    def _batch_axis(self) -> int:
        """Where the batch axis stands once the channels are last."""
        return self.batch_axis - (self.channel_axis < self.batch_axis)


def image_tokens(body: Dissection, node: int, notes: MapNotes | None = None) -> ImageTokens | None:
    """How the tokens lie in a tensor of the watched pass; None where that could not be followed. For use in passes over
    images of other sizes, `notes` is where to plan what has to be noted of them."""
    axes = tensor_axes(body.layouts[node], body.graph.batch)
    if axes is None:
        return None
    channel_axis, batch_axis, parts = axes
    batch_axis += channel_axis <= batch_axis
    windows = notes.windows(node, parts) if notes is not None else None
    return ImageTokens(len(body.graph[node].shape), channel_axis, batch_axis, parts, windows)


def tokens_off_the_grid(body: Dissection, node: int) -> int:
    """How many of an image's tokens are no points of the map: class tokens, words, padding."""
    layout, tokens = body.layouts[node], image_tokens(body, node)
    if layout is None or tokens is None:
        return 0
    one_channel = layout.positions.select(tokens.channel_axis, 0)
    return int((one_channel < 0).sum()) // body.graph.batch
