"""Backbone, neck and head of a dense model: the backbone's units are those it has where it stands alone."""

import dataclasses

import pytest
import torch
from torch import nn

import vitscope as vs
from tests.models.dense.cases import SHORT, images, shared
from vitscope.data import load_data

OWN = ("name", "module", "part")


@pytest.mark.parametrize("name", [*(f"upernet:{backbone}" for backbone in SHORT), "maskrcnn:vit_mini"])
def test_units_and_features_are_those_of_the_bare_backbone(name: str) -> None:
    model = shared(name)
    parts, bare = vs.anatomy(model), vs.anatomy(model.backbone)
    of_backbone = [unit for unit in parts if unit.part == "backbone"]
    wanted = [unit for unit in bare if unit.kind != "head"]
    assert [unit.name for unit in of_backbone] == [f"backbone.{unit.name}" for unit in wanted]
    for unit, other in zip(of_backbone, wanted, strict=True):
        assert dataclasses.replace(unit, **{key: getattr(other, key) for key in OWN}) == other
    rest = [(unit.name, unit.kind, unit.part) for unit in parts if unit.part != "backbone"]
    neck = [("neck", "other", "neck")] if "vit" in name else []
    assert rest == [*neck, ("head", "head", "head")]
    with torch.no_grad(), vs.Tap(model, parts, features=True) as seen:
        model(images())
    with torch.no_grad(), vs.Tap(model.backbone, bare, features=True) as alone:
        model.backbone(images())
    assert len(alone.features) == len(wanted)
    assert {key.removeprefix("backbone.") for key in seen.features} == set(alone.features)
    for key, feature in alone.features.items():
        assert torch.equal(seen.features[f"backbone.{key}"], feature), key


def test_a_lesion_of_the_backbone_is_seen_by_the_head() -> None:
    model = shared("upernet:vit_mini")
    parts, bare = vs.anatomy(model), vs.anatomy(model.backbone)
    with torch.no_grad():
        with vs.Tap(model.backbone, bare, remove=["blocks.1.mlp"]):
            wanted = model.head(images(), *model.pyramid(images()))
        with vs.Tap(model, parts, remove=["backbone.blocks.1.mlp"]):
            seen = model(images())
        assert torch.equal(seen, wanted)
        assert not torch.equal(seen, model(images()))


def test_exams_of_features_and_attention_say_the_same_as_of_the_bare_backbone() -> None:
    model, data = shared("upernet:vit_mini"), load_data("fashion", split="test")
    exams = ["fourier", "variance", "attention"]
    both = [vs.diagnose(one, data, exams=exams, limit=8, batch_size=8) for one in (model, model.backbone)]
    for exam in exams:
        seen, wanted = (results[exam].table() for results in both)
        seen = seen.assign(unit=seen["unit"].str.removeprefix("backbone."))
        wanted = wanted[wanted["kind"] != "head"]
        assert len(wanted) > 0
        assert seen[seen["kind"] != "head"].reset_index(drop=True).equals(wanted.reset_index(drop=True)), exam


def test_it_is_shown() -> None:
    parts = vs.anatomy(shared("upernet:vit_mini"))
    lines = str(parts).splitlines()
    assert lines[1].split()[:3] == ["backbone", "0", "stem"]
    assert lines[-2].split()[:3] == ["neck", "0", "other"]
    assert lines[-1].split()[:3] == ["head", "0", "head"]
    assert parts[0].describe()["part"] == "backbone"
    assert "part" not in vs.anatomy(vs.create_model("resnet_mini"))[0].describe()


def test_a_model_that_says_nothing_of_parts_has_none() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, 2), nn.ReLU(), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.LazyLinear(3)
    )
    model(images())
    assert {unit.part for unit in vs.anatomy(model, (3, 32, 32))} == {""}
