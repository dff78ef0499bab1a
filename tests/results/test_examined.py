"""What `run.json` says of how results were made is checked before another command goes by it."""

import json
from pathlib import Path
from typing import Any

import pytest

from vitscope.core.errors import BadResult
from vitscope.results.examined import all_examinations
from vitscope.results.run import Run

OPTIONS: dict[str, Any] = {
    "data": "fashion (train)",
    "exams": ["prediction", "fourier"],
    "limit": 8,
    "batch_size": None,
    "seed": 3,
    "settings": {"prediction": {"temperature": "fit"}, "fourier": "alpha 0.5"},
}


def run_with(folder: Path, **changes: Any) -> Run:
    with Run.start(folder, options={**OPTIONS, **changes}, seed=0):
        pass
    return Run.open(folder)


def test_options_are_read_as_they_were_given(tmp_path: Path) -> None:
    made = all_examinations(run_with(tmp_path / "run", device="cpu"))
    assert len(made) == 1
    one = made[0]
    assert (one.spec, one.split, one.exams) == ("fashion", "train", ("prediction", "fourier"))
    assert (one.limit, one.batch_size, one.seed, one.skip_broken) == (8, 128, 3, False)
    assert one.options == {"prediction": {"temperature": "fit"}, "fourier": {"alpha": 0.5}}


@pytest.mark.parametrize(
    "change",
    [
        {"seed": "<!--"},
        {"seed": -1},
        {"seed": 0.5},
        {"seed": True},
        {"limit": "all"},
        {"limit": 0},
        {"batch_size": [128]},
        {"exams": "prediction"},
        {"exams": [1]},
        {"data": {"a": 1}},
        {"settings": ["fit"]},
        {"settings": {"fourier": 5}},
        {"skip_broken": "yes"},
    ],
    ids=str,
)
def test_what_is_not_of_its_type_is_damage(tmp_path: Path, change: dict[str, Any]) -> None:
    run = run_with(tmp_path / "run", **change)
    with pytest.raises(
        BadResult, match=rf"run\.json is damaged \(of its options, its {next(iter(change))} is"
    ):
        all_examinations(run)


def test_a_command_before_is_checked_too(tmp_path: Path) -> None:
    run_with(tmp_path / "run", seed="<!--")
    run = run_with(tmp_path / "run")
    assert len(json.loads((tmp_path / "run" / "run.json").read_text())["earlier"]) == 1
    with pytest.raises(BadResult, match="damaged"):
        all_examinations(run)
