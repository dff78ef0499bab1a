"""Several processes train as one does, and fail and stop together."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tests.pictures import few_pictures
from tests.processes import Job, run
from vitscope.cli.app import main
from vitscope.core import distributed
from vitscope.core.errors import VitscopeError
from vitscope.data import data_config
from vitscope.models import create_model
from vitscope.results import Run
from vitscope.training import parallel
from vitscope.training.parallel import any_process, collectively

WORK = """
import json, math, sys
from dataclasses import replace
from pathlib import Path
import torch
import vitscope as vs
from vitscope.core import distributed
from vitscope.data import data_config
from vitscope.core.errors import VitscopeError
from vitscope.training import evaluate, get_recipe, parallel, train
from vitscope.training.checkpoint import Progress
from vitscope.training.steps import Stepper

torch.set_num_threads(1)
out = Path(sys.argv[1])
cpu = torch.device("cpu")
data = vs.load_data("fashion", split="train").subset(range(170))
held_out = vs.load_data("fashion", split="test").subset(range(620))  # three batches of 250: one process gets two
recipe = replace(get_recipe("mini"), epochs=5, batch_size=34, mix_probability=0.5, accumulate=2)

def model():
    torch.manual_seed(0)
    return vs.create_model("vit_mini", depth=2, embed_dim=48, drop_path_rate=0.3)

def cnn():
    torch.manual_seed(0)
    return vs.create_model("resnet_mini", layers=(1, 1, 1, 1))

def losses(unused=False):
    net = model()
    if unused:
        net.idle = torch.nn.Linear(2, 2)
    config = data_config(net)
    wrap = parallel.replicate(net, config, cpu)
    own = replace(recipe, clip_norm=None) if unused else recipe  # without a norm a quick look must do
    stepper = Stepper(net, data, config, 10, own, 0, cpu, wrap=wrap)
    found = []
    for epoch in range(1 if unused else 4):  # of five steps
        progress, before = Progress(epoch=epoch), 0.0
        for n, _ in stepper.epoch(progress):
            found.append((progress.loss_sum - before) / n)
            before = progress.loss_sum
    return found

with distributed.process_group(5):
    found = {"losses": losses(), "unused": losses(unused=True)}
    found["score"] = list(vars(evaluate(model(), held_out)).values())
    for name in ("plain", "shard") if distributed.world_size() > 1 else ("plain",):
        options = dict(recipe=recipe, out=out / name, held_out=held_out, shard=name == "shard", save_every=3)
        done = train(model(), data, epochs=2, **options)
        found[name] = [done.train_loss, done.accuracy, done.nll]
        try:
            train(model(), data, epochs=3, resume=True, **options)
        except VitscopeError as error:
            found["refused"] = f"{type(error).__name__}: {error}"
        again = train(model(), data, epochs=2, resume=True, progress=False, **options)
        found[f"{name} again"] = again.accuracy
    try:
        parallel.synchronise_batch_norm(vs.create_model("resnet_mini"), cpu)
    except VitscopeError as error:
        found["sync"] = str(error)
    net = cnn()
    done = train(net, data, recipe, out / "cnn", epochs=1, held_out=held_out, progress=False, monitor=["variance"])
    found["cnn"] = [done.nll, evaluate(net, held_out).nll, float(sum(b.double().sum() for b in net.buffers()))]
    (out / f"{distributed.rank()}.json").write_text(json.dumps(found))
