"""What a model is made of, found by watching one forward pass; and taps on what flows through it."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from torch import nn

from vitscope.anatomy.structure.dissect import Dissection, dissect
from vitscope.anatomy.structure.rules import Branch, add_rule, extra_rule
from vitscope.anatomy.structure.unit import KINDS, Anatomy, Attention, Unit
from vitscope.anatomy.taps.capture import AttentionMap, Tap
from vitscope.anatomy.taps.lesion import Lesions
from vitscope.anatomy.taps.preserve import preserved
from vitscope.anatomy.watch.example import own_input_size
from vitscope.core.arguments import checked
from vitscope.core.arguments.calling import make_callable
from vitscope.core.errors import UnsupportedModel
from vitscope.core.interface import classes_of_data, declared, interface_of

__all__ = [
    "KINDS",
    "Anatomy",
    "Attention",
    "AttentionMap",
    "Branch",
    "Dissection",
    "Lesions",
    "Tap",
    "Unit",
    "UnsupportedModel",
    "add_rule",
    "anatomy",
    "dissect",
    "extra_rule",
    "kept_anatomies",
    "own_input_size",
    "preserved",
]

_kept: ContextVar[dict[Any, tuple[nn.Module, Anatomy]] | None] = ContextVar("kept", default=None)


@contextmanager
def kept_anatomies() -> Iterator[None]:
    """Inside, a model is watched once for each image size: for work that leaves models as they are."""
    token = _kept.set(_kept.get() or {})
    try:
        yield
    finally:
        _kept.reset(token)


@checked
def anatomy(model: nn.Module, example: Any = None, output: str | int | None = None) -> Anatomy:
    """Watch one forward pass of `model` and return its ordered units.

    Args:
        model: Any vision model that takes a batch of images; on the meta device nothing is computed.
        example: A batch, a (C, H, W) shape, or data; default: the model's own input size.
        output: Which output holds the class scores, where that cannot be decided; the result has it as `output`, or
            says why it is `undecided`.

    Raises:
        UnsupportedModel: The pass fails, or nothing in it could be understood.
    """
    if output is not None:
        with declared(model, output=output):
            return dissect(model, example).parts
    kept = _kept.get()
    if kept is None or not (example is None or isinstance(example, tuple)):
        return dissect(model, example).parts
    shape = own_input_size(model) if example is None else example
    first = next(model.parameters(), None)
    spoken = (interface_of(model).output, classes_of_data(model))
    key = (id(model), shape, first is not None and (first.device, first.dtype), spoken)
    if key not in kept:
        kept[key] = (model, dissect(model, shape).parts)  # the model, too: its id is its own while it is here
    return kept[key][1]


make_callable(__name__, anatomy)
