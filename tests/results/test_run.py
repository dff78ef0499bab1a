import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.data import Dataset

import vitscope as vs
from tests.forged import forge, set_to
from vitscope.cli.app import main
from vitscope.core.errors import BadResult, VitscopeError
from vitscope.core.statistics import Estimate
from vitscope.findings.variance import VarianceResult
from vitscope.results import Run, UnitRow
from vitscope.results.atomic import LOCK

START_AND_WAIT = (
    "import sys, time; from vitscope.results import Run\n"
    "Run.start(sys.argv[1]); print('started', flush=True); time.sleep(600)"
)


def example() -> VarianceResult:
    one, none = np.ones(1), np.full(1, np.nan)
    units = (UnitRow("stem", "stem", 0, 0.0, (8, 4, 4)),)
    return VarianceResult(
        model="m",
        data="d",
        n=5,
        seed=0,
        units=units,
        value=one,
        low=one,
        high=one,
        change=Estimate(none, none, none),
        kinds=("msa",),
        kind_change=Estimate(one, one, one),
    )


@dataclass
class Options:
    data: str
    out: Path
    sizes: tuple[int, ...]


def test_records_what_was_done(tmp_path: Path) -> None:
    options = Options("fashion", Path("runs/a"), (1, 2))
    with Run.start(
        tmp_path / "a", options, seed=7, device="cpu", model={"name": "vit", "parameters": 5}
    ) as run:
        assert Run.open(run.path).state == "running"
    record = json.loads((tmp_path / "a" / "run.json").read_text())
    assert record["schema"] == 1
    assert record["state"] == "done"
    assert record["options"] == {"data": "fashion", "out": "runs/a", "sizes": [1, 2]}
    assert (record["seed"], record["device"], record["model"]["name"]) == (7, "cpu", "vit")
    assert {"command", "versions", "git_revision", "time", "finished", "seconds"} <= set(record)


def test_an_error_is_recorded_and_passed_on(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), Run.start(tmp_path):
        _ = 1 / 0
    run = Run.open(tmp_path)
    assert run.state == "failed"
    assert run.record["reason"] == "ZeroDivisionError: division by zero"


def test_an_interrupt_is_recorded_and_passed_on(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), Run.start(tmp_path):
        raise KeyboardInterrupt
    assert Run.open(tmp_path).state == "interrupted"


def test_two_processes_cannot_write_and_a_killed_one_is_noticed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", START_AND_WAIT, str(tmp_path)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    assert holder.stdout.readline().strip() == "started"
    assert Run.open(tmp_path).state == "running"
    with pytest.raises(BadResult, match="another process"):
        Run.start(tmp_path)
    holder.kill()
    holder.wait()
    assert Run.open(tmp_path).state == "interrupted"
    with Run.start(tmp_path):
        pass
    assert Run.open(tmp_path).state == "done"


def test_another_command_in_the_same_folder_keeps_the_earlier_record(tmp_path: Path) -> None:
    for options in ({"verb": "train"}, {"verb": "diagnose"}, {"verb": "diagnose"}):
        with Run.start(tmp_path, options):
            pass
    record = Run.open(tmp_path).record
    assert record["options"] == {"verb": "diagnose"}
    assert [e["options"] for e in record["earlier"]] == [{"verb": "train"}]


def test_finished_goes_by_key(tmp_path: Path) -> None:
    with Run.start(tmp_path) as run:
        assert run.finished("variance", "key") is None
        run.save_result(example(), "key")
        assert isinstance(run.finished("variance", "key"), VarianceResult)
        assert run.finished("variance", "other") is None
    assert list(Run.open(tmp_path).results()) == ["variance"]


def test_a_damaged_exam_counts_as_not_done_but_a_newer_one_is_not_overwritten(tmp_path: Path) -> None:
    with Run.start(tmp_path) as run:
        run.save_result(example(), "key")
        path = run.exam_folder("variance") / "result.json"
        whole = path.read_text()
        path.write_text(whole[:200])
        with pytest.warns(UserWarning, match=r"is damaged \([^;]*\); it is done again$"):
            assert run.finished("variance", "key") is None
        path.write_text(json.dumps({**json.loads(whole), "schema": 99}))
        with pytest.raises(BadResult, match="schema 99"):
            run.finished("variance", "key")


def test_an_exam_of_which_no_table_can_be_made_counts_as_not_done(tmp_path: Path) -> None:
    with Run.start(tmp_path) as run:
        run.save_result(example(), "key")
        path = forge(tmp_path, "variance", set_to([], "units"))
        with pytest.warns(UserWarning, match=rf"^{path} is damaged: .*; it is done again$"):
            assert run.finished("variance", "key") is None


def test_what_is_no_run_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(BadResult, match=r"no run\.json; try: vitscope diagnose"):
        Run.open(tmp_path)
    with pytest.raises(BadResult, match=r"no run\.json"):
        Run.open(tmp_path / "absent")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"schema": 1}', '{"schema": 1, "state": "asleep"}']
)
def test_a_damaged_run_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(BadResult, match="damaged"):
        Run.open(tmp_path)
    with pytest.raises(BadResult, match="damaged"):
        Run.start(tmp_path)
    assert (tmp_path / "run.json").read_text() == content


def test_a_newer_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text('{"schema": 2, "state": "done"}')
    with pytest.raises(BadResult, match="schema 2"):
        Run.open(tmp_path)


