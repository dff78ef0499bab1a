from types import SimpleNamespace
from typing import Any

import pytest

from vitscope.cli.reproduce import _print_verdicts


def test_what_has_no_interval_has_none_on_the_console(capsys: pytest.CaptureFixture[str]) -> None:
    row = {"statement": "it falls", "value": -0.25, "seeds": 1, "verdict": "holds"}
    unknown, known = {"low": float("nan"), "high": float("nan")}, {"low": -0.5, "high": 0.125}
    record: Any = SimpleNamespace(claim="C7", verdicts=True, verdict_rows=[row | unknown, row | known])
    _print_verdicts([record])
    told = capsys.readouterr().out
    assert "nan" not in told
    assert "-0.5 to +0.125" in told
