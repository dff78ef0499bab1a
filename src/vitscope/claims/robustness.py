"""Claims about robustness: D2.

D2: a CNN falls under noise of high frequencies, a vision transformer under noise of low ones. Decided by the mean drop
over the bands above 0.5 pi minus that over the bands below, on the same images; a model that has both convolutions and
attention in its residual units is not spoken of.
"""

from collections.abc import Mapping

from vitscope.claims.verdict import Verdict, judge_signs
from vitscope.errors import VitscopeError
from vitscope.exams.bootstrap import standard_error
from vitscope.exams.condition_rows import Headline
from vitscope.exams.frequency_noise import HIGH_MINUS_LOW, FrequencyNoiseResult
from vitscope.exams.paired import check_same_images
from vitscope.intervals import difference_interval
from vitscope.results import Result


def robustness_verdicts(model: str, results: Mapping[str, Result]) -> list[Verdict]:
    """Every claim about a single model that `results` (by exam name) can decide."""
    result = results.get("frequency_noise")
    if not isinstance(result, FrequencyNoiseResult):
        return []
    attends, convolves = "msa" in result.kinds, "conv" in result.kinds
    difference = _difference(result)
    if difference is None or attends == convolves:
        return []
    frequency = "low" if attends else "high"
    found = _found(difference.value, difference.low, difference.high)
    judgement = judge_signs(
        int(difference.high < 0), int(difference.low > 0), 1, "falls" if attends else "rises"
    )
    return [Verdict("D2", f"falls most under {frequency}-frequency noise", model, found, judgement)]


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
        "D2",
        "high-frequency noise hurts the CNN more, low-frequency noise the ViT",
        f"{convolutional.model} minus {attentive.model}",
        _found(float(drawn[0]), low, high),
        judge_signs(int(high < 0), int(low > 0), 1, "rises"),
    )


def _difference(result: FrequencyNoiseResult) -> Headline | None:
    return next((h for h in result.headlines if h.condition == HIGH_MINUS_LOW), None)


def _found(value: float, low: float, high: float) -> str:
    return f"drop above minus below 0.5π {100 * value:+.1f} [{100 * low:+.1f}, {100 * high:+.1f}] points"
