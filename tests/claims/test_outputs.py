"""Verdicts on drops, confidences and spectra that are known."""

import dataclasses
from dataclasses import asdict, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import vitscope as vs
from tests.findings.robustness_results import noise_result
from vitscope.claims import (
    alternet_verdicts,
    augmentation_verdicts,
    noise_verdict,
    robustness_verdicts,
    transformer_verdicts,
)
from vitscope.claims.outputs import augmentation_of, confidence_found
from vitscope.core.errors import BadResult, VitscopeError
from vitscope.findings.hessian import HessianResult
from vitscope.findings.prediction import QUANTITIES, PredictionResult
from vitscope.results.loss_numbers import summed_up
from vitscope.training import get_recipe


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


@pytest.mark.parametrize(
    ("recipe", "changes", "expected"),
    [
        ("hdv", {}, "strong"),
        ("mini", {}, "strong"),
        ("deit", {}, "strong"),
        ("weak", {}, "weak"),
        ("cnn", {}, "weak"),
        ("hdv", {"auto_augment": None}, None),
        ("weak", {"label_smoothing": 0.1}, None),
        ("hdv", {"mix_probability": 0.0}, None),
    ],
)
def test_what_counts_as_strong(recipe: str, changes: dict[str, Any], expected: str | None) -> None:
    assert augmentation_of(asdict(replace(get_recipe(recipe), **changes))) == expected


def test_older_runs_do_not_say_how_they_augmented() -> None:
    assert augmentation_of({"name": "hdv", "epochs": 300}) is None
    assert augmentation_of({}) is None


@cache
def examined() -> PredictionResult:
    model = vs.create_model("resnet_mini", pretrained=True)
    found = vs.diagnose(model, vs.load_data("fashion", split="test"), ["prediction"], limit=40)["prediction"]
    assert isinstance(found, PredictionResult)
    return found


def shifted(by: float) -> PredictionResult:
    """The same predictions with a confidence that is higher by so much on every image."""
    found = examined()
    columns = [QUANTITIES.index(name) for name in ("confidence", "signed_ece")]
    arrays = {name: np.array(getattr(found, name)) for name in ("value", "low", "high", "drawn")}
    for numbers in arrays.values():
        numbers[..., columns] += by
    return replace(found, **arrays)


@pytest.mark.parametrize(
    ("by", "augmentation", "words"),
    [
        (-0.5, "strong", "under-confident; as expected of strong augmentation, which it was trained with"),
        (0.5, "strong", "over-confident; unlike what is expected of strong augmentation"),
        (0.5, "weak", "over-confident; as expected of weak augmentation"),
        (-0.5, None, "under-confident; no verdict: the claim compares two trainings"),
    ],
)
def test_one_model_is_read_without_a_verdict(by: float, augmentation: str | None, words: str) -> None:
    assert words in confidence_found(shifted(by), augmentation)  # type: ignore[arg-type]


def test_two_trainings_are_judged_image_by_image() -> None:
    strong, weak = shifted(-0.1), shifted(0.02)
    (verdict,) = augmentation_verdicts(strong, weak)
    assert (verdict.claim, verdict.judgement) == ("F1", "holds")
    assert (verdict.value, verdict.low, verdict.high) == pytest.approx((-12.0, -12.0, -12.0))
    assert augmentation_verdicts(weak, strong)[0].judgement == "does not hold"
    assert augmentation_verdicts(weak, weak)[0].judgement == "inconclusive"
    with pytest.raises(VitscopeError, match="n is"):
        augmentation_verdicts(strong, replace(weak, n=3))


def spectrum(name: str, values: np.ndarray) -> HessianResult:
    batches, k = values.shape
    numbers = {field: np.ones(batches) for field in ("nll", "l2")}
    return HessianResult(
        model=name,
        data="fashion (train)",
        n=16 * batches,
        seed=0,
        eigenvalues=values,
        residuals=np.full((batches, k), 1e-4),
        converged=np.ones((batches, k), dtype=bool),
        products=np.full(batches, 20),
        batch_size=16,
        weight_decay=5e-2,
        convention="half_square",
        decay_all=True,
        params="all that learn",
        parameters=1000,
        augmentation="hdv",
        mode="lanczos",
        tol=1e-3,
        **numbers,
        **summed_up(values, 0),
    )


def drawn(negatives: int, positive: float, seed: int = 0) -> np.ndarray:
    """12 batches of 5, of which so many are negative in each, and the others about `positive`."""
    values = positive * np.random.default_rng(seed).uniform(0.9, 1.1, (12, 5))
    values[:, :negatives] *= -1
    return values


def test_a_transformer_as_in_the_paper():
    verdicts = transformer_verdicts(spectrum("vit", drawn(2, 5.0)), spectrum("cnn", drawn(0, 50.0, seed=1)))
    assert [v.judgement for v in verdicts] == ["holds", "holds"]
    assert verdicts[0].found == "+0.4 [+0.185, +0.501] over 12 batches; NEP 0.4, cnn 0"
    assert all(v.scope.startswith("one training each") for v in verdicts)


def test_the_other_way_round_does_not_hold():
    verdicts = transformer_verdicts(spectrum("vit", drawn(0, 50.0)), spectrum("cnn", drawn(2, 5.0, seed=1)))
    assert [v.judgement for v in verdicts] == ["does not hold", "does not hold"]


def test_no_difference_is_inconclusive():
    (verdict,) = alternet_verdicts(spectrum("a", drawn(0, 5.0)), spectrum("b", drawn(0, 5.0)[::-1].copy()))
    assert verdict.judgement == "inconclusive"


def test_few_batches_decide_nothing():
    few = [spectrum(name, drawn(n, p)[:2]) for name, n, p in (("vit", 2, 5.0), ("cnn", 0, 50.0))]
    verdicts = transformer_verdicts(*few)
    assert [v.judgement for v in verdicts] == ["inconclusive", "inconclusive"]
    assert verdicts[0].value == pytest.approx(0.4)
    assert verdicts[0].lacking == "2 batches are too few for a verdict, which takes at least 8"


def test_unlike_spectra_are_refused():
    one = spectrum("a", drawn(0, 5.0))
    with pytest.raises(BadResult, match="batch_size"):
        alternet_verdicts(one, dataclasses.replace(one, batch_size=32))
