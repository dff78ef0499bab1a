import re
from pathlib import Path

from tests.processes import run

ROOT = Path(__file__).parents[2]


def test_the_walk_through_goes_one_way(tmp_path):
    text = (ROOT / "CONTRIBUTING.md").read_text()
    part = text[text.index("## A walk through it") : text.index("## An exam")]
    told = re.findall(r"^\| (\S+\.py) \|", part, re.M)
    assert 15 < len(told) <= 25
    command = ["diagnose", "vit_mini", "--data", "fashion", "--exams", "fourier", "--limit", "8"]
    done = run("-m", "tests.files_run", *command, "--out", tmp_path / "run", cwd=ROOT)
    entered = re.findall(r"^ *\d+ (\S+)$", done.stdout, re.M)
    assert [file for file in entered if file in told] == told, done.stderr
