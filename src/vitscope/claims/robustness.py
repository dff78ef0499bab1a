"""Claims about robustness: D2.

D2: a CNN falls under noise of high frequencies, a vision transformer under noise of low ones. Decided by the mean drop
over the bands above 0.5 pi minus that over the bands below, on the same images; a model that has both convolutions and
attention in its residual units is not spoken of.
"""

from collections.abc import Mapping

from vitscope.claims.verdict import ONE_TRAINING, Rule, Verdict
from vitscope.core.errors import VitscopeError
from vitscope.core.statistics import difference_interval, standard_error
from vitscope.findings.frequency_noise import HIGH_MINUS_LOW, FrequencyNoiseResult
from vitscope.results import Result
from vitscope.results.condition_rows import Headline
from vitscope.results.paired import check_same_images

_DIFFERENCE = "drop of accuracy under noise above 0.5π minus below it"


def robustness_verdicts(model: str, results: Mapping[str, Result]) -> list[Verdict]:
    """Every claim about a single model that `results` (by exam name) can decide."""
    result = results.get("frequency_noise")
    if not isinstance(result, FrequencyNoiseResult):
        return []
    attends, convolves = "msa" in result.kinds, "conv" in result.kinds
    difference = _difference(result)
    if difference is None or attends == convolves:
        return []
    return [
        Verdict(
            claim="D2",
            statement=f"falls most under {'low' if attends else 'high'}-frequency noise",
            model=model,
            statistic=_DIFFERENCE,
            value=100 * difference.value,
            low=100 * difference.low,
            high=100 * difference.high,
            unit="points",
            over=f"{result.n} images",
            rule=Rule("below" if attends else "above"),
        )
    ]


def noise_verdict(convolutional: FrequencyNoiseResult, attentive: FrequencyNoiseResult) -> Verdict:
    """Is a CNN hurt by high frequencies rather than low ones more than a vision transformer is, on the same images?"""
    check_same_images(convolutional, attentive)
    first, second = _difference(convolutional), _difference(attentive)
    if first is None or second is None:
        raise VitscopeError(
            "the images have no bands of noise on both sides of 0.5π; use images of 8 pixels or more"
        )
    drawn = first.drawn - second.drawn
    ends = difference_interval(drawn[0], standard_error(drawn[1:]), convolutional.n)
    low, high = (float(end) for end in ends)
    return Verdict(
        claim="D2",
        statement="high-frequency noise hurts the CNN more, low-frequency noise the ViT",
        model=f"{convolutional.model} minus {attentive.model}",
        statistic=f"{_DIFFERENCE}, of the CNN minus of the ViT",
        value=100 * float(drawn[0]),
        low=100 * low,
        high=100 * high,
        unit="points",
        over=f"{convolutional.n} images",
        rule=Rule("above"),
        scope=ONE_TRAINING,
    )


def _difference(result: FrequencyNoiseResult) -> Headline | None:
    return next((h for h in result.headlines if h.condition == HIGH_MINUS_LOW), None)
