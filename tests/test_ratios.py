"""The table of speed: its page holds what was measured, and a change for the worse is told, also from a zero."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

PROGRAM = Path(__file__).parents[1] / "benchmarks" / "ratios.py"


@pytest.fixture(scope="module")
def ratios() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ratios", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["ratios"] = module  # its dataclass asks for it
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("side", "then", "now", "is_worse"),
    [
        ("most", 1.0, 1.1, False),
        ("most", 1.0, 1.2, True),
        ("most", 1.2, 1.0, False),
        ("least", 5.0, 4.0, True),
        ("least", 4.0, 5.0, False),
        ("most", 0.0, 0.0, False),
        ("most", 0.0, 1.0, True),
        ("least", 0.0, 1.0, False),
    ],
)
def test_what_became_slower_is_told(
    ratios: ModuleType, side: str, then: float, now: float, is_worse: bool
) -> None:
    found = {"program": [ratios.Ratio("this", "that", now, side=side)]}
    assert bool(ratios.worse(found, {("program", "this", "that"): then})) == is_worse


def test_the_page_holds_the_kept_numbers(ratios: ModuleType) -> None:
    processor, found = ratios.kept()
    page = ratios.PAGE.read_text()
    assert f"one thread of {processor}." in page
    assert list(found) == list(ratios.PROGRAMS)
    assert all(found.values())
    for row in ratios._without_before(found):
        assert row in page


def test_a_table_is_of_one_processor(
    ratios: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(ratios, "KEPT", tmp_path / "ratios.json")
    monkeypatch.setattr(ratios, "PAGE", tmp_path / "speed.md")
    ratios.PAGE.write_text(f"{ratios.BEGIN}{ratios.END}")
    for place, program in (("one", "one_pass"), ("another", "memory")):
        monkeypatch.setattr(ratios, "processor", lambda place=place: place)
        ratios.write({program: [ratios.Ratio("this", "that", 1.0)]})
    processor, found = ratios.kept()
    assert processor == "another"
    assert not found["one_pass"]
    assert found["memory"]
    monkeypatch.setattr(ratios, "processor", lambda: "a third")
    monkeypatch.setattr(sys, "argv", ["ratios.py", "setup", "--write"])
    with pytest.raises(SystemExit):
        ratios.main()
