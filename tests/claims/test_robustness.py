"""Verdicts on drops that are known."""

from dataclasses import replace

import pytest

from tests.findings.robustness_results import noise_result
from vitscope.claims import noise_verdict, robustness_verdicts
from vitscope.core.errors import VitscopeError


@pytest.mark.parametrize(
    ("kinds", "low", "high", "judgement"),
    [
        (("stem", "conv", "head"), 0.05, 0.25, "holds"),
        (("stem", "conv", "head"), 0.25, 0.05, "does not hold"),
        (("stem", "msa", "mlp", "head"), 0.25, 0.05, "holds"),
        (("stem", "msa", "mlp", "head"), 0.10, 0.105, "inconclusive"),
    ],
)
def test_cnns_fall_at_high_and_transformers_at_low_frequencies(
    kinds: tuple[str, ...], low: float, high: float, judgement: str
) -> None:
    (verdict,) = robustness_verdicts("m", {"frequency_noise": noise_result(low, high, kinds)})
    assert (verdict.claim, verdict.judgement) == ("D2", judgement)
    assert verdict.found.startswith(f"{100 * (high - low):+.1f} points [")
    assert verdict.statistic == "drop of accuracy under noise above 0.5π minus below it"


def test_nothing_is_said_of_mixed_or_unknown_models() -> None:
    for kinds in (("conv", "msa"), (), ("mixer",)):
        assert robustness_verdicts("m", {"frequency_noise": noise_result(0.1, 0.3, kinds)}) == []
    assert robustness_verdicts("m", {}) == []


def test_two_models_are_compared_image_by_image() -> None:
    cnn, vit = noise_result(0.10, 0.12, model="cnn"), noise_result(0.11, 0.11, ("msa",), "vit")
    verdict = noise_verdict(cnn, vit)  # the same scatter over images cancels
    assert (verdict.model, verdict.judgement) == ("cnn minus vit", "holds")
    assert verdict.found == "+2.0 points [+0.0, +3.9] over 100 images"
    assert verdict.scope.startswith("one training each")
    assert noise_verdict(vit, cnn).judgement == "does not hold"
    with pytest.raises(VitscopeError, match="n is 100 and 50"):
        noise_verdict(cnn, replace(vit, n=50))
    with pytest.raises(VitscopeError, match="both sides"):
        noise_verdict(cnn, replace(vit, headlines=()))
