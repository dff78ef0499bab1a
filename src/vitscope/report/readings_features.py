"""Readings of the exams that look inside a model: feature maps, similarity, lesions, attention."""

from typing import Any

from vitscope.claims.changes import changes_of
from vitscope.exams.attention.attention import AttentionResult
from vitscope.exams.attention.maps import MapsResult
from vitscope.exams.features.cka import CkaResult
from vitscope.results.numbers import with_interval as number
from vitscope.results.wording import by_name, extremes, plural, points, reads, rows_of
from vitscope.results import Result

_NAMES = {
    "fourier": "high frequencies change",
    "variance": "the variance over space changes",
}


@reads("fourier", "variance")
def _changes(result: Result) -> str:
    table = result.summary()
    what = _NAMES[result.exam]
    changes = rows_of(table, "change")
    units = changes[changes["unit"].notna()]
    if units.empty:
        return ""
    said = []
    for kind in dict.fromkeys(units["kind"]):
        found = changes_of(table, kind)
        assert found is not None
        mean = found.mean
        said.append(
            f"{mean.value:+.3g} [{mean.low:+.3g}, {mean.high:+.3g}] across {plural(kind)} ({found.counts})"
        )
    strongest = max(units.itertuples(), key=_size)
    return (
        f"On average {what} by {'; '.join(said)}. "
        f"The largest change is {number(strongest)} across {strongest.unit} ({strongest.kind})."
    )


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


@reads("softmax_gradient")
def _gradient(result: Result) -> str:
    share = rows_of(result.summary(), "share")
    if share.empty:
        return ""
    low, high = extremes(share)
    return (
        f"Attention passes on {100 * low.value:.0f} % ({low.unit}) to {100 * high.value:.0f} % ({high.unit}) of the "
        "largest gradient that it could."
    )


@reads("low_pass")
def _repeated(result: Result) -> str:
    rate = rows_of(result.summary(), "rate")
    if rate.empty:
        return ""
    fast, slow = extremes(rate)
    return (
        f"Applied again and again, attention leaves {fast.value:.2f} ({fast.unit}) to {slow.value:.2f} ({slow.unit}) "
        "of what is not constant over the map each time."
    )


@reads("effective_rank")
def _alike(result: Result) -> str:
    table = result.table()
    cosine = rows_of(table, "cosine").dropna(subset="value")
    if cosine.empty:
        return ""
    first, last = cosine.iloc[0], cosine.iloc[-1]
    changes = rows_of(table, "cosine_change")
    said = [
        f"{number(row)} across {plural(str(row.kind))}"
        for row in changes[changes["unit"].isna()].itertuples()
    ]
    mean = f" On average it changes by {'; '.join(said)}." if said else ""
    rank, bound = (rows_of(table, name).iloc[-1] for name in ("effective_rank", "rank_bound"))
    return (
        f"The cosine of two points goes from {number(first)} ({first.unit}) to {number(last)} ({last.unit}).{mean} "
        f"At the end the effective rank is {number(rank)} of at most {bound.value:.0f}."
    )


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
    _, deepest = extremes(sinks)
    return f"{text} The strongest sink is {deepest.token} in {deepest.unit}: {number(deepest)} times an even share."


@reads("maps")
def _maps(result: MapsResult) -> str:
    area = rows_of(result.table(), "area")
    if area.empty:
        return ""
    heads = area[area["head"] != "rollout"]
    first, last = (heads[heads["unit"] == result.units[place].name] for place in (0, -1))
    small, large = extremes(last)
    text = (
        f"In {result.units[-1].name}, heads mark {100 * small.value:.0f} % (head {small.head}) to "
        f"{100 * large.value:.0f} % (head {large.head}) of the map, over {result.n} images; the attention is that of "
        f"the {result.layers[-1].query}."
    )
    if len(result.units) == 1:
        return text
    means = [100 * rows["value"].mean() for rows in (first, last)]
    return f"{text} On average it is {means[1]:.0f} %, and {means[0]:.0f} % in {result.units[0].name}."


@reads("lesion")
def _lesion(result: Result) -> str:
    table = result.table()
    drops = rows_of(table, "drop")
    drops = drops[drops["unit"].notna()]
    if drops.empty:
        return ""
    _, worst = extremes(drops)
    clear = int((drops["low"] > 0).sum())
    rest = len(drops) - clear
    left = f"{rest} of {len(drops)} units can be removed one at a time without a clear loss."
    return (
        f"It hurts most to lose {worst.unit} ({worst.kind}), which costs {points(worst)} of accuracy. {left}"
    )


@reads("uncertainty")
def _uncertainty(result: Result) -> str:
    table = result.summary()
    data, model = rows_of(table, "data_std"), rows_of(table, "model_std")
    if data.empty or model.empty:
        return ""
    low, high = extremes(data)
    _, loud = extremes(model)
    return (
        f"Features differ most over the points of an image after {high.unit} ({number(high)}) and least after "
        f"{low.unit} ({number(low)}). Over passes they differ most after {loud.unit} ({number(loud)})."
    )


@reads("covariance")
def _covariance(result: Result) -> str:
    near = result.summary()
    near = near[near["value"].notna()]
    if near.empty:
        return ""
    first, *_, last = near.itertuples()
    return (
        f"On noise, neighbouring points correlate by {number(first)} after {first.unit} and by {number(last)} after "
        f"{last.unit}, {last.pixels:g} pixels of the image apart."
    )


@reads("cb_scale")
def _scale(result: Result) -> str:
    ratio = rows_of(result.summary(), "ratio")
    if ratio.empty:
        return ""
    low, high = extremes(ratio)
    return (
        f"The ratio of small to large scales runs from {low.value:.3g} ({low.unit}) to {high.value:.3g} "
        f"({high.unit})."
    )


def _size(row: Any) -> float:
    return abs(float(row.value))
