"""Files of a training that are damaged, gone, or somebody else's: noticed, made again where that can be, never lost."""

import json
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import vitscope as vs
from tests.processes import run as in_processes
from vitscope.cli.app import main
from vitscope.core.errors import BadResult, VitscopeError
from vitscope.exams.loss.trajectory import trajectory
from vitscope.models import BadWeights, create_model, list_checkpoints, save_model
from vitscope.training import get_recipe, train

RECIPE = replace(get_recipe("mini"), epochs=3, batch_size=8, warmup_epochs=0.5)
PIECES = ("model.safetensors", "checkpoints/init.safetensors", "checkpoints/best.safetensors")


def go(out: Path, model: Any = None, **options: Any) -> None:
    torch.manual_seed(0)
    data = vs.load_data("fashion", split="train").subset(list(range(24)))  # type: ignore[arg-type]
    net = create_model("vit_mini", depth=1) if model is None else model
    train(net, data, RECIPE, out, held_out=data, **{"progress": False, **options})


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("finished") / "run"
    go(out)
    return out


@pytest.fixture
def run(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "run")
    return tmp_path / "run"


def flip(path: Path, seed: int = 0) -> None:
    content, draw = bytearray(path.read_bytes()), random.Random(seed)
    content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    path.write_bytes(content)


def equal(a: Path, b: Path) -> bool:
    one, other = load_file(a), load_file(b)
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_damaged_manifest_is_said_once(run: Path) -> None:
    (run / "manifest.json").write_text("{")
    with pytest.raises(BadResult) as refused:
        go(run, resume=True)
    assert str(refused.value).count("manifest.json is damaged") == 1


def test_everything_that_holds_weights_is_in_the_manifest(finished: Path) -> None:
    listed = set(json.loads((finished / "manifest.json").read_text())["files"])
    tensors = {path.relative_to(finished).as_posix() for path in finished.rglob("*.safetensors")}
    assert tensors | {"last.json"} == listed
    assert {"last.safetensors", "previous.safetensors", *PIECES} <= tensors


@pytest.mark.parametrize("file", PIECES)
@pytest.mark.parametrize("seed", range(6))
def test_weights_with_a_flipped_bit_are_refused(run: Path, file: str, seed: int) -> None:
    names = {checkpoint.file: checkpoint.name for checkpoint in list_checkpoints(run)}
    create_model(run, checkpoint=names[file])
    flip(run / file, seed)
    with pytest.raises(BadWeights, match=f"{Path(file).name} is damaged: its SHA-256"):
        create_model(run, checkpoint=names[file])


def test_exams_of_checkpoints_refuse_them_as_well(run: Path) -> None:
    flip(run / "checkpoints" / "init.safetensors")
    with pytest.raises(BadWeights, match=r"init\.safetensors is damaged"):
        trajectory(run)


def test_a_folder_from_before_is_read(run: Path) -> None:
    (run / "manifest.json").unlink()
    (run / "previous.safetensors").unlink()
    create_model(run)
    go(run, resume=True)


@pytest.mark.parametrize("epoch", [1, 3])
def test_a_damaged_state_costs_an_epoch_and_not_the_run(
    finished: Path, tmp_path: Path, epoch: int, capsys: pytest.CaptureFixture[str]
) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    if epoch == 1:  # in the middle of the second epoch, with states of single steps
        shutil.rmtree(run)
        with pytest.raises(KeyboardInterrupt):
            go(run, model=_stopping(after=5), save_every=1)
        capsys.readouterr()
    flip(run / "last.safetensors")
    with pytest.raises(VitscopeError, match="--resume"):
        go(run)
    go(run, resume=True)
    said = capsys.readouterr().err
    assert "last.safetensors is damaged" in said
    assert "Going on from the state before it, after epoch" in said
    for name in ("model.safetensors", "last.safetensors", "checkpoints/best.safetensors"):
        assert equal(run / name, finished / name), name
    flip(run / "last.safetensors")
    go(run, resume=True)  # the one before it is whole again
    assert equal(run / "last.safetensors", finished / "last.safetensors")


def _stopping(after: int) -> torch.nn.Module:
    """The same model, interrupted in the training step after so many."""
    torch.manual_seed(0)
    model = create_model("vit_mini", depth=1)
    left = [after]

    def count(module: torch.nn.Module, *_: Any) -> None:
        left[0] -= module.training
        if left[0] < 0:
            raise KeyboardInterrupt

    model.register_forward_pre_hook(count)
    return model


def test_states_that_are_both_damaged_are_refused(run: Path) -> None:
    for name in ("last.safetensors", "previous.safetensors"):
        flip(run / name)
    with pytest.raises(BadResult, match=r"last\.safetensors is damaged.*previous\.safetensors is damaged"):
        go(run, resume=True)


