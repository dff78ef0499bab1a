"""Which tokens of a model that reads an image and a text are words.

Found by trial: other words are given, and the tokens that change before the first unit are theirs. They must be as many
as the words and stand together. A model's pass is watched with one length of text, so texts of another length, which
the model itself would take, are refused while it runs (`TextLength`): pad them to that length.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vitscope.anatomy import Dissection, Tap, Unit, preserved
from vitscope.anatomy.watch.example import example_inputs
from vitscope.anatomy.watch.graph import Slot
from vitscope.core.errors import VitscopeError
from vitscope.surgery.tools.image_tokens import ImageTokens, image_tokens
from vitscope.surgery.tools.record import CannotOperate


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
        """The same words."""
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
        other = torch.where(words > 0, words - 1, words + 1)
        changed = _before(body, model, inputs, unit, tokens) != _before(
            body, model, {**inputs, name: other}, unit, tokens
        )
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
