"""The score that a task is about, by which its trainings are shown: mIoU, box AP, soft accuracy, accuracy.

A row of `metrics.csv` has the columns NAME, NAME_low and NAME_high; those of accuracy are accuracy, low and high.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from vitscope.core.statistics import Estimate

_LABELS = {"miou": "mIoU", "box_ap": "Box AP"}
EXAM_SCORES = {  # quantity and label of the exam that measures how good a model is at its task
    "prediction": ("accuracy", "Accuracy"),
    "segmentation": ("miou", "mIoU"),
    "detection": ("box_ap", "Box AP"),
    "answers": ("accuracy", "Soft accuracy"),
}


class TaskScore(NamedTuple):
    """Where the score of a training stands, and what it is called."""

    columns: tuple[str, str, str]  # value, and the ends of its interval
    label: str

    def of(self, row: Mapping[str, Any]) -> Estimate[float]:
        """The score with its interval in one row of `metrics.csv`; NaN where nothing was measured."""
        told = (row.get(name) for name in self.columns)
        return Estimate(*(math.nan if value in (None, "") else float(value) for value in told))


def task_score(columns: Iterable[str], task: str | None = None) -> TaskScore:
    """Which of the columns of `metrics.csv` hold the score."""
    there = set(columns)
    for name, label in _LABELS.items():
        if name in there:
            return TaskScore((name, f"{name}_low", f"{name}_high"), label)
    return TaskScore(("accuracy", "low", "high"), "Soft accuracy" if task == "vqa" else "Accuracy")


def exam_scores(exams: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Quantity and label by exam, of those exams that measure how good a model is at its task."""
    return {exam: EXAM_SCORES[exam] for exam in exams if exam in EXAM_SCORES}
