"""What a model is made of, found by watching one forward pass; and taps on what flows through it."""

from typing import Any

from torch import nn

from vitscope._callable import make_callable
from vitscope.anatomy.dissect import Dissection, dissect
from vitscope.anatomy.example import own_input_size
from vitscope.anatomy.lesions import Lesions
from vitscope.anatomy.preserve import preserved
from vitscope.anatomy.rules import Branch, add_rule, extra_rule
from vitscope.anatomy.taps import AttentionMap, Tap
from vitscope.anatomy.unit import KINDS, Anatomy, Attention, Unit
from vitscope.arguments import checked
from vitscope.errors import UnsupportedModel

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
