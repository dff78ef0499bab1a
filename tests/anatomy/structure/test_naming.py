import pytest
from torch import nn

from vitscope.anatomy.structure.naming import (
    block_path,
    climb,
    common_path,
    main_path,
    own_children,
    own_class,
    unique_names,
)
from vitscope.surgery.tools.graft import graft


@pytest.mark.parametrize(
    ("paths", "common"),
    [
        (["blocks.0.attn.qkv", "blocks.0.attn", "blocks.0.attn.proj"], "blocks.0.attn"),
        (["layer1.0.conv1", "layer1.0.conv2"], "layer1.0"),
        (["a.b", "c"], ""),
        (["blocks.1", "blocks.10"], "blocks"),
        ([], ""),
    ],
)
def test_common_path(paths, common):
    assert common_path(paths) == common


def test_most_of_a_unit_decides_where_it_lives():
    assert main_path(["a.b.x", "a.b.y", "shared"]) == "a.b"


def test_block_path():
    assert block_path("layers.1.downsample.norm") == "layers.1"
    assert block_path("blocks.2.0.conv") == "blocks.2.0"
    assert block_path("stem.conv") == "stem.conv"


def test_climbing_stops_at_blocks_and_neighbours():
    block = nn.Sequential(nn.Sequential(nn.Linear(1, 1), nn.ReLU()))
    model = nn.ModuleDict({"embed": nn.ModuleDict({"proj": nn.Linear(1, 1)}), "layer": block})
    assert climb(model, "embed.proj", ["layer.0.0"]) == "embed"
    assert climb(model, "embed.proj", ["embed.norm"]) == "embed.proj"
    assert climb(model, "layer.0.0", []) == "layer.0.0"  # inside a numbered block
    assert climb(model, "layer.0", []) == "layer.0"


def test_unique_names():
    assert unique_names(["a", "b", "a", "a"]) == ["a", "b", "a#2", "a#3"]


def test_what_surgery_put_onto_a_module_is_no_part_of_it() -> None:
    model = nn.Sequential(nn.Linear(2, 2))
    graft(model, "0", nn.ReLU(), "step", "output")
    assert type(model[0]) is not nn.Linear
    assert own_class(model[0]) is nn.Linear
    assert own_children(model[0]) == []
    assert own_children(model) == [model[0]]
