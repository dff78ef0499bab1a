"""Each rule on results in which the answer is known, and just beside its threshold."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import vitscope as vs
from tests.prescribe.conftest import Change, kept, with_negative
from vitscope.core.statistics import Estimate
from vitscope.findings.prediction import QUANTITIES
from vitscope.prescribe import RULES
from vitscope.prescribe.examined_model import find_examined_model
from vitscope.prescribe.prescription import Finding
from vitscope.results import Result, Run


def peaking(run: Path, rise: float = 1.0) -> dict[str, Any]:
    """Fields of a variance result that grows by `rise` across every unit."""
    units = Result.load(run / "exams" / "variance").units  # type: ignore[attr-defined]
    value = 10 + rise * np.arange(len(units), dtype=np.float64)
    change = np.full(len(units), rise)
    fields = {"value": value, "low": value - 0.1, "high": value + 0.1}
    return {**fields, "change": Estimate(change, change - 0.1, change + 0.1)}


def convs(run: Path, low: float) -> dict[str, Any]:
    """Fields of a Fourier result whose Convs change high frequencies by `low` + 0.1, give or take 0.1."""
    result: Any = Result.load(run / "exams" / "fourier")
    change = np.where(np.isfinite(result.change.value), low + 0.1, np.nan)
    mean = Estimate(low + 0.1, low, low + 0.2).each(lambda number: np.array([number]))
    return {"kinds": ("conv",), "change": Estimate(change, change - 0.1, change + 0.1), "kind_change": mean}


def lesions(run: Path, unit: str, drop: float) -> dict[str, Any]:
    names = [u.name for u in Result.load(run / "exams" / "lesion").units]  # type: ignore[attr-defined]
    value = np.where(np.array(names) == unit, drop, 0.01)
    return {"value": value, "low": value - 0.005, "high": value + 0.005}


def finding(run: Path, rule: str) -> Finding:
    """What a rule makes of a run, without the cost of its operation."""
    return RULES[rule].decide(find_examined_model(Run.open(run)))


def test_alternate_where_variance_peaks_and_frequencies_rise(diagnosed: Path, changed: Change) -> None:
    source = diagnosed / "resnet_mini"
    run = changed(
        "resnet_mini",
        variance=peaking(source),
        fourier=convs(source, 0.01),
        lesion=lesions(source, "layer2.1", 0.3),
    )
    found = vs.prescribe(run)["alternate"]
    assert found.state == "prescribed"
    assert found.arguments["msa"] == [1, 0, 1, 1]  # the model cannot spare the end of its second stage
    assert {e.exam for e in found.evidence} == {"variance", "fourier", "lesion"}
    assert "D1" in found.claim
    assert "D3" in found.claim
    model = vs.create_model("resnet_mini")
    before = sum(p.numel() for p in model.parameters())
    vs.surgery.alternate(model, **found.arguments)
    assert found.cost is not None
    assert found.cost.parameters == (before, sum(p.numel() for p in model.parameters()))
    assert found.cost.flops[0] != found.cost.flops[1]


@pytest.mark.parametrize(("rise", "low"), [(1.0, -0.01), (0.05, 0.01), (-1.0, 0.01)])
def test_alternate_needs_both_signs_beyond_their_intervals(
    diagnosed: Path, changed: Change, rise: float, low: float
) -> None:
    source = diagnosed / "resnet_mini"
    run = changed("resnet_mini", variance=peaking(source, rise), fourier=convs(source, low))
    found = finding(run, "alternate")
    assert not found.calls
    assert "not both" in found.reason
    assert found.operation == "alternate"  # it can be done all the same


def test_heads_grow_with_the_channels_as_in_the_published_alternet() -> None:
    from vitscope.prescribe.placement import CHANNELS_PER_HEAD

    assert [round(c / CHANNELS_PER_HEAD) for c in (256, 512, 1024, 2048)] == [3, 6, 12, 24]


def entropies(run: Path, shares: dict[str, float]) -> dict[str, Any]:
    """Fields of an attention result whose layers have these shares of the entropy's bound, give or take 0.01."""
    result: Any = Result.load(run / "exams" / "attention")
    value, low, high = (np.array(numbers) for numbers in (result.value, result.low, result.high))
    for row, unit in enumerate(result.row_unit):
        share = shares.get(result.units[unit].name, 0.3) * result.bound[unit]
        value[row, 0], low[row, 0], high[row, 0] = share, share - 0.01, share + 0.01
    return {"value": value, "low": low, "high": high}


