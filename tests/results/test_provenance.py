import json
import re
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from vitscope.results import provenance
from vitscope.results.provenance import command_line, git_revision

ROOT = Path(__file__).parents[2]


def test_holds_what_is_needed_and_is_json() -> None:
    found = json.loads(json.dumps(provenance()))
    assert found["versions"]["torch"] == version("torch")
    assert found["versions"]["python"] == ".".join(map(str, sys.version_info[:3]))
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", found["time"])


def test_revision_is_that_of_the_sources() -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    command = ["git", "-C", str(ROOT), "rev-parse", "HEAD"]
    head = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    revision = git_revision()
    assert revision is not None
    assert revision.removesuffix("+changes") == head


def test_command_has_no_path_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["/somewhere/bin/vitscope", "diagnose", "vit_mini"])
    assert command_line() == "vitscope diagnose vit_mini"
    monkeypatch.setattr(sys, "argv", ["/somewhere/vitscope/cli/app.py", "diagnose"])
    assert command_line() == "vitscope diagnose"
