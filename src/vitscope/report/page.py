"""The page: what each section holds, and the template that lays it out."""

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from vitscope.core import VERSION
from vitscope.core.interrupt import check_stop
from vitscope.drawing.figures import new_panel, why_empty
from vitscope.drawing.style import shared_limits, styled
from vitscope.plots import PLOTS, Plot
from vitscope.plots.training import plot_curve
from vitscope.report.card import KINDS
from vitscope.report.inline import (
    SharedStyles,
    Widget,
    inline_svg,
    packed,
    page_script,
    plotly_script,
    series,
    widget,
)
from vitscope.report.layout import allowed, environment
from vitscope.report.pairs import pairs
from vitscope.report.sections import (
    Download,
    Grid,
    Sign,
    classes_grid,
    counts_grid,
    downloads,
    reading,
    taken,
    verdicts_download,
    vital_signs,
    whole_grid,
)
from vitscope.report.subject import RunSubject, exam_order, left_out
from vitscope.report.verdicts import by_chance
from vitscope.results import About
from vitscope.results.numbers import capital
from vitscope.results.provenance import now


@dataclass(frozen=True)
class Panel:
    """One figure of one model."""

    subject: RunSubject
    svg: Markup
    widget: Widget | None
    why: str = ""  # there is no figure


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
    classes: Grid | None  # how well each class is found
    counts: Grid | None  # across how many units of a kind the quantity falls or rises
    taken: list[str]  # which maps were measured, where there is a choice
    tables: list[Download]
    absent: list[str]  # models that were not examined this way
    outdated: list[str]  # models whose result is of another version
    barren: list[str]  # models that have nothing to examine this way


def render_page(subjects: Sequence[RunSubject], title: str | None = None, docs: str | None = None) -> str:
    """The whole page as one text; `docs` is the address that the documentation of exams is linked at."""
    made = exam_order(name for subject in subjects for name in subject.results)
    exams = [name for name in made if any(s.applies(name) for s in subjects)]
    styles = SharedStyles()
    sections = [_section(name, subjects, styles) for name in exams]
    signs, compared = [sign for section in sections for sign in section.signs], pairs(subjects)
    verdicts = [one.verdict for sign in signs for one in sign.findings if one.verdict]
    verdicts += [verdict for pair in compared for verdict in pair.verdicts]
    script = page_script()
    turned = any(p.widget and p.widget.kind == "surface" for s in sections for r in s.rows for p in r.panels)
    plotly = plotly_script() if turned else ""
    page = (
        environment()
        .get_template("page.html")
        .render(
            title=title or _listed([s.name for s in subjects]),
            subjects=subjects,
            kinds={kind: KINDS[kind] for kind in KINDS if any(kind in s.card.kinds for s in subjects)},
            trainings=_trainings(subjects, styles),
            sections=sections,
            signs=signs,
            pairs=compared,
            verdicts=verdicts_download(verdicts) if verdicts else None,
            by_chance=by_chance(len(verdicts)),
            left_out=left_out(subjects),
            barren=[_about(name, subjects).title for name in made if name not in exams],
            styles=styles.css,
            script=Markup(script),
            plotly=packed(plotly) if plotly else "",
            allowed=allowed(script, plotly),
            docs=docs.rstrip("/") if docs else "",
            version=VERSION,
            date=now()[:10],
        )
    )
    return page.encode("utf-8", "replace").decode()  # names of files may be no text


def _section(exam: str, subjects: Sequence[RunSubject], styles: SharedStyles) -> Section:
    check_stop()
    having = [s for s in subjects if s.applies(exam)]
    results = [(s.name, s.results[exam]) for s in having]
    return Section(
        name=exam,
        about=_about(exam, subjects),
        signs=vital_signs(exam, subjects),
        readings=[(s, text) for s in having if (text := reading(s.results[exam]) + s.measured_on(exam))],
        rows=[_row(plot, exam, having, styles) for plot in PLOTS.get(exam, [])],
        whole=whole_grid(results),
        classes=classes_grid(results),
        counts=counts_grid(results),
        taken=taken(results),
        tables=[table for name, result in results for table in downloads(name, result)],
        absent=[s.name for s in subjects if exam not in s.results and not s.is_outdated(exam)],
        outdated=[s.name for s in subjects if s.is_outdated(exam)],
        barren=[s.name for s in subjects if exam in s.results and not s.applies(exam)],
    )


def _trainings(subjects: Sequence[RunSubject], styles: SharedStyles) -> Row | None:
    """How the models were trained, epoch by epoch, where their records say so."""
    told = [(s, training) for s in subjects if (training := s.run.model.get("training") or {}).get("curve")]
    if not told:
        return None
    caption = (
        "How it was trained: losses, and the score of its task on held-out images with its 95 % interval. The training "
        "loss is of augmented images."
    )
    panels = []
    for position, (subject, training) in enumerate(told):
        with styled(**{"svg.hashsalt": f"training {position}"}):
            svg = inline_svg(plot_curve(training, new_panel()), f"{caption} Model: {subject.name}.")
        panels.append(Panel(subject, styles.share(svg), None))
    return Row(caption, panels)


def _listed(names: Sequence[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _about(exam: str, subjects: Sequence[RunSubject]) -> About:
    return next(s.results[exam].about for s in subjects if exam in s.results)


def _row(plot: Plot, exam: str, subjects: Sequence[RunSubject], styles: SharedStyles) -> Row:
    """Draw one figure of every model, give all the same axes and colours, then turn them into SVG."""
    common = plot.common([s.results[exam] for s in subjects]) if plot.common else {}
    with styled():
        axes = [plot.draw(s.results[exam], new_panel(), colour=s.colour, **common) for s in subjects]
        shared_limits([ax for ax in axes if not why_empty(ax)])
    panels = []
    for position, (subject, ax) in enumerate(zip(subjects, axes, strict=True)):
        if why := why_empty(ax):
            panels.append(Panel(subject, Markup(), None, f"{capital(why)}."))
            continue
        with styled(**{"svg.hashsalt": f"{plot.name} {position}"}):
            svg = inline_svg(ax, f"{plot.caption} Model: {subject.name}.", series(plot.name, ax))
        panels.append(Panel(subject, styles.share(svg), widget(plot.name, subject.results[exam], **common)))
    return Row(plot.caption, panels)
