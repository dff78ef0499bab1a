"""A folder of runs made by hand: a diagnosis, a training under way, a damaged run, and what must not be served."""

import json
import os
import shutil
from pathlib import Path

import pytest
import torch

import vitscope as vs
from tests.made_once import made_once
from vitscope.results import Run

HEADER = "epoch,lr,train_loss,nll,accuracy,low,high,images_per_second,waiting,monitoring,seconds,broken\n"


def epoch(number: int) -> str:
    return f"{number},0.001,1.5,1.2,0.{50 + number},0.4,0.6,100,0.1,0,{number},0\n"


@pytest.fixture(scope="session")
def examined(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of `diagnose` with a name that would be markup if it were not escaped."""
    return made_once(tmp_path_factory, "examined", examine_one) / "exam"


def examine_one(folder: Path) -> None:
    torch.manual_seed(0)
    data = vs.load_data("fashion", split="test")
    model, out = vs.create_model("resnet_mini"), folder / "exam"
    vs.diagnose(model, data, ["prediction"], limit=20, out=out, name="<b>net</b>")


@pytest.fixture
def runs(examined: Path, tmp_path: Path) -> Path:
    root = tmp_path / "runs"
    shutil.copytree(examined, root / "a" / "exam")
    with Run.start(root / "train", options={"data": "fashion", "recipe": {}}, model={"name": "vit_mini"}):
        (root / "train" / "metrics.csv").write_text(HEADER + epoch(1))
    (root / "broken").mkdir()
    (root / "broken" / "run.json").write_text("{")
    (root / "notes.txt").write_text("not served")

    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.csv").write_text("secret")
    (outside / "run.json").write_text(json.dumps({"schema": 1, "state": "done"}))
    os.symlink(outside, root / "linked")
    os.symlink(outside / "secret.csv", root / "secret.csv")
    (root / "leaking").mkdir()
    (root / "leaking" / "run.json").write_text(json.dumps({"schema": 1, "state": "done"}))
    os.symlink(outside / "secret.csv", root / "leaking" / "metrics.csv")
    return root
