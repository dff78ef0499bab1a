"""Processes that load images end with the one that reads from them, even if that is killed in the middle of one."""

import os
import signal
import time
from pathlib import Path

import pytest

from tests.cases import one_in
from tests.processes import Job, alive, wait_for
from vitscope.core.peers import end_with_parent
from vitscope.results.atomic import FolderLock

LOAD = """
import multiprocessing, os, sys, time
from pathlib import Path
import numpy as np
from torch.utils.data import Dataset
import vitscope as vs

class Endless(Dataset):
    "Its images take an hour each."
    def __init__(self):
        self.images = vs.load_data("fashion", split="train").subset(list(range(16)))
    def __len__(self):
        return len(self.images)
    def __getitem__(self, index):
        with open(sys.argv[1] + "/pids", "a") as file:
            file.write(f"{os.getpid()}\\n")
        time.sleep(3600)

multiprocessing.set_start_method("fork", force=True)
if sys.argv[2] == "training":
    vs.train("vit_mini", Endless(), "mini", sys.argv[1] + "/run", batch_size=8, workers=2, progress=False)
else:
    from vitscope.data.corruptions import generate
    from vitscope.data.corruptions.generate import CleanImages
    generate.corrupt = lambda *_: Endless()[0]
    generate.CleanImages.read = lambda *_: None
    share = CleanImages(None, (3, 32, 32), np.arange(16), np.zeros(16, int), 8, "")
    next(generate._pieces(share, [("fog", 1)], 0, 2))
"""


def pids(file: Path) -> set[int]:
    return set(map(int, file.read_text().split())) if file.exists() else set()


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes by /proc")
@pytest.mark.parametrize("work", ["training", "corruption"])
def test_loaders_end_with_a_process_that_is_killed(tmp_path: Path, work: str) -> None:
    (tmp_path / "load.py").write_text(LOAD)
    job = Job(tmp_path / "load.py", tmp_path, work)
    wait_for(lambda: len(pids(tmp_path / "pids")) == 2 or not job.running)
    assert job.running, job.shown
    loaders = pids(tmp_path / "pids")
    if work == "training":
        assert FolderLock(tmp_path / "run").is_held()
    job.send(signal.SIGKILL)
    job.finish()
    if work == "training":
        assert not FolderLock(tmp_path / "run").is_held()  # at once, whatever becomes of the others
    wait_for(lambda: not any(map(alive, loaders)))


START = """
import multiprocessing, sys
from tests.core.test_child_processes import nap

if __name__ == "__main__":
    process = multiprocessing.get_context(sys.argv[2]).Process(target=nap, args=(sys.argv[1],))
    process.start()
    process.join()
"""


def nap(folder: str) -> None:
    end_with_parent()
    Path(folder, "pids").write_text(f"{os.getpid()}\n")
    time.sleep(3600)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks at processes by /proc")
@pytest.mark.parametrize("method", one_in(3, ["fork", "spawn", "forkserver"]))
def test_however_a_process_was_started_it_ends_with_the_one_that_asked(tmp_path: Path, method: str) -> None:
    (tmp_path / "start.py").write_text(START)
    job = Job(tmp_path / "start.py", tmp_path, method)
    wait_for(lambda: bool(pids(tmp_path / "pids")) or not job.running)
    assert job.running, job.shown
    job.send(signal.SIGKILL)
    job.finish()
    wait_for(lambda: not any(map(alive, pids(tmp_path / "pids"))))


def test_a_process_that_nobody_asked_for_goes_on() -> None:
    end_with_parent()
