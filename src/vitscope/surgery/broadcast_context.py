"""Context Broadcasting: every token gets a share of the image's mean token, the densest attention there is.

    m = 1/N sum_j x_j    over all N tokens of the image, prefix tokens among them

    cb         CB(x_i) = (x_i + m) / 2              no parameters
    cb_s       CB_S(x_i) = x_i + s * m              s in R^d learned; starts at 0, where the model is what it was
    cb_gate    CB_gate(x_i) = x_i * (x_0 + 1)       x_0 the class token
    cb_hybrid  CB_hybrid(x_i) = x_i * x_0 + CB(x_i)

As a matrix, CB is U = (I + 1 1^T / N) / 2: half identity, half uniform attention.
"""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from vitscope.anatomy import Dissection, dissect
from vitscope.anatomy.taps.ports import Place
from vitscope.core.errors import VitscopeError
from vitscope.surgery.tools.choose import BranchPlace, Example, Layers, Where, branch_places, no_units
from vitscope.surgery.tools.graft import graft, graft_at
from vitscope.surgery.tools.image_tokens import (
    ImageTokens,
    Readout,
    TextLength,
    head_reads,
    text_tokens,
    tokens_off_the_grid,
)
from vitscope.surgery.tools.map_source import MapNotes
from vitscope.surgery.tools.record import CannotOperate, Done, operation

Kind = Literal["cb", "cb_s", "cb_gate", "cb_hybrid"]
Tokens = Literal["all", "image", "text"]


class ContextBroadcast(nn.Module):
    """One of the four kinds, on a tensor of any layout; tokens that do not take part stay what they are.

    `text` is the first word and how many there are, `length` the number of tokens, if the class token or the words come
    after those of the image.
    """

    def __init__(
        self,
        kind: Kind,
        tokens: ImageTokens,
        channels: int,
        *,
        text: tuple[int, int] = (0, 0),
        among: Tokens = "all",
        class_token: int = 0,
        length: int | None = None,
    ) -> None:
        super().__init__()
        self.kind, self.tokens, self.class_token = kind, tokens, class_token
        self.text, self.among, self.length = text, among, length
        self.scale = nn.Parameter(torch.zeros(channels)) if kind == "cb_s" else None

    def forward(self, x: Tensor) -> Tensor:
        """Broadcast among the tokens that take part."""
        axis, (first, length) = self.tokens.token_axes[0], self.text
        if self.length is not None and x.shape[axis] != self.length:
            raise VitscopeError(
                f"context is broadcast among {self.length} tokens, {x.shape[axis]} came; operate on a fresh model with "
                "--img-size as these images have it (in Python example=)"
            )
        if self.among == "all":
            return self._broadcast(x)
        before, words, after = x.split((first, length, x.shape[axis] - first - length), axis)
        if self.among == "text":
            return torch.cat((before, self._broadcast(words), after), axis)
        others = self._broadcast(torch.cat((before, after), axis))
        before, after = others.split((first, after.shape[axis]), axis)
        return torch.cat((before, words, after), axis)

    def _broadcast(self, x: Tensor) -> Tensor:
        if self.kind == "cb_gate":
            return x * (self._class_token(x) + 1)
        mean = self.tokens.mean(x)
        if self.scale is not None:
            return x + self.tokens.along_channels(self.scale.to(x.dtype)) * mean
        half = torch.add(mean / 2, x, alpha=0.5)  # one pass over the tokens where (x + mean) / 2 takes two
        return half if self.kind == "cb" else x * self._class_token(x) + half

    def _class_token(self, x: Tensor) -> Tensor:
        return x.narrow(self.tokens.token_axes[0], self.class_token, 1)

    def extra_repr(self) -> str:
        """The kind, and the tokens if not all take part."""
        return self.kind if self.among == "all" else f"{self.kind}, among the {self.among} tokens"


@operation
def broadcast_context(
    model: nn.Module,
    kind: Kind = "cb",
    where: Where = "mlp",
    at: Place = "end",
    layers: Layers = "upper",
    *,
    tokens: Tokens = "all",
    pyramid: str | Sequence[str] = (),
    example: Example = None,
) -> Done:
    """Put Context Broadcasting into a model's branches.

    Args:
        model: Is changed in place.
        kind: cb, cb_s, cb_gate or cb_hybrid; the last two need a class token that the head reads.
        where: In the MLPs, the MSAs, or both.
        at: At the front, in the middle (before the last linear map) or at the end of the branch.
        layers: "upper" (the later half), "all", "lower", or a list of unit names, patterns and positions.
        tokens: Among which; of a model that reads an image and a text, the tokens of one of them can be chosen.
        pyramid: Units or blocks whose features feed a feature pyramid; they are left alone. "fed" are those of a dense
            model, which it knows.
        example: As for `vs.anatomy`; of a model that reads text too, a dict of its inputs.
    """
    if example is None and tokens != "all":
        example = getattr(model, "vitscope_example", None)
    if pyramid == "fed":
        pyramid = _feeding(model)
    body = dissect(model, example)
    notes = MapNotes(body)
    places = branch_places(body, where, at, layers, pyramid, notes)
    text = text_tokens(body, model, example) if tokens != "all" else None
    words = (text.first, text.length) if text is not None else (0, 0)
    class_token, fixed = 0, words[0] > 0
    if places and kind in ("cb_gate", "cb_hybrid"):
        if tokens != "all":
            raise CannotOperate(
                f"{kind} multiplies by the class token; use tokens='all', or kind='cb' or 'cb_s'"
            )
        readout = _class_token(body, model, example, kind, places)
        class_token = readout.read[0]
        fixed = readout.prefix[: class_token + 1] != tuple(range(class_token + 1))
    grafts = []
    for place in places:
        length = place.port.shape[place.tokens.token_axes[0]] if fixed else None
        which: dict[str, Any] = {"text": words, "among": tokens, "class_token": class_token, "length": length}
        step = ContextBroadcast(kind, place.tokens, place.port.channels, **which)
        grafts.append(graft_at(model, place.port, step, "context_broadcast"))
    grafts += notes.graft(model)
    if text is not None and grafts:
        guard = TextLength(text.name, text.length)
        grafts.append(graft(model, text.module, guard, "text_length", "input", text.slots))
    names = [place.unit.name for place in places]
    options = {"kind": kind, "where": where, "at": at, "layers": names, "tokens": tokens}
    return Done(options, names, grafts, why_none=no_units(where, layers))


def _feeding(model: nn.Module) -> Sequence[str]:
    """The blocks of a dense model whose maps go to its neck."""
    found: Sequence[str] = getattr(model, "feeding", ())
    if not found:
        raise CannotOperate(
            f"this {type(model).__name__} has no pyramid; pyramid='fed' is for upernet:, unet: and maskrcnn: models"
        )
    return found


def _class_token(
    body: Dissection, model: nn.Module, example: Any, kind: Kind, places: Sequence[BranchPlace]
) -> Readout:
    """Where the class token stands; everywhere the same."""
    readout = head_reads(body, model, example)
    if readout is None or not readout.read:
        raise CannotOperate(
            f"{kind} multiplies by the class token, and the head of this {body.parts.model_name} reads none; "
            "use kind='cb' or 'cb_s'"
        )
    for place in places:
        if tokens_off_the_grid(body, place.port.node) != len(readout.prefix):
            raise CannotOperate(
                f"the class token is not among the tokens of unit '{place.unit.name}' at that place; "
                "choose layers and a place where it is, or kind='cb' or 'cb_s'"
            )
    return readout
