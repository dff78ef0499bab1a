"""The commands of docs/tasks.md, one after the other as they stand, on small sets of the same names."""

import shlex
from pathlib import Path

import pytest

from tests.docs.test_pages import CODE, ROOT
from tests.studies.task_sets import prepare_task_sets
from vitscope.cli.app import main

# what makes them small, and nothing else
SMALL = {"train": "--epochs 1 --fraction 0.04", "diagnose": "--limit 4"}


@pytest.mark.slow
def test_the_commands_of_the_page_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/tasks.md").read_text()
    lines = [shlex.split(line.split(" #")[0])[1:] for line in CODE.findall(page)]
    prepare_task_sets(tmp_path / "data", monkeypatch)
    monkeypatch.chdir(tmp_path)
    commands = [words for words in lines if words[0] in ("train", "diagnose", "report")]
    assert [words[0] for words in commands] == ["train"] * 3 + ["diagnose"] * 2 + ["report"]
    for words in commands:
        assert main([*words, *shlex.split(SMALL.get(words[0], ""))]) in (0, None), words
    for run in ("coral", "boxes", "vqa"):
        assert (tmp_path / "runs" / run / "model.safetensors").exists()
    made = (tmp_path / "coral.html").read_text()
    assert "where it is wrong" in made
    assert "mIoU" in made