@pytest.mark.parametrize("harm", ["gone", "garbage", "flipped", "no config"])
def test_a_finished_run_gets_its_model_back_from_the_state(
    run: Path, finished: Path, harm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = run / "model.safetensors"
    if harm == "gone":
        weights.unlink()
    elif harm == "garbage":
        weights.write_bytes(b"garbage")
    elif harm == "flipped":
        flip(weights)
    else:
        (run / "config.json").unlink()
    go(run, resume=True)
    assert "written anew from the state" in capsys.readouterr().err
    assert weights.read_bytes() == (finished / "model.safetensors").read_bytes()
    assert (run / "config.json").read_bytes() == (finished / "config.json").read_bytes()
    create_model(run)


def test_nothing_is_said_of_a_finished_run_that_is_whole(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = (run / "model.safetensors").stat().st_mtime_ns
    go(run, resume=True)
    assert capsys.readouterr().err == ""
    assert (run / "model.safetensors").stat().st_mtime_ns == before


@pytest.mark.parametrize("resume", [False, True])
def test_an_operated_model_is_not_overwritten(
    tmp_path: Path, resume: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "operated"
    assert main(["operate", "vit_mini", "--broadcast-context", "layers=upper", "--out", str(out)]) == 0
    before = (out / "model.safetensors").read_bytes()
    words = ["train", "vit_mini", "--fraction", "0.01", "--epochs", "1", "--out", str(out)]
    assert main(words + ["--resume"] * resume) == 2
    assert f"vitscope train {out} --out {out}" in capsys.readouterr().err
    assert (out / "model.safetensors").read_bytes() == before


def test_it_is_trained_where_it_is_if_that_is_asked(tmp_path: Path) -> None:
    model = vs.surgery.broadcast_context(create_model("vit_mini", depth=2), kind="cb_s", layers=[-1])
    save_model(model, tmp_path, [str(i) for i in range(10)])
    go(tmp_path, model=tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert [entry["operation"] for entry in config["surgery"]] == ["broadcast_context"]
    go(tmp_path, model=tmp_path, resume=True)


def test_a_training_killed_before_its_first_state_begins_anew(run: Path, finished: Path) -> None:
    for name in ("last.safetensors", "last.json", "previous.safetensors"):
        (run / name).unlink()
    with pytest.raises(VitscopeError, match="holds a model that this training has not made"):
        go(run, model=create_model("resnet_mini"), resume=True)
    go(run, resume=True)
    assert equal(run / "model.safetensors", finished / "model.safetensors")


TOGETHER = """
import sys
from dataclasses import replace
import torch
import vitscope as vs
from vitscope.training import get_recipe, train
torch.manual_seed(0)
data = vs.load_data("fashion", split="train").subset(list(range(24)))
recipe = replace(get_recipe("mini"), epochs=3, batch_size=8, warmup_epochs=0.5)
model = vs.create_model("vit_mini", depth=1)
train(model, data, recipe, sys.argv[1], held_out=data, resume=True, shard=sys.argv[2] == "shard", progress=False)
"""


@pytest.mark.parametrize("kind", ["copies", "shard"])
def test_two_processes_fall_back_together_and_write_the_model_anew(tmp_path: Path, kind: str) -> None:
    script, out = tmp_path / "together.py", tmp_path / "run"
    script.write_text(TOGETHER)
    done = in_processes(script, out, kind, processes=2)
    assert done.returncode == 0, done.stderr
    whole = {name: load_file(out / name) for name in ("model.safetensors", "last.safetensors")}
    flip(out / "last.safetensors")
    (out / "model.safetensors").unlink()
    done = in_processes(script, out, kind, processes=2)
    assert done.returncode == 0, done.stderr
    for text in (
        "last.safetensors is damaged",
        "Going on from the state before it, after epoch 2",
        "written anew",
    ):
        assert done.stderr.count(text) == 1
    for name, before in whole.items():
        after = load_file(out / name)
        assert before.keys() == after.keys()
        for key, tensor in before.items():
            torch.testing.assert_close(after[key], tensor, rtol=1e-4, atol=1e-5)


def test_an_interrupted_training_leaves_no_parts_after_the_next(run: Path) -> None:
    (run / ".last.safetensors.0123abcd.part").write_bytes(b"half")
    (run / ".model.safetensors.0123abcd.part").write_bytes(b"half")
    for name in ("last.safetensors", "previous.safetensors", "last.json"):
        (run / name).unlink()
    go(run, resume=True)
    assert not list(run.rglob("*.part"))
