"""Find a file and make sure that it is the published one."""

import hashlib
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vitscope.core.errors import BadData

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
