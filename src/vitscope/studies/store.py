"""Where studies keep what they have done, for each other and for the next time: by what it depends on.

    train/<key>/              an ordinary run folder, of one arm and one seed
    operate/<key>/            a model that was operated on and not trained after that
    exams/<key>/exams/<exam>/ one exam of one model: result.json.xz
    trainings/<key>.json      how the training went; stays when train/<key> is removed to save disk
    passes/<key>/             exams under way that share a pass

A key stands for everything that the content depends on. So a model that was trained once serves every study that needs
it, and results outlive the weights that they were measured on.
"""

import csv
import hashlib
import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, NotRequired, TypedDict

from vitscope.core.errors import BadResult, warn
from vitscope.findings import Result
from vitscope.models.sources.run_folder import model_damage
from vitscope.results import atomic_write
from vitscope.results.record_file import read_record
from vitscope.results.result import NewerSchema, is_packed, read_checked, result_types
from vitscope.studies.job import read_outcome

SCHEMA = 1
Kind = Literal["train", "operate", "examine"]
_FOLDERS: Mapping[Kind, str] = {"train": "train", "operate": "operate", "examine": "passes"}
WEIGHTS = "model.safetensors"


def key_of(content: Mapping[str, Any]) -> str:
    """16 digits that stand for this content: the same for the same values, in whatever order they were said."""
    text = json.dumps({"schema": SCHEMA, **content}, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


class _TrainingFile(TypedDict):
    schema: int
    parameters: NotRequired[int]
    images: NotRequired[int]
    device: NotRequired[str]
    rows: list[dict[str, float | None]]


class Store:
    """A folder that studies share."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @staticmethod
    def of_job(out: Path) -> "Store":
        """The store that the folder of a job lies in."""
        return Store(out.parent.parent)

    def job_folder(self, kind: Kind, key: str) -> Path:
        """Where a job works."""
        return self.path / _FOLDERS[kind] / key

    def has_model(self, kind: Kind, key: str) -> bool:
        """Whether a training or an operation is finished, and its model still there; a damaged one is said."""
        folder = self.job_folder(kind, key)
        if not (folder / "job" / "result.json").exists() or not (folder / WEIGHTS).exists():
            return False
        try:
            read_outcome(folder / "job")
        except BadResult as error:
            return _is_damaged(str(error))
        problem = model_damage(folder)
        return True if problem is None else _is_damaged(problem)

    def forget_outcome(self, kind: Kind, key: str) -> None:
        """Let a job whose model was removed be done again."""
        (self.job_folder(kind, key) / "job" / "result.json").unlink(missing_ok=True)

    def seconds(self, kind: Kind, key: str) -> float | None:
        """How long a job took, if it is done."""
        try:
            return float(read_outcome(self.job_folder(kind, key) / "job")["seconds"])
        except (OSError, BadResult):
            return None

    def parameters(self, kind: Kind, key: str) -> int | None:
        """How many the model has that a training or an operation left, if it is done."""
        if kind == "train":
            return self.training(key).get("parameters") if self.has_training(key) else None
        try:
            found = read_outcome(self.job_folder(kind, key) / "job")["result"]["parameters"]
        except (OSError, BadResult, TypeError, KeyError):
            return None
        return found if type(found) is int else None

    def result_folder(self, key: str, exam: str) -> Path:
        """Where the result of one exam lies."""
        return self.path / "exams" / key / "exams" / exam

    def has_result(self, key: str, exam: str) -> bool:
        """Whether an exam is finished; a damaged result counts as not made, and is said."""
        folder = self.result_folder(key, exam)
        if not (folder / "result.json").exists() and not is_packed(folder / "result.json"):
            return False
        try:
            return read_checked(folder / "result.json").get("version") == result_types()[exam].version
        except NewerSchema:
            raise
        except BadResult as error:
            return _is_damaged(str(error))

    def result(self, key: str, exam: str) -> Result:
        """The result of a finished exam."""
        return Result.load(self.result_folder(key, exam))

    def keep_training(self, key: str, facts: Mapping[str, Any]) -> None:
        """Write down how a finished training went: its rows of `metrics.csv`, and further facts."""
        with open(self.job_folder("train", key) / "metrics.csv", newline="") as file:
            rows = [{name: _number(text) for name, text in row.items()} for row in csv.DictReader(file)]
        content = json.dumps({"schema": SCHEMA, **facts, "rows": rows}, indent=1, allow_nan=False)
        atomic_write(self._training_file(key), content + "\n")

    def has_training(self, key: str) -> bool:
        """Whether it is known how a training went; a damaged record counts as none, and is said."""
        if not self._training_file(key).exists():
            return False
        try:
            self.training(key)
        except NewerSchema:
            raise
        except BadResult as error:
            return _is_damaged(str(error))
        return True

    def training(self, key: str) -> dict[str, Any]:
        """The last row of a training's metrics (NaN where nothing was measured), further facts, and all "rows"."""
        path, advice = self._training_file(key), "remove it, and it is made again"
        content = read_record(path, _TrainingFile, SCHEMA, advice)
        rows = [{name: math.nan if v is None else v for name, v in row.items()} for row in content["rows"]]
        if not rows:
            raise BadResult(f"{path} is damaged (it has no rows); {advice}")
        return {**rows[-1], **content, "rows": rows}

    def _training_file(self, key: str) -> Path:
        return self.path / "trainings" / f"{key}.json"


def _is_damaged(problem: str) -> Literal[False]:
    """What is damaged in the store is done again."""
    warn(f"{problem.rpartition('; ')[0] or problem}; it is done again")
    return False


def _number(text: str | None) -> float | None:
    number = float(text or "nan")
    return number if math.isfinite(number) else None
