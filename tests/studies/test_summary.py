import json
import math
from pathlib import Path

import numpy as np
import pytest

from tests.studies.small_study import SEEDS, a_study, comparison, results, training
from vitscope.claims.verdict import Rule
from vitscope.core import pd
from vitscope.core.errors import BadResult
from vitscope.results.over_seeds import Measured, holm, over_seeds
from vitscope.results.study_result import StudyResult
from vitscope.studies.comparisons import ends_of_one_arm, judge, nearest_bound
from vitscope.studies.quantities import measure
from vitscope.studies.summary import summarise

STUDY = a_study(
    comparison("prediction.nll", Rule("within", 0.5), name="hardly moves"),
    comparison("prediction.accuracy", Rule("above")),
    comparison("hessian.ape", Rule("below")),
    comparison("attention.entropy", Rule("below"), against=None),
    comparison("training.parameters", Rule("above")),
)


@pytest.fixture(scope="module")
def found() -> StudyResult:
    return summarise(STUDY, results(), training())


def test_every_number_stands_in_the_table_as_its_exam_has_it(found: StudyResult) -> None:
    table = found.table()
    for (arm, seed), exams in results().items():
        for label, result in exams.items():
            own = table[(table["arm"] == arm) & (table["seed"] == seed) & (table["exam"] == label)]
            np.testing.assert_array_equal(own["value"], result.summary()["value"])
            np.testing.assert_array_equal(own["low"], result.summary()["low"])


def test_rows_without_a_seed_are_means_over_all(found: StudyResult) -> None:
    table = found.table().copy()
    means = table[table["seed"].isna()]
    assert set(means["seeds"]) == {3}
    columns = ["arm", "exam", "unit", "kind", "condition", "quantity"]
    table[columns] = table[columns].fillna("")
    means = table[table["seed"].isna()]
    by_hand = table[table["seed"].notna()].groupby(columns)["value"].mean().reset_index()
    both = means.merge(by_hand, on=columns, suffixes=("", "_by_hand"))
    assert len(both) == len(means)
    known = both["value"].notna()
    np.testing.assert_allclose(both["value"][known], both["value_by_hand"][known], rtol=1e-12)
    inside = both["low"].notna() & known
    assert (both["low"] <= both["value"])[inside].all()
    assert (both["value"] <= both["high"])[inside].all()


def test_shares_stay_shares(found: StudyResult) -> None:
    table = found.table()
    shares = table[table["quantity"].isin(["accuracy", "ece", "confidence"])]
    assert (shares["low"].dropna() >= 0).all()
    assert (shares["high"].dropna() <= 1).all()


@pytest.mark.parametrize(
    ("quantity", "ends_at_1"), [("consistency", True), ("nep", True), ("signed_ece", False), ("nll", False)]
)
def test_intervals_of_one_arm_end_where_shares_do(quantity: str, ends_at_1: bool) -> None:
    mean = over_seeds([Measured(0.99), Measured(0.91)])
    assert mean.high > 1.0
    found = ends_of_one_arm(quantity, mean)
    assert (found["low"], found["high"]) == (mean.low, 1.0 if ends_at_1 else mean.high)


def test_a_rule_about_a_share_of_one_arm_shows_it_in_its_range_and_decides_as_before() -> None:
    study = a_study(comparison("prediction.ece", Rule("above"), against=None))
    row = summarise(study, results(), training()).tables["comparisons"].iloc[0]
    whole = over_seeds([measure("prediction.ece", results()["broadcast", seed]) for seed in SEEDS])
    assert whole.low < 0
    assert (row["value"], row["low"], row["high"]) == (whole.value, 0.0, whole.high)
    assert row["p"] == whole.p_value(0.0)


def test_a_comparison_is_the_mean_difference_of_paired_seeds(found: StudyResult) -> None:
    row = found.comparisons().set_index("name").loc["hardly moves"]
    by_hand = [
        results()["broadcast", seed]["prediction"].nll - results()["plain", seed]["prediction"].nll  # type: ignore[attr-defined]
        for seed in SEEDS
    ]
    assert row["value"] == pytest.approx(np.mean(by_hand))
    assert row["seeds"] == 3
    assert row["verdict"] == "holds"
    seeds = found.tables["by_seed"]
    np.testing.assert_allclose(seeds[seeds["name"] == "hardly moves"]["value"], by_hand)


def test_verdicts_follow_from_the_corrected_p(found: StudyResult) -> None:
    table = found.comparisons()
    np.testing.assert_allclose(table["holm_p"], holm(table["p"].tolist()))
    for one, row in zip(STUDY.comparisons, table.itertuples(), strict=True):
        assert row.verdict == judge(one.rule, row.value, row.holm_p)
    verdicts = dict(zip(table["quantity"], table["verdict"], strict=True))
    assert verdicts["attention.entropy"] == "does not hold"  # entropies are above 0
    assert verdicts["training.parameters"] == "holds"
    assert verdicts["prediction.accuracy"] == "inconclusive"


