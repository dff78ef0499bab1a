"""Wrong input that people who did not know the code came up with."""

import json
import os
from pathlib import Path

import pytest
import torch

import vitscope as vs
from tests.fuzz.refusals import check_message
from vitscope.cli.app import main
from vitscope.core.errors import VitscopeError
from vitscope.results import Run

X, Y = torch.randn(4, 3, 32, 32), torch.arange(4)


@pytest.fixture(scope="module")
def model() -> torch.nn.Module:
    return vs.create_model("vit_mini")


@pytest.mark.parametrize("out", ["", " "])
def test_an_empty_path_is_not_the_current_folder(
    out: str, model: torch.nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(VitscopeError, match="it is empty"):
        vs.save_model(model, out)
    with pytest.raises(VitscopeError, match="it is empty"):
        vs.diagnose(model, X, ["fourier"], out=out)
    with pytest.raises(VitscopeError, match="it is empty"):
        vs.create_model(out)
    assert not list(tmp_path.iterdir())


def test_calls_that_ended_in_words_of_python(model: torch.nn.Module) -> None:
    calls = [
        lambda: vs.anatomy(torch.nn.Identity()),
        lambda: vs.anatomy(model, (3, -1, 32)),
        lambda: vs.anatomy(model, (3, 10**6, 10**6)),
        lambda: vs.anatomy(model, (True, 32, 32)),
        lambda: vs.anatomy(model, X[:0]),
        lambda: vs.diagnose(model, (X.to("meta"), Y), ["fourier"]),
        lambda: vs.diagnose(model, (X.to_sparse(), Y), ["fourier"]),
        lambda: vs.create_model("vit_mini", depth="x"),
        lambda: vs.create_model("vit_mini", depth=2.5),
        lambda: vs.create_model("vit_mini", norm_layer="nosuch"),
        lambda: vs.create_model("vit_mini", act_layer=5),
        lambda: vs.create_model("resnet_mini", in_chans="3"),
        lambda: vs.create_model("builtins:dict"),
        lambda: vs.create_model("builtins:int"),
        lambda: vs.create_model("hf:"),
        lambda: vs.create_model("resnet_mini", in_chans=0),
        lambda: vs.create_model("vit_mini", drop_path_rate=float("nan")),
        lambda: vs.create_model("vit_mini", drop_path_rate=5),
        lambda: vs.Tap(None, vs.anatomy(model)),  # type: ignore[arg-type]
        lambda: vs.Tap(model, 3),  # type: ignore[arg-type]
        lambda: vs.Tap(model, vs.anatomy(model), nosuch=1),  # type: ignore[call-arg]
        lambda: vs.Tap(model, vs.anatomy(model), features="yes"),  # type: ignore[arg-type]
        lambda: vs.training.get_recipe("mini", nosuch=True),
        lambda: vs.training.get_recipe("mini", repeats=100_000),
        lambda: vs.training.get_recipe(3),  # type: ignore[arg-type]
    ]
    for number, call in enumerate(calls):
        with pytest.raises(VitscopeError) as refused:
            call()
        assert str(refused.value), number


@pytest.mark.parametrize("name", ["config.json", "run.json", "manifest.json"])
def test_files_nested_without_end(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vs.save_model(vs.create_model("vit_mini"), tmp_path)
    (tmp_path / name).write_text("[" * 200_000)
    assert main(["report" if name == "run.json" else "anatomy", str(tmp_path)]) == 2
    check_message(capsys.readouterr().err, name)


@pytest.mark.parametrize("name", ["t", "x" * 5000])
def test_a_model_that_names_itself_or_a_folder(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:  # type: ignore[no-untyped-def]
    vs.save_model(vs.create_model("vit_mini"), tmp_path / "t")
    config = json.loads((tmp_path / "t" / "config.json").read_text())
    config["model"]["name"] = name
    (tmp_path / "t" / "config.json").write_text(json.dumps(config))
    monkeypatch.chdir(tmp_path)
    assert main(["anatomy", "t"]) == 2
    said = capsys.readouterr().err
    assert f"it names a folder, '{name[:10]}" in said
    check_message(said, name)


def test_weights_that_are_a_pipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vs.save_model(vs.create_model("vit_mini"), tmp_path)
    (tmp_path / "model.safetensors").unlink()
    os.mkfifo(tmp_path / "model.safetensors")
    assert main(["anatomy", str(tmp_path)]) == 2
    assert "is a pipe, not a file" in capsys.readouterr().err


def test_a_source_that_is_a_pipe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("VITSCOPE_DATA", str(tmp_path / "data"))
    os.mkfifo(tmp_path / "fifo")
    assert main(["data", "prepare", "cifar100", "--source", str(tmp_path / "fifo")]) == 2
    assert "is no plain file" in capsys.readouterr().err


def test_names_of_the_hub_are_checked_before_the_first_pass(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", "vit_mini", "hf:", "--limit", "8", "--out", str(tmp_path / "d")]) == 2
    assert "expected hf:owner/name" in capsys.readouterr().err
    assert not (tmp_path / "d").exists()


def test_a_state_that_is_gone_is_not_begun_anew(tmp_path: Path) -> None:
    choices = {
        "fraction": 0.01,
        "epochs": 1,
        "progress": False,
        "held_out": vs.load_data("fashion", fraction=0.02),
    }
    vs.train("vit_mini", "fashion", "mini", tmp_path, **choices)
    for file in ("last.safetensors", "previous.safetensors"):
        (tmp_path / file).unlink(missing_ok=True)
    with pytest.raises(VitscopeError, match=r"its state .* is gone"):
        vs.train("vit_mini", "fashion", "mini", tmp_path, resume=True, **choices)


def test_addresses_that_are_scripts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(tmp_path), "--docs", "javascript:alert(1)"]) == 2
    assert "--docs is 'javascript:alert(1)' (javascript: is no place for pages)" in capsys.readouterr().err


def test_a_training_without_exams_says_how_to_make_some(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Run.start(tmp_path).finish()
    assert main(["report", str(tmp_path)]) == 2
    assert f"make some: vitscope diagnose {tmp_path}" in capsys.readouterr().err
