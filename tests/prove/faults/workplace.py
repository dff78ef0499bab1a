"""Where commands are disturbed: tiny data, the results of commands that were left alone, folders to begin in."""

import functools
import random
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.prove.faults.commands import STUDY, Command
from tests.prove.record import Finding, Trial
from tests.prove.tiny import make_data

DIES = str(Path(__file__).with_name("dies.py"))
Case = Callable[
    [Path, int, random.Random, str], None
]  # the workplace, the case's number, draws, what to type again


@dataclass(frozen=True)
class Whole:
    """A command that nobody disturbed: where its results are, how long it took, how often it wrote."""

    out: Path
    seconds: float
    writes: int


def fresh(command: Command, root: Path, name: str) -> Path:
    """An empty folder for a command, below one of this name."""
    out = root / name / command.name.replace(" ", "-")
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    shutil.copy(root / "tiny.yaml", out.parent / "tiny.yaml")
    return out


def tried(kind: str, one: Case, trial: Trial) -> tuple[int, list[Finding]]:
    """All cases of a kind; each draws from its own seed, so that it can be had again alone."""
    findings: list[Finding] = []
    cases = range(trial.cases) if trial.case is None else [trial.case]
    for done, case in enumerate(cases):
        once_more = f"python -m tests.prove faults --only {kind} --seed {trial.seed} --case {case}"
        try:
            one(workplace(), case, random.Random(f"{trial.seed} {kind} {case}"), once_more)
        except Finding as found:
            findings.append(found)
        except AssertionError as stuck:  # a process that did not end
            findings.append(Finding(str(stuck), once_more))
        trial.tell(done + 1)
    return len(cases), findings


_folders: list[tempfile.TemporaryDirectory[str]] = []
_known: dict[tuple[str, int], Whole] = {}


@functools.cache
def workplace() -> Path:
    """A folder with the tiny data, and what the study is; one for all kinds, and gone at the end of the process."""
    _folders.append(tempfile.TemporaryDirectory(prefix="faults-"))
    root = Path(_folders[-1].name)
    make_data(root / "data")
    (root / "tiny.yaml").write_text(STUDY.format(data=root / "data"))
    return root


def undisturbed(command: Command, root: Path, processes: int = 1) -> Whole:
    """The command, left alone once, counting what it writes."""
    place = command.name, processes
    if place not in _known:
        out = fresh(command, root, "whole") if processes == 1 else fresh(command, root, f"whole-{processes}")
        began = time.monotonic()
        before = [DIES, "0", "0", str(out / "count")] if processes == 1 else []
        done = command.run(root / "data", out, before=before, processes=processes)
        seconds = time.monotonic() - began
        if done.returncode != 0:
            raise Finding(f"{command.name}, left alone, ended with {done.returncode}: {done.stderr[-1500:]}")
        writes = int((out / "count").read_text()) if processes == 1 else 0
        _known[place] = Whole(out, seconds, writes)
    return _known[place]
