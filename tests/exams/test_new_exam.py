"""An exam that is put where CONTRIBUTING.md says is known everywhere, with its options and no other file edited."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import vitscope

FINDING = '''
"""What `channel_sparsity` finds."""
from dataclasses import dataclass

from vitscope.drawing.figures import axes_or_new, figure
from vitscope.results import About, Result, UnitRow, tidy
from vitscope.results.table import Estimated


@dataclass(frozen=True, eq=False, kw_only=True)
class Silence(Estimated, Result, exam="channel_sparsity", after="variance"):
    """Shares of quiet numbers."""

    about = About(title="Silence", shows="-", papers="-", misleads="-")

    units: tuple[UnitRow, ...]

    def table(self):
        return tidy("sparsity", *self.estimate, self.n, self.units)


@figure("channel_sparsity", "Shares.")
def plot_channel_sparsity(result, ax=None, colour="k"):
    """Shares against depth."""
    return axes_or_new(ax)
'''
EXAM = '''
"""How much of a map is quiet."""
from types import MappingProxyType

from vitscope.core.arguments import Positive
from vitscope.engine.single_exam import single_exam
from vitscope.engine.moments import FeatureMoments
from vitscope.findings.channel_sparsity import Silence


class Quiet(FeatureMoments):
    """Counts numbers near 0."""

    result = Silence
    least = 0.5
    signed = False
    OPTIONS = MappingProxyType({"least": Positive, "signed": bool})

    def __init__(self, subject):
        super().__init__(subject, (1,) * len(subject.units))

    def measure(self, feature):
        """The share of each image."""
        size = feature if self.signed else feature.abs()
        return (size < self.least).double().flatten(1).mean(1, keepdim=True)

    def compute(self):
        """Means over images."""
        return {"n": int(self.n), **self.levels()._asdict()}


channel_sparsity = single_exam(Quiet, "how quiet `model` is on `data`", least="What is smaller is quiet. Not more.")
'''
TRIED = """
import json, sys
from pathlib import Path
from vitscope.cli.app import main
from vitscope.core.names import EXAM_NAMES
from vitscope.results import Result

assert "channel_sparsity" in EXAM_NAMES and "torch" not in sys.modules
words = "diagnose vit_mini --limit 4 --device cpu --exams channel_sparsity".split()
values = {}
for option in ("", "--channel_sparsity.least=0.1", "--channel-sparsity.least=0.2", "--channel-sparsity.signed=true"):
    folder = Path(sys.argv[1], option or "plain")
    assert main([*words, *filter(None, [option]), "--out", str(folder)]) == 0
    values[option] = float(Result.load(folder / "exams/channel_sparsity").value[-1])
assert main([*words, "--channel-sparsity.least=-1"]) == 2
assert main([*words, "--channel-sparsity.most=1"]) == 2

import vitscope as vs
by_hand = vs.exams.channel_sparsity(vs.create_model("vit_mini", pretrained=True), "fashion", limit=4, least=0.2)
assert by_hand.value[-1] == values["--channel-sparsity.least=0.2"]
Path(sys.argv[1], "values.json").write_text(json.dumps(list(values.values())))
main([*words, "--help"])
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A vitscope with one exam more; all other files are ours."""
    ours, copy = Path(vitscope.__file__).parent, tmp_path / "source" / "vitscope"
    opened = [Path(), Path("exams"), Path("exams/features"), Path("findings")]
    for folder in opened:
        (copy / folder).mkdir(parents=True)
        for inside in (ours / folder).iterdir():
            if folder / inside.name not in opened and inside.name != "__pycache__":
                (copy / folder / inside.name).symlink_to(inside)
    (copy / "findings" / "channel_sparsity.py").write_text(FINDING)
    (copy / "exams" / "features" / "channel_sparsity.py").write_text(EXAM)
    return copy.parent


def test_it_is_known_everywhere_with_its_options(package: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(package)!r})\n{TRIED}", tmp_path],
        capture_output=True,
        text=True,
    )
    print(done.stdout, done.stderr)
    shown = " ".join(done.stdout.split())
    assert (
        "--channel_sparsity.least: a number, more than 0 (default: 0.5). What is smaller is quiet." in shown
    )
    assert "--channel_sparsity.signed: true or false (default: False)" in shown  # nothing is told of it
    assert "--channel-sparsity.least is '-1'; expected a number, more than 0" in done.stderr
    assert "no option --channel-sparsity.most" in done.stderr
    plain, tenth, fifth, signed = json.loads((tmp_path / "values.json").read_text())
    assert 0 < tenth < fifth < plain < signed < 1
