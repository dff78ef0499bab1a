"""What a study found, as tables: every number of every arm and seed, comparisons with verdicts, curves, cost.

On disk it is a folder with `study.json` (everything, read back without loss) and a csv file per table, for people and
other tools. A row whose `seed` is empty holds the mean over the seeds, with an interval over seeds and images.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from vitscope.core import pd
from vitscope.core.arguments import checked
from vitscope.core.arguments.files import reason
from vitscope.core.errors import BadResult
from vitscope.results.atomic import atomic_write
from vitscope.results.provenance import provenance
from vitscope.results.record_file import read_record

SCHEMA = 1
FILE = "study.json"
PAGE = "study.html"
ATLAS = "atlas.html"  # the page of a survey
TABLES: Mapping[str, tuple[str, ...]] = {
    "numbers": tuple("arm seed exam unit kind stage depth condition quantity value low high n seeds".split()),
    "comparisons": tuple(
        "name statement of against quantity value low high seeds n p holm_p rule verdict note".split()
    ),
    "by_seed": ("name", "seed", "value", "low", "high"),  # the comparisons, training by training
    "differences": tuple(
        "arm against exam condition quantity value low high seeds n p".split()
    ),  # of all numbers of whole models
    "curves": tuple("arm seed epoch train_loss nll accuracy low high lr seconds".split()),
    "arms": tuple(
        "arm model operations recipe changes data fraction trained asked done parameters flops seconds "
        "images_per_second weights built caution note".split()  # built: another model than was named
    ),
}
_WHOLE = frozenset("seed stage n seeds epoch done parameters flops".split())
_NUMBERS = frozenset(
    "depth value low high p holm_p train_loss nll accuracy lr fraction seconds images_per_second".split()
)


class _Look(TypedDict):
    label: str
    exam: str


class _Named(TypedDict):
    name: str


class _Arm(_Named, total=False):
    model: str
    data: str


class _Design(TypedDict):
    arms: list[_Arm]
    looks: list[_Look]


class _Always(TypedDict):
    schema: int
    name: str
    question: str
    study: _Design
    missing: list[str]
    tables: dict[str, list[dict[str, Any]]]


class _File(_Always, total=False):
    provenance: dict[str, Any]


@dataclass(frozen=True, eq=False)
class StudyResult:
    """The tables of a study; `TABLES` says which columns each has."""

    name: str
    question: str
    study: Mapping[str, Any]  # all that was asked for, as `Study.to_dict` has it
    tables: Mapping[str, pd.DataFrame]
    missing: tuple[str, ...] = ()  # what is not done yet, or failed, in words
    path: Path | None = field(default=None, compare=False)  # the folder that holds it

    def table(self) -> pd.DataFrame:
        """Every number: arm, seed, exam ..., quantity, value, low, high, n; without a seed: over all of them."""
        return self.tables["numbers"]

    def comparisons(self) -> pd.DataFrame:
        """What the study was to decide: the number, its interval, p values, the rule and the verdict."""
        return self.tables["comparisons"]

    def differences(self) -> pd.DataFrame:
        """Every number of a whole model minus that of the first arm; nothing here is corrected for its many tests."""
        return self.tables["differences"]

    def wide(self) -> pd.DataFrame:
        """A row per arm, a column per number with `_low` and `_high` beside it.

        Columns are called as comparisons call them: `prediction.accuracy`, `fourier.change[kind=msa]`. Of numbers that
        only single units have it is the mean over the units, as for a comparison.
        """
        table = self.table()
        means = table[table["seed"].isna() & (table["exam"] != "training") & table["value"].notna()]
        whole = set(zip(*(means[means["unit"].isna()][c] for c in ("exam", "quantity")), strict=True))
        rows: dict[str, dict[str, Any]] = {arm: {} for arm in self.tables["arms"]["arm"]}
        several: dict[tuple[str, str], list[Any]] = {}
        for row in each_row(means):
            if isinstance(row.unit, str):
                if (row.exam, row.quantity) not in whole:
                    several.setdefault((row.arm, f"{row.exam}.{row.quantity}"), []).append(row)
                continue
            said = [f"{c}={v}" for c in ("kind", "condition") if isinstance(v := getattr(row, c), str)]
            name = f"{row.exam}.{row.quantity}" + (f"[{','.join(said)}]" if said else "")
            rows[row.arm] |= _estimate(name, [row])
        for (arm, name), found in several.items():
            rows[arm] |= _estimate(name, found)
        about = self.tables["arms"][
            ["arm", "model", "parameters", "flops", "weights", "built", "caution", "note"]
        ]
        numbers = pd.DataFrame([{"arm": arm, **found} for arm, found in rows.items()])
        return about.merge(numbers, on="arm", how="left")

    @property
    def page(self) -> Path | None:
        """The page, if it was written."""
        places = [] if self.path is None else [self.path / PAGE, self.path / ATLAS]
        return next((place for place in places if place.exists()), None)

    @checked
    def save(self, folder: str | os.PathLike[str]) -> StudyResult:
        """Write `study.json` and a csv file per table; the same result, which knows where it is."""
        content = {
            "schema": SCHEMA,
            "name": self.name,
            "question": self.question,
            "study": self.study,
            "missing": list(self.missing),
            "provenance": provenance(),
            "tables": {name: _rows(table) for name, table in self.tables.items()},
        }
        text = json.dumps(content, indent=1, allow_nan=False, ensure_ascii=False)
        for name, table in self.tables.items():
            atomic_write(Path(folder) / f"{name}.csv", table.to_csv(index=False))
        atomic_write(Path(folder) / FILE, text + "\n")
        return StudyResult(self.name, self.question, self.study, self.tables, self.missing, Path(folder))

    @staticmethod
    @checked
    def load(folder: str | os.PathLike[str]) -> StudyResult:
        """Read what `save` wrote."""
        path, advice = Path(folder) / FILE, "run the study again"
        try:
            content = read_record(path, _File, SCHEMA, advice)
            tables = {name: as_table(name, content["tables"][name]) for name in TABLES}
            named = (content["name"], content["question"], content["study"])
            return StudyResult(*named, tables, tuple(content["missing"]), Path(folder))
        except FileNotFoundError:
            raise BadResult(
                f"no study in {folder}: {FILE} is missing; give the folder that vitscope study wrote to"
            ) from None
        except (ValueError, KeyError, TypeError) as error:
            raise BadResult(f"{path} is damaged ({reason(error)}); {advice}") from error


@dataclass(frozen=True)
class StudyFacts:
    """What a list of studies shows of one."""

    arms: tuple[str, ...]
    models: tuple[str, ...]  # each once
    data: tuple[str, ...]
    exams: int
    missing: int  # parts that are not done yet
    failed: tuple[str, ...]  # arms that say why they could not be done
    time: str  # when it was last summed up


def study_facts(folder: Path) -> StudyFacts:
    """What `study.json` says about a study, without its tables."""
    content = read_record(folder / FILE, _File, SCHEMA, "run the study again")
    arms, made = content["study"]["arms"], content.get("provenance", {})

    def each(name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(arm[name] for arm in arms if name in arm))

    failed = tuple(row["arm"] for row in content["tables"].get("arms", []) if row.get("note"))
    missing = sum(not part.startswith(tuple(f"{arm}, " for arm in failed)) for part in content["missing"])
    counts = len(content["study"]["looks"]), missing, failed
    return StudyFacts(each("name"), each("model"), each("data"), *counts, str(made.get("time") or ""))


def each_row(table: pd.DataFrame) -> Iterator[Any]:
    """The rows, with their cells by name."""
    yield from table.itertuples()


def as_table(name: str, rows: Any) -> pd.DataFrame:
    """Rows (dicts) as the table of this name: its columns in order, whole numbers as such, texts or None."""
    rows = list(rows)
    if any(isinstance(cell, dict | list) for row in rows for cell in row.values()):
        raise ValueError(f"a cell of {name} holds a list or an object")
    table = pd.DataFrame(rows, columns=list(TABLES[name]))
    for column in table:
        values = [None if _unknown(value) else value for value in table[column]]
        if column in _WHOLE:
            table[column] = pd.array(values, dtype="Int64")
        elif column in _NUMBERS:
            table[column] = [math.nan if value is None else float(value) for value in values]
        else:
            table[column] = pd.Series(values, dtype=object)
    return table


def _estimate(name: str, rows: list[Any]) -> dict[str, float]:
    """The mean of value, low and high over rows."""
    ends = (("", "value"), ("_low", "low"), ("_high", "high"))
    return {f"{name}{end}": sum(getattr(row, key) for row in rows) / len(rows) for end, key in ends}


def _rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """A dict per row without what is unknown; infinity, which JSON lacks, as text."""
    return [
        {str(column): _plain(value) for column, value in row.items() if not _unknown(value)}
        for row in table.to_dict("records")
    ]


def _plain(value: Any) -> Any:
    value = value.item() if hasattr(value, "item") else value
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def _unknown(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))
