"""The tokens of one image in a tensor of any layout: (N, L, C), (N, C, H, W), (N, H, W, C), (N x windows, L, C).

mean over an image's tokens, prefix tokens among them:  m = 1/L sum_j x_j

Two things about them are found by trial. Which tokens are words, of a model that reads an image and a text: other words
are given, and the tokens that change before the first unit are theirs. They must be as many as the words and stand
together. A model's pass is watched with one length of text, so texts of another length, which the model itself would
take, are refused while it runs (`TextLength`): pad them to that length. And which tokens of its last stream a model's
head reads: those that make the output NaN when they are. Unlike a gradient this does not depend on the weights, not
even on weights that are zero.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from vitscope.anatomy import Dissection, Tap, Unit, preserved
from vitscope.anatomy.taps.map_view import tensor_axes
from vitscope.anatomy.watch.example import example_batch, example_inputs
from vitscope.anatomy.watch.graph import Slot
from vitscope.anatomy.watch.one_forward import examined_output
from vitscope.core.errors import VitscopeError
from vitscope.surgery.tools.map_source import MapNotes, Windows
from vitscope.surgery.tools.record import CannotOperate


@dataclass(frozen=True)
class ImageTokens:
    """Which axes of a tensor run over the images and the channels; all others run over an image's tokens."""

    dimensions: int
    channel_axis: int
    batch_axis: int = 0
    parts_per_image: int = 1  # windows that share the batch axis with the images, at the size watched
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


@dataclass(frozen=True)
class TextTokens:
    """Where the words are among an image's tokens, and which module is given them."""

    name: str  # of the input
    first: int
    length: int
    module: str
    slots: tuple[Slot, ...]


class TextLength(nn.Module):
    """Hands the words on if they are as many as the model was operated on with."""

    def __init__(self, name: str, length: int) -> None:
        super().__init__()
        self.name, self.length = name, length

    def forward(self, words: Tensor) -> Tensor:
        """The same words; refused if they are not as many as context was planned for."""
        if words.shape[1] != self.length:
            raise VitscopeError(
                f"{self.name} has {words.shape[1]} words, but context is broadcast among {self.length}; "
                f"pad or cut the texts to {self.length} (padding='max_length')"
            )
        return words

    def extra_repr(self) -> str:
        """The length."""
        return f"{self.name}, {self.length}"


def text_tokens(body: Dissection, model: nn.Module, example: Any) -> TextTokens:
    """Find the words among the tokens of the stream before the first residual unit."""
    inputs = example_inputs(model, example) if isinstance(example, Mapping) else {}
    unit = next((unit for unit in body.parts if unit.residual), None)
    tokens = image_tokens(body, body.segment(unit).end) if unit is not None else None
    if unit is None or tokens is None or len(tokens.token_axes) != 1 or tokens.parts_per_image != 1:
        raise CannotOperate(
            "this model has no sequence of tokens that words could be among; use tokens='all'"
        )
    for name, words in inputs.items():
        if words.is_floating_point() or words.dim() != 2:
            continue
        other = {**inputs, name: torch.where(words > 0, words - 1, words + 1)}
        first, second = (_before(body, model, given, unit, tokens) for given in (inputs, other))
        changed = first != second
        where = changed.any(2).any(0).nonzero().flatten().tolist()
        if where and where == list(range(where[0], where[0] + words.shape[1])):
            module, slots = _taker(body, name)
            return TextTokens(name, where[0], words.shape[1], module, slots)
    raise CannotOperate(
        "no words were found among the tokens; use tokens='all' "
        "(in Python also the model's inputs as example={'input_ids': ..., 'pixel_values': ...})"
    )


def _before(
    body: Dissection, model: nn.Module, inputs: Mapping[str, Tensor], unit: Unit, tokens: ImageTokens
) -> Tensor:
    """The tokens before a unit, (N, L, C)."""
    with preserved(model), torch.no_grad(), Tap(model, body.parts, units=[unit], streams=True) as tap:
        torch.manual_seed(0)  # models that draw which patches to keep must draw the same ones
        model(**inputs)
    return tokens.read(tap.streams[unit.name][0])


def _taker(body: Dissection, name: str) -> tuple[str, tuple[Slot, ...]]:
    """The largest module inside the model that is given an input, or else the model, and where it is given it."""
    whole = next(call for call in body.graph.calls if call.path == "")
    node = whole.inputs[name]
    takers = [call for call in body.graph.calls if call.path and node in call.inputs.values()]
    taker = max(takers, key=lambda call: call.end - call.begin) if takers else whole
    return taker.path, tuple(slot for slot, given in taker.inputs.items() if given == node)


@dataclass(frozen=True)
class Readout:
    """What the head reads of the stream after the last unit."""

    unit: Unit
    tokens: ImageTokens
    prefix: tuple[int, ...]  # where the prefix tokens stand among an image's tokens
    read: tuple[int, ...]  # those of them that the head reads
    reads_patches: bool


def head_reads(body: Dissection, model: nn.Module, example: Any = None) -> Readout | None:
    """What the head reads of the last stream that is a map with prefix tokens; None where it has none."""
    mapped = [unit for unit in body.parts.mapped if unit.residual]
    unit = mapped[-1] if mapped else None
    if unit is None or unit.view is None or not unit.prefix_tokens:
        return None
    tokens = image_tokens(body, body.segment(unit).end)
    if tokens is None or len(tokens.token_axes) != 1 or tokens.parts_per_image != 1:
        return None
    images = example_batch(model, example)
    if images.device.type == "meta":
        raise CannotOperate(
            "what the head reads cannot be found out on the meta device; build the model with weights"
        )
    rows, columns = unit.view.shape[1:]
    patches = list(range(rows * columns)) if unit.view.order is None else unit.view.order.tolist()
    prefix = tuple(i for i in range(len(patches) + unit.prefix_tokens) if i not in set(patches))

    def matters(which: Sequence[int]) -> bool:
        """Whether NaN in these tokens after the unit reaches the output."""

        def poison(stream: Tensor) -> Tensor:
            index = torch.tensor(which, device=stream.device)
            return stream.index_fill(tokens.token_axes[0], index, float("nan"))

        with preserved(model), torch.no_grad(), Tap(model, body.parts, units=[], edit={unit.name: poison}):
            outputs = examined_output(model, model(images), len(images))
        return any(bool(output.isnan().any()) for output in outputs)

    read = tuple(i for i in prefix if matters([i]))
    return Readout(unit, tokens, prefix, read, matters(patches))
