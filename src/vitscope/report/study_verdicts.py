"""What a page says of arms against each other: comparisons with their verdicts, and all other differences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from vitscope.core import pd
from vitscope.plots.study import colour_of
from vitscope.results.numbers import in_unit, scale_of, spoken
from vitscope.results.study_result import StudyResult, each_row

_EFFORT = ("products", "unconverged", "seconds", "images_per_second")
STRIP_WIDTH, STRIP_HEIGHT = 240, 30
_ROOM = 0.94  # of half a strip's width that the furthest end takes


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


def judged_of(result: StudyResult, row: Any) -> Judged:
    """A row of the comparisons as the page shows it."""
    side, bound = row.rule.split(" ")
    quantity = _name(row.quantity)
    seeds = result.tables["by_seed"]
    single = seeds[seeds["name"] == row.name]["value"].tolist()
    known = isinstance(row.against, str)
    scale, unit = _scale(quantity, known)
    drawn = strip((row.value, row.low, row.high), side, float(bound), single, colour_of(result, row.of))
    trainings = f"{row.seeds} training{'s' if row.seeds != 1 else ''}" + (" each" if known else "")
    over = trainings if pd.isna(row.n) else f"{trainings} on {_things(row)}"
    number = in_unit(row, scale, unit, signed=known, decimals=2)
    return Judged(
        row.name,
        row.statement,
        row.of,
        row.against if known else "",
        (colour_of(result, row.of), colour_of(result, row.against) if known else ""),
        row.quantity,
        "not measured" if math.isnan(row.value) else f"{number}; {over}",
        "" if math.isnan(row.p) else f"p {_p(row.p)}, corrected p {_p(row.holm_p)}",
        f"{side} {'±' if side == 'within' else ''}{scale * float(bound):g} {unit if float(bound) else ''}".rstrip(),
        row.verdict,
        row.note or "",
        drawn,
    )


def _things(row: Any) -> str:
    return f"{row.n} {'batches' if _name(row.quantity) in ('nep', 'ape') else 'images'}"


def differences_by_arm(result: StudyResult) -> dict[str, list[Difference]]:
    """What each arm has more or less of than the first, by arm."""
    found: dict[str, list[Difference]] = {}
    for row in each_row(result.differences()):
        if not _is_telling(row):
            continue
        side = "higher" if row.low > 0 else "lower" if row.high < 0 else "unclear"
        drawn = strip((row.value, row.low, row.high), "", 0.0, [], colour_of(result, row.arm))
        words = [spoken(row.quantity), *([_condition(row)] if isinstance(row.condition, str) else [])]
        text = in_unit(row, *_scale(row.quantity, True), signed=True, decimals=2)
        found.setdefault(row.arm, []).append(Difference(row.exam, ", ".join(words), text, side, drawn))
    return found


def _is_telling(row: Any) -> bool:
    """Whether a row of differences is shown: one whose interval has a length, of a quantity that is not effort."""
    return not math.isnan(row.low) and row.high > row.low and row.quantity not in _EFFORT


def _condition(row: Any) -> str:
    return f"across {row.condition.upper()}s" if row.condition in ("msa", "mlp") else str(row.condition)


def _name(quantity: str) -> str:
    return quantity.partition(".")[2].partition("[")[0]


def _scale(quantity: str, difference: bool) -> tuple[float, str]:
    return scale_of("share" if quantity == "nep" else quantity, difference)


def _p(p: float) -> str:
    return "< 0.0001" if p < 1e-4 else f"= {p:.2g}"


def strip(
    estimate: tuple[float, float, float], side: str, bound: float, single: Sequence[float], colour: str
) -> Markup:
    """Value and interval as an `<svg>` to its own scale: the bound in the middle, the side where a rule holds shaded.

    Args:
        estimate: Value, low, high.
        side: Where the rule holds: "above", "below" or "within" the bound; "": there is no rule.
        bound: Stands in the middle; of "within", 0 does.
        single: Numbers of single trainings, drawn as small dots.
        colour: Of the arm.
    """
    if math.isnan(estimate[0]):
        return Markup("")
    centre = 0.0 if side == "within" else bound
    known = [number for number in (*estimate, *single) if math.isfinite(number)]
    ends = [abs(number - centre) for number in known] + ([bound] if side == "within" else [])
    reach = max(ends) or 1.0

    def x(number: float) -> float:
        return round(STRIP_WIDTH / 2 * (1 + _ROOM * (number - centre) / reach), 1)

    middle, parts = STRIP_HEIGHT / 2, []
    shaded = {
        "above": (x(bound), STRIP_WIDTH),
        "below": (0.0, x(bound)),
        "within": (x(-bound), x(bound)),
    }.get(side)
    if shaded:
        width = shaded[1] - shaded[0]
        parts.append(f'<rect class="met" x="{shaded[0]}" y="0" width="{width}" height="{STRIP_HEIGHT}"/>')
    for line in {-bound, bound} if side == "within" else {bound}:
        parts.append(f'<line class="bound" x1="{x(line)}" y1="0" x2="{x(line)}" y2="{STRIP_HEIGHT}"/>')
    value, low, high = estimate
    if math.isfinite(low) and math.isfinite(high):
        parts.append(
            f'<line class="reach" x1="{x(low)}" y1="{middle}" x2="{x(high)}" y2="{middle}" stroke="{colour}"/>'
        )
    parts += [
        f'<circle class="one" cx="{x(number)}" cy="{middle - 8}" r="2.2" fill="{colour}"/>'
        for number in single
        if math.isfinite(number) and len(single) > 1
    ]
    parts.append(f'<circle cx="{x(value)}" cy="{middle}" r="4.5" fill="{colour}"/>')
    head = f'<svg class="interval" viewBox="0 0 {STRIP_WIDTH} {STRIP_HEIGHT}" aria-hidden="true">'
    return Markup(f"{head}{''.join(parts)}</svg>")
