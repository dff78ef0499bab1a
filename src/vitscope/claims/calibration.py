"""The claim that strong augmentation makes predictions under-confident, and training without it over-confident: F1.

It is about two trainings, so that a single model decides nothing: what it shows is told without a verdict, as expected
or not where its run says how it was trained. Two trainings of one model on the same images, one with strong and one
with weak augmentation, are judged by confidence minus accuracy, image by image.
"""

from collections.abc import Mapping
from typing import Any, Literal

from vitscope.claims.verdict import ONE_TRAINING, Rule, Verdict
from vitscope.core.statistics import percentile_interval
from vitscope.findings.prediction import QUANTITIES, PredictionResult
from vitscope.results.paired import check_same_images

STATEMENT = "strong augmentation makes predictions under-confident"
MIXING = ("mixup", "cutmix")
SINGLE = ("auto_augment", "erase", "label_smoothing")
Augmentation = Literal["strong", "weak"]


def augmentation_of(recipe: Mapping[str, Any]) -> Augmentation | None:
    """How a training augmented: strong is RandAugment and mixing, weak is nothing but cropping and mirroring.

    None for what lies between, and for runs of earlier versions, which did not record it.
    """
    if not recipe.keys() >= {*MIXING, *SINGLE, "mix_probability"}:
        return None
    mixes = bool(recipe["mix_probability"]) and any(recipe[name] for name in MIXING)
    if mixes and recipe["auto_augment"]:
        return "strong"
    return None if mixes or any(recipe[name] for name in SINGLE) else "weak"


def confidence_found(result: PredictionResult, augmentation: Augmentation | None) -> str:
    """What one model shows, and whether its training lets one expect it."""
    column = QUANTITIES.index("signed_ece")
    value, low, high = (100 * float(ends[column]) for ends in (result.value, result.low, result.high))
    side = "under-confident" if high < 0 else "over-confident" if low > 0 else "neither side is certain"
    expected = {"strong": "under-confident", "weak": "over-confident"}
    told = "no verdict: the claim compares two trainings"
    if augmentation is not None and side.endswith("confident"):
        word = "as" if side == expected[augmentation] else "unlike what is"
        told = f"{word} expected of {augmentation} augmentation, which it was trained with; {told}"
    return f"confidence minus accuracy {value:+.1f} points [{low:+.1f}, {high:+.1f}]: {side}; {told}"


def augmentation_verdicts(strong: PredictionResult, weak: PredictionResult) -> list[Verdict]:
    """F1 on two trainings of one model, the first with strong augmentation and the second with weak."""
    check_same_images(strong, weak)
    drawn = [
        100 * (found["confidence"] - found["accuracy"]) for found in (strong.replicates(), weak.replicates())
    ]
    difference = drawn[0] - drawn[1]
    low, high = (float(end) for end in percentile_interval(difference[1:]))
    return [
        Verdict(
            claim="F1",
            statement=STATEMENT,
            model=strong.model,
            statistic="confidence minus accuracy, with strong augmentation minus with weak",
            value=float(difference[0]),
            low=low,
            high=high,
            unit="points",
            over=f"{strong.n} images",
            rule=Rule("below"),
            evidence=f"strong {drawn[0][0]:+.1f}, weak {drawn[1][0]:+.1f}",
            scope=ONE_TRAINING,
        )
    ]
