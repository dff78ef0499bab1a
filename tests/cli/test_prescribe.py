import subprocess
import sys
from pathlib import Path

import pytest

from vitscope.cli.app import main
from vitscope.cli.prescribe import _print
from vitscope.prescribe import Prescription, Prescriptions
from vitscope.prescribe.prescription import State
from vitscope.surgery import Comparison


def test_prescribe_prints_and_keeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "run")
    images = ["--limit", "10", "--out", run]
    assert main(["diagnose", "vit_mini", "--exams", "attention", *images]) == 0
    capsys.readouterr()
    assert main(["prescribe", run]) == 0
    shown = capsys.readouterr().out
    assert "no deep layer attends nearly uniformly" in shown
    assert "do:" not in shown  # nothing is prescribed
    assert "costs" not in shown
    assert "--exams hessian" in shown
    assert (tmp_path / "run" / "prescription.json").exists()

    for wrong, words in (
        ([run, "--apply"], "state the budget"),
        ([run, "--epochs", "1"], "add --apply"),
        ([run, "--apply", "--epochs", "1", "--only", "unheard"], "no rule 'unheard'"),
        ([str(tmp_path / "absent")], "no run folder"),
        (["vit_mini"], "--out runs/vit_mini, then: vitscope prescribe runs/vit_mini"),
    ):
        assert main(["prescribe", *wrong]) == 2
        error = capsys.readouterr().err
        assert words in error
        assert len(error.strip().splitlines()) == 1


@pytest.mark.parametrize("state", ["prescribed", "not needed", "impossible"])
def test_only_what_is_prescribed_says_what_to_do(
    state: State, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cost = Comparison((10_000, 10_004), (100, 100), largest_change=0.0, output_scale=0.6)
    operation = ("smooth", {"where": "stage_ends"})
    smooth = Prescription("smooth", "A10", "", state, "", "", *operation, missing=("lesion",), cost=cost)
    _print(Prescriptions("vit_mini", str(tmp_path), (smooth,)))
    shown = capsys.readouterr().out
    called_for = state == "prescribed"
    assert ("do: smooth where=stage_ends" in shown) == called_for
    assert ("costs +0.04 % parameters" in shown) == called_for
    assert ("could be told better by: lesion" in shown) == called_for


def test_help_does_not_import_torch() -> None:
    code = "import sys, vitscope.cli.prescribe; assert not {'torch', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
