"""`vitscope models`: what it prints."""

import pytest

from vitscope.cli.app import main

Capture = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _wide(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")


def lines(capsys: Capture, *arguments: str) -> list[str]:
    assert main(["models", *arguments]) == 0
    return capsys.readouterr().out.splitlines()


def test_without_a_pattern_ours_and_what_else_there_is(capsys: Capture) -> None:
    shown = lines(capsys)
    assert shown[0].split() == ["name", "parameters", "input", "source"]
    assert shown[1].split() == ["resnet_mini", "0.70", "M", "3x32x32", "vitscope"]
    assert shown[2].split() == ["vit_mini", "0.68", "M", "3x32x32", "vitscope"]
    assert "of timm" in shown[3]


def test_pattern(capsys: Capture) -> None:
    names = [line.split()[0] for line in lines(capsys, "tv:resnet1*")[1:]]
    assert names == ["tv:resnet101", "tv:resnet152", "tv:resnet18"]


def test_many_names_come_without_sizes(capsys: Capture) -> None:
    shown = lines(capsys, "resnet*")
    assert "resnet50" in shown
    assert shown[-1].startswith(f"{len(shown) - 1} models; narrow the pattern")


def test_a_word_without_wildcards_is_looked_for_inside_names(capsys: Capture) -> None:
    assert [line.split()[0] for line in lines(capsys, "evit_128s")[1:]] == ["levit_128s"]


def test_nothing_matches(capsys: Capture) -> None:
    assert main(["models", "zzz*"]) == 2
    assert "no model matches 'zzz*'" in capsys.readouterr().err
