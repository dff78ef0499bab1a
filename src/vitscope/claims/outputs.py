"""Claims about what comes out of a model: accuracy under noise (D2), confidence (F1), the curvature of the loss (C5).

D2: a CNN falls under noise of high frequencies, a vision transformer under noise of low ones. Decided by the mean drop
over the bands above 0.5 pi minus that over the bands below, on the same images; a model that has both convolutions and
attention in its residual units is not spoken of.

F1: strong augmentation makes predictions under-confident, and training without it over-confident. That is about two
trainings of one model, which are judged by confidence minus accuracy, image by image. What a single model shows is told
without a verdict, as expected or not where its run says how it was trained.

C5: a vision transformer has more negative Hessian max eigenvalues than a CNN, and smaller positive ones; AlterNet has
fewer large ones than the CNN that it was made from: its positive ones are smaller on average. Both spectra have to be
of the same batches, drawn and augmented alike: then the difference of two replicates is a replicate of the paired
difference. It is over batches: what another training of the same two models would give is not known.
"""

from collections.abc import Mapping
from typing import Any, Literal

from vitscope.claims.verdict import ONE_TRAINING, Rule, Verdict
from vitscope.core.bootstrap import percentile_interval, standard_error
from vitscope.core.errors import BadResult, VitscopeError
from vitscope.core.statistics import Estimate, difference_interval
from vitscope.findings.frequency_noise import HIGH_MINUS_LOW, FrequencyNoiseResult
from vitscope.findings.hessian import HessianResult
from vitscope.findings.prediction import QUANTITIES, PredictionResult
from vitscope.results import Result
from vitscope.results.condition_rows import Headline
from vitscope.results.loss_numbers import Quantity, difference
from vitscope.results.paired import check_same_images

STATEMENT = "strong augmentation makes predictions under-confident"
MIXING = ("mixup", "cutmix")
SINGLE = ("auto_augment", "erase", "label_smoothing")
Augmentation = Literal["strong", "weak"]
ALIKE = ("data", "images_digest", "seed", "n", "batch_size", "weight_decay", "convention", "augmentation")
LEAST_BATCHES = 8  # fewer do not tell how far the spectrum of one batch lies from that of another
_HIGH_MINUS_LOW = "drop of accuracy under noise above 0.5π minus below it"
_EIGENVALUES = {"nep": "share of negative eigenvalues (NEP)", "ape": "mean of the positive eigenvalues (APE)"}


def robustness_verdicts(model: str, results: Mapping[str, Result]) -> list[Verdict]:
    """Every claim about a single model that `results` (by exam name) can decide."""
    result = results.get("frequency_noise")
    if not isinstance(result, FrequencyNoiseResult):
        return []
    attends, convolves = "msa" in result.kinds, "conv" in result.kinds
    drop = _high_minus_low(result)
    if drop is None or attends == convolves:
        return []
    return [
        Verdict(
            "D2",
            f"falls most under {'low' if attends else 'high'}-frequency noise",
            model,
            _HIGH_MINUS_LOW,
            drop.estimate.scaled(100),
            unit="points",
            over=f"{result.n} images",
            rule=Rule("below" if attends else "above"),
        )
    ]


def noise_verdict(convolutional: FrequencyNoiseResult, attentive: FrequencyNoiseResult) -> Verdict:
    """Is a CNN hurt by high frequencies rather than low ones more than a vision transformer is, on the same images?"""
    check_same_images(convolutional, attentive)
    first, second = _high_minus_low(convolutional), _high_minus_low(attentive)
    if first is None or second is None:
        raise VitscopeError(
            "the images have no bands of noise on both sides of 0.5π; use images of 8 pixels or more"
        )
    drawn = first.drawn - second.drawn
    numbers = Estimate(drawn[0], *difference_interval(drawn[0], standard_error(drawn[1:]), convolutional.n))
    return Verdict(
        "D2",
        "high-frequency noise hurts the CNN more, low-frequency noise the ViT",
        f"{convolutional.model} minus {attentive.model}",
        f"{_HIGH_MINUS_LOW}, of the CNN minus of the ViT",
        numbers.each(float).scaled(100),
        unit="points",
        over=f"{convolutional.n} images",
        rule=Rule("above"),
        scope=ONE_TRAINING,
    )


def _high_minus_low(result: FrequencyNoiseResult) -> Headline | None:
    return next((h for h in result.headlines if h.condition == HIGH_MINUS_LOW), None)


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
    both = (strong.replicates(), weak.replicates())
    with_strong, with_weak = (100 * (found["confidence"] - found["accuracy"]) for found in both)
    drawn = with_strong - with_weak
    numbers = Estimate(drawn[0], *percentile_interval(drawn[1:]))
    return [
        Verdict(
            "F1",
            STATEMENT,
            strong.model,
            "confidence minus accuracy, with strong augmentation minus with weak",
            numbers.each(float),
            unit="points",
            over=f"{strong.n} images",
            rule=Rule("below"),
            evidence=f"strong {with_strong[0]:+.1f}, weak {with_weak[0]:+.1f}",
            scope=ONE_TRAINING,
        )
    ]


def transformer_verdicts(transformer: HessianResult, cnn: HessianResult) -> list[Verdict]:
    """What C5 says of a vision transformer beside a CNN."""
    return [
        _spectra(transformer, cnn, "nep", Rule("above"), "more negative eigenvalues than a CNN"),
        _spectra(transformer, cnn, "ape", Rule("below"), "smaller positive eigenvalues than a CNN"),
    ]


def alternet_verdicts(alternet: HessianResult, cnn: HessianResult) -> list[Verdict]:
    """What C5 says of an AlterNet beside the CNN that it was made from."""
    return [_spectra(alternet, cnn, "ape", Rule("below"), "fewer large eigenvalues than its CNN")]


def _spectra(
    model: HessianResult, other: HessianResult, quantity: Quantity, rule: Rule, statement: str
) -> Verdict:
    for name in ALIKE:
        own, its = getattr(model, name), getattr(other, name)
        if own != its:
            raise BadResult(
                f"the spectra of {model.model} and {other.model} differ in {name} ({own}, {its}); "
                "examine both with the same"
            )
    batches = len(model.eigenvalues)
    few = f"{batches} batches are too few for a verdict, which takes at least {LEAST_BATCHES}"
    return Verdict(
        "C5",
        statement,
        model.model,
        f"difference in the {_EIGENVALUES[quantity]}",
        difference(model.eigenvalues, other.eigenvalues, quantity, model.seed),
        unit="",
        over=f"{batches} batches",
        rule=rule,
        evidence=f"{quantity.upper()} {getattr(model, quantity):.3g}, {other.model} {getattr(other, quantity):.3g}",
        scope=ONE_TRAINING,
        lacking=few if batches < LEAST_BATCHES else "",
    )
