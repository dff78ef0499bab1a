"""Readings of the exams of an evaluation: how good, how calibrated and how robust predictions are."""

from typing import Any

from vitscope.engine.streams.temporal_result import TemporalResult
from vitscope.results.numbers import with_interval as number
from vitscope.results.wording import by_name, points, reads
from vitscope.results import Result


@reads("prediction")
def _prediction(result: Result) -> str:
    rows = by_name(result.table())
    accuracy, confidence, signed = rows["accuracy"], rows["confidence"], rows["signed_ece"]
    if signed.low > 0:
        calibration = "it is more confident than right"
    elif signed.high < 0:
        calibration = "it is more often right than it says"
    else:
        calibration = "neither over- nor under-confidence is certain"
    return (
        f"It is right about {number(accuracy)} of {result.n} images and says so with a mean confidence of "
        f"{number(confidence)}: {calibration}. The calibration error is {number(rows['ece'])}, the NLL "
        f"{number(rows['nll'])}."
    )


@reads("frequency_noise")
def _noise(result: Result) -> str:
    rows = by_name(result.summary())
    low, high = rows.get("drop, noise below 0.5π"), rows.get("drop, noise above 0.5π")
    difference = rows.get("drop, noise above minus below 0.5π")
    if low is None or high is None or difference is None:
        return ""
    more = "high" if difference.low > 0 else "low" if difference.high < 0 else ""
    judged = f"{more} frequencies hurt more" if more else "neither side clearly hurts more"
    return (
        f"Noise of low frequencies costs {points(low)} of accuracy, of high frequencies {points(high)}; {judged} "
        f"(difference {points(difference)})."
    )


@reads("occlusion")
def _occlusion(result: Result) -> str:
    clean, rows = by_name(result.table()).get("accuracy, clean"), by_name(result.summary())
    centre = rows.get("accuracy, centre masked")
    if clean is None or centre is None:
        return ""
    text = f"With the centre masked accuracy falls from {number(clean)} to {number(centre)}."
    salient, other = (rows.get(f"accuracy, {name} patches masked") for name in ("salient", "non-salient"))
    if salient is None or other is None:
        return text
    return f"{text} Without salient patches it is {number(salient)} on average, without the others {number(other)}."


@reads("adversarial", "blur", "noise")
def _conditions(result: Result) -> str:
    clean, rows = by_name(result.table()).get("accuracy, clean"), _accuracies(result)
    if clean is None or not rows:
        return ""
    mildest, worst = rows[-1], rows[0]
    return (
        f"Accuracy is {number(clean)} on the images as they are, {number(mildest)} under {mildest.condition} and "
        f"{number(worst)} under {worst.condition}."
    )


@reads("corruption")
def _corruption(result: Result) -> str:
    clean, rows = by_name(result.table()).get("accuracy, clean"), _accuracies(result)
    mean = next((row for row in rows if row.condition.endswith(" corruptions")), None)
    if clean is None or mean is None:
        return ""
    text = f"Accuracy is {number(clean)} on clean images and {number(mean)} on average over {mean.condition}."
    families = [row for row in rows if row is not mean]
    return f"{text} It is lowest under {families[0].condition}: {number(families[0])}." if families else text


def _accuracies(result: Result) -> list[Any]:
    """The rows of the summary that are accuracies, lowest first."""
    rows = [row for row in by_name(result.summary()).values() if row.quantity == "accuracy"]
    return sorted(rows, key=lambda row: float(row.value))


@reads("shape_bias")
def _shape(result: Result) -> str:
    rows = by_name(result.summary())
    bias = next((row for name, row in rows.items() if name.startswith("shape_bias, cut")), None)
    crossover = next((row for row in rows.values() if row.quantity == "crossover"), None)
    if bias is None or bias.value != bias.value:
        return ""
    side = "the shape" if bias.low > 0.5 else "the texture" if bias.high < 0.5 else "neither side"
    text = f"Where low and high frequencies of two images are mixed, {side} clearly decides: bias {number(bias)}."
    if crossover is None or crossover.value != crossover.value:
        return text
    return f"{text} Both weigh the same when cut at {number(crossover)} π."


@reads("passes")
def _passes(result: Result) -> str:
    table = result.table()
    accuracy = table[table["quantity"] == "accuracy"]
    accuracy = accuracy[~accuracy["smoothed"].astype(bool)]
    if len(accuracy) < 2:
        return ""
    first, last = accuracy.iloc[0], accuracy.iloc[-1]
    nll = table[table["quantity"] == "nll"].set_index(["passes", "smoothed"])["value"]
    change = float(nll.loc[(last["passes"], False)]) - float(nll.loc[(first["passes"], False)])
    return (
        f"Averaging {last['passes']} passes takes accuracy from {number(first)} to {number(last)} and changes the NLL "
        f"by {change:+.3f}."
    )


@reads("temporal")
def _temporal(result: TemporalResult) -> str:
    if not result.temporal.any():
        return ""
    smoothed = int(result.temporal.argmax())  # the first that is; what it smooths stands before it
    rows = by_name(result.summary())
    before, after = result.names[smoothed - 1], result.names[smoothed]
    accuracy, nll, steady = (
        (rows[f"{quantity}, {before}"], rows[f"{quantity}, {after}"])
        for quantity in ("accuracy", "nll", "consistency")
    )
    return (
        f"Averaged with the last frames, predictions are right about {number(accuracy[1])} instead of "
        f"{number(accuracy[0])} of {result.n} frames, with an NLL of {nll[1].value:.3g} instead of {nll[0].value:.3g}. "
        f"The predicted class stays the same in {100 * steady[1].value:.0f} % instead of "
        f"{100 * steady[0].value:.0f} % of the steps from frame to frame."
    )
