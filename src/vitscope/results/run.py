"""The run folder: everything one command produced, and how.

    with Run.start("runs/a", options={"data": "fashion"}, seed=0) as run:
        run.save_result(result, key)          # runs/a/exams/<exam>/
    Run.open("runs/a").results()              # {"fourier": FourierResult(...), ...}

`run.json` holds the schema version, command, effective options, seed, versions, git revision, device, times
and the state: running, done, interrupted or failed. While a process writes it holds a lock on the folder; the
lock dies with the process, so that a run which was killed is told from one that is under way. A command that is refused
before it has written anything else leaves the folder as it was, and takes away one that it made.
"""

import contextlib
import dataclasses
import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from vitscope.core.arguments.checking import problem_with
from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadResult, VitscopeError, warn
from vitscope.results.atomic import LOCK, FolderLock, atomic_write, remove_all_abandoned
from vitscope.results.plain_files import read_plain, refuse_outside_links
from vitscope.results.provenance import Record, State, now, provenance
from vitscope.results.result import NewerSchema, Result, check_schema, read_checked
from vitscope.results.rollback import FolderRollback

SCHEMA = 1
FILE = "run.json"
ANEW = "remove it and repeat the command that made the run"


class Run:
    """A run folder, open for reading (`Run.open`) or for writing (`with Run.start(...)`)."""

    def __init__(
        self,
        path: Path,
        record: dict[str, Any],
        lock: FolderLock | None = None,
        before: FolderRollback | None = None,
    ) -> None:
        self.path = path
        self.record = record
        self._before = before
        self._lock = lock
        self._began = time.monotonic()

    @classmethod
    def start(
        cls,
        path: str | os.PathLike[str],
        options: Any = None,
        seed: int | None = None,
        device: str | None = None,
        model: Mapping[str, Any] | None = None,
    ) -> Self:
        """Begin to write a run, or go on with one; under torchrun only the main process calls this.

        Args:
            path: The folder; made if it is not there.
            options: The effective options: a dataclass or a mapping.
            seed: The seed of everything random.
            device: What the work runs on.
            model: Facts about the model that a page shows: name, parameters, input_size ...
        """
        path = Path(path)
        if path.exists() and not path.is_dir():
            raise VitscopeError(f"{path} is a file; give a folder to write the run into")
        made = [folder for folder in (path, *path.parents) if not folder.exists()]
        try:
            path.mkdir(parents=True, exist_ok=True)
        except FileNotFoundError as error:  # a file system that takes none, such as /proc
            raise VitscopeError(f"the folder {path} cannot be created there; choose another place") from error
        refuse_outside_links(path)
        new = () if (path / LOCK).exists() else (LOCK,)
        lock = FolderLock(path)
        if not lock.acquire():
            raise BadResult(f"{path} is being written by another process; wait for it or give another folder")
        try:
            remove_all_abandoned(path)
            record = {
                "schema": SCHEMA,
                "state": "running",
                **provenance(),
                "options": _plain(options),
                "seed": seed,
                "device": device,
                "model": _plain(model),
                "earlier": _earlier(path, _plain(options)),
            }
            run = cls(path, record, lock, FolderRollback(path, (FILE,), new, made))
            run._write()
        except BaseException:
            lock.release()
            raise
        return run

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> Self:
        """Read a run.

        Raises:
            BadResult: No run there, damaged, or of a newer schema.
        """
        path = Path(path)
        return cls(path, _read(path))

    @property
    def state(self) -> State:
        """The recorded state, but a run that says `running` and whose process is gone was interrupted."""
        state: State = self.record["state"]
        if state == "running" and self._lock is None and not FolderLock(self.path).is_held():
            return "interrupted"
        return state

    @property
    def model(self) -> dict[str, Any]:
        """Facts about the model (empty if the run recorded none)."""
        return dict(self.record.get("model") or {})

    def note(self, **facts: Any) -> None:
        """Add to `run.json` what became known after the start."""
        self.record.update(_plain(facts))
        self._write()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.finish("done")
        elif isinstance(error, VitscopeError) and self._before is not None and self._before.put_back():
            self._release()
        else:
            stopped = isinstance(error, (KeyboardInterrupt, SystemExit))
            self.finish("interrupted" if stopped else "failed", f"{type(error).__name__}: {error}")

    def finish(self, state: State = "done", reason: str | None = None) -> None:
        """Record how the run ended and let go of the folder."""
        self.record["state"] = state
        self.record["finished"] = now()
        self.record["seconds"] = round(time.monotonic() - self._began, 3)
        if reason is not None:
            self.record["reason"] = reason
        try:
            self._write()
        finally:
            self._release()

    def exam_folder(self, exam: str) -> Path:
        """Where an exam's result lives."""
        return self.path / "exams" / exam

    def save_result(self, result: Result, key: str = "") -> None:
        """Keep a finished exam."""
        result.save(self.exam_folder(result.exam), key, weights=self.model.get("weights_sha256"))

    def refuse_foreign(self, exam: str) -> None:
        """Refuse a result that is there, but of a model with other weights: it was put here from another run."""
        records = [self.record, *(self.record.get("earlier") or [])]
        known = {(record.get("model") or {}).get("weights_sha256") for record in records} - {None}
        file = self.exam_folder(exam) / "result.json"
        found = read_checked(file).get("weights")
        if known and found is not None and found not in known:
            raise BadResult(
                f"{file} is of a model with other weights than this run's; remove {file.parent} and run the exam again"
            )

    def damage(self, exams: Sequence[str], error: BaseException) -> BadResult:
        """What to say where results of exams can be read, but what they hold leads to `error`."""
        files = [self.exam_folder(exam) / "result.json" for exam in exams]
        commands = [(read_checked(file).get("provenance") or {}).get("command") for file in files]
        again = next(filter(None, [*commands, self.record.get("command")]), "vitscope diagnose")
        return BadResult(
            f"{' or '.join(map(str, files))} is damaged: its contents do not fit together ({reason(error)}); remove "
            f"{' and '.join(str(file.parent) for file in files)} and repeat: {again}"
        )

    def finished(self, exam: str, key: str) -> Result | None:
        """The stored result of `exam` if it has this `key`, else None; a damaged one counts as not made."""
        folder = self.exam_folder(exam)
        if not (folder / "result.json").exists():
            return None
        try:
            if read_checked(folder / "result.json")["key"] != key:
                return None
            result = Result.load(folder)
            self._tabulate(exam, result)
            return result
        except NewerSchema:
            raise
        except BadResult as error:
            warn(f"{str(error).rpartition('; ')[0] or error}; it is done again")
            return None

    def _tabulate(self, exam: str, result: Result) -> None:
        """Refuse a result of which no tables can be made."""
        try:
            result.tables()
        except Exception as error:
            raise self.damage([exam], error) from error

    def results(self) -> dict[str, Result]:
        """Every finished exam's result, by name."""
        folders = sorted(p.parent for p in self.path.glob("exams/*/result.json"))
        for folder in folders:
            self.refuse_foreign(folder.name)
        return {folder.name: Result.load(folder) for folder in folders}

    def _release(self) -> None:
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _write(self) -> None:
        atomic_write(self.path / FILE, json.dumps(self.record, indent=1) + "\n")


def _read(path: Path) -> dict[str, Any]:
    file = path / FILE
    try:
        record = json.loads(read_plain(file))
    except NotADirectoryError:
        raise BadResult(f"{path} is a file; give the folder of a run") from None
    except FileNotFoundError:
        new = path if path.name else "runs/NAME"  # nobody wants a run right here
        again = f"try: vitscope diagnose MODEL --out {new}"
        raise BadResult(f"{path} is no run folder: it has no run.json; {again}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BadResult(f"{file} is damaged ({reason(error)}); {ANEW}") from error
    check_schema(file, record, SCHEMA)
    if problem := problem_with(record, Record):
        raise BadResult(f"{file} is damaged ({problem}); {ANEW}")
    return record


def _earlier(path: Path, options: Any) -> list[dict[str, Any]]:
    """Records of what other commands did in this folder; the same command going on is not another one."""
    if not (path / FILE).exists():
        return []
    previous = _read(path)
    earlier = list(previous.pop("earlier", []))
    return earlier if previous.get("options") == options else [*earlier, previous]


def _plain(value: Any) -> Any:
    """`value` as JSON can hold it."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: _plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(v) for v in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    with contextlib.suppress(AttributeError):
        return _plain(value.item())  # numpy and torch scalars
    return str(value)
