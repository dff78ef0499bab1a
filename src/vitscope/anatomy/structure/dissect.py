"""One watched pass, taken apart: the units of a model, and the graph they were found in.

`vs.anatomy` gives the units alone. Surgery needs to know more: which module hands which tensor on.
"""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from vitscope.anatomy.structure.activations import activation_name
from vitscope.anatomy.structure.attention_pattern import describe
from vitscope.anatomy.structure.graph_pieces import find_pieces
from vitscope.anatomy.structure.layout import Layouts
from vitscope.anatomy.structure.naming import climb, main_path, shares_owner, unique_names
from vitscope.anatomy.structure.point_mixing import moves_points
from vitscope.anatomy.structure.residual import has_stream
from vitscope.anatomy.structure.rules import kind_of, summarise
from vitscope.anatomy.structure.segments import Segment, find_segments
from vitscope.anatomy.structure.unit import Anatomy, Unit
from vitscope.anatomy.taps.attention_map import AttentionProduct, find_products
from vitscope.anatomy.taps.map_view import map_view
from vitscope.anatomy.taps.preserve import preserved
from vitscope.anatomy.watch.example import example_batch, example_inputs, images_among, refuse_wrapped
from vitscope.anatomy.watch.graph import Graph
from vitscope.anatomy.watch.observe import observe
from vitscope.anatomy.watch.operations import HEAVY, POOLS
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
    """Watch one forward pass; `example` as for `vs.anatomy`, or a dict of named inputs, whose images are followed."""
    refuse_wrapped(model)
    with preserved(model), torch.inference_mode(False):  # inference tensors hide changes in place
        inputs = example_inputs(model, example) if isinstance(example, Mapping) else None
        batch = images_among(inputs) if inputs is not None else example_batch(model, example)
        graph = observe(model, batch, inputs)
        layouts = Layouts(graph)
        pieces = find_pieces(graph, model)
        looked_at = graph if pieces is None else pieces.backbone
        segments = find_segments(looked_at, layouts, model)
        units = _units(looked_at, layouts, segments, model)
        if pieces is not None:
            units, segments = pieces.with_rest(model, units, segments)
    if not any(unit.kind != "head" for unit in units):
        raise UnsupportedModel(
            f"{type(model).__name__}: no unit was found among its {len(graph.nodes)} operations; it has "
            "neither residual additions nor convolutions or linear maps that everything passes through"
        )
    shape, name = tuple(batch.shape[1:]), type(model).__name__
    undecided = graph.undecided and f"{graph.undecided}. Until then the head may be that of any of them"
    parts = Anatomy(units, name, shape, batch.shape[0], graph.output, undecided)
    return Dissection(model, parts, tuple(segments), graph, layouts)


def _units(graph: Graph, layouts: Layouts, segments: list[Segment], model: nn.Module) -> list[Unit]:
    """The units of the pass, one per segment, in execution order."""
    products = find_products(graph, layouts)
    units: list[Unit] = []
    for segment, (owner, shared) in zip(segments, _owners(graph, model, segments), strict=True):
        members = set(segment.nodes)
        own = [product for product in products if product.node in members]
        unit = _unit(graph, layouts, model, segment, owner, own, _follows_attention(owner, units))
        name = f"{owner}:{unit.kind}" if shared and owner else owner or unit.kind
        units.append(dataclasses.replace(unit, name=name))
    names = unique_names([unit.name for unit in units])
    last = max(len(units) - 1, 1)
    return [
        dataclasses.replace(unit, name=name, stage=stage, depth=i / last)
        for i, (unit, name, stage) in enumerate(zip(units, names, _stages(units), strict=True))
    ]


def _unit(
    graph: Graph,
    layouts: Layouts,
    model: nn.Module,
    segment: Segment,
    owner: str,
    products: list[AttentionProduct],
    follows_attention: bool,
) -> Unit:
    addition, source, read = segment.addition, layouts[segment.start], segment.read
    view = map_view(layouts[segment.end], graph.batch)
    downsamples = source is not None and view is not None and source.points > view.shape[1] * view.shape[2]
    may_move = addition if addition is not None and addition.identity and not products else None
    branch = summarise(
        graph,
        layouts,
        model,
        segment.nodes,
        owner,
        attention=bool(products),
        residual=addition is not None,
        downsamples=downsamples,
        follows_attention=follows_attention,
        moves_points=may_move is not None and moves_points(graph, layouts, may_move),
    )
    kind = segment.kind or kind_of(branch)
    attention = describe(graph, layouts, products) if products and kind != "head" else None
    return Unit(
        name="",  # with stage and depth once all units are there
        kind=kind,
        stage=0,
        depth=0.0,
        map_shape=view.shape if view is not None and kind != "head" else None,
        prefix_tokens=view.prefix_tokens if view is not None else 0,
        heads=attention.heads if attention is not None else None,
        module=owner,
        residual=addition is not None,
        removable=addition is not None and has_stream(graph, addition),
        downsamples=downsamples,
        attention=attention,
        site=graph[segment.end].site,
        stream_operand=addition.stream_operand if addition is not None else 0,
        example_shape=graph[segment.end].shape,
        view=view,
        called=next((graph[i].site.path for i in segment.nodes if graph[i].name in HEAVY), ""),
        activation=activation_name(graph, segment.end, read) if read is not None else "",
        read_site=graph[read].site if read is not None else None,
    )


def _owners(graph: Graph, model: nn.Module, segments: list[Segment]) -> list[tuple[str, bool]]:
    """For each segment the path of its module, and whether that module holds another segment's operations too."""
    heavy = [{graph[i].site.path for i in s.owned if graph[i].name in HEAVY | POOLS} for s in segments]
    result = []
    for segment, own in zip(segments, heavy, strict=True):
        main = [graph[i].site.path for i in segment.nodes if graph[i].name in HEAVY]
        end = segment.end if segment.worked is None else segment.worked
        paths = main or list(own) or [graph[i].site.path for i in (*segment.nodes, end)]
        others = {path for group in heavy for path in group - own}
        owner = climb(model, main_path(paths), others)
        result.append((owner, shares_owner(owner, others)))
    return result


def _follows_attention(owner: str, before: list[Unit]) -> bool:
    """The last residual unit is the attention of the block that `owner` belongs to."""
    last = next((u for u in reversed(before) if u.residual), None)
    if last is None or last.kind != "msa" or not last.module:
        return False
    block = last.module.rpartition(".")[0]
    return bool(block) and (owner == block or owner.startswith(block + "."))


def _stages(units: list[Unit]) -> list[int]:
    """A stage is a run of units with the same grid."""
    stages, stage, grid = [], 0, None
    for unit in units:
        if unit.map_shape is not None:
            stage += grid not in (None, unit.map_shape[1:])
            grid = unit.map_shape[1:]
        stages.append(stage)
    return stages
