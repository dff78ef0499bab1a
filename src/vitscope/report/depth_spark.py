"""A quantity along the depth of one model as a drawing small enough to stand beside a hundred others.

A line with its interval as a band; grey where an MSA works, blue where the map shrinks, as in large figures.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup

from vitscope.core import pd
from vitscope.core.statistics import Estimate, HasEstimate
from vitscope.drawing.style import MODELS

WIDTH, HEIGHT, EDGE = 200, 80, 4


@dataclass(frozen=True)
class Spark(HasEstimate[np.ndarray]):
    """Value and interval after each unit, in order of depth; NaN where it has none, which is left out of the line."""

    depth: np.ndarray
    estimate: Estimate[np.ndarray]
    kind: tuple[str, ...]

    @classmethod
    def of(cls, rows: pd.DataFrame) -> Spark:
        """From rows of a table with units."""
        ordered = rows.sort_values("depth", kind="stable")
        depth, *numbers = (ordered[name].to_numpy(float) for name in ("depth", *Estimate._fields))
        return cls(depth, Estimate(*numbers), tuple(ordered["kind"]))


def spark(one: Spark, least: float, most: float) -> Markup:
    """The drawing, with `least` at the bottom and `most` at the top; 0 is marked if it lies between."""
    span = (most - least) or 1.0

    def x(depth: Any) -> Any:
        return np.round(EDGE + (WIDTH - 2 * EDGE) * np.asarray(depth), 1)

    def y(value: Any) -> Any:
        up = np.clip((np.asarray(value) - least) / span, -0.04, 1.04)
        return np.round(HEIGHT - EDGE - (HEIGHT - 2 * EDGE) * up, 1)

    parts = []
    mixed = len(set(one.kind)) > 1  # else all of it would be shaded
    for before, after, kind in zip(one.depth[:-1], one.depth[1:], one.kind[1:], strict=True):
        if mixed and kind in ("msa", "subsample"):
            place = f'x="{x(before)}" y="0" width="{round(float(x(after) - x(before)), 1)}" height="{HEIGHT}"'
            parts.append(f'<rect class="{kind}-step" {place}/>')
    if least < 0 < most:
        parts.append(f'<line class="faint" x1="0" x2="{WIDTH}" y1="{y(0.0)}" y2="{y(0.0)}"/>')
    known = np.isfinite(one.low) & np.isfinite(one.high)
    if known.sum() > 1:
        there = _points(x(one.depth[known]), y(one.high[known]))
        back = _points(x(one.depth[known])[::-1], y(one.low[known])[::-1])
        parts.append(f'<polygon fill="{MODELS[0]}" opacity=".22" points="{there} {back}"/>')
    measured = np.isfinite(one.value)
    line = _points(x(one.depth[measured]), y(one.value[measured]))
    parts.append(f'<polyline fill="none" stroke="{MODELS[0]}" stroke-width="1.6" points="{line}"/>')
    parts += [
        f'<circle fill="{MODELS[0]}" cx="{a}" cy="{b}" r="1.8"/>'
        for a, b in zip(x(one.depth[measured]), y(one.value[measured]), strict=True)
    ]
    return Markup(f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" aria-hidden="true">{"".join(parts)}</svg>')


def _points(x: np.ndarray, y: np.ndarray) -> str:
    return " ".join(f"{a},{b}" for a, b in zip(x.tolist(), y.tolist(), strict=True))
