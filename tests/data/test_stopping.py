"""A signal while a data set is being fetched: the program that fetches ends too, and nothing is left."""

import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.processes import Job, alive
from vitscope.data import fetch

PREPARE = """
import sys
from vitscope.cli.app import main
from vitscope.data import fetch
from vitscope.core.errors import BadData

def no_network(name, folder):
    raise BadData("there is no network here")

fetch._download = no_network
sys.exit(main(["data", "prepare", "cifar10"]))
"""
FETCH = """#!/bin/sh
touch half-a-file
echo $$ > "$FETCHED"
exec sleep 3600
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_fetching_ends_with_the_command(tmp_path: Path, number: signal.Signals, code: int) -> None:
    (tmp_path / "prepare.py").write_text(PREPARE)
    program, kept, told = tmp_path / "bin" / "npm", tmp_path / "data", tmp_path / "pid"
    program.parent.mkdir()
    program.write_text(FETCH)
    program.chmod(0o755)
    places = {
        "PATH": f"{program.parent}:{os.environ['PATH']}",
        "VITSCOPE_DATA": str(kept),
        "FETCHED": str(told),
    }
    job = Job(tmp_path / "prepare.py", environment=places)
    while not (told.exists() and told.read_text().strip()):
        assert job.running, job.shown
        time.sleep(0.02)
    job.send(number)
    done = job.finish()
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert not alive(int(told.read_text()))
    assert not [path for path in kept.rglob("*") if path.is_file() and "half" in path.name]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_the_program_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """It comes after the program was started and before anybody knows of it."""
    started: list[int] = []

    class Interrupted(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            started.append(self.pid)
            signal.raise_signal(number)

    monkeypatch.setattr(subprocess, "Popen", Interrupted)
    before = signal.signal(number, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            fetch._run(["sleep", "3600"], tmp_path)
        assert signal.getsignal(number) is signal.default_int_handler
    finally:
        signal.signal(number, before)
    assert not alive(started[0])
