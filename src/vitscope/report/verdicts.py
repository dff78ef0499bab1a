"""Every verdict on some runs, of single models and of one beside another, and files that hold them."""

import json
import os
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path

from vitscope.claims import (
    Verdict,
    attention_verdicts,
    feature_verdicts,
    robustness_verdicts,
    verdict_table,
)
from vitscope.claims.verdict import COLUMNS
from vitscope.core.errors import VitscopeError
from vitscope.report.pairs import pair_verdicts
from vitscope.report.subject import RunSubject
from vitscope.results import Result, atomic_write
from vitscope.results.plain_files import check_file

_CLAIMS = (feature_verdicts, attention_verdicts, robustness_verdicts)
MANY = 5  # verdicts from which on chance is worth a sentence


def single_verdicts(model: str, results: Mapping[str, Result]) -> list[Verdict]:
    """Every claim that one model decides by itself."""
    return [verdict for judge in _CLAIMS for verdict in judge(model, results)]


def all_verdicts(subjects: Sequence[RunSubject]) -> list[Verdict]:
    """Of each run, then of each pair of runs that the papers say something about."""
    alone = [v for subject in subjects for v in single_verdicts(subject.name, subject.results)]
    return [*alone, *(v for pair in combinations(subjects, 2) for v in pair_verdicts(*pair))]


def by_chance(count: int) -> str:
    """What many verdicts mean for a single one; empty for few."""
    if count < MANY:
        return ""
    return (
        f"{count} verdicts, each at 95 % and none corrected for the others: if nothing at all were there, about one in "
        "twenty would still be decided by chance."
    )


def write_verdicts(verdicts: Sequence[Verdict], path: str | os.PathLike[str]) -> None:
    """Write verdicts with all that they rest on as .csv, .json or .md (a table to paste into a text)."""
    check_verdicts_file(path)
    table, suffix = verdict_table(verdicts), Path(path).suffix.lower()
    if suffix == ".csv":
        text = table.to_csv(index=False)
    elif suffix == ".json":
        rows = table.astype(object).where(table.notna(), None).to_dict("records")
        text = json.dumps(rows, indent=1, allow_nan=False, ensure_ascii=False) + "\n"
    else:
        text = markdown(verdicts)
    atomic_write(path, text)


def check_verdicts_file(path: str | os.PathLike[str]) -> None:
    """Refuse a file that cannot be written, or of another kind, before the work begins."""
    if Path(path).suffix.lower() not in (".csv", ".json", ".md"):
        raise VitscopeError(
            f"verdicts cannot be written as '{Path(path).name}'; name a file that ends in .csv, .json or .md"
        )
    begins = {".csv": ",".join(COLUMNS), ".json": "[", ".md": "| claim"}[Path(path).suffix.lower()]
    check_file(path, begins)


def markdown(verdicts: Sequence[Verdict]) -> str:
    """A row per claim, a column per model, and below it the rule of each claim."""
    models = list(dict.fromkeys(v.model for v in verdicts))
    cells: dict[tuple[str, str], dict[str, list[str]]] = {}
    rules: dict[tuple[str, str], str] = {}
    for v in verdicts:
        said = "; ".join([f"**{v.judgement}**, {v.found}", *([v.reach] if v.reach else [])])
        cells.setdefault((v.claim, v.statement), {}).setdefault(v.model, []).append(said)
        rules[v.claim, v.statement] = v.decided_by
    head = [
        f"| claim | {' | '.join(f'`{model}`' for model in models)} |",
        "|---" * (len(models) + 1) + "|",
    ]
    rows = [
        f"| {claim}: {statement} | {' | '.join('<br>'.join(found.get(model, [])) for model in models)} |"
        for (claim, statement), found in cells.items()
    ]
    legend = [f"- {claim}, {statement}: {rule}." for (claim, statement), rule in rules.items()]
    return "\n".join([*head, *rows, "", *legend, "", by_chance(len(verdicts))]).rstrip() + "\n"
