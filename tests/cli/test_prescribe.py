import subprocess
import sys
from pathlib import Path

import pytest

from vitscope.cli.app import main


def test_prescribe_prints_and_keeps(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(tmp_path / "run")
    images = ["--limit", "10", "--out", run]
    assert main(["diagnose", "vit_mini", "--exams", "attention", *images]) == 0
    capsys.readouterr()
    assert main(["prescribe", run]) == 0
    shown = capsys.readouterr().out
    assert "do: broadcast_context kind=cb_s where=mlp at=end" in shown
    assert "costs +0.04 % parameters" in shown
    assert "--exams hessian" in shown
    assert (tmp_path / "run" / "prescription.json").exists()

    for wrong, words in (
        ([run, "--apply"], "state the budget"),
        ([run, "--epochs", "1"], "add --apply"),
        ([run, "--apply", "--epochs", "1", "--only", "unheard"], "no rule 'unheard'"),
        ([str(tmp_path / "absent")], "no run folder"),
    ):
        assert main(["prescribe", *wrong]) == 2
        error = capsys.readouterr().err
        assert words in error
        assert len(error.strip().splitlines()) == 1


def test_help_does_not_import_torch() -> None:
    code = "import sys, vitscope.cli.prescribe; assert not {'torch', 'pandas'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
