"""Results of an older definition, or kept in another form: a page is made without them and says so."""

from dataclasses import dataclass
from pathlib import Path

from vitscope.core.errors import BadResult
from vitscope.findings import Result, result_types
from vitscope.results import Run
from vitscope.results.result import read_checked


@dataclass(frozen=True)
class Outdated:
    """An exam of a run that has to be done again."""

    exam: str
    title: str
    command: str  # what was typed to get it; the same command computes it anew

    @classmethod
    def of(cls, exam: str, command: str) -> "Outdated":
        """By the exam's name."""
        known = result_types().get(exam)
        return cls(exam, known.about.title if known else exam, command)


def read_results(run: Run) -> tuple[dict[str, Result], list[Outdated]]:
    """The finished exams of a run by name, and those that cannot be read any more.

    Raises:
        BadResult: A result is damaged, of a newer schema, or of an exam that this version does not know.
    """
    results: dict[str, Result] = {}
    outdated: list[Outdated] = []
    for folder in sorted(path.parent for path in run.path.glob("exams/*/result.json")):
        try:
            result = Result.load(folder)
        except BadResult as error:
            command = _command(folder / "result.json", run)  # refuses what is damaged
            if not isinstance(error.__cause__, ValueError):  # not for the fields that it has
                raise
            outdated.append(Outdated.of(folder.name, command))
        else:
            if _version(folder / "result.json") < result.version:
                outdated.append(Outdated.of(folder.name, _command(folder / "result.json", run)))
            else:
                results[folder.name] = result
    return results, outdated


def _version(path: Path) -> int:
    """Of the definition that a result was made by; results did not always say so."""
    return int(read_checked(path).get("version", 1))


def _command(path: Path, run: Run) -> str:
    made = read_checked(path).get("provenance") or {}
    return str(made.get("command") or run.record.get("command") or "vitscope diagnose")
