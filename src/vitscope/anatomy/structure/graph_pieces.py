"""The pieces of a pass through a dense model: backbone, whose units are found as if it stood alone, neck and head.

A model says that it has parts by `vitscope_parts`, the names of three children: the second takes, as its arguments, the
maps that the first makes. What a decoder adds to what would otherwise look like residual units of the model, and where
the backbone's own classifier runs along for nothing, it would look like a branch that leads nowhere.
"""

import dataclasses
from dataclasses import dataclass

from torch import nn

from vitscope.anatomy.structure.segments import Segment
from vitscope.anatomy.structure.unit import Unit
from vitscope.anatomy.watch.graph import Graph, ModuleCall


@dataclass(frozen=True)
class GraphPieces:
    """Where the pass that was watched goes through backbone, neck and head of a dense model."""

    backbone: Graph  # the pass up to the last map that the neck is given
    names: tuple[str, str, str]
    calls: tuple[ModuleCall, ...]  # of neck and head

    def with_rest(
        self, model: nn.Module, units: list[Unit], segments: list[Segment]
    ) -> tuple[list[Unit], list[Segment]]:
        """The units of the backbone with what comes after them, at the depths they have where it stands alone."""
        count = max(len(units), 1)
        units = [
            dataclasses.replace(unit, part=self.names[0], depth=i / count) for i, unit in enumerate(units)
        ]
        stage = units[-1].stage if units else 0
        segments = list(segments)
        for part, kind, call in zip(self.names[1:], ("other", "head"), self.calls, strict=True):
            if any(True for _ in model.get_submodule(part).parameters()):
                units.append(Unit(part, kind, stage, 1.0, None, 0, None, part, part=part))
                segments.append(_segment(call, kind))
        return units, segments


def find_pieces(graph: Graph, model: nn.Module) -> GraphPieces | None:
    """Cut a pass at the neck and head the model names; None if it names none, or if one was not called."""
    names = getattr(model, "vitscope_parts", None)
    if names is None:
        return None
    last = {call.path: call for call in graph.calls}
    if any(name not in last for name in names[1:]):
        return None
    neck, head = (last[name] for name in names[1:])
    nodes = graph.nodes[: neck.begin]
    calls = tuple(call for call in graph.calls if call.end <= neck.begin)
    fed = max(node for node in neck.inputs.values() if node < neck.begin)
    backbone = Graph(nodes, graph.input, (fed,), graph.batch, calls)
    return GraphPieces(backbone, tuple(names), (neck, head))


def _segment(call: ModuleCall, kind: str) -> Segment:
    inside = list(range(call.begin, call.end))
    end = max(call.outputs.values(), default=call.end - 1)
    return Segment(end, min(call.inputs.values()), inside, kind=kind, owned=inside)
