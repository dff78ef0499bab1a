import json

import pytest
import torch
from torch import nn

from vitscope.anatomy import anatomy, kept_anatomies
from vitscope.cli.app import main
from vitscope.core.errors import UnsupportedModel
from vitscope.core.interface import declared


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


class Odd(nn.Module):
    """Several outputs, none of which says that it holds the class scores."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.fc, self.aux = nn.Conv2d(3, 16, 8, stride=8), nn.Linear(16, 4), nn.Linear(16, 7)

    def forward(self, images):
        features = self.stem(images)
        pooled = features.mean((2, 3))
        return {"scores": self.fc(pooled), "aux": self.aux(pooled), "features": features}


def test_the_output_is_named_or_said_to_be_undecided(capsys):
    undecided = anatomy(Odd(), (3, 32, 32))
    assert undecided.output is None
    assert "note: Odd returns 'scores': 2x4, 'aux': 2x7" in repr(undecided)
    said = anatomy(Odd(), (3, 32, 32), output="scores")
    assert (said.output, said[-1].name, said.undecided) == ("scores", "fc", "")
    assert "at 3x32x32, output 'scores'" in repr(said)
    with pytest.raises(UnsupportedModel, match="output='nope' is none of"):
        anatomy(Odd(), output="nope")

    assert main(["anatomy", f"{__name__}:Odd", "--img-size", "32"]) == 0
    assert capsys.readouterr().err.startswith(
        "note: Odd returns 'scores': 2x4, 'aux': 2x7, 'features': 2x16x4x4"
    )
    assert main(["anatomy", f"{__name__}:Odd", "--output", "scores"]) == 0
    shown = capsys.readouterr()
    assert "Odd at 3x224x224, output 'scores': " in shown.out
    assert not shown.err
    assert main(["anatomy", f"{__name__}:Odd", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["undecided"].startswith("Odd returns")


def test_kept_anatomies_know_which_output_was_meant():
    model = Odd()
    with kept_anatomies():
        undecided = anatomy(model, (3, 32, 32))
        with declared(model, output="scores"):
            assert anatomy(model, (3, 32, 32)).output == "scores"
        assert anatomy(model, (3, 32, 32)) is undecided


def test_a_size_the_model_cannot_take(capsys):
    assert main(["anatomy", "tv:vit_b_32", "--img-size", "100"]) == 2
    assert "vitscope: " in capsys.readouterr().err


class Wide(nn.Module):
    """It takes images of 48x64 pixels, and none else."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(3, 16, 8, stride=8), nn.Linear(16, 4)
        self.position = nn.Parameter(torch.zeros(16, 6, 8))

    def forward(self, images):
        return self.head((self.stem(images) + self.position).mean((2, 3)))


def wide_that_says_so():
    model = Wide()
    model.pretrained_cfg = {"input_size": (3, 48, 64)}
    return model


@pytest.mark.parametrize("size", [(), ("--img-size", "64"), ("--img-size", "48x64")])
def test_a_size_that_is_not_square_is_said_in_the_model(size, capsys):
    assert main(["anatomy", f"{__name__}:Wide", *size]) == 2
    assert "model.pretrained_cfg = {'input_size': (3, HEIGHT, WIDTH)}" in capsys.readouterr().err
    assert main(["anatomy", f"{__name__}:wide_that_says_so"]) == 0
    assert "wide_that_says_so at 3x48x64" in capsys.readouterr().out


def test_a_twin_for_small_images_is_a_note(capsys):
    assert main(["anatomy", "resnet18", "--img-size", "32"]) == 0
    said = capsys.readouterr().err
    assert said.startswith("note: resnet18 at 32 pixels is built as resnet18_32, ")
    assert len(said.splitlines()) == 1