def test_broadcast_context_in_the_mlps_after_deep_uniform_attention(diagnosed: Path, changed: Change) -> None:
    uniform = {"blocks.0.attn": 0.99, "blocks.4.attn": 0.9, "blocks.5.attn": 0.85}
    found = vs.prescribe(changed("vit_mini", attention=entropies(diagnosed / "vit_mini", uniform)))
    broadcast = found["broadcast_context"]
    assert broadcast.state == "prescribed"
    assert broadcast.arguments["layers"] == ["blocks.4.mlp", "blocks.5.mlp"]
    assert [e.value for e in broadcast.evidence] == pytest.approx([0.9, 0.85])
    assert broadcast.cost is not None
    assert broadcast.cost.parameters[1] - broadcast.cost.parameters[0] == 2 * 96  # a scale per channel
    assert broadcast.cost.largest_change == 0  # which starts at 0
    assert found["alternate"].state == "not needed"  # there is no convolution


def test_broadcast_context_is_not_for_the_first_layers(diagnosed: Path, changed: Change) -> None:
    shares = entropies(diagnosed / "vit_mini", {"blocks.0.attn": 0.99, "blocks.5.attn": 0.79})
    found = finding(changed("vit_mini", attention=shares), "broadcast_context")
    assert not found.calls
    assert "blocks.5.attn comes closest" in found.reason
    assert found.arguments["layers"] == ["blocks.3.mlp", "blocks.4.mlp", "blocks.5.mlp"]


def test_negative_eigenvalues_call_for_pooling_or_locality(changed: Change) -> None:
    found = vs.prescribe(with_negative(changed("vit_mini"), 2, 3))
    assert found["localize"].state == "prescribed"
    assert found["localize"].arguments == {"kernel": 5}
    assert found["localize"].evidence[0].value == pytest.approx(0.4)
    assert found["pool_tokens"].state == "impossible"
    assert "reads no class token" in found["pool_tokens"].reason


def test_a_class_token_that_is_read_can_be_pooled(tmp_path: Path) -> None:
    model = vs.create_model("vit_mini", global_pool="token", class_token=True)
    kept(tmp_path / "run", model, {})
    found = vs.prescribe(with_negative(tmp_path / "run", 1, 4), model=model)
    assert found["pool_tokens"].state == "prescribed"
    assert found["localize"].instead_of == "pool_tokens"


def test_a_convex_loss_calls_for_nothing(changed: Change) -> None:
    run = with_negative(changed("vit_mini"), 1, 19)
    assert not finding(run, "localize").calls
    assert not finding(run, "pool_tokens").calls


def scores(run: Path, ece: float, signed: float) -> dict[str, Any]:
    """Fields of a prediction result with this calibration, give or take 0.001."""
    result: Any = Result.load(run / "exams" / "prediction")
    value, low, high = (np.array(numbers) for numbers in (result.value, result.low, result.high))
    for quantity, number in (("ece", ece), ("signed_ece", signed)):
        at = QUANTITIES.index(quantity)
        value[at], low[at], high[at] = number, number - 1e-3, number + 1e-3
    return {"value": value, "low": low, "high": high}


@pytest.mark.parametrize(
    ("ece", "signed", "temperature", "smooth", "word"),
    [
        (0.10, 0.08, True, True, "over-confident"),
        (0.10, -0.08, True, False, "under-confident"),
        (0.10, 0.0, True, False, "both directions"),
        (0.03, 0.02, False, False, "not clearly poor"),
    ],
)
def test_the_sign_of_miscalibration_decides(
    diagnosed: Path, changed: Change, ece: float, signed: float, temperature: bool, smooth: bool, word: str
) -> None:
    run = changed("resnet_mini", prediction=scores(diagnosed / "resnet_mini", ece, signed))
    scaled, smoothed = finding(run, "temperature"), finding(run, "smooth")
    assert (scaled.calls, smoothed.calls) == (temperature, smooth)
    assert word in scaled.reason
    assert ("--exams prediction --temperature fit" in scaled.reason) == temperature  # what to type
    assert scaled.operation is None  # nothing in the model changes
    assert smoothed.arguments == {"where": "subsampling"}


def test_smoothing_without_subsampling_goes_before_the_head(diagnosed: Path) -> None:
    assert finding(diagnosed / "vit_mini", "smooth").arguments == {"where": "stage_ends"}
