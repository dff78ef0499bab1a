import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from vitscope.claims import broadcast_verdicts
from vitscope.report.pair_claims import pair_verdicts
from vitscope.report.subject import RunSubject, find_runs
from vitscope.results import Run


def operated(runs: Path, tmp_path: Path) -> list[RunSubject]:
    """A run, and a copy of it that says it was given Context Broadcasting and has a lower entropy."""
    shutil.copytree(runs / "vit", tmp_path / "cb")
    path = tmp_path / "cb" / "run.json"
    record = json.loads(path.read_text())
    record["model"]["surgery"] = [{"operation": "broadcast_context", "options": {}}]
    path.write_text(json.dumps(record))
    found: Any = Run.open(tmp_path / "cb").results()["attention"]
    found = replace(found, value=found.value * 0.5, low=found.low * 0.5, high=found.high * 0.5)
    found.save(tmp_path / "cb" / "exams" / "attention")
    return find_runs([runs / "vit", tmp_path / "cb"])


def test_broadcasting_is_judged_in_either_order(runs: Path, tmp_path: Path) -> None:
    plain, broadcast = operated(runs, tmp_path)
    results = [subject.results["attention"] for subject in (plain, broadcast)]
    expected = broadcast_verdicts(broadcast.name, *results)
    assert [v.claim for v in expected] == ["E1", "E2"]
    assert expected[0].judgement == "holds"
    assert pair_verdicts(plain, broadcast) == expected
    assert pair_verdicts(broadcast, plain) == expected


def test_nothing_is_said_where_no_claim_fits(runs: Path) -> None:
    cnn, vit = find_runs([runs / "resnet", runs / "vit"])
    assert pair_verdicts(cnn, vit) == []  # neither the spectrum nor noise was examined
    assert pair_verdicts(vit, vit) == []
