"""The page: what each section holds, and the template that lays it out."""

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from vitscope import __version__
from vitscope.exams import EXAMS
from vitscope.plots import PLOTS, Plot
from vitscope.plots.figures import new_panel
from vitscope.plots.style import shared_limits, styled
from vitscope.report.card import KINDS
from vitscope.report.inline import inline_svg
from vitscope.report.interactive import Widget, series, widget
from vitscope.report.packed import packed, plotly_script
from vitscope.report.pairs import pairs
from vitscope.report.readings import reading
from vitscope.report.subject import RunSubject
from vitscope.report.tables import Download, Grid, counts_grid, downloads, whole_grid
from vitscope.report.vital_signs import Sign, vital_signs
from vitscope.results import About
from vitscope.results.provenance import now


@dataclass(frozen=True)
class Panel:
    """One figure of one model."""

    subject: RunSubject
    svg: Markup
    widget: Widget | None


@dataclass(frozen=True)
class Row:
    """The same figure for each model, on common axes."""

    caption: str
    panels: list[Panel]


@dataclass(frozen=True)
class Section:
    """One exam on the page."""

    name: str
    about: About
    signs: list[Sign]
    readings: list[tuple[RunSubject, str]]
    rows: list[Row]
    whole: Grid | None  # what belongs to whole models
    counts: Grid | None  # across how many units of a kind the quantity falls or rises
    tables: list[Download]
    absent: list[str]  # models that were not examined this way
    barren: list[str]  # models that have nothing to examine this way


def render_page(subjects: Sequence[RunSubject], title: str | None = None, docs: str | None = None) -> str:
    """The whole page as one text; `docs` is the address that the documentation of exams is linked at."""
    environment = Environment(
        loader=PackageLoader("vitscope.report"),
        autoescape=select_autoescape(["html"]),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found = [name for subject in subjects for name in subject.results]
    made = [*(n for n in EXAMS if n in found), *dict.fromkeys(n for n in found if n not in EXAMS)]
    exams = [name for name in made if any(s.applies(name) for s in subjects)]
    sections = [_section(name, subjects) for name in exams]
    script = files("vitscope.report").joinpath("templates/page.js").read_text()
    turned = any(p.widget and p.widget.kind == "surface" for s in sections for r in s.rows for p in r.panels)
    plotly = plotly_script() if turned else ""
    return environment.get_template("page.html").render(
        title=title or _listed([s.name for s in subjects]),
        subjects=subjects,
        kinds={kind: KINDS[kind] for kind in KINDS if any(kind in s.card.kinds for s in subjects)},
        sections=sections,
        signs=[sign for section in sections for sign in section.signs],
        pairs=pairs(subjects),
        barren=[_about(name, subjects).title for name in made if name not in exams],
        script=Markup(script),
        plotly=packed(plotly) if plotly else "",
        allowed=" ".join(_digest(text) for text in (script, plotly) if text),
        docs=docs.rstrip("/") if docs else "",
        version=__version__,
        date=now()[:10],
    )


def _section(exam: str, subjects: Sequence[RunSubject]) -> Section:
    having = [s for s in subjects if s.applies(exam)]
    results = [(s.name, s.results[exam]) for s in having]
    return Section(
        name=exam,
        about=_about(exam, subjects),
        signs=vital_signs(exam, subjects),
        readings=[(s, text) for s in having if (text := reading(s.results[exam]))],
        rows=[_row(plot, exam, having) for plot in PLOTS.get(exam, [])],
        whole=whole_grid(results),
        counts=counts_grid(results),
        tables=[table for name, result in results for table in downloads(name, result)],
        absent=[s.name for s in subjects if exam not in s.results],
        barren=[s.name for s in subjects if exam in s.results and not s.applies(exam)],
    )


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _about(exam: str, subjects: Sequence[RunSubject]) -> About:
    return next(s.results[exam].about for s in subjects if exam in s.results)


def _row(plot: Plot, exam: str, subjects: Sequence[RunSubject]) -> Row:
    """Draw one figure of every model, give all the same axes, then turn them into SVG."""
    with styled():
        axes = [plot.draw(s.results[exam], new_panel(), colour=s.colour) for s in subjects]
        shared_limits(axes)
    panels = []
    for position, (subject, ax) in enumerate(zip(subjects, axes, strict=True)):
        with styled(**{"svg.hashsalt": f"{plot.name} {position}"}):
            svg = inline_svg(ax, f"{plot.caption} Model: {subject.name}.", series(plot.name, ax))
        panels.append(Panel(subject, svg, widget(plot.name, subject.results[exam])))
    return Row(plot.caption, panels)


def _digest(script: str) -> str:
    """How a Content-Security-Policy names a script that may run."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()}'"
