"""Killed at random moments and resumed, a training ends with the weights of one that was left alone."""

import json
from typing import Any

import pytest

from tests.processes import run

POINTS = 10

KILLER = f"""
import json, os, random, signal, sys
from dataclasses import replace
from pathlib import Path
import torch
from safetensors.torch import load_file
from torch.utils.data import Dataset
from vitscope.data import load_data
from vitscope.models import create_model
from vitscope.training import get_recipe, train

torch.set_num_threads(1)
root = Path(sys.argv[1])
recipe = replace(
    get_recipe("mini"), epochs=2, batch_size=8, ema_decay=0.9, drop_path=0.1, mix_probability=0.5, accumulate=2
)
images = load_data("fashion", split="train").subset(range(60))  # 8 steps per epoch

class Counted(Dataset):
    "The images; so many seconds after the n-th one is read, over all epochs, the process is killed."
    def __init__(self, n, phase):
        self.left, self.phase = n, phase
    def __len__(self):
        return len(images)
    def __getitem__(self, index):
        self.left -= 1
        if self.left == 0:
            signal.setitimer(signal.ITIMER_REAL, self.phase)  # nobody handles SIGALRM: it ends the process
        return images[index]

def in_child(folder, n=-1, phase=0.0):
    "Train in a process of its own; killed so many seconds after it reads the n-th image. Whether it was killed."
    child = os.fork()
    if child == 0:
        try:
            torch.manual_seed(0)
            model = create_model("vit_mini", depth=1, drop_path_rate=0.1)
            train(model, Counted(n, phase), recipe, folder, held_out=images, save_every=3, resume=True, progress=False)
            os._exit(0)
        except BaseException as error:
            print(repr(error), file=sys.stderr)
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status) or os.WEXITSTATUS(status) == 0, status
    return os.WIFSIGNALED(status)

def rows(run):
    "Of metrics.csv, without the times."
    return [line.split(",")[:7] for line in (run / "metrics.csv").read_text().splitlines()]

whole = root / "whole"
in_child(whole)
draw = random.Random(0)
found = []
for point in range({POINTS}):
    folder = root / str(point)
    n = draw.randrange(1, 2 * 60 - 16)
    killed = in_child(folder, n, draw.uniform(1e-6, 0.03))
    state = folder / "last.json"
    place = json.loads(state.read_text())["progress"] if state.exists() else dict(epoch=0, step=0)
    in_child(folder)
    a, b = load_file(whole / "last.safetensors"), load_file(folder / "last.safetensors")
    same = dict(
        state=sorted(a) == sorted(b) and all(torch.equal(a[name], b[name]) for name in a),
        average="extra.ema.head.weight" in a,
        model=(whole / "model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes(),
        metrics=rows(whole) == rows(folder),
        checkpoints=(whole / "checkpoints.json").read_bytes() == (folder / "checkpoints.json").read_bytes(),
        best=len(set((run / "checkpoints" / "best.safetensors").read_bytes() for run in (whole, folder))) == 1,
    )
    found.append(dict(killed=killed, image=n, resumed_from=[place["epoch"], place["step"]], same=same))
(root / "found.json").write_text(json.dumps(found))
"""


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Each training and each kill is a process of its own, forked from one that has imported everything."""
    root = tmp_path_factory.mktemp("killed")
    (root / "killer.py").write_text(KILLER)
    done = run(root / "killer.py", root)
    assert done.returncode == 0, done.stderr
    return json.loads((root / "found.json").read_text())


def test_ten_kill_points_give_bit_equal_weights(points: list[dict[str, Any]]) -> None:
    """Every tensor of the final state: weights, their average, the optimiser's moments; and the files byte for byte."""
    assert len(points) == POINTS
    assert all(point["killed"] for point in points)
    for point in points:
        assert all(point["same"].values()), point


def test_the_points_lie_apart_and_inside_epochs(points: list[dict[str, Any]]) -> None:
    places = [tuple(point["resumed_from"]) for point in points]
    assert len(set(places)) >= 5
    assert sum(step > 0 for _, step in places) >= 5
