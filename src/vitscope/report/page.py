"""The page: what each section holds, and the template that lays it out."""

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from vitscope import __version__
from vitscope.exams import EXAMS
from vitscope.plots import PLOTS, Plot
from vitscope.plots.figures import new_panel
from vitscope.plots.style import shared_limits, styled
from vitscope.report.inline import inline_svg
from vitscope.report.numbers import label, plain, with_interval
from vitscope.report.subject import RunSubject
from vitscope.results import About, Result, directions
from vitscope.results.provenance import now


@dataclass(frozen=True)
class Panel:
    """One figure of one model."""

    subject: RunSubject
    svg: Markup


@dataclass(frozen=True)
class Row:
    """The same figure for each model, on common axes."""

    caption: str
    panels: list[Panel]


@dataclass(frozen=True)
class Grid:
    """A table ready to be written: column names and cells, the first `words` of which are not numbers."""

    columns: list[str]
    cells: list[list[str]]
    words: int


@dataclass(frozen=True)
class Section:
    """One exam on the page."""

    name: str
    about: About
    rows: list[Row]
    whole: Grid | None  # what belongs to whole models
    counts: Grid | None  # across how many units of a kind the quantity falls or rises
    tables: list[tuple[RunSubject, Grid]]
    absent: list[str]  # models that were not examined this way


def render_page(subjects: Sequence[RunSubject], title: str | None = None) -> str:
    """The whole page as one text."""
    environment = Environment(
        loader=PackageLoader("vitscope.report"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    exams = [name for name in EXAMS if any(name in s.results for s in subjects)]
    return environment.get_template("page.html").render(
        title=title or " and ".join(dict.fromkeys(s.name for s in subjects)),
        subjects=subjects,
        sections=[_section(name, subjects) for name in exams],
        version=__version__,
        date=now()[:10],
    )


def _section(exam: str, subjects: Sequence[RunSubject]) -> Section:
    having = [s for s in subjects if exam in s.results]
    return Section(
        name=exam,
        about=EXAMS[exam].result.about,
        rows=[_row(plot, exam, having) for plot in PLOTS.get(exam, [])],
        whole=_whole([(s.name, s.results[exam]) for s in having]),
        counts=_counts([(s.name, s.results[exam]) for s in having]),
        tables=[(s, _grid(s.results[exam].table())) for s in having],
        absent=[s.name for s in subjects if exam not in s.results],
    )


def _row(plot: Plot, exam: str, subjects: Sequence[RunSubject]) -> Row:
    """Draw one figure of every model, give all the same axes, then turn them into SVG."""
    with styled():
        axes = [plot.draw(s.results[exam], new_panel(), colour=s.colour) for s in subjects]
        shared_limits(axes)
    panels = []
    for position, (subject, ax) in enumerate(zip(subjects, axes, strict=True)):
        with styled(**{"svg.hashsalt": f"{plot.name} {position}"}):
            panels.append(Panel(subject, inline_svg(ax, f"{plot.caption} Model: {subject.name}.")))
    return Row(plot.caption, panels)


def _counts(results: list[tuple[str, Result]]) -> Grid | None:
    parts = [directions(result.table()).assign(model=name) for name, result in results]
    counted = pd.concat(parts, ignore_index=True)
    if counted.empty:
        return None
    return _grid(counted[["model", "kind", "units", "falls", "rises", "unclear"]])


def _whole(results: list[tuple[str, Result]]) -> Grid | None:
    """What belongs to whole models: a row per quantity, a column per model."""
    found: dict[str, dict[str, str]] = {}
    for name, result in results:
        rows = result.table()
        for row in rows[rows["unit"].isna()].itertuples():
            found.setdefault(label(result.exam, row), {})[name] = with_interval(row)
    names = [name for name, _ in results]
    cells = [[quantity, *(by_model.get(name, "–") for name in names)] for quantity, by_model in found.items()]
    return Grid(["quantity", *names], cells, words=1) if cells else None


def _grid(table: pd.DataFrame) -> Grid:
    shown = table.loc[:, table.notna().any()]
    words = [c for c in shown.columns if not pd.api.types.is_numeric_dtype(shown[c])]
    ordered = shown[[*words, *(c for c in shown.columns if c not in words)]]
    cells = [[plain(v) for v in row] for row in ordered.itertuples(index=False)]
    return Grid(list(ordered.columns), cells, words=len(words))
