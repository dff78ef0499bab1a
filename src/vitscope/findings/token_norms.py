"""What `token_norms` finds: result, reading and figures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from vitscope.core import pd
from vitscope.core.statistics import Estimate
from vitscope.drawing import mpl
from vitscope.drawing.curves import along_depth, colour_bar, draw_bands, draw_bars, legend_above, nothing
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK, MODELS, grid, logarithmic, model_colour
from vitscope.results import About, Result, UnitRow, column, tidy, tidy_columns
from vitscope.results.numbers import extremes, reads, rows_of
from vitscope.results.numbers import with_interval as number
from vitscope.results.table import Estimated

PERCENTILES = (5, 50, 95, 99)


QUANTITIES = (
    "norm",
    *(f"norm_p{p}" for p in PERCENTILES),
    "peak",
    "outliers",
    "outlier_images",
    "border",
    "contrast",
)


OUTLIERS, OTHERS = "outliers", "other points"


@dataclass(frozen=True, eq=False, kw_only=True)
class TokenNormsResult(Estimated, Result, exam="token_norms", after="low_pass"):
    """`value`, `low` and `high` are (units, QUANTITIES); attention has rows of its own."""

    about = About(
        title="Token norms and attention sinks",
        shows="Norms of the tokens after each unit: median, the middle 90 % and the 99th percentile; the share of "
        "tokens with a norm of more than 4 times their image's median; and how much attention these, the class token "
        "and registers receive for each token, where 1 is an even share.",
        papers="Large vision transformers that were trained for long turn a few tokens on plain background into "
        "outliers with 5 to 10 times the norm of the rest, and attention drains into them. Register tokens take over "
        "their part, and the maps become clean (Darcet et al., 2024).",
        misleads="A token may be long because its patch is: in the first units norms follow the contrast of the image. "
        "Where the last norm comes after the unit, norms before it are not what the head reads. Few outliers have wide "
        "intervals, and where there is none they sit nowhere.",
    )
    measures = (*QUANTITIES, "attention", "sink")

    units: tuple[UnitRow, ...]
    place_unit: np.ndarray  # index of the unit of each point
    place_share: np.ndarray  # of images in which the point is an outlier
    attending: tuple[UnitRow, ...]
    skipped: tuple[tuple[str, str], ...]  # attention that was left out, and why
    row_unit: np.ndarray  # index of the attending unit of each row
    row_token: tuple[str, ...]
    row_tokens: np.ndarray  # how many tokens the row is about, per image on average
    share: Estimate[np.ndarray]
    sink: Estimate[np.ndarray]

    def of(self, quantity: str) -> Estimate[np.ndarray]:
        """Value and interval of one quantity, a number per unit."""
        return column(self, QUANTITIES, quantity)

    def place(self, unit: int) -> np.ndarray:
        """(H, W): the share of images in which each point after a unit is an outlier."""
        shape = self.units[unit].map_shape
        assert shape is not None
        return self.place_share[self.place_unit == unit].reshape(shape[1:])

    def table(self) -> pd.DataFrame:
        """`QUANTITIES` after each unit; `attention` and `sink` of each MSA by `token`."""
        levels = tidy_columns(self, QUANTITIES, self.n, self.units)
        units, tokens = [self.attending[i] for i in self.row_unit], list(self.row_token)
        share = tidy("attention", *self.share, self.n, units, token=tokens)
        sink = tidy("sink", *self.sink, self.n, units, token=tokens)
        return pd.concat([levels, share, sink], ignore_index=True)

    def tables(self) -> dict[str, pd.DataFrame]:
        """The numbers, where outliers sit, and the attention that was left out."""
        widths = [unit.map_shape[2] if unit.map_shape else 1 for unit in self.units]
        width = np.array(widths, dtype=np.int64)[self.place_unit]
        first = np.searchsorted(self.place_unit, self.place_unit)
        point = np.arange(len(self.place_unit)) - first
        names = [self.units[i].name for i in self.place_unit]
        places = {"unit": names, "row": point // width, "column": point % width, "share": self.place_share}
        skipped = pd.DataFrame(list(self.skipped), columns=["unit", "reason"])
        return {**super().tables(), "places": pd.DataFrame(places), "skipped": skipped}


MAPS = 4  # units shown as maps


@figure(
    "token_norms",
    "Norms of the tokens after each unit: median, middle 90 % (shaded), 99th percentile (dashed).",
)
def plot_token_norms(
    result: TokenNormsResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Percentiles of the norms against depth."""
    ax = axes_or_new(ax)
    depth = np.array([unit.depth for unit in result.units])
    draw_bands(ax, result.units)
    ax.fill_between(
        depth, result.of("norm_p5")[0], result.of("norm_p95")[0], color=colour, alpha=0.25, linewidth=0
    )
    ax.plot(depth, result.of("norm_p50")[0], "-o", color=colour, markersize=3.6, linewidth=1.6)
    ax.plot(depth, result.of("norm_p99")[0], "--", color=colour, linewidth=1.3)
    logarithmic(ax)
    ax.set_xlim(min(0.0, float(depth.min())), max(1.0, float(depth.max())))
    ax.set_xlabel("Normalised depth")
    ax.set_ylabel("Norm of a token")
    grid(ax)
    return ax


