"""Operations on dense models: they act in the backbone, as they do where it stands alone."""

import copy
import functools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

import vitscope as vs
from tests.models.dense.cases import images, make, shared
from tests.surgery.checks import check_operated
from vitscope.surgery.tools.record import CannotOperate, NoEffectWarning

OPERATIONS: list[tuple[str, Callable[..., nn.Module], dict]] = [
    ("vit_mini", vs.surgery.broadcast_context, {}),
    ("vit_mini", vs.surgery.localize, {"kernel": 3}),
    ("vit_mini", vs.surgery.mc_dropout, {"p": 0.3}),
    ("vit_mini", vs.surgery.uniform_heads, {}),
    ("resnet_mini", vs.surgery.smooth, {}),
    ("resnet_mini", vs.surgery.alternate, {"msa": (0, 1, 1, 1)}),
]


def without_prefix(places: list[str]) -> list[str]:
    assert all(place.startswith("backbone.") for place in places)
    return [place.removeprefix("backbone.") for place in places]


@pytest.mark.parametrize(("backbone", "operate", "options"), OPERATIONS)
def test_the_same_places_as_in_the_bare_backbone(
    backbone: str, operate: Callable[..., nn.Module], options: dict, tmp_path: Path
) -> None:
    model = make(f"upernet:{backbone}")
    bare = copy.deepcopy(model.backbone)
    torch.manual_seed(1)
    operate(model, **options)
    torch.manual_seed(1)
    operate(bare, **options)
    places, wanted = (vs.surgery.record(one)[0]["places"] for one in (model, bare))
    assert without_prefix(places) == wanted
    bare.load_state_dict(model.backbone.state_dict())
    with torch.no_grad():
        assert torch.equal(model.backbone.eval()(images()), bare.eval()(images()))
    check_operated(model, images(), tmp_path, graph=False)


def test_a_detector_too() -> None:
    model = copy.deepcopy(shared("maskrcnn:vit_mini"))
    with pytest.warns(NoEffectWarning):
        vs.surgery.broadcast_context(model, "cb_s", layers="all", pyramid="fed")
    assert vs.surgery.record(model) == []
    short = make("maskrcnn:vit_mini", depth=5)
    vs.surgery.broadcast_context(short, "cb_s", layers="all", pyramid="fed")
    assert short.feeding == tuple(f"backbone.blocks.{i}" for i in (0, 1, 2, 4))
    assert vs.surgery.record(short)[0]["places"] == ["backbone.blocks.3.mlp"]


def test_blocks_that_feed_the_pyramid_are_left_out_when_asked() -> None:
    model = make("upernet:swin_mini")
    assert model.feeding == tuple(f"backbone.layers.{i}.blocks.1" for i in range(4))
    vs.surgery.broadcast_context(model, layers="all", where="both", pyramid="fed")
    places = vs.surgery.record(model)[0]["places"]
    assert without_prefix(places) == [
        f"layers.{i}.blocks.0.{kind}" for i in range(4) for kind in ("attn", "mlp")
    ]


def fed_by_tensors(model: nn.Module) -> tuple[set[str], set[str]]:
    """Blocks whose outputs are found, point by point, among what the neck is given; and all blocks."""
    outputs: dict[str, torch.Tensor] = {}
    given: list[torch.Tensor] = []
    hooks = [model.neck.register_forward_pre_hook(lambda _, some: given.extend(some))]
    for name, module in model.backbone.named_modules():
        if name.split(".")[-2:-1] == ["blocks"]:
            keep = functools.partial(lambda name, *seen: outputs.__setitem__(name, seen[2]), name)
            hooks.append(module.register_forward_hook(keep))
    with torch.no_grad():
        model(images().double())
    for hook in hooks:
        hook.remove()
    found = set()
    for level in given:
        points = level[0].flatten(1).T
        for name, output in outputs.items():
            flat = output[0].reshape(-1, output.shape[-1])
            if flat.shape[1] == points.shape[1]:
                nearest = (points[:4, None] - flat).abs().amax(-1).amin(1)
                found |= {name} if float(nearest.max()) < 1e-9 else set()
    return found, set(outputs)


@pytest.mark.parametrize(
    ("name", "options"),
    [("upernet:vit_mini", {"depth": 8}), ("maskrcnn:vit_mini", {"depth": 8}), ("upernet:swin_mini", {})],
)
def test_exactly_the_blocks_that_feed_the_pyramid_have_no_context(name: str, options: dict) -> None:
    """Which they are is seen by what the neck is given."""
    model = make(name, **options).double().eval()
    fed, every = fed_by_tensors(model)
    assert len(fed) == 4
    vs.surgery.broadcast_context(model, "cb_s", layers="all", pyramid="fed")
    places = without_prefix(vs.surgery.record(model)[0]["places"])
    assert {place.rpartition(".")[0] for place in places} == every - fed


def test_a_model_without_a_pyramid_feeds_none() -> None:
    with pytest.raises(CannotOperate, match="has no pyramid"):
        vs.surgery.broadcast_context(vs.create_model("vit_mini"), pyramid="fed")


def test_a_graph_can_be_made_of_it() -> None:
    model = shared("upernet:vit_mini")
    with torch.no_grad():
        program = torch.export.export(model, (images(),))
        assert torch.equal(program.module()(images()), model(images()))
