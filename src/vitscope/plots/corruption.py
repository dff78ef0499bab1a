"""Figures of the corruption exam."""

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
from matplotlib.axes import Axes

from vitscope.core.arguments import NotEmpty, checked
from vitscope.data.corruptions import FAMILIES
from vitscope.engine.robustness.conditions import QUANTITIES
from vitscope.engine.robustness.corruption_rows import ALL, CLEAN, Row
from vitscope.exams.robustness.corruption import CorruptionResult
from vitscope.drawing.curves import draw_curve, legend_above
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.heads import nothing
from vitscope.drawing.style import INK, MODELS, grid, model_colour

NOTHING = "these images cannot be corrupted"
_LINES = dict(zip(FAMILIES, ("-o", "--s", ":^", "-.D"), strict=True))
_SHORT = {"elastic_transform": "elastic", "jpeg_compression": "JPEG"}


@figure("corruption", "Accuracy against the severity of corruptions, by family; bar: 95 % interval.")
def plot_corruption(result: CorruptionResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """A line per family from clean images (0) to the highest severity."""
    ax = axes_or_new(ax)
    if not result.rows:
        return nothing(ax, NOTHING)
    for number, (family, line) in enumerate(_LINES.items()):
        if any(row.corruption == family for row in result.rows):
            x, value, low, high = _curve(result, family)
            reach = 100 * np.abs(np.stack([value - low, high - value]))
            reach[:, 0] = 0.0  # clean images are the same for all
            aside = np.where(x > 0, 0.05 * (number - 1.5), 0.0)  # so that bars do not cover each other
            style: dict[str, Any] = {"color": colour, "markersize": 4.5, "linewidth": 1.5}
            ax.errorbar(x + aside, 100 * value, reach, fmt=line, label=family, elinewidth=0.8, **style)
    _severity_axis(ax, [result])
    legend_above(ax, columns=4)
    return ax


@figure(
    "corruption",
    "Mean accuracy over severities of each type, with its 95 % interval; dashed: clean images.",
    "corruption_types",
)
def plot_corruption_types(result: CorruptionResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
    """A bar per type of corruption."""
    return plot_corruptions_types([result], ax, [colour])


@checked
def plot_corruptions(
    results: Annotated[Sequence[CorruptionResult], NotEmpty],
    ax: Axes | None = None,
    colours: Sequence[str] | None = None,
) -> Axes:
    """Several models on one axis: mean accuracy over types against severity.

    Args:
        results: One per model; those without corrupted images are left out.
        ax: Where to draw.
        colours: One per model; default: the colours of a comparison.
    """
    ax = axes_or_new(ax)
    drawn = [(i, result) for i, result in enumerate(results) if result.rows]
    if not drawn:
        return nothing(ax, NOTHING)
    for i, result in drawn:
        draw_curve(ax, *_curve(result, ALL), colours[i] if colours else model_colour(i), result.model)
    _severity_axis(ax, [result for _, result in drawn])
    legend_above(ax)
    return ax


@checked
def plot_corruptions_types(
    results: Annotated[Sequence[CorruptionResult], NotEmpty],
    ax: Axes | None = None,
    colours: Sequence[str] | None = None,
) -> Axes:
    """Several models on one axis: a bar per type and model, over the accuracy on clean images.

    Args:
        results: One per model; those without corrupted images are left out.
        ax: Where to draw.
        colours: One per model; default: the colours of a comparison.
    """
    ax = axes_or_new(ax)
    drawn = [(i, result) for i, result in enumerate(results) if result.rows]
    if not drawn:
        return nothing(ax, NOTHING)
    types = list(dict.fromkeys(kind for _, result in drawn for kind in result.types))
    place = _places(types)
    width = 0.8 / len(drawn)
    for number, (i, result) in enumerate(drawn):
        colour = colours[i] if colours else model_colour(i)
        x = np.array([place[kind] + (number - (len(drawn) - 1) / 2) * width for kind in result.types])
        value, low, high = _accuracy(result, [Row(kind) for kind in result.types])
        label = result.model if len(drawn) > 1 else None
        ax.bar(x, value, 0.9 * width, color=colour, linewidth=0, label=label)
        reach = np.abs(np.stack([value - low, high - value]))
        ax.errorbar(x, value, reach, fmt="none", ecolor=INK, elinewidth=0.9, capsize=1.2)
        clean = 100 * result.of(CLEAN)
        dash = INK if len(drawn) == 1 else colour
        ax.axhline(clean, color=dash, linestyle="--", linewidth=1.0, alpha=0.8)
    _type_axis(ax, place, [result for _, result in drawn])
    if len(drawn) > 1:
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


def _curve(result: CorruptionResult, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Severity, accuracy and its interval as shares, from clean images on."""
    rows = [Row(CLEAN), *(Row(name, severity) for severity in result.severities)]
    value, low, high = _accuracy(result, rows)
    return np.array([0, *result.severities]), value / 100, low / 100, high / 100


def _accuracy(result: CorruptionResult, rows: Sequence[Row]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """In per cent, with its interval."""
    chosen, column = [result.rows.index(row) for row in rows], QUANTITIES.index("accuracy")
    scores = result.scores
    value, low, high = (100 * a[chosen, column] for a in (scores.value, scores.low, scores.high))
    return value, low, high


def _severity_axis(ax: Axes, results: Sequence[CorruptionResult]) -> None:
    most = max(max(result.severities) for result in results)
    ax.set_xticks(range(most + 1), ["clean", *map(str, range(1, most + 1))])
    ax.set_xlim(-0.15, most + 0.15)
    ax.set_ylim(bottom=max(0.0, ax.get_ylim()[0]), top=min(100.0, ax.get_ylim()[1]))
    ax.set_xlabel(f"Severity ({_origin(results)} corruptions)")
    ax.set_ylabel("Accuracy (%)")
    grid(ax)


def _type_axis(ax: Axes, place: dict[str, float], results: Sequence[CorruptionResult]) -> None:
    names = [_SHORT.get(kind, kind.replace("_", " ")) for kind in place]
    ax.set_xticks(list(place.values()), names, rotation=50, ha="right", rotation_mode="anchor", fontsize=8.5)
    ax.tick_params(axis="x", length=0)
    ax.set_xlim(-0.7, max(place.values()) + 0.7)
    ax.set_ylim(0.0, 100.0)
    ax.set_ylabel(f"Accuracy (%), {_origin(results)} corruptions")
    grid(ax)


def _origin(results: Sequence[CorruptionResult]) -> str:
    return " and ".join(dict.fromkeys(result.images for result in results))
