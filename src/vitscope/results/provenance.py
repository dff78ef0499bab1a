"""Where a number comes from (versions, revision of the code, machine, time, command), and what `run.json` holds of it.

A file that is not of the types below is damaged, or somebody else's.
"""

import platform
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

PACKAGES = ("vitscope", "torch", "torchvision", "timm", "numpy", "pandas")


def provenance() -> dict[str, Any]:
    """What is needed to say how a number was made, as plain JSON values."""
    return {
        "command": command_line(),
        "time": now(),
        "versions": dict(versions()),
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
def versions() -> Mapping[str, str]:
    """Version of Python and of each package that can change a number."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


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


State = Literal["running", "done", "interrupted", "failed"]


class UnitFacts(TypedDict):
    """A unit of the model that was examined."""

    name: str
    kind: str
    stage: int
    map_shape: NotRequired[list[int] | None]
    heads: NotRequired[int | None]
    downsamples: NotRequired[bool]


class TrainingFacts(TypedDict, total=False):
    """How the model was trained."""

    recipe: dict[str, Any]
    data: str | None
    images: int | None
    epochs: int
    accuracy: list[float]
    score: str  # what its task is about, such as mIoU
    own: list[float | None]  # with its interval
    curve: list[list[float | None]]  # per epoch: number, training loss, held-out loss, score and its interval
    seconds: float


class Origin(TypedDict):
    """How the model can be made again."""

    name: str
    arguments: dict[str, Any]


class OperationFacts(TypedDict):
    """An operation that the model went through."""

    operation: str
    options: NotRequired[dict[str, Any]]
    places: NotRequired[list[str]]


class ModelFacts(TypedDict, total=False):
    """The model that a run is about."""

    name: str | None
    parameters: int | None
    input_size: list[int] | None
    weights_sha256: str | None
    flops: int | None
    units: list[UnitFacts] | None
    surgery: list[OperationFacts] | None
    interface: dict[str, Any] | None
    origin: Origin | None
    run: str | None
    training: TrainingFacts | None


class Command(TypedDict, total=False):
    """One command that wrote into the folder."""

    command: str | None
    time: str | None
    versions: dict[str, str] | None
    git_revision: str | None
    options: dict[str, Any] | None
    seed: int | None
    device: str | None
    model: ModelFacts | None
    seconds: float | None
    finished: str | None
    reason: str | None


class Record(Command):
    """The newest command and the state it left the folder in, with the earlier ones."""

    state: State
    earlier: NotRequired[list[Command]]
