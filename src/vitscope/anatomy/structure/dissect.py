"""One watched pass with everything that was learned from it: units, and the graph they were found in.

`vs.anatomy` gives the units alone. Surgery needs to know more: which module hands which tensor on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vitscope.anatomy.structure.build import build_units
from vitscope.anatomy.structure.layout import Layouts
from vitscope.anatomy.structure.segments import Segment, find_segments
from vitscope.anatomy.structure.unit import Anatomy, Unit
from vitscope.anatomy.taps.preserve import preserved
from vitscope.anatomy.watch.example import example_batch, example_inputs, images_among, refuse_wrapped
from vitscope.anatomy.watch.graph import Graph
from vitscope.anatomy.watch.observe import observe
from vitscope.core.errors import UnsupportedModel


@dataclass(frozen=True)
class Dissection:
    """The units of a model, the segment of the graph each one was made from, and the graph."""

    model: nn.Module
    parts: Anatomy
    segments: tuple[Segment, ...]  # one per unit
    graph: Graph
    layouts: Layouts

    def segment(self, unit: str | Unit) -> Segment:
        """The stretch of the graph that a unit is."""
        name = unit if isinstance(unit, str) else unit.name
        return self.segments[self.parts.units.index(self.parts[name])]

    def stream_after(self, unit: str | Unit) -> int:
        """The node of what the next unit reads: the sum, or the activation that follows it directly."""
        segment = self.segment(unit)
        return segment.end if segment.read is None else segment.read


def dissect(model: nn.Module, example: Any = None) -> Dissection:
    """Watch one forward pass of `model`; `example` as for `vs.anatomy`, or a dict of named
    inputs, of which the images are followed."""
    refuse_wrapped(model)
    with (
        preserved(model),
        torch.inference_mode(False),
    ):  # inference tensors do not tell when they are changed in place
        inputs = example_inputs(model, example) if isinstance(example, Mapping) else None
        batch = images_among(inputs) if inputs is not None else example_batch(model, example)
        graph = observe(model, batch, inputs)
        layouts = Layouts(graph)
        segments = find_segments(graph, layouts, model)
        units = build_units(graph, layouts, segments, model)
    if not any(unit.kind != "head" for unit in units):
        raise UnsupportedModel(
            f"{type(model).__name__}: no unit was found among its {len(graph.nodes)} operations; it has "
            "neither residual additions nor convolutions or linear maps that everything passes through"
        )
    parts = Anatomy(units, type(model).__name__, tuple(batch.shape[1:]), batch.shape[0])
    return Dissection(model, parts, tuple(segments), graph, layouts)
