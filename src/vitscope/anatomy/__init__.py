"""What a model is made of, found by watching one forward pass; and taps on what flows through it."""

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
from vitscope.core.callable_module import make_callable
from vitscope.core.errors import UnsupportedModel

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
    "own_input_size",
    "preserved",
]


@checked
def anatomy(model: nn.Module, example: Any = None) -> Anatomy:
    """Watch one forward pass of `model` and return its ordered units.

    Args:
        model: Any vision model that takes a batch of images; on the meta device nothing is computed.
        example: A batch, a (C, H, W) shape, or data; default: the model's own input size.

    Raises:
        UnsupportedModel: The pass fails, or nothing in it could be understood.
    """
    return dissect(model, example).parts


make_callable(__name__, anatomy)
