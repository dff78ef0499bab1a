import pytest

from vitscope.exams import EXAMS
from vitscope.prescribe import RULES, Evidence, Prescription, Prescriptions
from vitscope.surgery import OPERATIONS


def test_evidence_calls_only_with_its_whole_interval() -> None:
    assert Evidence.above("hessian", "nep", (0.4, 0.2, 0.6), 10, 0.1).calls
    assert not Evidence.above("hessian", "nep", (0.4, 0.05, 0.6), 10, 0.1).calls
    assert (
        str(Evidence.above("hessian", "nep", (0.4, 0.2, 0.6), 10, 0.1))
        == "nep: 0.4 [0.2, 0.6], above 0.1 (n = 10)"
    )


def test_prescriptions_by_name_and_as_a_table() -> None:
    evidence = Evidence.above("hessian", "nep", (0.4, 0.2, 0.6), 10, 0.1)
    called = Prescription("localize", "C7", "p", "prescribed", "r", "c", evidence=(evidence,))
    other = Prescription("smooth", "A10", "p", "not needed", "r", "c")
    found = Prescriptions("m", "run", (called, other))
    assert found["smooth"] is other
    assert found.prescribed == (called,)
    assert found.table().to_dict("records") == [
        {"rule": "localize", "claim": "C7", "state": "prescribed", "exam": "hessian", "quantity": "nep"}
        | {"value": 0.4, "low": 0.2, "high": 0.6, "n": 10, "threshold": 0.1}
    ]


def test_every_rule_cites_claims_and_reads_exams_that_exist() -> None:
    for rule in RULES.values():
        assert rule.claim
        assert rule.papers
        assert rule.caution
        assert {*rule.needs, *rule.refines} <= set(EXAMS)
        assert rule.instead_of is None or rule.instead_of in RULES
    assert {"alternate", "broadcast_context", "pool_tokens", "localize", "smooth"} <= set(OPERATIONS) & set(
        RULES
    )


def test_a_rule_is_registered_by_the_name_of_its_function(monkeypatch: pytest.MonkeyPatch) -> None:
    from vitscope.prescribe.prescription import Finding, rule

    monkeypatch.delitem(RULES, "smooth")

    @rule(claim="A10", papers="p", caution="c", needs=("prediction",))
    def smooth(examined: object) -> Finding:
        return Finding(False, "never")

    assert RULES["smooth"].decide is smooth
