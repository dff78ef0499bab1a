import json
import signal
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import vitscope as vs
from tests.processes import Job
from vitscope.core.errors import VitscopeError
from vitscope.data import ImageData
from vitscope.results import Result, Run


def passes(model: nn.Module) -> list[int]:
    seen: list[int] = []
    model.register_forward_hook(lambda _, args, __: seen.append(len(args[0])))
    return seen


def test_results_by_name_without_a_folder(small_vit: nn.Module, fashion: ImageData) -> None:
    results = vs.diagnose(small_vit, fashion, exams=["variance", "fourier"], limit=20)
    assert list(results) == ["variance", "fourier"]
    assert results["fourier"].model == "VisionTransformer"


def test_keeps_results_figures_and_facts(small_vit: nn.Module, fashion: ImageData, tmp_path: Path) -> None:
    exams = ["prediction", "fourier", "variance"]
    results = vs.diagnose(small_vit, fashion, exams, limit=20, out=tmp_path / "run", name="mine")
    run = Run.open(tmp_path / "run")
    assert run.state == "done"
    assert run.model["name"] == "mine"
    assert run.model["parameters"] == sum(p.numel() for p in small_vit.parameters())
    assert run.record["options"]["limit"] == 20
    assert run.record["seed"] == 0
    kept = run.results()
    assert set(kept) == set(exams)
    for exam, result in results.items():
        np.testing.assert_array_equal(kept[exam].table()["value"], result.table()["value"])
    figures = {p.name for p in (tmp_path / "run" / "figures").iterdir()}
    assert {"fourier.png", "fourier.svg", "fourier_spectrum.png", "variance.png", "prediction.svg"} <= figures


def test_what_is_finished_is_not_done_again(small_vit: nn.Module, fashion: ImageData, tmp_path: Path) -> None:
    seen = passes(small_vit)
    first = vs.diagnose(small_vit, fashion, ["variance"], limit=20, out=tmp_path)
    count = len(seen)
    again = vs.diagnose(small_vit, fashion, ["variance"], limit=20, batch_size=5, out=tmp_path)
    assert len(seen) == count
    np.testing.assert_array_equal(again["variance"].table()["value"], first["variance"].table()["value"])
    both = vs.diagnose(small_vit, fashion, ["fourier", "variance"], limit=20, out=tmp_path)
    assert list(both) == ["fourier", "variance"]
    assert len(seen) > count


def test_what_changed_is_done_again(small_vit: nn.Module, fashion: ImageData, tmp_path: Path) -> None:
    first = vs.diagnose(small_vit, fashion, ["variance"], limit=20, out=tmp_path)["variance"]
    with torch.no_grad():
        for parameter in small_vit.parameters():
            parameter.mul_(1.5)
    other = vs.diagnose(small_vit, fashion, ["variance"], limit=20, out=tmp_path)["variance"]
    assert (first.table()["value"][:5] != other.table()["value"][:5]).all()
    assert vs.diagnose(small_vit, fashion, ["variance"], limit=30, out=tmp_path)["variance"].n == 30


def test_a_damaged_exam_is_made_again(small_vit: nn.Module, fashion: ImageData, tmp_path: Path) -> None:
    vs.diagnose(small_vit, fashion, ["variance"], limit=20, out=tmp_path)
    path = tmp_path / "exams" / "variance" / "result.json"
    path.write_bytes(path.read_bytes()[:300])
    with pytest.warns(UserWarning, match="damaged"):
        vs.diagnose(small_vit, fashion, ["variance"], limit=20, out=tmp_path)
    assert Result.load(path.parent).n == 20


def test_data_that_cannot_be_recognised_is_always_examined(small_vit: nn.Module, tmp_path: Path) -> None:
    data = DataLoader(
        TensorDataset(torch.randn(8, 3, 32, 32), torch.zeros(8, dtype=torch.long)), batch_size=4
    )
    seen = passes(small_vit)
    vs.diagnose(small_vit, data, ["variance"], out=tmp_path)
    count = len(seen)
    vs.diagnose(small_vit, data, ["variance"], out=tmp_path)
    assert len(seen) == 2 * count


