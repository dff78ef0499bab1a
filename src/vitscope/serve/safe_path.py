"""Paths that a request may reach: real files below the served folder, and nothing else."""

from pathlib import Path


def below(root: Path, asked: str) -> Path | None:
    """The file or folder that `asked`, a path with slashes, names below `root`; None if there is none such.

    Refused are absolute paths, `..`, names that begin with a dot (locks, files being written), and symbolic links that
    lead out of `root`, whatever the way they were written: the answer is judged by where it really is.
    """
    parts = [part for part in asked.split("/") if part]
    if any(part.startswith(".") or "\\" in part or "\0" in part for part in parts):
        return None
    base = root.resolve()
    try:
        found = base.joinpath(*parts).resolve(strict=True)
    except (OSError, RuntimeError):  # absent, not readable, or a circle of links
        return None
    return found if found == base or base in found.parents else None
