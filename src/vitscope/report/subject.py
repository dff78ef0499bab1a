"""The runs a page is about: found, read, given names and colours.

A page is made without results of an older definition, or kept in another form, and says so.
"""

import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from vitscope.claims.outputs import Augmentation, augmentation_of
from vitscope.core.errors import BadResult, warn
from vitscope.drawing.style import model_colour
from vitscope.findings import result_types
from vitscope.report.card import ModelCard, make_card
from vitscope.results import Result, Run
from vitscope.results.codec import NoValue
from vitscope.results.plain_files import is_shortage
from vitscope.results.result import read_checked

_HEADS = ("upernet", "unet", "maskrcnn")  # in front of a backbone's name
_SOURCES = (
    "hf",
    "tv",
    "hf-hub",
    "hf_hub",
    "local-dir",
)  # in front of names that lead to no code of the user's


@dataclass(frozen=True)
class Outdated:
    """An exam of a run that has to be done again."""

    exam: str
    title: str
    command: str  # what was typed to get it; the same command computes it anew

    @classmethod
    def of(cls, exam: str, command: str) -> "Outdated":
        """An exam whose result cannot be read any more, with its title if it is still known."""
        known = result_types().get(exam)
        return cls(exam, known.about.title if known else exam, command)


@dataclass(frozen=True)
class RunSubject:
    """One run on a page: its name and colour are the same wherever it appears."""

    name: str
    colour: str
    run: Run
    results: dict[str, Result]
    outdated: list[Outdated] = field(default_factory=list)  # exams that are left out
    damaged: dict[str, str] = field(default_factory=dict)  # exams that cannot be read, and why

    @cached_property
    def card(self) -> ModelCard:
        """What the page says about the model."""
        return make_card(self.run, self.results)

    def is_outdated(self, exam: str) -> bool:
        """Whether the exam was done, but by another version whose result cannot be read."""
        return exam in [one.exam for one in self.outdated]

    def applies(self, exam: str) -> bool:
        """Whether the exam found anything on this model; a CNN has no attention to measure."""
        return exam in self.results and len(self.results[exam].table()) > 0

    def measured_on(self, exam: str) -> str:
        """Which images an exam was about, as a sentence, if they are made, augmented, or not those of another exam."""
        result = self.results[exam]
        if result.makes_images:
            return f" Measured on {result.n} images of noise, of the size of those of {result.data}."
        if not is_augmented(result) and len({one.data for one in self.results.values()}) < 2:
            return ""
        return f" Measured on {result.n} images of {images_of(result)}."

    @property
    def augmentation(self) -> Augmentation | None:
        """How its training augmented images, if its run says so."""
        training = self.run.model.get("training") or {}
        return augmentation_of(training.get("recipe") or {})

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


def images_of(result: Result) -> str:
    """The data, and what was done to its images: `fashion (train), augmented by recipe hdv`."""
    recipe, prepared, _ = _augmentation(result).partition(", ")
    done = f", {'mixed' if prepared else 'augmented'} by recipe {recipe}"
    return result.data + (done if is_augmented(result) else "")


def is_augmented(result: Result) -> bool:
    """Whether images were not shown as they are: the loss is then no other exam's."""
    return _augmentation(result) != "none"


def _augmentation(result: Result) -> str:
    return str(getattr(result, "augmentation", "none"))


def find_runs(
    folders: Sequence[str | os.PathLike[str]], unreadable: Mapping[str, str] | None = None
) -> list[RunSubject]:
    """Read the runs in `folders`; a folder that is no run itself stands for the runs in it that hold exams.

    `unreadable` are exams that must not be opened, and why; if it is given, those that are damaged are set aside, too.
    """
    named = _once([path for folder in folders for path in _expand(Path(folder))])
    if not named:
        raise BadResult("no run was named; try: vitscope report RUN_FOLDER -o report.html")
    found, absent = [], {}
    for path in named:
        run = Run.open(path)
        damaged = None if unreadable is None else dict(unreadable)
        results, outdated = read_results(run, damaged)
        if results:
            found.append((run, results, outdated, damaged or {}))
        else:
            absent[path] = _why_none(run, outdated, damaged or {})
    asked = {Path(folder).resolve() for folder in folders}
    for path, why in absent.items():
        if not found or path.resolve() in asked:
            raise BadResult(why)
    if absent:
        warn(f"passed over, because they hold no exam to show: {', '.join(map(str, absent))}")
    runs = [run for run, *_ in found]
    names = _distinct(
        [_text(run.model.get("name") or run.path.name) for run in runs], [run.path for run in runs]
    )
    return [
        RunSubject(name, model_colour(position), *one)
        for position, (name, one) in enumerate(zip(names, found, strict=True))
    ]


def _why_none(run: Run, outdated: Sequence[Outdated], damaged: Mapping[str, str]) -> str:
    """Why there is nothing to show of a run, and what to type."""
    if outdated:
        exams = ", ".join(one.exam for one in outdated)
        return (
            f"{run.path} holds only exams that another version of vitscope kept in another form ({exams}); "
            f"compute them anew: {outdated[0].command}"
        )
    todo = f"repeat: {run.record.get('command') or 'vitscope diagnose'}"
    if run.state == "done":
        todo = f"make some: {diagnose_command(run)}"
    absent = f"{run.path} holds no finished exam (state: {run.state}); {todo}"
    return "; ".join(damaged.values()) or absent


