"""Statements of the papers with their verdicts: a page, and a table for the documentation.

Both are made from the folders that `vitscope reproduce` leaves, a claim each, without models or torch. No verdict is
written by hand.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from markupsafe import Markup

from vitscope.core import VERSION
from vitscope.core.errors import VitscopeError
from vitscope.drawing.figures import new_panel, render
from vitscope.drawing.style import styled
from vitscope.plots.claim import claim_figure
from vitscope.report.inline import SharedStyles, inline_svg, page_script
from vitscope.report.layout import allowed, environment
from vitscope.report.study_verdicts import Judged, judged_of
from vitscope.results import atomic_write
from vitscope.results.claim_record import CARD, ClaimRecord, Outcome, likely_reason
from vitscope.results.numbers import duration
from vitscope.results.provenance import now
from vitscope.results.study_result import PAGE, each_row

SECTIONS = {
    "A": "Models",
    "C": "Loss landscape",
    "D": "Features",
    "E": "Attention",
    "F": "Predictions and robustness",
    "G": "Dense and multi-modal tasks",
}
FIGURES = "figures/claims"


@dataclass(frozen=True)
class JudgedComparison:
    """One comparison of a claim, as a reader sees it."""

    judged: Judged
    reason: str


@dataclass(frozen=True)
class ClaimPart:
    """One claim, as a reader sees it."""

    record: ClaimRecord
    findings: list[JudgedComparison]
    models: str  # trained for it, and for how long
    page: str  # of its study; "": none
    figure: Markup | str = ""


def read_claims(folder: str | os.PathLike[str]) -> list[ClaimRecord]:
    """What `vitscope reproduce` left in a folder, in the order of the papers' list."""
    places = sorted((path.parent for path in Path(folder).glob(f"*/{CARD}")), key=lambda p: _order(p.name))
    records = [record for place in places if (record := ClaimRecord.load(place)) is not None]
    if not records:
        raise VitscopeError(f"no claims in {folder}; give the folder that vitscope reproduce wrote to")
    return records


def _order(name: str) -> tuple[str, int, str]:
    digits = "".join(c for c in name if c.isdigit())
    return name[:1], int(digits or 0), name


def write_claims(folder: str | os.PathLike[str], path: str | os.PathLike[str]) -> Path:
    """Write the verdicts in a folder as a page (.html) or as a table for a text (.md)."""
    where = Path(path)
    if where.suffix.lower() not in (".html", ".md"):
        raise VitscopeError(
            f"verdicts cannot be written as '{where.name}'; name a file that ends in .html or .md"
        )
    records = read_claims(folder)
    if where.suffix.lower() == ".html":
        atomic_write(where, render_claims(records))
        return where
    drawn = {record.claim for record in records if _draw(record, where)}
    atomic_write(where, claims_markdown(records, drawn))
    return where


def _draw(record: ClaimRecord, beside: Path) -> bool:
    """Leave the figure of a claim in `figures/claims` beside a text; whether there is one."""
    found = claim_figure(record.study) if record.study is not None and record.is_judged else None
    if found is None:
        return False
    with styled():
        panel = found[1](new_panel(found[2]))
        atomic_write(beside.parent / FIGURES / f"{record.claim}.png", render(panel, "png"))
    return True


def render_claims(records: Sequence[ClaimRecord]) -> str:
    """The whole page as one text."""
    script, styles = page_script(), SharedStyles()
    sections = [
        (name, [_part(record, styles) for record in records if record.claim.startswith(letter)])
        for letter, name in SECTIONS.items()
    ]
    return (
        environment()
        .get_template("claims.html")
        .render(
            scale=records[0].scale,
            about=records[0].about,
            limits=records[0].limits,
            counts=counts(records),
            hours=hours(records),
            sections=[(name, parts) for name, parts in sections if parts],
            styles=styles.css,
            script=Markup(script),
            allowed=allowed(script),
            version=VERSION,
            date=now()[:10],
        )
    )


def counts(records: Iterable[ClaimRecord]) -> dict[str, int]:
    """How many claims came out how."""
    found: dict[str, int] = {}
    for record in records:
        found[record.outcome] = found.get(record.outcome, 0) + 1
    return {name: found[name] for name in get_args(Outcome) if name in found}


