"""What `cka` finds: result, reading and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from vitscope.core import pd
from vitscope.core.statistics import Estimate
from vitscope.drawing import mpl
from vitscope.drawing.curves import colour_bar
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK
from vitscope.results import About, Result, UnitRow, tidy
from vitscope.results.numbers import by_name, extremes, reads, rows_of
from vitscope.results.numbers import with_interval as number
from vitscope.results.table import Estimated
from vitscope.results.unit_changes import SCORES


@dataclass(frozen=True, eq=False, kw_only=True)
class CkaResult(Estimated, Result, exam="cka", after="effective_rank", version=2):
    """CKA of every pair of units, (rows, columns): of one model with itself, or of one model with another."""

    about = About(
        title="Similarity of units (CKA)",
        shows="How alike the feature maps after two units are, over images: 1 (bright) for maps that differ by a "
        "rotation, a shift or a scale, 0 (dark) for unrelated ones. Thin lines are the borders of stages. "
        "A model whose stages do different things shows bright squares along the diagonal.",
        papers="In the paper, CNNs and multi-stage vision transformers have such a block structure and a plain "
        "ViT has none.",
        misleads="Units of one stage are also close to each other, so similarity that only fades with "
        "distance looks like blocks: the block contrast compares pairs at equal distance. A few channels "
        "or images with very large values can decide the similarity alone.",
    )
    measures = (*SCORES, "cka")
    needs = "a model with two units or more that have feature maps"

    units: tuple[UnitRow, ...]  # of the rows
    other: str | None  # the other model, if there is one
    other_units: tuple[UnitRow, ...]  # of the columns
    score: Estimate[np.ndarray]  # `SCORES`; NaN for two models
    batches: int  # that the means are over
    left_out: int  # images in batches that were too small

    @property
    def stages(self) -> int:
        """How many stages the model has; one: its scores are those of its quarters."""
        return len({unit.stage for unit in self.units})

    def table(self) -> pd.DataFrame:
        """Quantity `cka` with the second unit in `other_unit`, each pair once; and the scores of one model."""
        chosen = np.ones(self.value.shape, dtype=bool)
        rows, columns = np.nonzero(np.triu(chosen, 1) if self.other is None else chosen)
        first, second = [self.units[i] for i in rows], [self.other_units[j].name for j in columns]
        pairs = tidy("cka", *self.estimate.at((rows, columns)), self.n, first, other_unit=second)
        return pd.concat([self.summary().assign(other_unit=None), pairs], ignore_index=True)

    def summary(self) -> pd.DataFrame:
        """How far the similarities of one model have a block structure."""
        known = np.flatnonzero(np.isfinite(self.score.value))
        return tidy([SCORES[i] for i in known], *self.score.at(known), self.n)


COLOURS = "magma"


_TICKS = [0.0, 0.25, 0.5, 0.75, 1.0]


# A dark line with a light rim is seen on bright and on dark cells.
_BORDER: tuple[dict[str, Any], ...] = ({"color": "white", "linewidth": 1.6}, {"color": INK, "linewidth": 0.6})


@figure("cka", "Similarity of every pair of units, from input to output; thin lines: borders of stages.")
def plot_cka(result: CkaResult, ax: mpl.Axes | None = None, colour: str | None = None) -> mpl.Axes:
    """Heat map of the similarity of all pairs of units, with depth on both axes."""
    ax = axes_or_new(ax)
    shown = ax.imshow(
        np.clip(result.value, 0.0, 1.0),  # below 0 is noise around 0
        cmap=COLOURS,
        vmin=0.0,
        vmax=1.0,
        origin="lower",
        extent=(0.0, 1.0, 0.0, 1.0),
        interpolation="nearest",
        aspect="equal",
    )
    for line in _BORDER:
        for border in _borders(result.other_units):
            ax.axvline(border, **line)
        for border in _borders(result.units):
            ax.axhline(border, **line)
    across, upwards = (f" of {name}" for name in (result.other, result.model)) if result.other else ("", "")
    ax.set_xlabel(f"Normalised depth{across}")
    ax.set_ylabel(f"Normalised depth{upwards}")
    ax.set_xticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
    ax.set_yticks(_TICKS, [f"{tick:g}" for tick in _TICKS])
    if not result.batches:
        ax.text(0.5, 0.5, "no batch of 4 images or more", ha="center", va="center")
    colour_bar(ax, "CKA", shown)
    return ax


def _borders(units: Sequence[UnitRow]) -> list[float]:
    """Where a stage ends, as a share of the units."""
    return [i / len(units) for i, (a, b) in enumerate(pairwise(units), 1) if a.stage != b.stage]


@reads("cka")
def _similarity(result: CkaResult) -> str:
    pairs = rows_of(result.table(), "cka")
    if pairs.empty:
        return ""
    least, _ = extremes(pairs)
    contrast = by_name(result.summary()).get("block_contrast")
    blocks = ""
    if contrast is not None:
        side = "more" if contrast.low > 0 else "less" if contrast.high < 0 else "not clearly more or less"
        part = "stage" if result.stages > 1 else "quarter of the depth"
        blocks = (
            f"Units of one {part} are {side} alike than others at the same distance: "
            f"block contrast {number(contrast)}. "
        )
    return f"{blocks}Least alike are {least.unit} and {least.other_unit}, with a CKA of {number(least)}."
