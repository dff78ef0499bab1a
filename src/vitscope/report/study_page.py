"""The page of a study: its question and verdicts, arms side by side, differences, trainings, exams along depth.

Everything is drawn from the tables of a `StudyResult`, so that a page can be made again from the folder of a study,
without its models.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from vitscope.core import VERSION, pd
from vitscope.core.interrupt import check_stop
from vitscope.drawing.figures import new_panel
from vitscope.drawing.style import styled
from vitscope.findings import result_types
from vitscope.plots.study import (
    CURVES,
    arms_of,
    colour_of,
    depth_quantities,
    plot_study_curves,
    plot_study_depth,
    plot_study_numbers,
)
from vitscope.report.card import count
from vitscope.report.inline import SharedStyles, inline_svg, packed, page_script
from vitscope.report.layout import allowed, environment
from vitscope.report.sections import Download, Grid
from vitscope.report.study_verdicts import differences_by_arm, judged_of
from vitscope.results import atomic_write
from vitscope.results.numbers import duration, label, spoken, with_interval
from vitscope.results.provenance import now
from vitscope.results.study_result import PAGE, StudyResult, each_row

SIDE_BY_SIDE = ("accuracy", "nll", "ece", "brier")  # numbers that arms are shown by, where there are such
TRAINING = "training"  # what stands for an exam where a training has recorded a number itself
_DEPTHS = 4  # figures of an exam at most


@dataclass(frozen=True)
class ArmCard:
    """What stands on top about one arm."""

    name: str
    colour: str
    facts: list[tuple[str, str]]
    note: str


@dataclass(frozen=True)
class Drawing:
    """A figure with all arms in it."""

    title: str
    svg: Markup


@dataclass(frozen=True)
class ExamPart:
    """One exam of a study: numbers of whole models in a table, numbers of units along the depth."""

    label: str
    title: str
    shows: str
    misleads: str
    whole: Grid | None
    drawings: list[Drawing]


def write_study_page(result: StudyResult, path: str | os.PathLike[str] | None = None) -> Path:
    """Write the page of a study; default: into its folder."""
    where = Path(path) if path is not None else (result.path or Path()) / PAGE
    atomic_write(where, render_study(result))
    return where


def render_study(result: StudyResult) -> str:
    """The whole page as one text."""
    styles, script = SharedStyles(), page_script()
    curves = [_drawing(styles, CURVES[q], plot_study_curves, result, q) for q in _curves(result)]
    arms = [_card(result, row) for row in each_row(result.tables["arms"])]
    comparisons, differences = result.comparisons(), differences_by_arm(result)
    exams = [_exam(result, label_, styles) for label_ in _labels(result)]
    main = [_drawing(styles, f"{e}: {spoken(q)}", plot_study_numbers, result, e, q) for e, q in _main(result)]
    return (
        environment()
        .get_template("study.html")
        .render(
            title=result.name,
            question=result.question,
            arms=arms,
            judged=[judged_of(result, row) for row in each_row(comparisons)],
            tests=len(comparisons),
            main=main,
            differences=differences,
            recorded=any(row.exam == TRAINING for rows in differences.values() for row in rows),
            first=arms[0].name,
            curves=curves,
            single_points=not curves and _points(result.tables["curves"]) == 1,
            cost=_cost(result),
            exams=exams,
            missing=result.missing,
            seeds=max((len(str(one).split(",")) for one in result.tables["arms"]["asked"]), default=1),
            tables=_downloads(result),
            styles=styles.css,
            script=Markup(script),
            allowed=allowed(script),
            version=VERSION,
            date=now()[:10],
        )
    )


def _drawing(styles: SharedStyles, title: str, draw: Any, result: StudyResult, *what: Any) -> Drawing:
    check_stop()
    salt = f"{draw.__name__} {' '.join(map(str, what))}"
    with styled(**{"svg.hashsalt": salt}):
        height = 1.2 + 0.34 * len(arms_of(result)) if draw is plot_study_numbers else 3.2
        svg = inline_svg(draw(result, *what, ax=new_panel((5.2, height))), f"{title} by arm")
    return Drawing(title, styles.share(svg))


def _card(result: StudyResult, row: Any) -> ArmCard:
    facts = [
        ("Model", row.model),
        ("Operations", row.operations),
        ("Recipe", row.recipe),
        ("Changes", row.changes),
    ]
    part = f"{100 * row.fraction:g} % of " if row.fraction < 1 else ""
    facts += [("Data", f"{part}{row.data}"), ("Seeds", _seeds(row))]
    facts += [("Parameters", None if row.parameters is pd.NA else count(int(row.parameters)))]
    said = [(name, str(text)) for name, text in facts if isinstance(text, str)]
    return ArmCard(row.arm, colour_of(result, row.arm), said, row.note or "")


def _seeds(row: Any) -> str:
    asked = str(row.asked).split(", ")
    return row.asked if row.done == len(asked) else f"{row.done} of {len(asked)} done"


def _curves(result: StudyResult) -> list[str]:
    """The columns of metrics that some arm has at two epochs or more: fewer points make no curve."""
    curves = result.tables["curves"]
    return [name for name in CURVES if _points(curves[curves[name].notna()]) > 1]


def _points(curves: pd.DataFrame) -> int:
    """At how many epochs the arm was measured that was measured most often."""
    return int(curves.groupby("arm")["epoch"].nunique().max()) if len(curves) else 0


def _main(result: StudyResult) -> Iterator[tuple[str, str]]:
    """The numbers that arms are compared by at first sight."""
    means = _means(result)
    whole = means[means["unit"].isna() & means["condition"].isna() & (means["exam"] != TRAINING)]
    for exam in _labels(result):
        own = set(whole[whole["exam"] == exam]["quantity"])
        if {"accuracy", "nll"} <= own:
            yield from ((exam, quantity) for quantity in SIDE_BY_SIDE if quantity in own)
            return


def _exam(result: StudyResult, exam: str, styles: SharedStyles) -> ExamPart:
    looks = {look["label"]: look for look in result.study["looks"]}
    kind = result_types().get(looks.get(exam, {}).get("exam", exam))
    about = getattr(kind, "about", None)
    names = depth_quantities(result, exam)[:_DEPTHS]
    drawings = [_drawing(styles, spoken(q), plot_study_depth, result, exam, q) for q in names]
    title = about.title if about else exam
    said = looks.get(exam, {})
    if exam != said.get("exam", exam):
        title = f"{title} ({exam})"
    whole = _whole(result, exam)
    return ExamPart(
        exam, title, about.shows if about else "", about.misleads if about else "", whole, drawings
    )


def _whole(result: StudyResult, exam: str) -> Grid | None:
    """A row per number of whole models, a column per arm."""
    means = _means(result)
    rows = means[(means["exam"] == exam) & means["unit"].isna() & means["value"].notna()]
    found: dict[str, dict[str, str]] = {}
    for row in each_row(rows):
        found.setdefault(spoken(label(exam, row)), {})[row.arm] = with_interval(row)
    arms = [arm for arm in arms_of(result) if arm in set(rows["arm"])]
    cells = [[name, *(by_arm.get(arm, "–") for arm in arms)] for name, by_arm in found.items()]
    return Grid(["quantity", *arms], cells, words=1) if cells else None


def _cost(result: StudyResult) -> Grid | None:
    arms = result.tables["arms"]
    if not arms[["seconds", "images_per_second"]].notna().any().any():
        return None
    cells = [
        [
            str(row.arm),
            "–" if row.parameters is pd.NA else count(int(row.parameters)),
            duration(row.seconds, "cell"),
            "–" if math.isnan(row.images_per_second) else f"{row.images_per_second:.0f}",
            str(row.done),
            duration(row.seconds * row.done, "cell"),
        ]
        for row in each_row(arms[arms["trained"] == "here"])
    ]
    names = ["arm", "parameters", "a training", "images per second", "trainings", "all of them"]
    return Grid(names, cells, words=1)


def _downloads(result: StudyResult) -> list[Download]:
    return [
        Download(
            result.name, name, f"{result.name}-{name}.csv", len(table), packed(table.to_csv(index=False))
        )
        for name, table in result.tables.items()
        if len(table)
    ]


def _means(result: StudyResult) -> pd.DataFrame:
    table = result.table()
    return table[table["seed"].isna()]


def _labels(result: StudyResult) -> Sequence[str]:
    """Exams in the order of the study; those of which nothing is known are left out."""
    known = set(result.table()["exam"])
    return [look["label"] for look in result.study["looks"] if look["label"] in known]
