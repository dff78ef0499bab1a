"""Real processes that are ready at once: forked from one that has imported what they all need.

Importing torch, torchvision and timm takes seconds of work in every process, and the tests start about a hundred of
them. What is started here is a process of its own (its memory, its signals, its files, its rank in a job), only
not a new interpreter. That the commands work from a new interpreter and under torchrun itself is tested where
they are (`cli/test_app.py`, `cli/test_diagnose.py`).
"""

import multiprocessing
import os
import runpy
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

ROOT = Path(__file__).parents[1]
IMPORTED = (
    "torchvision timm pandas matplotlib.pyplot vitscope.exams vitscope.training vitscope.report".split()
)

READY = multiprocessing.get_context("forkserver")
READY.set_forkserver_preload(IMPORTED)


@dataclass(frozen=True)
class Done:
    """How a job ended: its first code that is not 0, and what all its processes wrote."""

    returncode: int
    stdout: str
    stderr: str


class Job:
    """`words` as Python would run them (`script.py ...` or `-m module ...`), in one process or in several."""

    def __init__(
        self,
        *words: str | Path,
        processes: int = 1,
        cwd: Path = ROOT,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="job")
        self._written = [Path(self._folder.name, name) for name in ("stdout", "stderr")]
        shared = {**os.environ, "OMP_NUM_THREADS": "1", **(environment or {})}
        ranks: list[dict[str, str]] = [{}]
        if processes > 1:
            self._store, ranks = _ranks(processes)
        arguments = [str(word) for word in words]
        self.processes: list[ForkServerProcess] = [
            READY.Process(
                target=_run, args=(arguments, {**shared, **rank}, str(cwd), *map(str, self._written))
            )
            for rank in ranks
        ]
        for process in self.processes:
            process.start()

    def send(self, number: signal.Signals, rank: int = 0) -> None:
        """A signal to the process of this rank."""
        pid = self.processes[rank].pid
        assert pid is not None
        os.kill(pid, number)

    def wait_for(self, text: str) -> None:
        """Until this has been written to the standard output."""
        while text not in self.shown[0]:
            assert self.running, self.shown
            time.sleep(0.01)

    @property
    def running(self) -> bool:
        """Whether none of its processes has ended."""
        return all(process.exitcode is None for process in self.processes)

    @property
    def shown(self) -> tuple[str, str]:
        """What has been written so far to the standard output, and to the standard error."""
        out, error = (path.read_text() if path.exists() else "" for path in self._written)
        return out, error

    def finish(self, timeout: float = 900.0) -> Done:
        """Wait for all of them, whatever becomes of the others."""
        end = time.monotonic() + timeout
        for process in self.processes:
            process.join(max(0.0, end - time.monotonic()))
        stuck = [process for process in self.processes if process.exitcode is None]
        for process in stuck:
            process.kill()
            process.join()
        assert not stuck, f"{len(stuck)} of {len(self.processes)} processes did not end: {self.shown}"
        codes = [process.exitcode or 0 for process in self.processes]
        return Done(next((code for code in codes if code), 0), *self.shown)


def run(
    *words: str | Path, processes: int = 1, cwd: Path = ROOT, environment: Mapping[str, str] | None = None
) -> Done:
    """A job from its start to its end."""
    return Job(*words, processes=processes, cwd=cwd, environment=environment).finish()


def wait_for(condition: Callable[[], bool]) -> None:
    """Until it is so; what never comes fails after a quarter of an hour."""
    until = time.monotonic() + 900
    while not condition():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.02)


def alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and that nobody has asked about does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def _ranks(processes: int) -> tuple[object, list[dict[str, str]]]:
    """Where they meet, which lives here as it lives in torchrun, and what tells each of them who it is."""
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    shared = {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    return store, [{**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(processes)]


def _run(words: Sequence[str], environment: dict[str, str], cwd: str, stdout: str, stderr: str) -> None:
    """In the new process: become what Python would have started."""
    for path, descriptor in ((stdout, 1), (stderr, 2)):
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(file, descriptor)
        os.close(file)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    multiprocessing.set_start_method(
        multiprocessing.get_all_start_methods()[0], force=True
    )  # the system's own
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    import torch

    torch.set_num_threads(1)
    if words[0] == "-m":
        sys.argv = list(words[1:])
        sys.path.insert(0, cwd)
        runpy.run_module(words[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(words)
        sys.path[:0] = [str(Path(words[0]).parent), cwd]
        runpy.run_path(words[0], run_name="__main__")
