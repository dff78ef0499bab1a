import pytest

from vitscope.exams import EXAMS
from vitscope.prescribe import RULES
from vitscope.surgery import OPERATIONS


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
    from vitscope.prescribe.rule import Finding, rule

    monkeypatch.delitem(RULES, "smooth")

    @rule(claim="A10", papers="p", caution="c", needs=("prediction",))
    def smooth(patient: object) -> Finding:
        return Finding(False, "never")

    assert RULES["smooth"].decide is smooth
