"""Several processes end together: when one is killed, when one is asked to leave, when one meets an error."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from tests.processes import Job
from vitscope.cli.app import main
from vitscope.core.errors import VitscopeError
from vitscope.data import load_data
from vitscope.results import Run
from vitscope.training.collective import any_process, together

LAUNCH = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]


@pytest.fixture
def train(tmp_path: Path) -> list[str]:
    """The words of a training: 180 pictures in a folder, and 20 to measure on after each epoch."""
    for split, fraction in (("train", 0.03), ("test", 0.01)):
        data = load_data("fashion", split, fraction=fraction)
        for number, (pixels, label) in enumerate(zip(data.images, data.labels, strict=True)):
            folder = tmp_path / "pictures" / split / str(label)
            folder.mkdir(parents=True, exist_ok=True)
            Image.fromarray(pixels[:, :, 0]).save(folder / f"{number}.png")
    pictures = f"folder:{tmp_path / 'pictures'}"
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
    assert shown.count("; go on: the same command and --resume") == 1
    assert shown.count("vitscope: interrupted") == 1
    assert Run.open(out).state == "interrupted"

    assert main([*train, "--out", str(out), "--resume"]) == 0
    assert "after 2 epochs" in capsys.readouterr().out
    assert len((out / "metrics.csv").read_text().splitlines()) == 3


def test_alone_nothing_is_changed() -> None:
    def fail() -> None:
        with together():
            raise VitscopeError("seen here")

    with pytest.raises(VitscopeError, match="seen here"):
        fail()
    assert any_process(True)
    assert not any_process(False)