def test_names_in_the_place_of_model_and_data() -> None:
    torch.manual_seed(0)
    results = vs.diagnose("tests.exams.factories:tiny", "fashion", ["prediction"], limit=20)
    assert results["prediction"].data == "fashion (test)"
    assert results["prediction"].model == "tests.exams.factories:tiny"


def test_an_unknown_exam_is_refused_before_anything_is_written(small_vit: nn.Module, tmp_path: Path) -> None:
    with pytest.raises(VitscopeError, match="no exam 'x'"):
        vs.diagnose(small_vit, "fashion", ["x"], out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


SLOW = """
import sys, time, torch, vitscope as vs
from tests.exams.factories import tiny
torch.manual_seed(0)
model = tiny()
data = vs.load_data("fashion", split="test")
vs.diagnose(model, data, ["prediction"], limit=64, out=sys.argv[1])
def wait(*_):
    print("pass", flush=True)
    time.sleep(0.5)
model.register_forward_hook(wait)
vs.diagnose(model, data, ["prediction", "variance"], limit=64, batch_size=1, out=sys.argv[1])
"""


def test_ctrl_c_keeps_what_is_finished(tmp_path: Path) -> None:
    script = tmp_path / "slow.py"
    script.write_text(SLOW)
    job = Job(script, tmp_path)
    job.wait_for("pass\npass\npass\n")
    job.send(signal.SIGINT)
    done = job.finish()
    assert done.returncode != 0
    assert "vitscope.core.interrupt.Stopped" in done.stderr
    assert json.loads((tmp_path / "run.json").read_text())["state"] == "interrupted"
    assert list(Run.open(tmp_path).results()) == ["prediction"]

    from tests.exams.factories import tiny

    torch.manual_seed(0)
    model = tiny()
    before = (tmp_path / "exams" / "prediction" / "result.json").stat().st_mtime_ns
    data = vs.load_data("fashion", split="test")
    both = ["prediction", "variance"]
    assert list(vs.diagnose(model, data, both, limit=64, out=tmp_path)) == both
    assert (tmp_path / "exams" / "prediction" / "result.json").stat().st_mtime_ns == before
    assert Run.open(tmp_path).state == "done"


def test_exams_with_passes_of_their_own_come_after_the_shared_pass(
    small_vit: nn.Module, fashion: ImageData, tmp_path: Path
) -> None:
    chosen = ["covariance", "variance", "lesion"]
    results = vs.diagnose(small_vit, fashion, chosen, limit=16, out=tmp_path)
    assert list(results) == chosen  # in the order in which they were asked for
    assert set(Run.open(tmp_path).results()) == set(chosen)
    figures = {p.name for p in (tmp_path / "figures").iterdir()}
    assert {"lesion.png", "lesion_groups.svg", "covariance.png", "covariance_maps.svg"} <= figures
    seen = passes(small_vit)
    again = vs.diagnose(small_vit, fashion, chosen, limit=16, out=tmp_path)
    assert seen == []
    assert again["lesion"].table().equals(results["lesion"].table())


def test_an_exam_that_fails_leaves_the_finished_ones(
    small_vit: nn.Module, fashion: ImageData, tmp_path: Path
) -> None:
    seen = passes(small_vit)

    def fail(*_: object) -> None:
        if 8 in seen:  # what `covariance` shows in a pass; the shared pass shows 16 images
            raise RuntimeError("out of memory")

    small_vit.register_forward_hook(fail)
    with pytest.raises(RuntimeError):
        vs.diagnose(small_vit, fashion, ["variance", "covariance"], limit=16, batch_size=15, out=tmp_path)
    assert list(Run.open(tmp_path).results()) == ["variance"]
    assert Run.open(tmp_path).state != "done"
