import subprocess
import sys
from pathlib import Path

from vitscope.results.lock import FolderLock

HOLD = (
    "import sys, time; from pathlib import Path; from vitscope.results.lock import FolderLock\n"
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
