"""`python -m tests.prove`: what it writes down and how it ends; a few cases of each kind that costs little."""

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import run
from tests.prove import __main__ as prove
from tests.prove.faults.same import differences
from tests.prove.record import Row, keep, page, read

CHEAP = "operations pictures tensors objects questions masks folders labels studies exams".split()


def row(kind: str, cases: int, findings: int = 0, note: str = "") -> Row:
    return Row("faults", kind, f"what {kind} is", cases, findings, 1.5, "python -m tests.prove", 0, note)


def test_a_row_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "reliability.json"
    keep([row("kills", 5, 1), row("clock", 2)], file)
    keep([row("kills", 50)], file)
    assert [(one["kind"], one["cases"], one["findings"]) for one in read(file)] == [
        ("clock", 2, 0),
        ("kills", 50, 0),
    ]
    shown = page(read(file))
    assert "| faults | what kills is | 50 | 0 | 2 | 0 |" in shown
    assert "52 cases, 0 findings." in shown


def test_what_could_not_be_tried_is_said(tmp_path: Path) -> None:
    keep([row("packages", 0, note="not tried: no network")], tmp_path / "r.json")
    assert "what packages is (not tried: no network)" in page(read(tmp_path / "r.json"))


def test_a_few_cases_of_each_kind(tmp_path: Path) -> None:
    """In a process of its own, as they are watched by what cannot be taken away again."""
    words = ["input", "--only", *CHEAP, "--cases", "6", "--seed", "5", "--file", str(tmp_path / "r.json")]
    done = run("-m", "tests.prove", *words)
    assert done.returncode == 0, done.stdout + done.stderr
    assert {one["kind"] for one in read(tmp_path / "r.json")} == set(CHEAP)
    assert all(one["cases"] >= 1 for one in read(tmp_path / "r.json"))


def test_ctrl_c_keeps_what_was_tried(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def rows(section: str, options: object) -> Iterator[Row]:
        yield row("kills", 3)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(prove, "_rows", rows)
    file = tmp_path / "r.json"
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background ignores it
    try:
        assert prove.main(["faults", "--file", str(file)]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert "interrupted; 1 rows were kept" in capsys.readouterr().err
    assert [one["kind"] for one in read(file)] == ["kills"]


def test_folders_are_compared_to_the_bit_without_times(tmp_path: Path) -> None:
    for name, seconds, value in (("whole", 1.0, 0.5), ("killed", 2.0, 0.5), ("disturbed", 1.0, 0.5000000001)):
        place = tmp_path / name / "command"
        place.mkdir(parents=True)
        (place / "result.json").write_text(json.dumps({"value": value, "seconds": seconds, "at": str(place)}))
        (place / "metrics.csv").write_text(f"epoch,accuracy,seconds\n1,{value},{seconds}\n")
    whole, killed, other = (tmp_path / name / "command" for name in ("whole", "killed", "disturbed"))
    assert differences(whole, killed) == []
    assert differences(whole, other) == [
        "metrics.csv: columns differ: ['accuracy']",
        "result.json: .value is 0.5000000001 instead of 0.5",
    ]
    (killed / ".result.json.0.part").touch()
    (killed / "metrics.csv").unlink()
    assert differences(whole, killed) == [
        "metrics.csv is missing",
        ".result.json.0.part is there in addition",
    ]
