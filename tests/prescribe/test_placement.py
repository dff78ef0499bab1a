from pathlib import Path

import numpy as np

import vitscope as vs
from tests.prescribe.conftest import Change
from vitscope.core.statistics import Estimate
from vitscope.prescribe.examined_model import find_examined_model
from vitscope.prescribe.placement import following_mlps, msa_blocks, stage_ends
from vitscope.results import Result, Run


def test_stage_ends_of_a_resnet(diagnosed: Path, changed: Change) -> None:
    units = Result.load(diagnosed / "resnet_mini" / "exams" / "variance").units  # type: ignore[attr-defined]
    value = np.arange(len(units), dtype=np.float64)
    change, fall = np.ones(len(units)), [u.name for u in units].index("layer3.1")
    value[fall], change[fall] = 0.0, -1.0
    unsure = [u.name for u in units].index("layer4.1")
    low, high = change - 0.5, change + 0.5
    low[unsure] = -0.5
    fields = {"value": value, "change": Estimate(change, low, high)}
    ends = stage_ends(find_examined_model(Run.open(changed("resnet_mini", variance=fields))))
    assert [end.unit for end in ends] == ["layer1.1", "layer2.1", "layer3.1", "layer4.1"]
    assert [end.peak for end in ends] == [True, True, False, True]
    assert [end.certain for end in ends] == [True, True, False, False]
    assert [end.excess[0] > 0 for end in ends] == [True, True, False, True]


def test_blocks_only_at_the_stages_asked_for_and_within_the_budget(diagnosed: Path) -> None:
    examined = find_examined_model(Run.open(diagnosed / "resnet_mini"))
    stages = sorted({unit.stage for unit in examined.body.parts.of_kind("conv")})
    assert msa_blocks(examined, stages[-2:])["msa"] == [0, 0, 1, 1]
    assert msa_blocks(examined, stages) == {"msa": [1, 1, 1, 1], "heads": [1, 1, 1, 2]}
    assert msa_blocks(examined, [])["msa"] == [0, 0, 0, 0]


def test_the_mlp_after_an_msa(diagnosed: Path) -> None:
    examined = find_examined_model(Run.open(diagnosed / "vit_mini"))
    assert following_mlps(examined, ["blocks.2.attn"]) == ("mlp", ["blocks.2.mlp"])
    alternet = find_examined_model(Run.open(diagnosed / "resnet_mini"))
    vs.surgery.alternate(alternet.model, msa=(0, 0, 0, 1), heads=(1, 1, 1, 2))
    attending = [unit.name for unit in alternet.body.parts if unit.kind == "msa"]
    assert following_mlps(alternet, attending) == ("msa", attending)  # AlterNet has no MLPs