def exam_order(names: Iterable[str]) -> list[str]:
    """Names of exams in the order in which a page shows them, once each."""
    distinct = list(dict.fromkeys(names))
    known = result_types()
    return [*(name for name in known if name in distinct), *(name for name in distinct if name not in known)]


def left_out(subjects: Sequence[RunSubject]) -> dict[str, list[tuple[RunSubject, list[Outdated]]]]:
    """What is outdated, by the command that computes it anew."""
    found: dict[str, list[tuple[RunSubject, list[Outdated]]]] = {}
    for subject in subjects:
        for command in dict.fromkeys(one.command for one in subject.outdated):
            exams = [one for one in subject.outdated if one.command == command]
            found.setdefault(command, []).append((subject, exams))
    return found


def _expand(path: Path) -> list[Path]:
    if path.is_dir() and not (path / "run.json").exists():
        inside = sorted(p.parent for p in path.glob("*/run.json"))
        return inside or [path]
    return [path]


def _once(paths: list[Path]) -> list[Path]:
    """Each run once, where it was named first; says which were named again."""
    places: dict[Path, Path] = {}
    for path in paths:
        if path.resolve() in places:
            warn(f"{path} is named twice; it is shown once")
        places.setdefault(path.resolve(), path)
    return list(places.values())


def _text(name: Any) -> str:
    """As a page can hold it: names of files may be no text."""
    return str(name).encode("utf-8", "replace").decode()


def _distinct(names: list[str], paths: list[Path]) -> list[str]:
    """Names that tell the runs apart: where two models are called the same, as much of the path as it takes."""
    told = []
    for name, path in zip(names, paths, strict=True):
        alike = [p.absolute().parts for n, p in zip(names, paths, strict=True) if n == name]
        own = path.absolute().parts
        depth = next((d for d in range(1, len(own)) if sum(p[-d:] == own[-d:] for p in alike) == 1), 1)
        told.append(name if len(alike) == 1 else f"{name} ({'/'.join(own[-depth:])})")
    return told


def read_results(run: Run, damaged: dict[str, str] | None = None) -> tuple[dict[str, Result], list[Outdated]]:
    """The finished exams of a run by name, and those that cannot be read any more.

    Why others cannot be read goes into `damaged`, by exam; what is in it already is not opened.

    Raises:
        BadResult: There is no `damaged`, and a result is damaged, of a newer schema, or of an unknown exam.
    """
    results: dict[str, Result] = {}
    outdated: list[Outdated] = []
    folders = sorted(path.parent for path in run.path.glob("exams/*/result.json"))
    for folder in (one for one in folders if one.name not in (damaged or {})):
        try:
            result = _read_result(folder, run)
        except BadResult as error:
            if damaged is None or is_shortage(error):
                raise
            damaged[folder.name] = str(error).replace(f"{run.path}{os.sep}", "")
        else:
            if isinstance(result, Outdated):
                outdated.append(result)
            else:
                results[folder.name] = result
    return results, outdated


def _read_result(folder: Path, run: Run) -> Result | Outdated:
    try:
        result = Result.load(folder)
    except BadResult as error:
        command = _command(folder / "result.json", run)  # refuses what is damaged
        cause = error.__cause__
        if not isinstance(cause, ValueError) or isinstance(cause, NoValue):  # not for the fields that it has
            raise
        return Outdated.of(folder.name, command)
    run.refuse_foreign(folder.name)
    made_by = read_checked(folder / "result.json").get("version", 1)  # results did not always say so
    if made_by < result.version:
        return Outdated.of(folder.name, _command(folder / "result.json", run))
    return result


def _command(path: Path, run: Run) -> str:
    made = read_checked(path).get("provenance") or {}
    return str(made.get("command") or run.record.get("command") or "vitscope diagnose")


def diagnose_command(run: Run) -> str:
    """With the data that it was trained on, and leave to run the function that makes the model, if one does."""
    options: Mapping[str, Any] = run.record.get("options") or {}
    words = ["vitscope", "diagnose", str(run.path)]
    if isinstance(data := options.get("data"), str):
        words += ["--data", data]
        if _is_undivided(data):
            words += ["--split", "held-out"]
    words += ["--out", str(run.path)]
    if isinstance(name := options.get("model"), str) and is_function(name):
        words.append("--trust-code")
    return shlex.join(words)


def _is_undivided(data: str) -> bool:
    """Whether most of these images are those that it was trained on; not known of a folder that is gone."""
    from vitscope.data.folder import without_splits  # which needs torch

    return Path(data.partition(":")[2]).expanduser().is_dir() and without_splits(data)


def is_function(name: str) -> bool:
    """Whether a model's name leads to a function: `package.module:function`, also as a backbone."""
    source, colon, rest = name.partition(":")
    return is_function(rest) if source in _HEADS else bool(colon) and source not in _SOURCES
