"""`vitscope operate`, as a user types it."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn

import vitscope as vs
from vitscope.cli.app import main
from vitscope.cli.operate import OPERATIONS, expand
from vitscope.models.create import random_weights
from vitscope.results import Run


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


def test_random_weights_are_said_to_be_random_here_and_where_they_are_examined(tmp_path, capsys) -> None:
    out, found = str(tmp_path / "operated"), str(tmp_path / "found")
    assert main(["operate", "vit_mini", "--localize", "kernel=3", "--out", out]) == 0
    assert "the weights of vit_mini are random; --pretrained loads" in capsys.readouterr().err
    examine = ["--exams", "prediction", "--limit", "10", "--out", found]
    for verb in ("diagnose", "evaluate"):
        assert main([verb, out, *examine]) == 0
        assert f"note: the weights of {out} are random: it was operated on" in capsys.readouterr().err
        assert Run.open(found).model["name"] == "operated"  # not "found"
        assert main([verb, "vit_mini", "--no-pretrained", *examine]) == 0
        assert "note: the weights of vit_mini are random; --pretrained" in capsys.readouterr().err
        assert main([verb, "vit_mini", *examine]) == 0
        assert "random" not in capsys.readouterr().err
    trained = str(tmp_path / "trained")
    assert main(["operate", "vit_mini", "--pretrained", "--localize", "kernel=3", "--out", trained]) == 0
    assert main(["diagnose", trained, *examine]) == 0
    assert "random" not in capsys.readouterr().err
    run = tmp_path / "operated" / "run.json"  # as a training in the same folder leaves it
    record = json.loads(run.read_text())
    run.write_text(json.dumps({**record, "earlier": [record], "options": {"recipe": {}}}))
    assert not random_weights(out)


def test_alternate_shows_in_the_anatomy(tmp_path, capsys) -> None:
    """The words a user would try first."""
    out = tmp_path / "run"
    assert (
        main(
            [
                "operate",
                "resnet26",
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
        (
            ["operate", "resnet_mini", "--localise", "kernel=3"],
            "no option --localise; did you mean --localize?",
        ),
        (["operate", "resnet_mini", "--pretraned"], "no option --pretraned; did you mean --pretrained?"),
        (
            ["operate", "resnet_mini", "--smooth", "heat=1"],
            "--smooth: no argument 'heat'; it takes where, prob",
        ),
        (["operate", "resnet_mini", "--lesion"], "--lesion needs unit"),
        (["operate", "resnet_mini", "--lesion", "layer9.1"], "no unit 'layer9.1'"),
        (
            ["operate", "vit_mini", "--img-size", "3", "--localize"],
            "VisionTransformer cannot be run on a 2x3x3x3",
        ),
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
    assert said.startswith("vitscope: resnet_mini is as it was, nothing was saved: localize changed nothing ")
    assert said.endswith(": there is no MSA unit in layers=all\n")
    assert said.count("\n") == 1
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


def test_several_models_become_one(tmp_path, capsys) -> None:
    members = [tmp_path / "a", tmp_path / "b"]
    for number, folder in enumerate(members):
        vs.operate("resnet_mini", "smooth", pretrained=number == 0, seed=number, out=folder)
    words = ["operate", str(members[0]), "--deep-ensemble", str(members[1]), "--temporal", "rate=0.5"]
    assert main([*words, "--out", str(tmp_path / "both")]) == 0
    assert "deep_ensemble: 2 models" in capsys.readouterr().out
    images = torch.randn(2, 3, 32, 32)
    each = [vs.create_model(folder).eval() for folder in members]
    for folder in members:
        (folder / "model.safetensors").unlink()  # the ensemble needs them no more
    whole = vs.create_model(tmp_path / "both").eval()
    with torch.no_grad():
        wanted = torch.stack([model(images).softmax(1) for model in each]).mean(0)
        torch.testing.assert_close(whole(images).softmax(1), wanted)
    assert [entry["operation"] for entry in vs.surgery.record(whole)] == ["temporal"]
    assert main(["anatomy", str(tmp_path / "both")]) == 0


def test_members_that_do_not_fit_are_refused(tmp_path, capsys) -> None:
    vs.operate("resnet_mini", "smooth", num_classes=7, out=tmp_path / "seven")
    words = [
        "operate",
        "resnet_mini",
        "--deep-ensemble",
        str(tmp_path / "seven"),
        "--out",
        str(tmp_path / "y"),
    ]
    assert main(words) == 2
    assert "differs from member 0 in its output shape" in capsys.readouterr().err
    assert not (tmp_path / "y").exists()


def right_for_msa(model, out, seed, *, more: int = 1) -> list[int]:
    """Every MSA block makes `more` of ten images right."""
    return [int(i < 3 + more * len(vs.anatomy(model).of_kind("msa"))) for i in range(10)]


def test_a_search_from_the_command_line(tmp_path, capsys) -> None:
    out = tmp_path / "build"
    search = ["--build-up", "budget=2", f"measure={__name__}:right_for_msa", "more=2"]
    assert main(["operate", "preresnet_mini", *search, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "0.7000" in text
    assert "best: msa=" in text
    assert len(vs.anatomy(vs.create_model(out)).of_kind("msa")) == 2
    assert main(["operate", "preresnet_mini", *search, "--out", str(out)]) == 0  # goes on: all is done


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--build-up", "budget=2", "data=fashion"], "say where: --out"),
        (["--build-up", "data=fashion"], "--build-up needs budget"),
        (["--build-up", "budget=2"], "--build-up needs data"),
        (["--build-up", "budget=0", "data=fashion"], "--build-up budget is '0'"),
        (["--build-up", "budget=2", "data=fashion", "epoch=2"], "did you mean 'epochs'?"),
        (["--build-up", "4"], "'4' has no name"),
        (["--build-up", "budget=1", "measure=os:mkdir"], "--build-up needs path: --build-up path=..."),
        (["--build-up", "budget=2", "data=fashion", "--smooth"], "stands alone"),
    ],
)
def test_a_search_is_asked_for_in_full(words, said, capsys) -> None:
    assert main(["operate", "preresnet_mini", *words]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert len(lines) == 1
    assert said in lines[0]


def home_made() -> nn.Module:
    return vs.create_model("preresnet_mini")


def test_the_command_it_names_for_a_model_of_code_works(tmp_path, capsys) -> None:
    search = ["--build-up", "budget=1", f"measure={__name__}:right_for_msa", "--out", str(tmp_path / "build")]
    assert main(["operate", f"{__name__}:home_made", *search]) == 0
    typed = capsys.readouterr().out.rpartition("; see: vitscope ")[2].strip()
    assert typed.endswith("--trust-code")
    assert main(shlex.split(typed)) == 0


def test_a_measure_is_found_in_the_working_directory_and_its_own_errors_are_told(tmp_path) -> None:
    """By the installed command, which does not look there by itself."""
    (tmp_path / "mine_here.py").write_text("def score(model, out, seed):\n    return 3\n")
    command = [
        Path(sys.executable).with_name("vitscope"),
        "operate",
        "preresnet_mini",
        "--build-up",
        "budget=1",
    ]
    done = subprocess.run(
        [*command, "measure=mine_here:score", "--out", "build"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 2
    assert "measure=mine_here:score fails with TypeError" in done.stderr
    assert "expected a function of (model, out, seed)" in done.stderr
