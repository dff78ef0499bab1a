"""Folders that take seconds to make and that tests only read: made once, for all processes that run tests."""

import fcntl
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder `name`, which the first process that asks has filled with `make`; the others wait for it.

    It belongs to all of them: a test that changes something in it works on a copy.
    """
    own = factory.getbasetemp()
    shared = own.parent if "PYTEST_XDIST_WORKER" in os.environ else own
    folder, whole = shared / name, shared / f"{name}.whole"
    with open(shared / f"{name}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # given back when the file is closed, or when the process ends
        if not whole.exists():
            shutil.rmtree(folder, ignore_errors=True)  # of a process that did not come to the end
            folder.mkdir()
            make(folder)
            whole.touch()
    return folder