@figure(
    "token_norms",
    "Attention that a token of each sort receives, relative to an even share (dotted).",
    "attention_sinks",
)
def plot_attention_sinks(
    result: TokenNormsResult, ax: mpl.Axes | None = None, colour: str | None = None
) -> mpl.Axes:
    """Attention per token against depth, for prefix tokens, outliers and all others."""
    ax = axes_or_new(ax)
    if not result.attending:
        return nothing(ax, "no attention over the map in this model")
    token = np.array(result.row_token)
    sorts = [sort for sort in dict.fromkeys(result.row_token) if sort != OTHERS]
    for place, sort in enumerate([*sorts, OTHERS]):
        rows = (token == sort) & np.isfinite(result.sink.value)
        if not rows.any():
            continue
        shade = "#8b929b" if sort == OTHERS else model_colour(place)
        depth = np.array([result.attending[i].depth for i in result.row_unit[rows]])
        style: dict[str, Any] = {"fmt": "-o", "markersize": 4, "linewidth": 1.5, "elinewidth": 0.9}
        draw_bars(ax, depth, result.sink.at(rows), color=shade, label=sort, **style)
    ax.axhline(1.0, color=INK, linewidth=1.3, linestyle=":")
    along_depth(ax)
    logarithmic(ax)
    ax.set_ylabel("Attention per token, even share = 1")
    legend_above(ax, handlelength=1.6, borderaxespad=None)
    return ax


@figure(
    "token_norms",
    "Where tokens are outliers, as a share of images, after the units that have most of them.",
    "outlier_places",
)
def plot_outlier_places(
    result: TokenNormsResult, ax: mpl.Axes | None = None, colour: str | None = None
) -> mpl.Axes:
    """Maps of the share of images in which each point is an outlier."""
    ax = axes_or_new(ax)
    share = result.of("outliers")[0]
    most = sorted(np.argsort(-share, kind="stable")[:MAPS].tolist())
    most = [i for i in most if share[i] > 0]
    if not most:
        return nothing(ax, f"no token is an outlier in any of {result.n} images")
    ax.set_axis_off()
    top = max(float(result.place(i).max()) for i in most)
    columns, rows = min(2, len(most)), -(-len(most) // 2)
    for place, i in enumerate(most):
        row, column = divmod(place, columns)
        width, height = 0.84 / columns, 0.80 / rows
        box = (column * (width + 0.06), 1.0 - height - row * (height + 0.16), width, height)
        panel = ax.inset_axes(box)
        drawn = panel.imshow(result.place(i), cmap="magma", vmin=0.0, vmax=top, interpolation="nearest")
        panel.set_xticks([])
        panel.set_yticks([])
        panel.set_title(f"{result.units[i].name}: {100 * share[i]:.2g} % of tokens", fontsize=9.0, pad=3.0)
    colour_bar(ax, "Share of images", drawn)
    return ax


@reads("token_norms")
def _norms(result: Result) -> str:
    table = result.table()
    outliers = rows_of(table, "outliers")
    if outliers.empty:
        return ""
    _, most = extremes(outliers)
    if not most.value > 0:
        text = f"No token of {result.n} images has a norm of more than 4 times the median of its image."
    else:
        text = (
            f"Most outliers are after {most.unit}: {100 * most.value:.2g} % of the tokens have a norm of more than "
            "4 times their image's median."
        )
    sinks = rows_of(table, "sink").dropna(subset="value")
    sinks = sinks[sinks["token"] != "other points"]
    if sinks.empty:
        return text
    clear = sinks[sinks["low"] > 1]
    _, deepest = extremes(sinks if clear.empty else clear)
    if not deepest.low > 1:
        return (
            f"{text} No token is clearly a sink: the most attention goes to {deepest.token} in {deepest.unit}, "
            f"{number(deepest)} times an even share."
        )
    return f"{text} The strongest sink is {deepest.token} in {deepest.unit}: {number(deepest)} times an even share."
