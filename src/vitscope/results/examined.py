"""How the results of a run were made: on which images, with which options; what another command goes on with."""

import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

from vitscope.core.arguments import Count, Seed
from vitscope.core.arguments.checking import problem_with
from vitscope.core.errors import BadResult
from vitscope.results.result import read_checked
from vitscope.results.run import ANEW, FILE, Run


class Recorded(TypedDict, total=False):
    """Options of a command that examined, as `run.json` holds them."""

    data: str | None
    exams: list[str] | None
    limit: Count | None
    batch_size: Count | None
    seed: Seed | None
    stream: Any
    settings: dict[str, dict[str, Any] | str] | None
    skip_broken: bool | None


@dataclass(frozen=True)
class Examination:
    """One command that examined a model, as `run.json` has it; `spec` is None for images given in Python."""

    data: str  # as results name it
    spec: str | None
    split: str = "test"
    exams: tuple[str, ...] = ()
    limit: int | None = None
    batch_size: int = 128
    seed: int = 0
    stream: Any = "read"
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    skip_broken: bool = False

    def typed(self) -> str:
        """What to type to have the same images."""
        if self.spec is None:
            return "--data DATA"
        words = ["--data", self.spec, "--split", self.split]
        words += [] if self.limit is None else ["--limit", str(self.limit)]
        return shlex.join(words + (["--skip-broken"] if self.skip_broken else []))

    def options_of(self, exams: tuple[str, ...]) -> dict[str, Mapping[str, Any]]:
        """The options of some of its exams."""
        return {exam: own for exam, own in self.options.items() if exam in exams}


def examinations(run: Run) -> list[Examination]:
    """Those that the results in the run were made by, the oldest first, each with the exams that are its own.

    What an earlier command found, and a later one found anew, on other images perhaps, is the later one's.
    """
    made = all_examinations(run)
    own: list[list[str]] = [[] for _ in made]
    for path in sorted(run.path.glob("exams/*/result.json")):
        exam, data = path.parent.name, read_checked(path)["result"].get("data")
        naming = [place for place, one in enumerate(made) if exam in one.exams]
        if last := [place for place in naming if made[place].data == data][-1:] or naming[-1:]:
            own[last[0]].append(exam)
    ordered = [tuple(e for e in one.exams if e in exams) for one, exams in zip(made, own, strict=True)]
    return [
        replace(one, exams=exams, options=one.options_of(exams))
        for one, exams in zip(made, ordered, strict=True)
        if exams
    ]


def by_exam(made: Sequence[Examination], exams: Sequence[str]) -> list[Examination]:
    """Each of these exams as it was made; those that were not as the last one was."""
    places = {exam: place for place, one in enumerate(made) for exam in one.exams}
    last = len(made) - 1
    wanted = [tuple(e for e in exams if places.get(e, last) == place) for place in range(len(made))]
    return [
        replace(one, exams=own, options=one.options_of(own))
        for one, own in zip(made, wanted, strict=True)
        if own
    ]


def all_examinations(run: Run) -> list[Examination]:
    """Every command that examined, the oldest first, whether its results are still there or not."""
    records = [*(run.record.get("earlier") or []), run.record]
    given = [record.get("options") or {} for record in records]
    return [_examination(options, run) for options in given if "exams" in options]


def _examination(options: Mapping[str, Any], run: Run) -> Examination:
    if problem := problem_with(options, Recorded):
        raise BadResult(f"{run.path / FILE} is damaged (of its options, {problem}); {ANEW}")
    data = str(options.get("data"))
    spec, _, split = data.removesuffix(")").rpartition(" (") if data.endswith(")") else ("", "", "")
    return Examination(
        data,
        spec or None,
        split if spec else "test",
        tuple(options["exams"] or ()),
        options.get("limit"),
        options.get("batch_size") or 128,
        options.get("seed") or 0,
        options.get("stream", "read"),
        {exam: _own(said) for exam, said in (options.get("settings") or {}).items()},
        bool(options.get("skip_broken")),
    )


def _own(said: Any) -> Any:
    """Options of one exam; earlier versions wrote the only one there was as text."""
    if not isinstance(said, str):
        return said
    name, _, value = said.partition(" ")
    with suppress(ValueError):
        return {name: float(value)}
    return {name: value}
