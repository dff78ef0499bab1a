"""What a rule aims at stands first in the table of a treatment."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.prescribe.conftest import with_negative
from tests.prescribe.test_apply import rule
from vitscope.cli.prescribe import _print_treatment
from vitscope.findings.attention import AttentionResult
from vitscope.prescribe import RULES, Treatment
from vitscope.prescribe.outcomes import outcomes
from vitscope.results import Result

ARMS = {"before": (4, 6), "control": (2, 8), "after": (5, 5)}
QUALITY = ["accuracy", "NLL", "ECE", "signed ECE"]


def treated(run: Path, folder: Path, name: str) -> Treatment:
    """Three arms that predict alike and differ in their spectra."""
    results: dict[str, dict[str, Result]] = {}
    for arm, signs in ARMS.items():
        shutil.copytree(run, folder / arm)
        with_negative(folder / arm, *signs)
        exams = (folder / arm / "exams").iterdir()
        results[arm] = {path.name: Result.load(path) for path in exams if path.name != "lesion"}
    return Treatment(folder, (rule(name, "prescribed"),), results, {}, "1 epoch")


def test_the_number_that_a_rule_aims_at_stands_first(
    diagnosed: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    treatment = treated(diagnosed / "vit_mini", tmp_path, "localize")
    rows = list(outcomes(treatment))
    assert [row.name for row in rows] == ["NEP", *QUALITY, "APE"]
    assert [row.aimed for row in rows] == [True] + [False] * 5
    found: Any = {arm: number and number.value for arm, number in rows[0].arms.items()}
    assert found == pytest.approx({"before": 0.4, "control": 0.2, "after": 0.5})
    kept = treatment.differences().set_index(["exam", "quantity"]).loc[("hessian", "nep")]
    assert rows[0].difference is not None
    assert rows[0].difference[1:] == pytest.approx((kept["value"], kept["low"], kept["high"]))
    _print_treatment(treatment)
    lines = capsys.readouterr().out.splitlines()
    assert lines[3].startswith("NEP  ")
    assert "+0.3 [" in lines[3]


def test_of_units_it_is_the_mean_that_the_rule_looks_at(diagnosed: Path, tmp_path: Path) -> None:
    treatment = treated(diagnosed / "vit_mini", tmp_path, "broadcast_context")
    row = next(outcomes(treatment))
    attention = treatment.results["after"]["attention"]
    assert isinstance(attention, AttentionResult)
    deep = [unit.name for unit in attention.units if unit.depth >= 0.5]
    table = attention.table()
    layers = table[table["head"].isna() & table["unit"].isin(deep)].set_index("unit")
    entropy, bound = (
        layers.loc[layers["quantity"] == quantity, "value"] for quantity in ("entropy", "entropy_bound")
    )
    assert row.name == "entropy of deep attention over its bound"
    assert row.arms["after"] is not None
    assert row.arms["after"].value == pytest.approx((entropy / bound).mean())
    assert row.difference is None


def test_of_a_cnn_both_numbers_of_alternate_and_of_a_transformer_neither(
    diagnosed: Path, tmp_path: Path
) -> None:
    for model, has in (("resnet_mini", True), ("vit_mini", False)):
        first, second, *_ = outcomes(treated(diagnosed / model, tmp_path / model, "alternate"))
        assert "variance across Convs" in first.name
        assert "high frequencies across Convs" in second.name
        for row in (first, second):
            assert all((number is not None) == has for number in row.arms.values())


@pytest.mark.parametrize("name", RULES)
def test_what_a_rule_aims_at_is_of_an_exam_that_it_needs(name: str) -> None:
    assert {aim.partition(".")[0] for aim in RULES[name].aims} == set(RULES[name].needs)
