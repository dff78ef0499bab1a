"""What `corruption` finds: result, reading and figures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from vitscope.core import pd
from vitscope.core.arguments import NotEmpty, checked
from vitscope.core.errors import VitscopeError
from vitscope.core.names import CORRUPTIONS_VERSION as VERSION
from vitscope.core.names import FAMILIES
from vitscope.core.statistics import Estimate
from vitscope.drawing import mpl
from vitscope.drawing.curves import draw_bars, draw_curve, in_colours, legend_above, nothing
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK, MODELS, grid
from vitscope.results import About, Result
from vitscope.results.condition_rows import (
    CONDITION_QUANTITIES,
    QUANTITIES,
    SCORES,
    ConditionTable,
    Headlined,
    condition_rows,
    headline_rows,
    main_quantity,
    main_scores_of,
)
from vitscope.results.numbers import by_name, reads
from vitscope.results.numbers import with_interval as number

CLEAN, ALL = "clean", "all"


@dataclass(frozen=True)
class Row:
    """What a row of scores is about: a type, a family, all types, or clean images."""

    corruption: str
    severity: int = 0  # 0: the mean over all that were measured

    @property
    def condition(self) -> str:
        """Its name."""
        if self.corruption == ALL:
            return f"severity {self.severity}" if self.severity else "all corruptions"
        return f"{self.corruption} {self.severity}" if self.severity else self.corruption


@dataclass(frozen=True, eq=False, kw_only=True)
class CorruptionResult(Headlined, Result, exam="corruption", after="trajectory", version=VERSION + 1):
    """Scores on clean images (first row), and on corrupted ones: means first, then each type and severity.

    Headlines: means over all corruptions, the accuracy of each family, and errors relative to a reference model.
    """

    about = About(
        title="Corruptions",
        shows="Accuracy on pictures with noise, blur, weather and digital artefacts, against how severe they are. The "
        "bars are means over severities.",
        papers="In the papers Alter-ResNet-50 is better than CNNs on CIFAR-100-C as on clean images, and spatial "
        "smoothing makes ResNets more robust; both report the mean over the 15 types at 5 severities.",
        misleads="Generated corruptions are not the published files: they follow the same definitions, but frost is "
        "cut from computed panes and random draws differ, so compare models on one of the two. A model whose "
        "augmentation looks like a corruption is robust against that one, not in general. Severities are not "
        "comparable between types, nor between 32 and 224 pixels.",
    )
    measures = (*CONDITION_QUANTITIES, "top5", "brier", "mce", "relative_mce")
    needs = "images of 1, 3 or 4 channels that are large enough"

    types: tuple[str, ...]
    severities: tuple[int, ...]
    images: str  # generated or published
    how: str  # with which constants, or from where
    obstacle: str  # why nothing was measured; "" if something was
    rows: tuple[Row, ...]
    scores: ConditionTable  # (rows)

    @property
    def accuracy(self) -> float:
        """Mean over all corruptions."""
        return self.of(ALL)  # of objects there is none: result.of("all", quantity="box_ap")

    def of(self, corruption: str, severity: int = 0, quantity: str = "accuracy") -> float:
        """A score: of a type, a family, `all` or `clean`; severity 0 is the mean over severities."""
        row = Row(corruption, severity)
        if row not in self.rows:
            raise VitscopeError(
                f"no {row.condition} in this result; it has {', '.join(self.types)} at {self.severities}"
            )
        if quantity not in (known := self.scores.known(QUANTITIES)):
            raise VitscopeError(f"no {quantity} in this result; it has {', '.join(known)}")
        return float(self.scores.of(quantity, self.rows.index(row)).value)

    def table(self) -> pd.DataFrame:
        """Scores by `condition`, `corruption` and `severity` (none: a mean); `images` are generated or published."""
        if not self.rows:
            return headline_rows((), 0)
        return condition_rows(
            [row.condition for row in self.rows],
            self.scores,
            ("accuracy", "top5", "nll", "brier", "ece"),
            corruption=[row.corruption for row in self.rows],
            severity=[row.severity or None for row in self.rows],
            images=[self.images] * len(self.rows),
        ).astype({"severity": "Int64"})

    def tables(self) -> dict[str, pd.DataFrame]:
        """The mean corruption error has a table of its own, beside the other headlines."""
        return {**super().tables(), "corruption_summary": self.summary()}


NOTHING = "these images cannot be corrupted"


_LINES = dict(zip(FAMILIES, ("-o", "--s", ":^", "-.D"), strict=True))


_SHORT = {"elastic_transform": "elastic", "jpeg_compression": "JPEG"}


@figure(
    "corruption",
    "Accuracy (of pixels: mIoU, of objects: AP of boxes) against the severity of corruptions, by family; bar: 95 % "
    "interval.",
)
def plot_corruption(
    result: CorruptionResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """A line per family from clean images (0) to the highest severity."""
    ax = axes_or_new(ax)
    if not result.rows:
        return nothing(ax, NOTHING)
    for place, (family, line) in enumerate(_LINES.items()):
        if any(row.corruption == family for row in result.rows):
            x, accuracy = _curve(result, family)
            accuracy.low[0] = accuracy.high[0] = accuracy.value[0]  # clean images are the same for all
            aside = np.where(x > 0, 0.05 * (place - 1.5), 0.0)  # so that bars do not cover each other
            style: dict[str, Any] = {"color": colour, "markersize": 4.5, "linewidth": 1.5}
            bars = {"fmt": line, "label": family, "elinewidth": 0.8, **style}
            draw_bars(ax, x + aside, accuracy.scaled(100), **bars)
    _severity_axis(ax, [result])
    legend_above(ax, columns=4)
    return ax


@figure(
    "corruption",
    "Mean accuracy over severities of each type, with its 95 % interval; dashed: clean images.",
    "corruption_types",
)
def plot_corruption_types(
    result: CorruptionResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """A bar per type of corruption."""
    return plot_corruptions_types([result], ax, [colour])


@checked
def plot_corruptions(
    results: Annotated[Sequence[CorruptionResult], NotEmpty],
    ax: mpl.Axes | None = None,
    colours: Sequence[str] | None = None,
) -> mpl.Axes:
    """Several models on one axis: mean accuracy over types against severity.

    Args:
        results: One per model; those without corrupted images are left out.
        ax: Where to draw.
        colours: One per model; default: the colours of a comparison.
    """
    ax = axes_or_new(ax)
    models = in_colours(results, colours, lambda result: result.rows)
    if not models:
        return nothing(ax, NOTHING)
    for result, colour in models:
        draw_curve(ax, *_curve(result, ALL), colour, result.model)
    _severity_axis(ax, [result for result, _ in models])
    legend_above(ax)
    return ax


@checked
def plot_corruptions_types(
    results: Annotated[Sequence[CorruptionResult], NotEmpty],
    ax: mpl.Axes | None = None,
    colours: Sequence[str] | None = None,
) -> mpl.Axes:
    """Several models on one axis: a bar per type and model, over the accuracy on clean images.

    `plot_corruptions` documents the arguments.
    """
    ax = axes_or_new(ax)
    models = in_colours(results, colours, lambda result: result.rows)
    if not models:
        return nothing(ax, NOTHING)
    types = list(dict.fromkeys(kind for result, _ in models for kind in result.types))
    place = _places(types)
    width = 0.8 / len(models)
    for bar, (result, colour) in enumerate(models):
        x = np.array([place[kind] + (bar - (len(models) - 1) / 2) * width for kind in result.types])
        accuracy = _score(result, [Row(kind) for kind in result.types]).scaled(100)
        label = result.model if len(models) > 1 else None
        ax.bar(x, accuracy.value, 0.9 * width, color=colour, linewidth=0, label=label)
        draw_bars(ax, x, accuracy, fmt="none", ecolor=INK, elinewidth=0.9, capsize=1.2)
        clean = 100 * result.of(CLEAN, quantity=result.scores.main)
        dash = INK if len(models) == 1 else colour
        ax.axhline(clean, color=dash, linestyle="--", linewidth=1.0, alpha=0.8)
    _type_axis(ax, place, [result for result, _ in models])
    if len(models) > 1:
        legend_above(ax)
    return ax


def _places(types: Sequence[str]) -> dict[str, float]:
    """Where the bars of each type stand: families are apart."""
    families = [[kind for kind in kinds if kind in types] for kinds in FAMILIES.values()]
    place, x = {}, 0.0
    for kinds in families:
        for kind in kinds:
            place[kind] = x
            x += 1.0
        x += 0.6 if kinds else 0.0
    return place


def _curve(result: CorruptionResult, name: str) -> tuple[np.ndarray, Estimate[np.ndarray]]:
    """Severity and accuracy, from clean images on."""
    rows = [Row(CLEAN), *(Row(name, severity) for severity in result.severities)]
    return np.array([0, *result.severities]), _score(result, rows)


def _score(result: CorruptionResult, rows: Sequence[Row]) -> Estimate[np.ndarray]:
    return result.scores.of(result.scores.main, [result.rows.index(row) for row in rows])


def _severity_axis(ax: mpl.Axes, results: Sequence[CorruptionResult]) -> None:
    most = max(max(result.severities) for result in results)
    ax.set_xticks(range(most + 1), ["clean", *map(str, range(1, most + 1))])
    ax.set_xlim(-0.15, most + 0.15)
    ax.set_ylim(bottom=max(0.0, ax.get_ylim()[0]), top=min(100.0, ax.get_ylim()[1]))
    ax.set_xlabel(f"Severity ({_origin(results)} corruptions)")
    ax.set_ylabel(f"{SCORES[results[0].scores.main]} (%)")
    grid(ax)


def _type_axis(ax: mpl.Axes, place: dict[str, float], results: Sequence[CorruptionResult]) -> None:
    names = [_SHORT.get(kind, kind.replace("_", " ")) for kind in place]
    ax.set_xticks(list(place.values()), names, rotation=50, ha="right", rotation_mode="anchor", fontsize=8.5)
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.7, max(place.values()) + 0.7)
    ax.set_ylim(0.0, 100.0)
    ax.set_ylabel(f"{SCORES[results[0].scores.main]} (%), {_origin(results)} corruptions")
    grid(ax)


def _origin(results: Sequence[CorruptionResult]) -> str:
    return " and ".join(dict.fromkeys(result.images for result in results))


@reads("corruption")
def _corruption(result: Result) -> str:
    table, rows = result.table(), main_scores_of(result)
    quantity = main_quantity(table)
    clean = by_name(table).get(f"{quantity}, clean")
    mean = next((row for row in rows if row.condition.endswith(" corruptions")), None)
    if clean is None or mean is None:
        return ""
    text = f"{SCORES[quantity]} is {number(clean)} on clean images and {number(mean)} on average over {mean.condition}."
    families = [row for row in rows if row is not mean]
    return f"{text} It is lowest under {families[0].condition}: {number(families[0])}." if families else text
