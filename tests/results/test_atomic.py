import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import Job
from vitscope.results import atomic_path, atomic_write
from vitscope.results.atomic import is_special


def test_writes_text_and_bytes_and_makes_the_folder(tmp_path: Path) -> None:
    atomic_write(tmp_path / "new" / "a.txt", "grün")
    atomic_write(tmp_path / "new" / "b.bin", b"\x00\xff")
    assert (tmp_path / "new" / "a.txt").read_text(encoding="utf-8") == "grün"
    assert (tmp_path / "new" / "b.bin").read_bytes() == b"\x00\xff"


def test_an_error_leaves_the_old_file_and_no_other(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    atomic_write(target, "old")

    def fail() -> None:
        with atomic_path(target) as temporary:
            temporary.write_text("half of the new")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert target.read_text() == "old"
    assert os.listdir(tmp_path) == ["a.txt"]


def test_folders_in_which_nothing_could_be_written_are_not_left_behind(tmp_path: Path) -> None:
    def fail(target: Path) -> None:
        with atomic_path(target):
            raise OSError(28, "No space left on device")

    (tmp_path / "run").mkdir()
    with pytest.raises(OSError, match="No space"):
        fail(tmp_path / "run" / "parts" / "one pass" / "0.safetensors")
    assert os.listdir(tmp_path) == ["run"]
    assert os.listdir(tmp_path / "run") == []
    atomic_write(tmp_path / "run" / "parts" / "1", "other")
    with pytest.raises(OSError, match="No space"):
        fail(tmp_path / "run" / "parts" / "one pass" / "0.safetensors")
    assert os.listdir(tmp_path / "run" / "parts") == ["1"]


def test_permissions_follow_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        atomic_write(tmp_path / "a.txt", "x")
    finally:
        os.umask(before)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


def test_a_killed_writer_never_leaves_a_half_file(tmp_path: Path) -> None:
    target = tmp_path / "a.txt"
    code = (
        "import itertools, sys; from vitscope.results.atomic import atomic_write\n"
        "for i in itertools.count(): atomic_write(sys.argv[1], str(i % 10) * 2_000_000)"
    )
    writer = subprocess.Popen([sys.executable, "-c", code, str(target)])
    while not target.exists():
        assert writer.poll() is None
        time.sleep(0.01)
    time.sleep(0.2)
    writer.send_signal(signal.SIGKILL)
    writer.wait()
    content = target.read_text()
    assert len(content) == 2_000_000
    assert len(set(content)) == 1


def test_special_files_are_written_to_and_not_replaced(tmp_path: Path) -> None:
    null = tmp_path / "null"
    null.symlink_to("/dev/null")  # by a link: whoever breaks this as root must not lose the device itself
    atomic_write(null, "gone")
    assert null.is_symlink()
    assert is_special(Path("/dev/null"))
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    link = tmp_path / "link"
    link.symlink_to(pipe)
    for target in (pipe, link):
        reader = subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE)
        atomic_write(target, "through")
        assert reader.communicate(timeout=20)[0] == b"through"
    assert pipe.is_fifo()
    assert sorted(os.listdir(tmp_path)) == ["link", "null", "pipe"]


def test_a_link_to_a_file_is_replaced_and_not_followed(tmp_path: Path) -> None:
    """Otherwise a stranger's run folder could have any file overwritten."""
    outside = tmp_path / "outside"
    outside.write_text("mine")
    (tmp_path / "link").symlink_to(outside)
    atomic_write(tmp_path / "link", "new")
    assert (outside.read_text(), (tmp_path / "link").read_text()) == ("mine", "new")


STUCK = """
import sys, time
from vitscope.results.atomic import atomic_path
with atomic_path(sys.argv[1]) as path:
    path.write_text("half")
    print("ready", flush=True)
    time.sleep(60)
"""


def test_parts_of_a_dead_writer_are_removed_and_those_of_a_living_one_are_not(tmp_path: Path) -> None:
    script = tmp_path / "stuck.py"
    script.write_text(STUCK)
    folder = tmp_path / "written"
    target, other = folder / "a[1].txt", folder / "b.txt"
    jobs = [Job(script, place) for place in (target, target, other)]
    try:
        for job in jobs:
            job.wait_for("ready")
        parts = set(os.listdir(folder))
        assert len(parts) == 3
        _kill(jobs[0])
        atomic_write(target, "new")
        assert len(set(os.listdir(folder)) & parts) == 2
        assert sorted(path.read_text() for path in folder.iterdir()) == ["half", "half", "new"]
    finally:
        for job in jobs[1:]:
            _kill(job)
    atomic_write(target, "newer")
    assert len(set(os.listdir(folder)) - {target.name}) == 1  # another place's


def test_the_folder_is_on_the_disk_after_the_renaming(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, replace = os.fsync, os.replace
    monkeypatch.setattr(
        os, "fsync", lambda handle: (done.append(os.readlink(f"/proc/self/fd/{handle}")), fsync(handle))
    )
    monkeypatch.setattr(os, "replace", lambda a, b: (done.append("renamed"), replace(a, b)))
    atomic_write(tmp_path / "a.txt", "x")
    assert done[0].endswith(".part")
    assert done[1:] == ["renamed", str(tmp_path)]


def _kill(job: Job) -> None:
    job.send(signal.SIGKILL)
    job.finish(30)