def test_a_file_in_the_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("")
    with pytest.raises(VitscopeError, match="is a file"):
        Run.start(tmp_path / "a")


def test_note_is_written_at_once(tmp_path: Path) -> None:
    with Run.start(tmp_path) as run:
        run.note(best={"accuracy": np.float64(0.5)})
        assert Run.open(tmp_path).record["best"] == {"accuracy": 0.5}


@pytest.mark.parametrize(
    ("name", "verb"),
    [("run.json", "report"), ("exams/fourier/result.json", "report"), ("config.json", "anatomy")],
)
def test_a_pipe_in_the_place_of_a_file_is_said_and_not_waited_for(
    name: str, verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "exams" / "fourier").mkdir(parents=True)
    Run.start(tmp_path).finish()
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    assert main([verb, str(tmp_path)]) == 2
    assert f"{tmp_path / name} is a pipe, not a file" in capsys.readouterr().err


def refused(folder: Path, *files: str) -> None:
    run = Run.start(folder)
    for file in files:
        (run.path / file).write_text("")
    with pytest.raises(VitscopeError, match="no"), run:
        raise VitscopeError("no")


def test_a_refused_command_takes_away_the_folder_that_it_made(tmp_path: Path) -> None:
    refused(tmp_path / "new" / "run")
    assert not list(tmp_path.iterdir())
    refused(tmp_path / "new" / "run", "metrics.csv")  # something is in it
    assert Run.open(tmp_path / "new" / "run").record["reason"] == "VitscopeError: no"
    (tmp_path / "own").mkdir()  # somebody else's
    refused(tmp_path / "own")
    assert not list((tmp_path / "own").iterdir())
    with pytest.raises(KeyboardInterrupt), Run.start(tmp_path / "stopped"):
        raise KeyboardInterrupt
    assert Run.open(tmp_path / "stopped").state == "interrupted"


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_refused_command_leaves_a_run_as_it_was(tmp_path: Path) -> None:
    with Run.start(tmp_path, {"verb": "train"}) as run:
        run.save_result(example(), "key")
    (tmp_path / LOCK).unlink()  # as in a copy of a run
    before = everything(tmp_path)
    run = Run.start(tmp_path, {"verb": "diagnose"})
    run.note(seen="something")
    with pytest.raises(VitscopeError, match="no"), run:
        raise VitscopeError("no")
    assert everything(tmp_path) == before
    assert Run.open(tmp_path).state == "done"
    with Run.start(tmp_path, {"verb": "diagnose"}):  # the lock was given back
        pass


def test_a_command_that_fails_after_it_has_changed_a_run_says_so(tmp_path: Path) -> None:
    with Run.start(tmp_path, {"verb": "train"}):
        pass
    refused(tmp_path, "metrics.csv")
    assert Run.open(tmp_path).state == "failed"
    with Run.start(tmp_path, {"verb": "train"}):
        pass
    refused(tmp_path, "metrics.csv")  # the same file, written again
    assert Run.open(tmp_path).state == "failed"
    with Run.start(tmp_path, {"verb": "train"}):
        pass
    with pytest.raises(ZeroDivisionError), Run.start(tmp_path):
        _ = 1 / 0  # no refusal
    assert Run.open(tmp_path).state == "failed"


def test_a_refusal_does_not_hide_that_the_command_before_it_was_killed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", START_AND_WAIT, str(tmp_path)]
    holder = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert holder.stdout is not None
    holder.stdout.readline()
    holder.kill()
    holder.wait()
    refused(tmp_path)
    assert Run.open(tmp_path).state == "interrupted"


class Labelled(Dataset):
    """Five images, the last of which has a class that the model does not know."""

    def __len__(self) -> int:
        return 5

    def __getitem__(self, place: int) -> tuple[torch.Tensor, int]:
        return torch.zeros(3, 32, 32), 99 if place == 4 else 0


def test_a_label_that_is_found_out_in_the_pass(tmp_path: Path) -> None:
    with pytest.raises(VitscopeError, match="99"):
        vs.diagnose(
            vs.create_model("vit_mini"), Labelled(), ["prediction"], batch_size=2, out=tmp_path / "run"
        )
    assert not list(tmp_path.iterdir())


def test_an_exam_of_another_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = vs.load_data("fashion")
    for name, pretrained in (("own", True), ("other", False)):  # the same units, other weights
        model = vs.create_model("vit_mini", pretrained=pretrained)
        vs.diagnose(model, data, ["prediction"], limit=8, out=tmp_path / name)
    vs.diagnose(
        vs.create_model("vit_mini", pretrained=True), data, ["variance"], limit=8, out=tmp_path / "own"
    )
    assert len(Run.open(tmp_path / "own").results()) == 2
    inside = Path("exams", "prediction")
    shutil.rmtree(tmp_path / "own" / inside)
    shutil.copytree(tmp_path / "other" / inside, tmp_path / "own" / inside)
    with pytest.raises(
        BadResult, match=r"prediction.* is of a model with other weights .* run the exam again"
    ):
        Run.open(tmp_path / "own").results()
    for words in (["report", "-o", str(tmp_path / "page.html")], ["prescribe"]):
        assert main([words[0], str(tmp_path / "own"), *words[1:]]) == 2
        assert "other weights" in capsys.readouterr().err
    vs.diagnose(
        vs.create_model("vit_mini", pretrained=True), data, ["prediction"], limit=8, out=tmp_path / "own"
    )
    assert len(Run.open(tmp_path / "own").results()) == 2
