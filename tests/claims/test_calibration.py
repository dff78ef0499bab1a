from dataclasses import asdict, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import vitscope as vs
from vitscope.claims import augmentation_verdicts
from vitscope.claims.calibration import augmentation_of, confidence_found
from vitscope.core.errors import VitscopeError
from vitscope.findings.prediction import QUANTITIES, PredictionResult
from vitscope.training import get_recipe


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
