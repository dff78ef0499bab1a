from pathlib import Path

from vitscope.claims import feature_verdicts
from vitscope.exams import EXAMS
from vitscope.report.sections import headline, vital_signs
from vitscope.report.subject import find_runs
from vitscope.results import Run


def test_a_line_per_claim_with_the_verdict_of_each_model_it_speaks_of(runs: Path) -> None:
    subjects = find_runs([runs])
    signs = vital_signs("fourier", subjects)
    assert [sign.claim for sign in signs] == ["D1"] * 3
    by_statement = {sign.expected: sign.findings for sign in signs}
    assert set(by_statement) == {
        f"{kind} high frequencies" for kind in ("MSAs lower", "MLPs raise", "Convs raise")
    }
    for statement, findings in by_statement.items():
        (finding,) = findings  # a CNN has no MSAs, a ViT no Convs
        assert finding.subject is subjects[0 if "Convs" in statement else 1]
        results = {"fourier": finding.subject.results["fourier"]}
        (verdict,) = [v for v in feature_verdicts("", results) if v.statement == statement]
        assert (finding.found, finding.judgement) == (verdict.found, verdict.judgement)
        assert finding.reach == verdict.reach
        (sign,) = [sign for sign in signs if sign.expected == statement]
        assert sign.decided_by == verdict.decided_by
        assert "holds if the 95 % interval lies" in sign.decided_by


def test_one_model_does_not_decide_what_augmentation_does(runs: Path) -> None:
    (sign,) = vital_signs("prediction", find_runs([runs]))
    assert (sign.claim, sign.expected) == ("F1", "strong augmentation makes predictions under-confident")
    for finding in sign.findings:
        assert finding.judgement is None
        assert finding.found.startswith("confidence minus accuracy ")
        assert finding.found.endswith("no verdict: the claim compares two trainings")


def test_an_exam_without_a_claim_shows_its_first_numbers(runs: Path) -> None:
    subjects = find_runs([runs])
    (sign,) = vital_signs("maps", subjects)
    assert sign.claim == ""
    assert sign.expected == EXAMS["maps"].result.about.papers
    (finding,) = sign.findings
    assert finding.judgement is None
    area = finding.subject.results["maps"].summary()["value"].iloc[0]
    assert finding.found.startswith(f"rollout area {area:.3g} [")
    assert finding.found.endswith("] after blocks.5.attn")


def test_an_exam_that_found_nothing_has_no_line(runs: Path) -> None:
    assert vital_signs("attention", find_runs([runs / "resnet"])) == []
    assert headline(Run.open(runs / "resnet").results()["attention"]) == ""


def test_headline_of_a_whole_model(runs: Path) -> None:
    result = Run.open(runs / "vit").results()["prediction"]
    rows = result.table().set_index("quantity")
    shown = [f"{100 * rows.loc['accuracy', column]:.1f}" for column in ("value", "low", "high")]
    assert headline(result).startswith(f"accuracy {shown[0]} % [{shown[1]}, {shown[2]}]; top-5 ")