"""


def train_in(folder: Path, processes: int) -> tuple[list[dict[str, Any]], str]:
    """What each process found, and what all of them said."""
    (folder / "work.py").write_text(WORK)
    done = run(folder / "work.py", folder, processes=processes)
    assert done.returncode == 0, done.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(processes)], done.stderr


TrainedTogether = tuple[Path, list[dict[str, Any]], str]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> TrainedTogether:
    folder = tmp_path_factory.mktemp("one")
    return folder, *train_in(folder, 1)


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory) -> TrainedTogether:
    folder = tmp_path_factory.mktemp("two")
    return folder, *train_in(folder, 2)


def test_losses_of_twenty_steps_are_those_of_one_process(one: TrainedTogether, two: TrainedTogether) -> None:
    assert len(one[1][0]["losses"]) == 20
    for found in two[1]:
        assert found["losses"] == pytest.approx(one[1][0]["losses"], abs=1e-4)
    assert two[1][0]["losses"] == two[1][1]["losses"]
    assert max(one[1][0]["losses"]) - min(one[1][0]["losses"]) > 0.05  # they do change


def test_a_model_with_an_idle_layer_trains_too(one: TrainedTogether, two: TrainedTogether) -> None:
    assert two[1][0]["unused"] == pytest.approx(one[1][0]["unused"], abs=1e-4)


def test_evaluation_has_the_same_digits(one: TrainedTogether, two: TrainedTogether) -> None:
    assert one[1][0]["score"][-1] == 620
    assert [found["score"] for found in two[1]] == [one[1][0]["score"]] * 2


@pytest.mark.parametrize("kind", ["plain", "shard"])
def test_run_folders_are_alike(one: TrainedTogether, two: TrainedTogether, kind: str) -> None:
    ours, theirs = one[0] / "plain", two[0] / kind
    assert {p.name for p in ours.rglob("*")} == {p.name for p in theirs.rglob("*")}
    a, b = load_file(ours / "last.safetensors"), load_file(theirs / "last.safetensors")
    assert {name: t.shape for name, t in a.items()} == {name: t.shape for name, t in b.items()}
    for name, tensor in a.items():
        torch.testing.assert_close(
            b[name], tensor, rtol=1e-3, atol=2e-4, msg=lambda text, n=name: f"{n}: {text}"
        )
    table_a, table_b = (pd.read_csv(folder / "metrics.csv") for folder in (ours, theirs))
    for column in ("train_loss", "nll", "accuracy"):
        assert list(table_b[column]) == pytest.approx(list(table_a[column]), abs=2e-3), column
    create_model(theirs)  # its weights are whole


def test_running_statistics_are_shared_before_they_are_used(two: TrainedTogether) -> None:
    first, second = (found["cnn"] for found in two[1])
    assert first == second
    assert first[0] == first[1]


def test_monitors_see_the_same(one: TrainedTogether, two: TrainedTogether) -> None:
    ours, theirs = (pd.read_csv(folder / "cnn" / "monitors.csv") for folder, *_ in (one, two))
    assert list(theirs["epoch"].unique()) == [0, 1]
    assert list(theirs["n"].unique()) == [256]
    start = ours["epoch"] == 0  # afterwards batch normalisation has seen other batches
    pd.testing.assert_frame_equal(theirs[start], ours[start], rtol=1e-6)


def test_only_the_main_process_speaks(two: TrainedTogether) -> None:
    shown = two[2]
    assert shown.count("recipe mini:") == 2  # a replicated and a sharded training
    assert shown.count("epoch 2/2  training loss") == 2


def test_all_processes_hear_why_one_refused(two: TrainedTogether) -> None:
    first, second = (found["refused"] for found in two[1])
    assert first.startswith("VitscopeError: cannot go on with")
    assert second.startswith("EndedElsewhere: process 0 stopped: cannot go on with")


def test_a_finished_training_is_not_trained_again(two: TrainedTogether) -> None:
    assert two[1][0]["plain again"] == two[1][0]["plain"][1]
    assert two[1][1]["shard again"] == two[1][1]["shard"][1]


def test_batch_norm_over_processes_needs_gpus(two: TrainedTogether) -> None:
    assert "--sync-bn needs GPUs" in two[1][0]["sync"]


def test_alone() -> None:
    cpu = torch.device("cpu")
    model = create_model("resnet_mini")
    assert not distributed.is_active()
    assert parallel.replicate(model, data_config(model), cpu) is None
    assert parallel.synchronise_batch_norm(model, cpu) is model
    assert not parallel.is_sharded(model)
    parallel.share_buffers(model)
    assert parallel.device_of_process("cpu") == cpu
    with pytest.raises(VitscopeError, match="--shard spreads a model over several processes and this is one"):
        parallel.shard(model, cpu)


def test_whole_copies_are_contiguous_and_independent() -> None:
    tensor = torch.randn(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    copy = parallel.gathered_state({"a": nn.Parameter(tensor)})["a"]
    assert copy.is_contiguous()
    assert torch.equal(copy, tensor)
    tensor.zero_()
    assert copy.abs().max() > 0
    assert parallel.shard_like(copy, tensor) is copy


def test_loaders_get_the_cores_that_are_left(monkeypatch: pytest.MonkeyPatch) -> None:
    cores = len(os.sched_getaffinity(0))
    many = parallel.FEW_IMAGES
    assert parallel.loader_processes(many - 1, portable=True) == 0
    assert parallel.loader_processes(many, portable=True) == min(cores - 1, parallel.MOST_LOADERS)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(cores))
    assert parallel.loader_processes(many, portable=True) == 0


LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.fixture
def train(tmp_path: Path) -> list[str]:
    """The words of a training: 180 pictures in a folder, and 20 to measure on after each epoch."""
    pictures = few_pictures(tmp_path / "pictures", train=18, test=2)
    return ["train", "vit_mini", "--data", pictures, "--batch-size", "16", "--epochs", "2"]


def words(train: list[str], out: Path) -> list[str]:
    return ["-m", "vitscope.cli.app", *train, "--out", str(out), "--save-every", "2"]


def start(train: list[str], out: Path) -> subprocess.Popen[str]:
    command = [*LAUNCH, *words(train, out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def process_of_rank(launcher: int, rank: int) -> int:
    """The process that torchrun started as this rank."""
    for child in Path(f"/proc/{launcher}/task/{launcher}/children").read_text().split():
        if f"RANK={rank}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
            return int(child)
    raise AssertionError(f"no process of rank {rank}")


def wait_for_steps(running: Callable[[], bool], out: Path, steps: int) -> None:
    """Until the state on disk has so many steps (of 12 per epoch)."""
    while True:
        assert running()
        if (out / "last.json").exists():
            progress = json.loads((out / "last.json").read_text())["progress"]
            if progress["epoch"] * 12 + progress["step"] >= steps:
                return
        time.sleep(0.02)


def finish(process: subprocess.Popen[str]) -> str:
    """What the job says until its end, which must come soon and leave no process behind."""
    _, shown = process.communicate(timeout=900)
    assert process.returncode != 0
    with pytest.raises(ProcessLookupError):
        os.killpg(process.pid, 0)
    assert "/vitscope/training/" not in shown  # torchrun prints a traceback of its own, we do not
    return shown


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="finds the processes by /proc")
def test_killed_then_asked_to_leave_then_finished_alone(
    train: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"
    process = start(train, out)
    wait_for_steps(lambda: process.poll() is None, out, 2)
    os.kill(process_of_rank(process.pid, 1), signal.SIGKILL)
    shown = finish(process)
    assert "process 0 of 2 has lost another one" in shown
    assert "--resume" in shown
    assert Run.open(out).state == "failed"

    job = Job(*words(train, out), "--resume", processes=2)
    wait_for_steps(lambda: job.running, out, 8)
    job.send(signal.SIGTERM, rank=1)
    shown = job.finish().stderr
    assert [process.exitcode for process in job.processes] == [143, 143]  # also of the one that nobody asked
    assert shown.count("; go on: the same command and --resume") == 1
    assert shown.count("vitscope: interrupted") == 1
    assert Run.open(out).state == "interrupted"

    assert main([*train, "--out", str(out), "--resume"]) == 0
    assert "after 2 epochs" in capsys.readouterr().out
    assert len((out / "metrics.csv").read_text().splitlines()) == 3


def test_alone_nothing_is_changed() -> None:
    def fail() -> None:
        with collectively():
            raise VitscopeError("seen here")

    with pytest.raises(VitscopeError, match="seen here"):
        fail()
    assert any_process(True)
    assert not any_process(False)
