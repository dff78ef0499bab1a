"""Figures of the token-norms exam."""

import numpy as np
from matplotlib.axes import Axes

from vitscope.exams.attention.token_norms import OTHERS, TokenNormsResult
from vitscope.drawing.depth import draw_bands
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.heads import along_depth, nothing
from vitscope.drawing.style import INK, MODELS, grid, logarithmic, model_colour

MAPS = 4  # units shown as maps


@figure(
    "token_norms",
    "Norms of the tokens after each unit: median, middle 90 % (shaded), 99th percentile (dashed).",
)
def plot_token_norms(result: TokenNormsResult, ax: Axes | None = None, colour: str = MODELS[0]) -> Axes:
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
def plot_attention_sinks(result: TokenNormsResult, ax: Axes | None = None, colour: str | None = None) -> Axes:
    """Attention per token against depth, for prefix tokens, outliers and all others."""
    ax = axes_or_new(ax)
    if not result.attending:
        return nothing(ax, "no attention over the map in this model")
    token = np.array(result.row_token)
    sorts = [sort for sort in dict.fromkeys(result.row_token) if sort != OTHERS]
    for place, sort in enumerate([*sorts, OTHERS]):
        rows = (token == sort) & np.isfinite(result.sink)
        if not rows.any():
            continue
        shade = "#8b929b" if sort == OTHERS else model_colour(place)
        depth = np.array([result.attending[i].depth for i in result.row_unit[rows]])
        reach = np.abs(np.stack([result.sink - result.sink_low, result.sink_high - result.sink]))[:, rows]
        ax.errorbar(
            depth,
            result.sink[rows],
            reach,
            fmt="-o",
            color=shade,
            markersize=4,
            linewidth=1.5,
            elinewidth=0.9,
            label=sort,
        )
    ax.axhline(1.0, color=INK, linewidth=1.3, linestyle=":")
    along_depth(ax)
    logarithmic(ax)
    ax.set_ylabel("Attention per token, even share = 1")
    ax.legend(ncols=3, handlelength=1.6, columnspacing=1.2, loc="lower left", bbox_to_anchor=(0.0, 1.0))
    return ax


@figure(
    "token_norms",
    "Where tokens are outliers, as a share of images, after the units that have most of them.",
    "outlier_places",
)
def plot_outlier_places(result: TokenNormsResult, ax: Axes | None = None, colour: str | None = None) -> Axes:
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
    drawing = ax.get_figure()
    if drawing is not None:
        bar = drawing.colorbar(drawn, ax=ax, pad=0.02, aspect=30)
        bar.set_label("Share of images")
        bar.outline.set_visible(False)
    return ax