@pytest.mark.parametrize(
    ("rule", "value", "p", "verdict"),
    [
        (Rule("above", 0.1), 0.2, 0.049, "holds"),
        (Rule("above", 0.1), 0.2, 0.051, "inconclusive"),
        (Rule("above", 0.1), 0.0, 0.01, "does not hold"),
        (Rule("below", 0.1), 0.0, 0.01, "holds"),
        (Rule("within", 0.1), -0.05, 0.01, "holds"),
        (Rule("within", 0.1), -0.2, 0.01, "does not hold"),
        (Rule("above"), math.nan, math.nan, "inconclusive"),
    ],
)
def test_a_verdict_needs_certainty_and_the_right_side(
    rule: Rule, value: float, p: float, verdict: str
) -> None:
    assert judge(rule, value, p) == verdict


def test_the_nearest_bound_decides() -> None:
    assert nearest_bound(Rule("within", 0.1), -0.05) == -0.1
    assert nearest_bound(Rule("within", 0.1), 0.3) == 0.1
    assert nearest_bound(Rule("above", 0.1), -1.0) == 0.1


def test_half_a_study_is_summed_up_and_says_what_is_missing() -> None:
    some = {key: value for key, value in results().items() if key != ("broadcast", 2)}
    some["plain", 1] = {k: v for k, v in some["plain", 1].items() if k != "prediction"}
    found = summarise(STUDY, some, {})
    assert found.missing == (
        "plain, seed 1: no prediction",
        "broadcast, seed 2: no prediction, fourier, attention, hessian",
    )
    rows = found.comparisons().set_index("quantity")
    assert rows.loc["prediction.nll"]["seeds"] == 1
    assert rows.loc["prediction.nll"]["note"].startswith("one training each")
    assert "prediction is not done" in rows.loc["prediction.nll"]["note"]
    assert rows.loc["hessian.ape"]["seeds"] == 2
    assert rows.loc["training.parameters"]["verdict"] == "inconclusive"
    assert math.isnan(rows.loc["training.parameters"]["p"])
    nothing = summarise(STUDY, {}, {})
    assert len(nothing.table()) == 0
    assert set(nothing.comparisons()["verdict"]) == {"inconclusive"}


def test_a_misspelt_quantity_spoils_its_own_comparison_alone() -> None:
    study = a_study(
        comparison("prediction.acuracy", Rule("above")), comparison("prediction.nll", Rule("within", 1.0))
    )
    rows = summarise(study, results(), {}).comparisons()
    assert list(rows["verdict"]) == ["inconclusive", "holds"]
    assert "did you mean accuracy?" in rows["note"][0]


def test_all_numbers_of_whole_models_are_compared_with_the_first_arm(found: StudyResult) -> None:
    table = found.differences()
    assert set(table["against"]) == {"plain"}
    nll = table[table["quantity"] == "nll"].set_index("exam").loc["prediction"]
    declared = found.comparisons().set_index("name").loc["hardly moves"]
    assert (nll["value"], nll["low"], nll["high"]) == (declared["value"], declared["low"], declared["high"])
    assert set(table[table["quantity"] == "change"]["condition"]) == {"msa", "mlp"}


def test_it_is_read_back_as_it_was(found: StudyResult, tmp_path: Path) -> None:
    saved = found.save(tmp_path)
    assert saved.path == tmp_path
    again = StudyResult.load(tmp_path)
    assert (again.name, again.question, again.missing) == (found.name, found.question, found.missing)
    for name, table in found.tables.items():
        pd.testing.assert_frame_equal(table, again.tables[name])
        assert len(pd.read_csv(tmp_path / f"{name}.csv")) == len(table)


def test_what_is_damaged_is_refused(found: StudyResult, tmp_path: Path) -> None:
    with pytest.raises(BadResult, match=r"study\.json is missing"):
        StudyResult.load(tmp_path)
    found.save(tmp_path)
    path = tmp_path / "study.json"
    path.write_text(path.read_text()[:-100])
    with pytest.raises(BadResult, match="damaged"):
        StudyResult.load(tmp_path)
    path.write_text(json.dumps({"schema": 99}))
    with pytest.raises(BadResult, match="schema 99"):
        StudyResult.load(tmp_path)


def test_arms_are_described_as_they_were_made() -> None:
    from vitscope.studies.study import Arm, Look, Study

    start = Arm("start", "vit_mini", {"depth": 2}, changes={"epochs": 3}, seeds=(0,))
    after = Arm(
        "after", "vit_mini", {"depth": 2}, ({"localize": {"kernel": 3}}, "smooth"), start="start", train=False
    )
    study = Study("made", "", (start, Arm(**{**vars(after), "seeds": (0,)})), (Look("prediction"),))
    rows = (
        summarise(study, {}, {("start", 0): {"parameters": 7, "seconds": 2.0}})
        .tables["arms"]
        .set_index("arm")
    )
    assert rows.loc["start"][["model", "changes", "trained", "parameters"]].tolist() == [
        "vit_mini(depth=2)",
        "epochs=3",
        "here",
        7,
    ]
    assert rows.loc["after", "model"] == "vit_mini(depth=2), as start ended"
    assert rows.loc["after", "operations"] == "localize(kernel=3) → smooth"
    assert rows.loc["after"][["recipe", "changes"]].isna().all()
