"""`vitscope train` as a process: what it prints, leaves behind, and how it stops."""

import json
from pathlib import Path

import pandas as pd
import pytest

from tests.pictures import few_pictures
from tests.processes import Done, run
from vitscope.cli.app import main
from vitscope.models import list_checkpoints


@pytest.fixture
def few(tmp_path: Path) -> list[str]:
    """Four steps of 16 pictures per epoch, and 10 pictures to measure on after it."""
    return ["--data", few_pictures(tmp_path / "pictures", train=6, test=1), "--batch-size", "16"]


def vitscope_train(*arguments: str) -> Done:
    return run("-m", "vitscope.cli.app", "train", *arguments)


def test_trains_and_says_what_came_out(tmp_path: Path, few: list[str]) -> None:
    out = tmp_path / "run"
    done = vitscope_train("vit_mini", *few, "--epochs", "1", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("vit_mini: accuracy ")
    assert " on 10 held-out images after 1 epoch, " in done.stdout
    assert f"vitscope diagnose {out} --data {few[1]}" in done.stdout
    assert "epoch 1/1" in done.stderr
    assert (out / "model.safetensors").exists()


def test_what_examines_the_model_passes_over_broken_files_as_the_training_did(
    tmp_path: Path, few: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    assert main(["train", "vit_mini", *few, "--epochs", "1", "--out", str(out), "--skip-broken"]) == 0
    assert f"vitscope diagnose {out} --data {few[1]} --skip-broken\n" in capsys.readouterr().out


def test_choices_of_the_recipe_can_be_changed(tmp_path: Path, few: list[str]) -> None:
    out = tmp_path / "run"
    changes = ["--ema-decay", "0.9", "--sam-rho", "0.05", "--accumulate", "2", "--clip-norm", "5"]
    arguments = [
        "resnet_mini",
        *few,
        "--epochs",
        "1",
        "--out",
        str(out),
        "--checkpoint-every",
        "1",
        *changes,
    ]
    assert main(["train", *arguments]) == 0
    recipe = json.loads((out / "run.json").read_text())["options"]["recipe"]
    assert [recipe[name] for name in ("ema_decay", "sam_rho", "accumulate", "clip_norm")] == [0.9, 0.05, 2, 5]
    names = [kept.name for kept in list_checkpoints(out)]
    assert names == ["init", "warmup", "warmup-raw", "epoch-001", "epoch-001-raw", "best", "best-raw", "last"]


INTERRUPTED = """
import os, signal, sys
from pathlib import Path
from torch.optim.optimizer import register_optimizer_step_post_hook
from vitscope.cli.app import main

table = Path(sys.argv[1])

def stop(*_):
    "Ctrl-C, in the first step after the first epoch."
    if table.exists() and len(table.read_text().splitlines()) == 2:
        hook.remove()
        os.kill(os.getpid(), signal.SIGINT)

hook = register_optimizer_step_post_hook(stop)
sys.exit(main(sys.argv[2:]))
"""


def test_interrupted_and_resumed(tmp_path: Path, few: list[str]) -> None:
    out = tmp_path / "run"
    arguments = ["resnet_mini", *few, "--epochs", "2", "--out", str(out)]
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    done = run(tmp_path / "interrupted.py", out / "metrics.csv", "train", *arguments)
    assert done.returncode == 130
    assert "go on: the same command and --resume" in done.stderr
    assert "Traceback" not in done.stderr
    again = vitscope_train(*arguments)
    assert again.returncode == 2
    assert "--resume" in again.stderr
    resumed = vitscope_train(*arguments, "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert list(pd.read_csv(out / "metrics.csv")["epoch"]) == [1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vit_mimi"], "did you mean vit_mini"),
        (["vit_mini", "--recipe", "diet"], "no recipe 'diet'; there are: mini, hdv"),
        (["vit_mini", "--epochs", "0"], "--epochs is '0'; expected a whole number, 1 or more"),
        (["vit_mini", "--data", "fashoin"], "no data set 'fashoin'"),
        (["vit_mini", "--save-every", "0"], "--save-every is '0'; expected a whole number, 1 or more"),
        (["vit_mini", "--shard"], "--shard spreads a model over several processes and this is one"),
        (["vit_mini", "--recipe", "deit-distill"], "needs a teacher: --teacher"),
    ],
)
def test_mistakes_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    assert main(["train", *arguments, "--out", str(tmp_path / "run")]) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert len(shown.strip().splitlines()) == 1
    assert not (tmp_path / "run").exists()
