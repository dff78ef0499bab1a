"""The page of a survey, an atlas: a table of models to sort by, points by any two numbers, small drawings along depth.

Everything is drawn from the tables of a `StudyResult`, as the page of a study is.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from markupsafe import Markup

from vitscope.core import VERSION, pd
from vitscope.findings import result_types
from vitscope.plots.study import arms_of, depth_quantities
from vitscope.report.card import count
from vitscope.report.depth_spark import Spark, spark
from vitscope.report.inline import Widget, packed, packed_json, page_script
from vitscope.report.layout import allowed, environment
from vitscope.report.sections import Download
from vitscope.results import atomic_write
from vitscope.results.numbers import scale_of, spoken, with_interval
from vitscope.results.provenance import now
from vitscope.results.study_result import ATLAS, StudyResult

SIZES = ("parameters", "flops")
ABOUT = ("arm", "model", *SIZES, "weights", "built", "caution", "note")
_DEPTHS = 3  # kinds of small drawings per exam
_FIRST_UP = ("prediction.accuracy", "accuracy", "change")  # what the points show at first, if there is such


@dataclass(frozen=True)
class Cell:
    """A number in the table, and what it is sorted by."""

    text: str
    sort: str


@dataclass(frozen=True)
class ModelRow:
    """One model of the table."""

    name: str
    weights: str
    cells: list[Cell]
    caution: str  # what keeps its numbers from meaning what they are called
    note: str  # why there is nothing


@dataclass(frozen=True)
class Multiples:
    """The same small drawing for every model, to one scale."""

    exam: str
    title: str
    quantity: str
    ends: tuple[str, str]  # of the scale
    panels: list[tuple[str, Markup]]


def write_atlas(result: StudyResult, path: str | os.PathLike[str] | None = None) -> Path:
    """Write the page of a survey; default: into its folder."""
    where = Path(path) if path is not None else (result.path or Path()) / ATLAS
    atomic_write(where, render_atlas(result))
    return where


def render_atlas(result: StudyResult) -> str:
    """The whole page as one text."""
    table = result.wide()
    columns = columns_of(table)
    records: list[Any] = table.to_dict("records")
    rows = [_row(row, columns) for row in records]
    script = page_script()
    looks = result.study["looks"]
    said = {str(look["data"] or arm["data"]) for look in looks for arm in result.study["arms"]}
    return (
        environment()
        .get_template("atlas.html")
        .render(
            title=result.name,
            question=result.question,
            rows=[row for row in rows if not row.note],
            failed=[row for row in rows if row.note],
            columns=[heading_of(name) for name in columns],
            cautions=_together([row for row in rows if row.caution and not row.note]),
            random=[row.name for row in rows if row.weights == "random" and not row.note],
            data=", ".join(sorted(said)),
            images=_images(result),
            points=_points(table, columns),
            multiples=[one for look in looks for one in _multiples(result, look["label"])],
            missing=result.missing,
            tables=[
                Download(result.name, "models", "models.csv", len(table), packed(table.to_csv(index=False)))
            ],
            script=Markup(script),
            allowed=allowed(script),
            version=VERSION,
            date=now()[:10],
        )
    )


def columns_of(table: pd.DataFrame) -> list[str]:
    """Of `StudyResult.wide`, the sizes and then every number that any model has."""
    ends = ("_low", "_high")
    names = [c for c in map(str, table) if c not in ABOUT and not c.endswith(ends) and table[c].notna().any()]
    return [*(size for size in SIZES if table[size].notna().any()), *names]


def _row(row: dict[str, Any], columns: list[str]) -> ModelRow:
    caution, note = (row[name] if isinstance(row[name], str) else "" for name in ("caution", "note"))
    return ModelRow(name_of(row), row["weights"] or "", [_cell(row, name) for name in columns], caution, note)


def _together(rows: list[ModelRow]) -> dict[str, list[str]]:
    """The names of models by what there is to say of them."""
    said: dict[str, list[str]] = {}
    for row in rows:
        said.setdefault(row.caution, []).append(row.name)
    return said


def name_of(row: dict[str, Any]) -> str:
    """The name of a row of `StudyResult.wide`, and what was built where that is another model."""
    return f"{row['arm']} (as {row['built']})" if isinstance(row["built"], str) else row["arm"]


def _cell(row: dict[str, Any], name: str) -> Cell:
    value = row[name]
    return Cell(text_of(row, name), "NaN" if pd.isna(value) else repr(float(value)))


def text_of(row: dict[str, Any], name: str) -> str:
    """A number of a row of `StudyResult.wide` with its interval, as people read it."""
    value = row[name]
    if pd.isna(value):
        return "–"
    if name in SIZES:
        return count(int(value))
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    return with_interval(SimpleNamespace(quantity=_quantity(name), value=value, low=low, high=high))


def heading_of(name: str) -> str:
    """`fourier.change[kind=msa]` as people read it."""
    if name in SIZES:
        return {"parameters": "parameters", "flops": "FLOPs"}[name]
    exam, _, rest = name.partition(".")
    quantity, _, where = rest.partition("[")
    chosen = " ".join(part.partition("=")[2] for part in where.rstrip("]").split(",")) if where else ""
    words = spoken(quantity)
    told = words if words.startswith(exam.replace("_", " ")) else f"{exam.replace('_', ' ')}: {words}"
    return f"{told} ({chosen})" if chosen else told


def _quantity(name: str) -> str:
    return name.partition(".")[2].partition("[")[0]


def _points(table: pd.DataFrame, columns: list[str]) -> Widget | None:
    """What the script draws points from."""
    if len(columns) < 2:
        return None
    numbers = {}
    for name in columns:
        log = name in SIZES
        scale, unit = (1.0, "") if log else scale_of(_quantity(name))
        ends = [f"{name}{end}" for end in ("", "_low", "_high")]
        found = [_scaled(table.get(end), len(table), scale) for end in ends]
        keys = ("value", "low", "high")
        heading = f"{heading_of(name)} ({unit})" if unit else heading_of(name)
        numbers[heading] = dict(zip(keys, found, strict=True)) | {"log": log}
    names = list(numbers)
    wanted = [place for first in _FIRST_UP for place, name in enumerate(columns) if first in name]
    up = names[wanted[0]] if wanted else names[-1]
    across = next(name for name in names if name != up)
    content = {"models": table["arm"].tolist(), "numbers": numbers, "across": across, "up": up}
    return Widget("scatter", packed_json(content))


def _scaled(values: Any, length: int, scale: float) -> list[float | None]:
    if values is None:
        return [None] * length
    return [None if pd.isna(value) else scale * float(value) for value in values]


def _multiples(result: StudyResult, exam: str) -> list[Multiples]:
    table = result.table()
    rows = table[(table["exam"] == exam) & table["seed"].isna() & table["unit"].notna()]
    look = next(one for one in result.study["looks"] if one["label"] == exam)
    about = getattr(result_types().get(look["exam"]), "about", None)
    found = []
    for quantity in depth_quantities(result, exam)[:_DEPTHS]:
        own = rows[rows["quantity"] == quantity]
        drawn = {arm: Spark.of(own[own["arm"] == arm]) for arm in arms_of(result)}
        known = {arm: one for arm, one in drawn.items() if np.isfinite(one.value).sum() > 1}
        if not known:
            continue
        least = min(float(np.nanmin(one.value)) for one in known.values())
        most = max(float(np.nanmax(one.value)) for one in known.values())
        panels = [(arm, spark(one, least, most)) for arm, one in known.items()]
        title = about.title if about else exam
        found.append(Multiples(exam, title, spoken(quantity), (f"{least:.3g}", f"{most:.3g}"), panels))
    return found


def _images(result: StudyResult) -> str:
    counts = result.table()["n"].dropna()
    return f"{int(counts.max()):,}".replace(",", "\u202f") if len(counts) else "no"