def hours(records: Iterable[ClaimRecord]) -> str:
    """All trainings together; one that several claims need counts once."""
    seconds: dict[Any, float] = {}
    for record in records:
        if record.study is None:
            continue
        arms = {arm["name"]: arm for arm in record.study.study["arms"]}
        curves = record.study.tables["curves"]
        longest = curves.groupby(["arm", "seed"])["seconds"].max().reset_index().to_dict("records")
        for row in longest:
            said = {key: value for key, value in arms[row["arm"]].items() if key not in ("name", "seeds")}
            seconds[repr(sorted(said.items(), key=str)), row["seed"]] = float(row["seconds"])
    return f"{len(seconds)} trainings, {duration(sum(seconds.values()), 'words')} of one core"


def _part(record: ClaimRecord, styles: SharedStyles | None = None) -> ClaimPart:
    if record.study is None:
        return ClaimPart(record, [], "", "")
    rows = record.verdict_rows
    judged = [judged_of(record.study, row) for row in each_row(record.study.comparisons())]
    findings = [
        JudgedComparison(one, likely_reason(record, row)) for one, row in zip(judged, rows, strict=True)
    ]
    trained = record.study.tables["curves"].groupby(["arm", "seed"]).ngroups
    models = f"{trained} trainings, {duration(record.seconds, 'words')}" if trained else ""
    figure: Markup | str = ""
    found = claim_figure(record.study) if styles is not None and record.is_judged else None
    if styles is not None and found is not None:
        title, draw, size = found
        with styled(**{"svg.hashsalt": record.claim}):
            figure = styles.share(inline_svg(draw(new_panel(size)), f"{record.title}: {title} by arm"))
    return ClaimPart(record, findings, models, f"{record.claim}/{PAGE}", figure)


def claims_markdown(records: Sequence[ClaimRecord], drawn: Collection[str] = ()) -> str:
    """A row per comparison, then the definitions: what `docs/claims.md` holds."""
    first = records[0]
    told = ", ".join(f"{number} {name}" for name, number in counts(records).items())
    lines = [
        "# What holds of the papers, and how that was found out",
        "",
        f"Scale `{first.scale}`: {first.about}. {told}; {hours(records)}. Written by `vitscope reproduce --scale "
        f"{first.scale} --write docs/claims.md` from the results; no verdict is made by hand. The rule of each "
        "comparison was written down, and its card's hash kept, before its first training began. Intervals are 95 % "
        "over seeds and images; a comparison is decided if its p value, corrected for all comparisons of its claim "
        "(Holm), is below 0.05.",
    ]
    if first.limits:
        lines += ["", f"What differs from the papers at this scale: {first.limits}."]
    for letter, name in SECTIONS.items():
        own = [record for record in records if record.claim.startswith(letter)]
        if own:
            lines += [
                "",
                f"## {name}",
                "",
                "| claim | what is compared | found | seeds | verdict |",
                "|---|---|---|---|---|",
            ]
            lines += [line for record in own for line in _rows(record)]
    lines += ["", "## Definitions", ""]
    for record in records:
        lines += [
            f"### {record.claim}",
            "",
            f"**{record.title}.** {record.statement} {record.definition} In the papers: {record.published} "
            f"Again: `{record.command}`; card `{record.digest}`, registered {record.registered[:10]}.",
            *(
                f"The card was changed after results were there ({one['digest']}, {one['given up'][:10]})."
                for one in record.revisions
            ),
            "",
        ]
        if record.claim in drawn:
            lines += [f"![{record.claim}, {record.title}]({FIGURES}/{record.claim}.png)", ""]
    return "\n".join(lines).rstrip() + "\n"


def _rows(record: ClaimRecord) -> list[str]:
    part = _part(record)
    claim = f"[{record.claim}](#{record.claim.lower()})"
    if not part.findings or record.outcome == "not run yet":
        return [f"| {claim} | {record.title} | | | {record.outcome} |"]
    lines = []
    for finding, row in zip(part.findings, record.verdict_rows, strict=True):
        one = finding.judged
        number = one.number.partition(";")[0]
        reason = f": {finding.reason}" if finding.reason else ""
        verdict = f"**{one.verdict}**" if one.verdict == "holds" else one.verdict
        verdict = verdict + reason if record.is_judged else record.outcome
        if not row["seeds"]:
            verdict = one.note or "not run yet"
        lines.append(f"| {claim} | {one.statement} | {number} | {row['seeds']} | {verdict} |")
    return lines
