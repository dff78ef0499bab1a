"""What is kept of one statement of the papers that was put to the test: the card, and what its study found.

A folder per claim: `card.json` is written before the first training of its study begins, and holds everything that
was on the card, its hash with it; `study.json` and the tables come later. A card that was changed after that makes
what was found void, until somebody renews it; that this was done stays written there.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, TypedDict

from vitscope.results.atomic import atomic_write
from vitscope.results.provenance import now
from vitscope.results.record_file import read_record
from vitscope.results.study_result import FILE, StudyResult

SCHEMA = 1
CARD = "card.json"
Outcome = Literal[
    "holds",
    "holds in part",  # the rest is not decided
    "mixed",  # some hold, some do not
    "does not hold in part",  # the rest is not decided
    "does not hold",
    "undecided",
    "not run yet",
    "no verdict",  # of a scale that decides nothing
    "not at this scale",
]


class _Card(TypedDict):
    schema: int
    claim: str
    title: str
    statement: str
    definition: str
    published: str
    digest: str
    scale: str
    about: str
    limits: str
    command: str
    possible: bool
    verdicts: bool
    registered: str
    revisions: list[dict[str, str]]


@dataclass(frozen=True)
class ClaimRecord:
    """A card as it was when its study began, and the study as far as it got.

    Attributes:
        claim: Its row in the papers' list.
        title: In a few words.
        statement: What the papers say.
        definition: What is measured.
        published: What the papers found.
        digest: Hash of the whole card.
        scale: Of the study.
        about: What the scale is, in a line.
        limits: In what its models and trainings fall short of the papers'.
        command: That makes it again.
        possible: Whether it can be studied at this scale.
        verdicts: Whether its scale decides anything.
        registered: When the study began.
        revisions: Earlier hashes, and when each was given up after results were there.
        study: What was found; None: nothing yet.
    """

    claim: str
    title: str
    statement: str
    definition: str
    published: str
    digest: str
    scale: str
    about: str
    limits: str
    command: str
    possible: bool = True
    verdicts: bool = True
    registered: str = ""
    revisions: tuple[Mapping[str, str], ...] = ()
    study: StudyResult | None = field(default=None, compare=False)

    @property
    def verdict_rows(self) -> list[dict[str, Any]]:
        """The comparisons with their numbers."""
        if self.study is None:
            return []
        return [
            {str(key): value for key, value in row.items()}
            for row in self.study.comparisons().to_dict("records")
        ]

    @property
    def outcome(self) -> Outcome:
        """Of all comparisons together; each of them decides for itself in the table."""
        if not self.possible:
            return "not at this scale"
        rows = self.verdict_rows
        if not any(row["seeds"] for row in rows):
            return "not run yet"
        if not self.verdicts:
            return "no verdict"
        found = {row["verdict"] for row in rows}
        if len(found) == 1:
            return "undecided" if "inconclusive" in found else found.pop()
        if {"holds", "does not hold"} <= found:
            return "mixed"
        return "holds in part" if "holds" in found else "does not hold in part"

    @property
    def is_judged(self) -> bool:
        """Whether there is anything to judge it by."""
        return self.outcome not in ("not run yet", "no verdict", "not at this scale")

    @property
    def seconds(self) -> float:
        """Of one core, for the trainings of all arms and seeds of this claim."""
        if self.study is None:
            return 0.0
        curves = self.study.tables["curves"]
        return float(curves.groupby(["arm", "seed"])["seconds"].max().sum()) if len(curves) else 0.0

    def save(self, folder: str | os.PathLike[str]) -> None:
        """Write `card.json`; the study is kept by itself."""
        said = {key: value for key, value in asdict(_bare(self)).items() if key != "study"}
        text = json.dumps({"schema": SCHEMA, **said}, indent=1, ensure_ascii=False)
        atomic_write(Path(folder) / CARD, text + "\n")

    @staticmethod
    def load(folder: str | os.PathLike[str]) -> "ClaimRecord | None":
        """Read what `save` wrote, and the study beside it; None if there is no card."""
        path = Path(folder) / CARD
        try:
            content = read_record(path, _Card, SCHEMA, "remove it, and run it again")
        except FileNotFoundError:
            return None
        said = {name: content[name] for name in _Card.__annotations__ if name != "schema"}
        study = StudyResult.load(folder) if (Path(folder) / FILE).exists() else None
        return ClaimRecord(**{**said, "revisions": tuple(said["revisions"])}, study=study)


def _bare(record: ClaimRecord) -> ClaimRecord:
    return ClaimRecord(**{**vars(record), "study": None})


def revised(before: ClaimRecord) -> tuple[Mapping[str, str], ...]:
    """The revisions of a card whose predecessor had results."""
    return (*before.revisions, {"digest": before.digest, "given up": now()})


def likely_reason(record: ClaimRecord, row: Mapping[str, Any]) -> str:
    """Why a comparison is not decided, or does not hold, as far as its numbers tell."""
    if row["verdict"] == "holds" or not row["seeds"]:
        return ""
    if row["verdict"] == "does not hold":
        return record.limits
    if row["seeds"] == 1:
        return "one training each: says nothing about another"
    side, bound = str(row["rule"]).split(" ")
    away = abs(row["value"] - float(bound)) if side != "within" else float(bound) - abs(row["value"])
    half = max(row["high"] - row["value"], row["value"] - row["low"])  # shares are cut off at 0 and 1
    if not math.isfinite(half) or half <= 0 or away <= 0:
        return "the interval contains the bound"
    needed = math.ceil(row["seeds"] * (half / away) ** 2)
    if needed <= row["seeds"]:
        return "decided alone, but not after the correction for the other comparisons of this claim"
    if needed > 100:
        return f"next to nothing is there: {row['seeds']} seeds leave ± {half:.2g}"
    return f"{row['seeds']} seeds leave ± {half:.2g}; about {needed} would decide a difference of this size"
