"""From a watched pass to the ordered units."""

import dataclasses

from torch import nn

from vitscope.anatomy.structure.attention_pattern import describe
from vitscope.anatomy.structure.following_activation import activation_name
from vitscope.anatomy.structure.layout import Layouts
from vitscope.anatomy.structure.naming import climb, main_path, shares_owner, unique_names
from vitscope.anatomy.structure.point_mixing import moves_points
from vitscope.anatomy.structure.residual import HEAVY, POOLS, has_stream
from vitscope.anatomy.structure.rules import kind_of, summarise
from vitscope.anatomy.structure.segments import Segment
from vitscope.anatomy.structure.unit import Unit
from vitscope.anatomy.taps.attention_map import AttentionProduct, find_products
from vitscope.anatomy.taps.map_view import map_view
from vitscope.anatomy.watch.graph import Graph


def build_units(graph: Graph, layouts: Layouts, segments: list[Segment], model: nn.Module) -> list[Unit]:
    """The units of the pass, one per segment, in execution order."""
    products = find_products(graph, layouts)
    owners = _owners(graph, model, segments)
    units: list[Unit] = []
    for segment, (owner, shared) in zip(segments, owners, strict=True):
        units.append(_unit(graph, layouts, model, segment, owner, shared, products, units))
    names = unique_names([unit.name for unit in units])
    last = max(len(units) - 1, 1)
    stages = _stages(units)
    return [
        dataclasses.replace(unit, name=name, stage=stage, depth=i / last)
        for i, (unit, name, stage) in enumerate(zip(units, names, stages, strict=True))
    ]


def _unit(
    graph: Graph,
    layouts: Layouts,
    model: nn.Module,
    segment: Segment,
    owner: str,
    shared: bool,
    products: list[AttentionProduct],
    before: list[Unit],
) -> Unit:
    members = set(segment.nodes)
    own_products = [p for p in products if p.node in members]
    layout = layouts[segment.end]
    view = map_view(layout, graph.batch)
    source = layouts[segment.start]
    downsamples = (
        source is not None
        and view is not None
        and source.grid[0] * source.grid[1] > view.shape[1] * view.shape[2]
    )
    branch = summarise(
        graph,
        layouts,
        model,
        segment.nodes,
        owner,
        attention=bool(own_products),
        residual=segment.addition is not None,
        downsamples=downsamples,
        follows_attention=_follows_attention(owner, before),
        moves_points=_moves_points(graph, layouts, segment, bool(own_products)),
    )
    kind = segment.kind or kind_of(branch)
    attention = describe(graph, layouts, own_products) if own_products and kind != "head" else None
    addition = segment.addition
    removable = addition is not None and has_stream(graph, addition)
    node = graph[segment.end]
    read = segment.read
    return Unit(
        name=f"{owner}:{kind}" if shared and owner else owner or kind,
        kind=kind,
        stage=0,
        depth=0.0,
        map_shape=view.shape if view is not None and kind != "head" else None,
        prefix_tokens=view.prefix_tokens if view is not None else 0,
        heads=attention.heads if attention is not None else None,
        module=owner,
        residual=addition is not None,
        removable=removable,
        downsamples=downsamples,
        attention=attention,
        site=node.site,
        stream_operand=addition.stream_operand if addition is not None else 0,
        example_shape=node.shape,
        view=view,
        called=next((graph[i].site.path for i in segment.nodes if graph[i].name in HEAVY), ""),
        activation=activation_name(graph, segment.end, read) if read is not None else "",
        read_site=graph[read].site if read is not None else None,
    )


def _moves_points(graph: Graph, layouts: Layouts, segment: Segment, attention: bool) -> bool:
    addition = segment.addition
    if addition is None or not addition.identity or attention:
        return False
    return moves_points(graph, layouts, addition.stream, addition.branch, addition.region)


def _owners(graph: Graph, model: nn.Module, segments: list[Segment]) -> list[tuple[str, bool]]:
    """For each segment the path of its module, and whether that module holds another segment's operations
    too."""
    heavy = [{graph[i].site.path for i in s.owned if graph[i].name in HEAVY | POOLS} for s in segments]
    result = []
    for position, segment in enumerate(segments):
        main = [graph[i].site.path for i in segment.nodes if graph[i].name in HEAVY]
        end = segment.end if segment.worked is None else segment.worked
        paths = main or list(heavy[position]) or [graph[i].site.path for i in (*segment.nodes, end)]
        others = {path for i, group in enumerate(heavy) if i != position for path in group - heavy[position]}
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
            if grid is not None and unit.map_shape[1:] != grid:
                stage += 1
            grid = unit.map_shape[1:]
        stages.append(stage)
    return stages
