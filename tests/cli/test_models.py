"""`vitscope models` as a process."""

import subprocess
import sys


def vitscope(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "vitscope.cli.app", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env={"COLUMNS": "120"})


def test_without_a_pattern_ours_and_what_else_there_is() -> None:
    done = vitscope("models")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["name", "parameters", "input", "source"]
    assert lines[1].split() == ["resnet_mini", "0.70", "M", "3x32x32", "vitscope"]
    assert lines[2].split() == ["vit_mini", "0.68", "M", "3x32x32", "vitscope"]
    assert "of timm" in done.stdout


def test_pattern() -> None:
    done = vitscope("models", "tv:resnet1*")
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == [
        "tv:resnet101",
        "tv:resnet152",
        "tv:resnet18",
    ]


def test_many_names_come_without_sizes() -> None:
    done = vitscope("models", "resnet*")
    names = done.stdout.splitlines()
    assert "resnet50" in names
    assert names[-1].startswith(f"{len(names) - 1} models; narrow the pattern")


def test_a_word_without_wildcards_is_looked_for_inside_names() -> None:
    assert "levit_128s" in vitscope("models", "levit_128").stdout


def test_nothing_matches() -> None:
    done = vitscope("models", "zzz*")
    assert done.returncode == 2
    assert "no model matches 'zzz*'" in done.stderr
    assert "Traceback" not in done.stderr
