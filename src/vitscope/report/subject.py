"""The runs a page is about: found, read, given names and colours."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from vitscope.errors import BadResult
from vitscope.plots.style import model_colour
from vitscope.report.card import Card, make_card
from vitscope.results import Result, Run


@dataclass(frozen=True)
class RunSubject:
    """One run on a page: its name and colour are the same wherever it appears."""

    name: str
    colour: str
    run: Run
    results: dict[str, Result]

    @cached_property
    def card(self) -> Card:
        """What the page says about the model."""
        return make_card(self.run, self.results)

    def applies(self, exam: str) -> bool:
        """Whether the exam found anything on this model; a CNN has no attention to measure."""
        return exam in self.results and len(self.results[exam].table()) > 0

    @property
    def provenance(self) -> list[tuple[str, str]]:
        """Where the numbers come from, label and text."""
        record = self.run.record
        versions = record.get("versions") or {}
        items: list[tuple[str, Any]] = [
            ("Folder", self.run.path.name),
            ("Command", record.get("command")),
            ("Date", record.get("time")),
            ("State", self.run.state),
            ("Seconds", record.get("seconds")),
            ("Seed", record.get("seed")),
            ("Device", record.get("device")),
            ("Revision", record.get("git_revision")),
            ("Weights (SHA-256)", (self.run.model.get("weights_sha256") or "")[:16]),
            ("Versions", ", ".join(f"{k} {v}" for k, v in versions.items())),
        ]
        return [(label, str(value)) for label, value in items if value not in (None, "")]


def find_runs(folders: Sequence[str | os.PathLike[str]]) -> list[RunSubject]:
    """Read the runs in `folders`; a folder that is no run itself stands for the runs in it."""
    paths = [path for folder in folders for path in _expand(Path(folder))]
    if not paths:
        raise BadResult("no run was named; try: vitscope report RUN_FOLDER -o report.html")
    runs = [Run.open(path) for path in paths]
    names = _distinct([run.model.get("name") or run.path.name for run in runs], paths)
    subjects = []
    for position, (name, run) in enumerate(zip(names, runs, strict=True)):
        results = run.results()
        if not results:
            raise BadResult(
                f"{run.path} holds no finished exam (state: {run.state}); repeat the command: "
                f"{run.record.get('command') or 'vitscope diagnose'}"
            )
        subjects.append(RunSubject(name, model_colour(position), run, results))
    return subjects


def _expand(path: Path) -> list[Path]:
    if path.is_dir() and not (path / "run.json").exists():
        inside = sorted(p.parent for p in path.glob("*/run.json"))
        return inside or [path]
    return [path]


def _distinct(names: list[str], paths: list[Path]) -> list[str]:
    """Names that tell the runs apart: the folder is added where two models are called the same."""
    return [
        name if names.count(name) == 1 else f"{name} ({path.name})"
        for name, path in zip(names, paths, strict=True)
    ]
