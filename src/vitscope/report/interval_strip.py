"""A number with its interval as a small drawing: the bound in the middle, the side where a rule holds shaded."""

from __future__ import annotations

import math
from collections.abc import Sequence

from markupsafe import Markup

WIDTH, HEIGHT = 240, 30
_ROOM = 0.94  # of half the width that the furthest end takes


def strip(
    estimate: tuple[float, float, float], side: str, bound: float, single: Sequence[float], colour: str
) -> Markup:
    """Value and interval as an `<svg>` to its own scale.

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
        return round(WIDTH / 2 * (1 + _ROOM * (number - centre) / reach), 1)

    middle, parts = HEIGHT / 2, []
    shaded = {"above": (x(bound), WIDTH), "below": (0.0, x(bound)), "within": (x(-bound), x(bound))}.get(side)
    if shaded:
        width = shaded[1] - shaded[0]
        parts.append(f'<rect class="met" x="{shaded[0]}" y="0" width="{width}" height="{HEIGHT}"/>')
    for line in {-bound, bound} if side == "within" else {bound}:
        parts.append(f'<line class="bound" x1="{x(line)}" y1="0" x2="{x(line)}" y2="{HEIGHT}"/>')
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
    head = f'<svg class="interval" viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">'
    return Markup(f"{head}{''.join(parts)}</svg>")
