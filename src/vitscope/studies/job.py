"""A job: the address of a function, plain arguments, and a folder.

`out/job/` holds `job.json` (what to do) and `result.json` (what came out, written last and in one piece: a job that
has one is done). Two processes that are given the same job do it once.
"""

import importlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

from vitscope.core.arguments import Range
from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadResult, VitscopeError
from vitscope.results import atomic_write
from vitscope.results.atomic import FolderLock
from vitscope.results.record_file import read_record

SCHEMA = 1
Function = Callable[..., Any]
_POLL = 0.2  # seconds between two looks whether another process is done


class _JobFile(TypedDict):
    schema: int
    function: str
    arguments: dict[str, Any]
    out: Path


class _OutcomeFile(TypedDict):
    job: dict[str, Any]
    result: Any
    seconds: Annotated[float, Range(0)]


@dataclass(frozen=True)
class Outcome:
    """What a job's function returned, as JSON has it, and how long it took."""

    result: Any
    seconds: float


@dataclass(frozen=True)
class Job:
    """One call: `function(**arguments, out=out)`, which returns plain values.

    `function`, and functions among the arguments, may be given as they are or as "package.module:name"; in another
    process they are found by that name.
    """

    function: str | Function
    arguments: Mapping[str, Any]
    out: str | os.PathLike[str]

    @property
    def folder(self) -> Path:
        """Where the job's own files are."""
        return Path(self.out) / "job"

    def describe(self) -> dict[str, Any]:
        """What makes it this job, as plain values."""
        try:
            said = {"schema": SCHEMA, "function": address(self.function), "arguments": dict(self.arguments)}
            return json.loads(json.dumps(said, default=address, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise VitscopeError(
                f"a job takes plain finite values (numbers, text, lists, dicts) and named functions: {error}"
            ) from error

    def write(self) -> Path:
        """Write `job.json`, from which `Job.read` makes the job again."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "job.json"
        atomic_write(path, json.dumps({**self.describe(), "out": os.path.abspath(self.out)}, indent=1) + "\n")
        return path

    @staticmethod
    def read(path: str | os.PathLike[str]) -> "Job":
        """The job in a `job.json`."""
        advice = "give a job.json as a study writes it, or run the study again"
        try:
            content = read_record(Path(path), _JobFile, SCHEMA, advice, "no job")
        except FileNotFoundError as error:
            raise BadResult(f"no job {path}: {reason(error)}; {advice}") from error
        return Job(content["function"], content["arguments"], content["out"])


def address(function: str | Function) -> str:
    """`package.module:name` of a function."""
    if isinstance(function, str):
        return function
    if not callable(function) or not hasattr(function, "__qualname__"):
        raise TypeError(f"a {type(function).__name__} is neither a plain value nor a function with a name")
    return f"{function.__module__}:{function.__qualname__}"


def find_function(function: str | Function) -> Function:
    """The function at an address."""
    if not isinstance(function, str):
        return function
    module_name, _, name = function.partition(":")
    try:
        found: Any = importlib.import_module(module_name)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise VitscopeError(
            f"no function '{function}' ({error}); expected package.module:name of one that can be imported from here"
        ) from error
    return found


def outcome_of(job: Job) -> Outcome | None:
    """The outcome of a job that is done, else None.

    Raises:
        BadResult: The folder holds another job's, or a damaged one.
    """
    try:
        content = read_outcome(job.folder)
    except FileNotFoundError:
        return None
    said, asked = content["job"], job.describe()
    if said != asked:
        raise BadResult(
            f"{job.out} holds the result of another job: {_difference(said, asked)}; give the same, or another folder"
        )
    return Outcome(content["result"], float(content["seconds"]))


def read_outcome(folder: Path) -> dict[str, Any]:
    """The `result.json` in a job's own folder."""
    return read_record(folder / "result.json", _OutcomeFile, None, "remove it, and the job is done again")


def execute(job: Job) -> Outcome:
    """Do a job in this process, unless it is done; if another process is at it, wait for that."""
    path = job.write()
    lock = FolderLock(path.parent)
    while not lock.acquire():
        time.sleep(_POLL)
    try:
        done = outcome_of(job)
        if done is not None:
            return done
        began = time.monotonic()
        result = find_function(job.function)(**job.arguments, out=Path(job.out))
        content = {"job": job.describe(), "result": result, "seconds": round(time.monotonic() - began, 3)}
        try:
            text = json.dumps(content, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise VitscopeError(
                f"{address(job.function)} returned something that JSON cannot hold ({error}); "
                "expected finite numbers, text, lists, dicts"
            ) from error
        atomic_write(job.folder / "result.json", text + "\n")
        return Outcome(json.loads(text)["result"], content["seconds"])
    finally:
        lock.release()


def _difference(old: Any, new: Any, name: str = "") -> str:
    """The first thing in which two descriptions differ."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            if old.get(key) != new.get(key):
                return _difference(old.get(key), new.get(key), key)
    return f"{name} was {json.dumps(old)} and is {json.dumps(new)} now"
