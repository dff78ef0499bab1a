"""Where a number comes from: versions, revision of the code, machine, time, command."""

import platform
import subprocess
import sys
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

PACKAGES = ("vitscope", "torch", "torchvision", "timm", "numpy", "pandas")


def provenance() -> dict[str, Any]:
    """What is needed to say how a number was made, as plain JSON values."""
    return {
        "command": command_line(),
        "time": now(),
        "versions": versions(),
        "git_revision": git_revision(),
        "platform": platform.platform(),
    }


def now() -> str:
    """The time, in UTC, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def command_line() -> str:
    """The command that was typed, with the program's name instead of its path."""
    program = Path(sys.argv[0]).name if sys.argv and sys.argv[0] else "python"
    program = {"-c": "python", "app.py": "vitscope"}.get(program, program)
    return " ".join([program, *sys.argv[1:]])


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    found = [("python", platform.python_version())]
    for package in PACKAGES:
        try:
            found.append((package, version(package)))
        except PackageNotFoundError:
            continue
    return tuple(found)


def versions() -> dict[str, str]:
    """Version of Python and of each package that can change a number."""
    return dict(_versions())


@cache
def git_revision() -> str | None:
    """Revision of the vitscope sources, `+changes` if edited since; None for an installed package."""
    package = Path(__file__).resolve().parents[1]
    try:
        top = Path(_git(package, "rev-parse", "--show-toplevel"))
        if top / "src" / "vitscope" != package:
            return None
        revision = _git(package, "rev-parse", "HEAD")
        edited = _git(package, "status", "--porcelain", "--untracked-files=no", "--", str(package))
    except (OSError, subprocess.SubprocessError):
        return None
    return revision + ("+changes" if edited else "")


def _git(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=True
    )
    return done.stdout.strip()
