import json

import pytest

from vitscope.cli.app import main


def test_table(capsys):
    assert main(["anatomy", "swin_tiny_patch4_window7_224"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["stage", "kind", "unit", "map", "prefix", "heads", "attention"]
    assert lines[4].split() == [
        *"0 msa layers.0.blocks.1.attn 96x56x56 3 64 windows of 7x7 shifted by 3,3".split()
    ]
    assert "28.29 M parameters, 4 stages, 29 units (1 stem, 12 msa, 12 mlp, 3 subsample, 1 head)" in lines[-1]


def test_json_at_another_size(capsys):
    assert main(["anatomy", "vit_tiny_patch16_224", "--img-size", "64", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["input_size"] == [3, 64, 64]
    attention = document["units"][1]
    assert (attention["kind"], attention["map_shape"], attention["prefix_tokens"]) == ("msa", [192, 4, 4], 1)
    assert attention["attention"]["keys"] == 17


@pytest.mark.parametrize("name", ["tv:resnet18", "vit_mini", "torchvision.models:mobilenet_v2"])
def test_any_source(name, capsys):
    assert main(["anatomy", name]) == 0
    assert "units (" in capsys.readouterr().out


def test_a_size_the_model_cannot_take(capsys):
    assert main(["anatomy", "tv:vit_b_32", "--img-size", "100"]) == 2
    assert "vitscope: " in capsys.readouterr().err


def test_a_twin_for_small_images_is_a_note(capsys):
    assert main(["anatomy", "resnet18", "--img-size", "32"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("note: resnet18 at 32 pixels is built as resnet18_32, ")
    assert len(said.splitlines()) == 1
