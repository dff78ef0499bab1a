import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from vitscope.claims import broadcast_verdicts
from vitscope.report.pairs import pair_verdicts
from vitscope.report.sections import vital_signs
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


def trained(runs: Path, folder: Path, **recipe: Any) -> RunSubject:
    """A copy of a run that says that its model was trained so."""
    shutil.copytree(runs / "vit", folder)
    path = folder / "run.json"
    record = json.loads(path.read_text())
    facts = {"data": "fashion", "images": 10, "epochs": 6, "accuracy": [0.9, 0.8, 1.0], "seconds": 1.0}
    own = {"name": "mini", "lr": 1e-3, "optimizer": "adamw", "epochs": 6, **recipe}
    record["model"] |= {"training": {**facts, "recipe": own}}
    path.write_text(json.dumps(record))
    return find_runs([folder])[0]


STRONG = {"auto_augment": "rand", "erase": 0.2, "label_smoothing": 0.1, "mixup": 1.0, "cutmix": 1.0}
WEAK = {"auto_augment": None, "erase": 0.0, "label_smoothing": 0.0, "mixup": 0.0, "cutmix": 0.0}


def test_augmentation_is_judged_where_both_trainings_are_there(runs: Path, tmp_path: Path) -> None:
    strong = trained(runs, tmp_path / "strong", **STRONG, mix_probability=1.0)
    weak = trained(runs, tmp_path / "weak", **WEAK, mix_probability=0.0)
    unknown = trained(runs, tmp_path / "unknown")
    for pair in ((strong, weak), (weak, strong)):
        (verdict,) = pair_verdicts(*pair)
        assert verdict.claim == "F1"
        assert verdict.judgement == "inconclusive"  # the same predictions
        assert "one training each" in verdict.scope
    assert pair_verdicts(strong, unknown) == pair_verdicts(strong, strong) == []
    (sign,) = vital_signs("prediction", [strong])
    assert sign.findings[0].judgement is None
