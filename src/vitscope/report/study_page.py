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
from vitscope.report.interval_strip import strip
from vitscope.report.layout import allowed, environment
from vitscope.report.sections import Download, Grid
from vitscope.results import atomic_write
from vitscope.results.numbers import is_share, label, spoken, with_interval
from vitscope.results.provenance import now
from vitscope.results.study_result import PAGE, StudyResult, each_row

SIDE_BY_SIDE = ("accuracy", "nll", "ece", "brier")  # numbers that arms are shown by, where there are such
_EFFORT = ("products", "unconverged", "seconds", "images_per_second")
_DEPTHS = 4  # figures of an exam at most
_MINUTE, _HOUR = 60, 3600


@dataclass(frozen=True)
class ArmCard:
    """What stands on top about one arm."""

    name: str
    colour: str
    facts: list[tuple[str, str]]
    note: str


@dataclass(frozen=True)
class Judged:
    """One comparison with its verdict."""

    name: str
    statement: str
    of: str
    against: str
    colours: tuple[str, str]
    quantity: str
    number: str
    chance: str  # p values
    rule: str
    verdict: str
    note: str
    strip: Markup


@dataclass(frozen=True)
class Difference:
    """A number of an arm minus that of the first."""

    exam: str
    quantity: str
    text: str
    side: str  # higher, lower, unclear
    strip: Markup


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
    comparisons = result.comparisons()
    exams = [_exam(result, label_, styles) for label_ in _labels(result)]
    main = [_drawing(styles, f"{e}: {spoken(q)}", plot_study_numbers, result, e, q) for e, q in _main(result)]
    return (
        environment()
        .get_template("study.html")
        .render(
            title=result.name,
            question=result.question,
            arms=arms,
            judged=[_judged(result, row) for row in each_row(comparisons)],
            tests=int(comparisons["p"].notna().sum()),
            main=main,
            differences=_differences(result),
            first=arms[0].name,
            curves=curves,
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


def _judged(result: StudyResult, row: Any) -> Judged:
    side, bound = row.rule.split(" ")
    quantity = _name(row.quantity)
    seeds = result.tables["by_seed"]
    single = seeds[seeds["name"] == row.name]["value"].tolist()
    known = isinstance(row.against, str)
    scale, unit = _scale(quantity, known)
    drawn = strip((row.value, row.low, row.high), side, float(bound), single, colour_of(result, row.of))
    trainings = f"{row.seeds} training{'s' if row.seeds != 1 else ''}" + (" each" if known else "")
    over = trainings if pd.isna(row.n) else f"{trainings} on {_things(row)}"
    number = "not measured" if math.isnan(row.value) else f"{_number(row, scale, unit, signed=known)}; {over}"
    return Judged(
        row.name,
        row.statement,
        row.of,
        row.against if known else "",
        (colour_of(result, row.of), colour_of(result, row.against) if known else ""),
        row.quantity,
        number,
        "" if math.isnan(row.p) else f"p {_p(row.p)}, corrected p {_p(row.holm_p)}",
        f"{side} {'±' if side == 'within' else ''}{scale * float(bound):g}{unit if float(bound) else ''}",
        row.verdict,
        row.note or "",
        drawn,
    )


def _things(row: Any) -> str:
    return f"{row.n} {'batches' if _name(row.quantity) in ('nep', 'ape') else 'images'}"


def _differences(result: StudyResult) -> dict[str, list[Difference]]:
    found: dict[str, list[Difference]] = {}
    for row in each_row(result.differences()):
        if not _is_telling(row):
            continue
        scale, unit = _scale(row.quantity, True)
        side = "higher" if row.low > 0 else "lower" if row.high < 0 else "unclear"
        drawn = strip((row.value, row.low, row.high), "", 0.0, [], colour_of(result, row.arm))
        words = [spoken(row.quantity), *([_condition(row)] if isinstance(row.condition, str) else [])]
        text = _number(row, scale, unit, signed=True)
        found.setdefault(row.arm, []).append(Difference(row.exam, ", ".join(words), text, side, drawn))
    return found


def _is_telling(row: Any) -> bool:
    """Not what has no interval, such as the number of parameters, is the same in all arms, or tells of effort."""
    return not math.isnan(row.low) and row.high > row.low and row.quantity not in _EFFORT


def _condition(row: Any) -> str:
    return f"across {row.condition.upper()}s" if row.condition in ("msa", "mlp") else str(row.condition)


def _curves(result: StudyResult) -> list[str]:
    curves = result.tables["curves"]
    return [name for name in CURVES if curves[name].notna().any()]


def _main(result: StudyResult) -> Iterator[tuple[str, str]]:
    """The numbers that arms are compared by at first sight."""
    means = _means(result)
    whole = means[means["unit"].isna() & means["condition"].isna() & (means["exam"] != "training")]
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
            _duration(row.seconds),
            "–" if math.isnan(row.images_per_second) else f"{row.images_per_second:.0f}",
            str(row.done),
            _duration(row.seconds * row.done),
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


def _name(quantity: str) -> str:
    return quantity.partition(".")[2].partition("[")[0]


def _scale(quantity: str, difference: bool) -> tuple[float, str]:
    if not is_share(quantity) and quantity != "nep":
        return 1.0, ""
    return 100.0, " points" if difference else " %"


def _number(row: Any, scale: float, unit: str, signed: bool) -> str:
    digits = f"{'+' if signed else ''}{'.2f' if unit else '.3g'}"
    value, low, high = (f"{scale * number:{digits}}" for number in (row.value, row.low, row.high))
    return f"{value}{unit}" + ("" if math.isnan(row.low) else f" [{low}, {high}]")


def _p(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"= {p:.2g}"


def _duration(seconds: float) -> str:
    if math.isnan(seconds):
        return "–"
    if seconds < _MINUTE:
        return f"{seconds:.0f} s"
    if seconds < 2 * _HOUR:
        return f"{seconds / _MINUTE:.1f} min"
    return f"{seconds / _HOUR:.1f} h"
