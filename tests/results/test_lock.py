import os
import signal
import subprocess
import sys
from pathlib import Path

from vitscope.results.atomic import FolderLock

HOLD = (
    "import sys, time; from pathlib import Path; from vitscope.results.atomic import FolderLock\n"
    "assert FolderLock(Path(sys.argv[1])).acquire(); print('held', flush=True); time.sleep(600)"
)


def test_free_taken_and_given_back(tmp_path: Path) -> None:
    lock, other = FolderLock(tmp_path), FolderLock(tmp_path)
    assert not other.is_held()
    assert lock.acquire()
    assert other.is_held()
    assert not other.acquire()
    lock.release()
    assert not other.is_held()
    assert other.acquire()
    other.release()


def test_dies_with_its_process(tmp_path: Path) -> None:
    holder = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == "held"
    assert FolderLock(tmp_path).is_held()
    holder.kill()
    holder.wait()
    assert not FolderLock(tmp_path).is_held()


FORK = (
    "import os, sys, time; from pathlib import Path; from vitscope.results.atomic import FolderLock\n"
    "lock = FolderLock(Path(sys.argv[1])); assert lock.acquire()\n"
    "child = os.fork()\n"
    "if not child:\n"
    "    print(os.getpid(), flush=True)\n"  # by the child: it is then past what a fork does
    "time.sleep(3600)"
)


def test_a_forked_process_has_no_part_in_it(tmp_path: Path) -> None:
    """It may outlive the holder, as one that loads images did."""
    holder = subprocess.Popen([sys.executable, "-c", FORK, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    child = int(holder.stdout.readline())
    try:
        assert FolderLock(tmp_path).is_held()
        holder.kill()
        holder.wait()
        os.kill(child, 0)  # it is there
        assert not FolderLock(tmp_path).is_held()
    finally:
        os.kill(child, signal.SIGKILL)
