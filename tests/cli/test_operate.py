"""`vitscope operate`, as a user types it."""

import json

import pytest
import torch

import vitscope as vs
from vitscope.cli.app import main
from vitscope.cli.operate import OPERATIONS, expand, read_operation


def test_short_forms_become_plain_flags() -> None:
    given = ["resnet50", "--alternate", "msa=0,1,1,2", "window=7", "--out", "runs/a", "--broadcast-context"]
    assert expand(given) == [
        "resnet50",
        "--out",
        "runs/a",
        "--operations",
        "alternate msa=0,1,1,2 window=7",
        "broadcast_context",
    ]
    assert expand(["resnet50", "--pretrained"]) == ["resnet50", "--pretrained"]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("alternate", ("alternate", {}, [])),
        ("alternate msa=0,1,1,2 window=7", ("alternate", {"msa": [0, 1, 1, 2], "window": 7}, [])),
        ("mc-dropout p=0.3", ("mc_dropout", {"p": 0.3}, [])),
        ("lesion blocks.3.attn", ("lesion", {}, ["blocks.3.attn"])),
        ("extend msa", ("extend", {}, ["msa"])),
        (
            "broadcast_context layers=all pyramid=a,b",
            ("broadcast_context", {"layers": "all", "pyramid": ["a", "b"]}, []),
        ),
    ],
)
def test_operations_are_read(text, wanted) -> None:
    assert read_operation(text) == wanted


def test_the_table_names_every_operation() -> None:
    assert set(OPERATIONS) == set(vs.surgery.OPERATIONS)


def test_operate_saves_a_model_that_anatomy_and_create_model_read(tmp_path, capsys) -> None:
    out = tmp_path / "run"
    words = ["operate", "resnet_mini", "--pretrained", "--smooth", "--lesion", "layer2.1", "--out", str(out)]
    assert main(words) == 0
    text = capsys.readouterr().out
    for said in ("smooth", "lesion", "701,466", "FLOPs/image", "outputs", "vitscope anatomy"):
        assert said in text
    record = json.loads((out / "run.json").read_text())
    assert record["state"] == "done"
    assert [entry["operation"] for entry in record["surgery"]] == ["smooth", "lesion"]
    again = vs.create_model(out).eval()
    by_hand = vs.create_model("resnet_mini", pretrained=True).eval()
    vs.surgery.lesion(vs.surgery.smooth(by_hand), "layer2.1")
    images = torch.randn(2, 3, 32, 32)
    with torch.no_grad():
        assert torch.equal(again(images), by_hand(images))
    assert main(["anatomy", str(out)]) == 0
    assert main(words) == 2
    assert "holds a model already" in capsys.readouterr().err


def test_alternate_shows_in_the_anatomy(tmp_path, capsys) -> None:
    """The words a user would try first."""
    out = tmp_path / "run"
    assert (
        main(
            [
                "operate",
                "resnet50",
                "--img-size",
                "64",
                "--num-classes",
                "10",
                "--alternate",
                "--out",
                str(out),
            ]
        )
        == 0
    )
    capsys.readouterr()
    assert main(["anatomy", str(out), "--json"]) == 0
    units = json.loads(capsys.readouterr().out)["units"]
    blocks = [unit for unit in units if unit["kind"] in ("conv", "msa")]
    ends = [
        a for a, b in zip(blocks, [*blocks[1:], None], strict=True) if b is None or b["stage"] != a["stage"]
    ]
    assert ends[-1]["kind"] == "msa"
    msas = [unit for unit in blocks if unit["kind"] == "msa"]
    assert all(unit in ends for unit in msas)
    assert len(msas) == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["operate", "resnet_mini"], "nothing to do"),
        (["operate", "resnet_mini", "--operations", "smoth"], "did you mean smooth?"),
        (["operate", "resnet_mini", "--smooth", "heat=1"], "smooth takes"),
        (["operate", "resnet_mini", "--lesion"], "missing a required argument: 'unit'"),
        (["operate", "resnet_mini", "--lesion", "layer9.1"], "no unit 'layer9.1'"),
    ],
)
def test_mistakes_get_one_line(words, said, capsys) -> None:
    assert main(words) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert said in lines[0]


def test_nothing_to_change_is_said_and_nothing_is_saved(tmp_path, capsys) -> None:
    assert main(["operate", "resnet_mini", "--localize", "--out", str(tmp_path / "run")]) == 2
    said = capsys.readouterr().err
    assert "there is no MSA unit" in said
    assert "nothing was saved" in said
    assert not (tmp_path / "run").exists()


def test_a_run_in_this_folder_is_read_by_anatomy(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["operate", "preresnet_mini", "--alternate", "budget=1", "--out", "run"]) == 0
    assert main(["anatomy", "run"]) == 0
    assert "msa" in capsys.readouterr().out


def test_help_lists_the_operations(capsys) -> None:
    with pytest.raises(SystemExit):
        main(["operate", "--help"])
    text = capsys.readouterr().out
    assert all(f"--{name.replace('_', '-')}" in text for name in OPERATIONS)


class TwoScores(torch.nn.Module):
    """Two outputs that could be the class scores."""

    def __init__(self) -> None:
        super().__init__()
        self.net = vs.create_model("resnet_mini")

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        scores = self.net(x)
        return {"scores": scores, "others": scores + 1}


def test_which_output_is_meant_is_said_and_kept(tmp_path, capsys) -> None:
    words = ["operate", f"{__name__}:TwoScores", "--img-size", "32", "--temporal"]
    assert main(words) == 2
    assert "--output" in capsys.readouterr().err
    assert main([*words, "--output", "scores", "--out", str(tmp_path / "run")]) == 0
    assert json.loads((tmp_path / "run" / "config.json").read_text())["interface"]["output"] == "scores"
