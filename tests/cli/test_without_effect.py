"""Options that could not have an effect are refused with what they need, and files where folders are expected."""

from pathlib import Path

import pytest

from tests.fuzz.refusals import files_below
from vitscope.cli.app import main
from vitscope.results import Run

APPLYING = ["--only smoothing", "--epochs 1", "--data fashion", "--fraction 0.5", "--recipe hdv", "--out x"]
CASES = [
    ("train vit_mini --force", "--force) is about going on with a training; add resume (--resume)"),
    ("train vit_mini --monitor-every 2", "--monitor-every) is about looking at the model while it trains"),
    ("train vit_mini --out file", "file is a file; expected a folder to write the run into: --out runs/NAME"),
    ("train vit_mini --resume --out file", "file is a file; expected a folder"),
    (
        "train vit_mini --out file/run",
        "a part of the path is a file, not a folder); nothing was trained yet. Make",
    ),
    (
        "evaluate vit_mini --exams prediction --no-cache",
        "--no-cache) is about corrupted images, and corruption is not",
    ),
    (
        "evaluate vit_mini --exams variance --temperature fit",
        "vitscope: --temperature is for prediction, which is not among the exams: variance; add it",
    ),
    (
        "operate vit_mini --build-up budget=1 data=fashion --out x --output 1",
        "--output has no effect on --build-up",
    ),
    ("compare a b --limit 3", "limit (--limit) is about examining, and both runs are examined already"),
    ("compare a b --data fashion", "data (--data) is about examining, and both runs are examined already"),
    (
        "compare a vit_mini --seed 3",
        "seed (--seed) has no effect: one model is examined as the run beside it was",
    ),
    *((f"prescribe a {words}", f"{words.split()[0]} is about applying; add --apply") for words in APPLYING),
    ("prescribe a --seed 1", "--seed is about applying; add --apply"),
    ("prescribe a --device cpu", "--device is about applying; add --apply"),
]


@pytest.mark.parametrize(("words", "message"), CASES)
def test_refused(
    words: str,
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("mine")
    for name in ("a", "b"):
        with Run.start(name) as run:
            run.exam_folder("fourier").mkdir(parents=True)
            (run.exam_folder("fourier") / "result.json").write_text("{}")
    before = files_below(tmp_path)
    assert main(words.split()) == 2
    shown = capsys.readouterr().err
    assert message in shown
    assert "--resume with" not in shown
    assert len(shown.splitlines()) == 1
    assert files_below(tmp_path) == before
