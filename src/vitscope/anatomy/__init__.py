"""What a model is made of, found by watching one forward pass; and taps on what flows through it."""

from typing import Any

import torch
from torch import nn

from vitscope._callable import make_callable
from vitscope.anatomy.build import build_units
from vitscope.anatomy.example import example_batch, own_input_size, refuse_wrapped
from vitscope.anatomy.observe import observe
from vitscope.anatomy.preserve import preserved
from vitscope.anatomy.rules import Branch, add_rule, extra_rule
from vitscope.anatomy.taps import AttentionMap, Tap
from vitscope.anatomy.unit import KINDS, Anatomy, Attention, Unit
from vitscope.errors import UnsupportedModel

__all__ = [
    "KINDS",
    "Anatomy",
    "Attention",
    "AttentionMap",
    "Branch",
    "Tap",
    "Unit",
    "UnsupportedModel",
    "add_rule",
    "anatomy",
    "extra_rule",
    "own_input_size",
    "preserved",
]


def anatomy(model: nn.Module, example: Any = None) -> Anatomy:
    """Watch one forward pass of `model` and return its ordered units.

    Args:
        model: Any vision model that takes a batch of images; on the meta device nothing is computed.
        example: A batch, a (C, H, W) shape, or data; default: the model's own input size.

    Raises:
        UnsupportedModel: The pass fails, or nothing in it could be understood.
    """
    refuse_wrapped(model)
    with (
        preserved(model),
        torch.inference_mode(False),
    ):  # inference tensors do not tell when they are changed in place
        batch = example_batch(model, example)
        graph = observe(model, batch)
        units = build_units(graph, model)
    if not any(unit.kind != "head" for unit in units):
        raise UnsupportedModel(
            f"{type(model).__name__}: no unit was found among its {len(graph.nodes)} operations; it has "
            "neither residual additions nor convolutions or linear maps that everything passes through"
        )
    return Anatomy(units, type(model).__name__, tuple(batch.shape[1:]), batch.shape[0])


make_callable(__name__, anatomy)
