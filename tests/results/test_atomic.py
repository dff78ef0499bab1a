import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vitscope.results import atomic_path, atomic_write


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
