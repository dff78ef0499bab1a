"""What `attention` finds: result, reading and figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vitscope.core import pd
from vitscope.core.statistics import Estimate, without_interval
from vitscope.drawing import mpl
from vitscope.drawing.curves import legend_above, nothing, plot_heads
from vitscope.drawing.figures import axes_or_new, figure
from vitscope.drawing.style import INK, MODELS
from vitscope.results import About, Result, tidy
from vitscope.results.numbers import extremes, reads, rows_of
from vitscope.results.numbers import with_interval as number
from vitscope.results.table import HeadRows

QUANTITIES = (
    "entropy",
    "class_entropy",
    "distance",
    "distance_patches",
    "prefix",
    "diagonal",
    "similarity",
)


@dataclass(frozen=True, eq=False, kw_only=True)
class AttentionResult(HeadRows, Result, exam="attention", after="cka"):
    """`QUANTITIES` per layer and head, and the percentile of the entropy, (rows,)."""

    about = About(
        title="Attention",
        shows="Mean entropy of the attention of each layer (line) and head (dots), its 15th percentile "
        "(dashed) and the entropy of uniform attention (dotted); below, how far attention reaches.",
        papers="In the paper, the entropy of a ViT is high in most layers, up to 4.4 of at most 5.28: attention is "
        "dense. Context Broadcasting lowers it, most in deep layers, and leaves the distance as it was.",
        misleads="The bound depends on the number of keys: compare shares of the bound between layers with windows "
        "or pooled keys. A high entropy says that attention is spread out, not that it is unimportant where.",
    )
    measures = (*QUANTITIES, "entropy_p15", "entropy_bound")
    needs = "a model with attention"

    quantities = QUANTITIES

    percentile: Estimate[np.ndarray]  # of the entropy
    bound: np.ndarray  # (units,): largest possible entropy

    def table(self) -> pd.DataFrame:
        """Every quantity per layer (`head` empty) and head, and `entropy_bound` per layer."""
        bound = tidy("entropy_bound", *without_interval(self.bound), self.n, self.units)
        bound["head"] = pd.array([None] * len(bound), dtype="Int64")
        return pd.concat(
            [super().table(), self.rows("entropy_p15", self.percentile), bound], ignore_index=True
        )


NO_ATTENTION = "no attention over the map in this model"


@figure("attention", "Entropy of the attention of each layer and head, and what it can be at most.")
def plot_attention(result: AttentionResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]) -> mpl.Axes:
    """Entropy against depth: mean and 15th percentile per layer, heads as dots, and the bound."""
    ax = axes_or_new(ax)
    if not result.units:
        return nothing(ax, NO_ATTENTION)
    depth = np.array([u.depth for u in result.units])
    layers = result.layers
    plot_heads(ax, result, "entropy", colour, "mean")
    ax.plot(
        depth, result.percentile.value[layers], "--", color=colour, linewidth=1.3, label="15th percentile"
    )
    ax.plot(depth, result.bound, ":", color=INK, linewidth=1.3, label="uniform attention")
    ax.set_ylim(0.0, 1.05 * float(result.bound.max()))
    ax.set_ylabel("Entropy (nats)")
    legend_above(ax, handlelength=1.6)
    return ax


@figure("attention", "How far the attention of each layer and head reaches.", "attention_distance")
def plot_attention_distance(
    result: AttentionResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Relative distance against depth."""
    ax = axes_or_new(ax)
    if not result.units:
        return nothing(ax, NO_ATTENTION)
    plot_heads(ax, result, "distance", colour)
    top = float(np.nanmax(result.of("distance")[0], initial=0.0))
    ax.set_ylim(0.0, 1.08 * top or 1.0)
    ax.set_ylabel("Distance (image side = 1)")
    return ax


@figure(
    "attention",
    "Share of the attention on a point itself and on prefix tokens, and how alike heads are.",
    "attention_heads",
)
def plot_attention_heads(
    result: AttentionResult, ax: mpl.Axes | None = None, colour: str = MODELS[0]
) -> mpl.Axes:
    """Diagonal mass, prefix mass and head similarity of the layers against depth."""
    ax = axes_or_new(ax)
    if not result.units:
        return nothing(ax, NO_ATTENTION)
    labels = {"similarity": "head similarity", "diagonal": "on itself", "prefix": "on prefix tokens"}
    for shade, (quantity, label) in zip((colour, INK, "#8b929b"), labels.items(), strict=True):
        plot_heads(ax, result, quantity, shade, label, dots=False)
    ax.set_ylim(0.0, 1.0)
    ax.set_ylabel("Share")
    legend_above(ax, handlelength=1.6)
    return ax


@reads("attention")
def _entropy(result: AttentionResult) -> str:
    table = result.summary()
    entropy, bound = rows_of(table, "entropy"), rows_of(table, "entropy_bound").set_index("unit")["value"]
    if entropy.empty:
        return ""
    share = entropy["value"].to_numpy() / bound.loc[entropy["unit"]].to_numpy()
    low, high = extremes(entropy)
    first = (
        f"Attention has {100 * share.mean():.0f} % of the largest possible entropy on average; it is most focused in "
        f"{low.unit} ({number(low)} nats) and most spread in {high.unit} ({number(high)})."
    )
    distance = rows_of(table, "distance")
    if distance.empty:
        return first
    near, far = extremes(distance)
    return f"{first} It reaches {near.value:.2f} of the map's width in {near.unit} and {far.value:.2f} in {far.unit}."
