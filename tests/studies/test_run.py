"""Real studies that take seconds: what comes out, what is not done again, what a kill leaves."""

import dataclasses
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

import vitscope as vs
from tests.processes import Job as InProcess
from tests.processes import alive, wait_for
from tests.studies.fragile import FRAGILE
from tests.studies.tiny_study import FILE, LOOKS, arms, contents, done_here, jobs_done, tiny_study
from vitscope.core.errors import BadArgument
from vitscope.results import Result
from vitscope.results.result import PACKED
from vitscope.results.study_result import StudyResult
from vitscope.studies.graph import plan_study
from vitscope.studies.images import Part
from vitscope.studies.run import StudyRequest, plan_request
from vitscope.studies.store import Store
from vitscope.studies.study import Study


def missing(study: Study, store: Path) -> list[str]:
    return [node.title for node in plan_study(study, Store(store)).missing.values()]


def test_it_is_what_train_operate_and_diagnose_give(reference, tmp_path):
    """The same by hand, with the functions of the same names."""
    plan = plan_study(tiny_study(), Store(reference))
    results = plan.results()
    learned = Part("fashion", "train", 0.02, 0.02).load()
    held_out = Part("fashion", "validation", 1.0, 0.02).load()
    arm = arms()[0]
    trained = vs.train(
        arm.model, learned, held_out=held_out, changes=dict(arm.changes), out=tmp_path / "a", progress=False
    )
    model = vs.create_model(tmp_path / "a", trust_code=True)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    found = vs.diagnose(model, held_out, ["prediction", "attention"], batch_size=40)
    for label in ("prediction", "attention"):
        assert_same(results["plain", 0][label], found[label])
    assert_same(
        results["plain", 0]["train_loss"], vs.diagnose(model, learned, ["prediction"], limit=60)["prediction"]
    )
    vs.operate(model, "localize kernel=3")
    assert_same(
        results["local", 0]["attention"],
        vs.diagnose(model, held_out, ["attention"], batch_size=40)["attention"],
    )
    recorded = plan.training()["plain", 0]
    assert recorded["accuracy"] == pytest.approx(trained.accuracy, abs=1e-6)
    assert recorded["parameters"] == parameters
    assert [row["epoch"] for row in recorded["rows"]] == [1, 2]
    assert plan.training()["local", 0] == {  # which was only operated on
        "parameters": sum(parameter.numel() for parameter in model.parameters())
    }
    assert set(plan.training()) == {("plain", 0), ("broadcast", 0), ("local", 0)}
    run = Store(reference).job_folder("train", plan.trainings["plain", 0])
    assert (run / "last.safetensors").exists()
    assert not (run / "previous.safetensors").exists()  # which a training that is done has no need of


def assert_same(ours: Result, theirs: Result) -> None:
    """To the bit; but for what the model is called."""
    ours_table, theirs_table = ours.table(), theirs.table()
    assert list(ours_table["quantity"]) == list(theirs_table["quantity"])
    for column in ("value", "low", "high", "n"):
        np.testing.assert_array_equal(ours_table[column], theirs_table[column])


def test_what_is_done_is_not_done_again_and_tables_are_the_same(reference, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in reference.rglob("result.json*")}
    assert missing(tiny_study(), reference) == []
    done = done_here(tiny_study(), reference, tmp_path)
    assert not done.report.tasks
    assert {path: path.stat().st_mtime_ns for path in reference.rglob("result.json*")} == before
    kept, table = StudyResult.load(reference.parent / "out"), done.result.table()
    assert kept.table().equals(table)
    assert list(kept.comparisons()["name"]) == ["better"]
    losses = table[(table["quantity"] == "nll") & (table["exam"] == "prediction")]
    assert losses.groupby("arm")["value"].first().nunique() == 3  # arms that differ


def test_another_study_takes_the_models_that_are_there(reference):
    other = tiny_study(looks=(*LOOKS, dataclasses.replace(LOOKS[0], label="half", limit=30)))
    other = dataclasses.replace(other, name="other", comparisons=())
    assert missing(other, reference) == [
        f"examine {arm}, seed 0 (half)" for arm in ("plain", "broadcast", "local")
    ]
    more = tiny_study(arms=arms(seeds=(0, 1)))
    assert all("seed 1" in title for title in missing(more, reference))


def test_results_outlive_the_weights(reference, tmp_path):
    store = tmp_path / "store"
    shutil.copytree(reference, store)
    shutil.rmtree(store / "train")
    shutil.rmtree(store / "operate")
    assert missing(tiny_study(), store) == []
    plan = plan_study(tiny_study(), Store(store))
    assert contents(store) == contents(reference)
    assert set(plan.training()) == {("plain", 0), ("broadcast", 0)}
    key, exam = plan.looks["local", 0, "train_loss"]
    shutil.rmtree(Store(store).result_folder(key, exam))
    assert missing(tiny_study(), store) == [
        "train plain, seed 0",
        "operate on local, seed 0",
        "examine local, seed 0 (train_loss)",
    ]


def test_a_damaged_result_is_made_again(reference, tmp_path):
    store = tmp_path / "store"
    shutil.copytree(reference, store)
    key, exam = plan_study(tiny_study(), Store(store)).looks["plain", 0, "attention"]
    (Store(store).result_folder(key, exam) / PACKED).write_text("{}")
    with pytest.warns(UserWarning, match="it is done again"):
        report = jobs_done(tiny_study(), store)
    assert [task.node.title for task in report.tasks.values()] == ["examine plain, seed 0 (attention)"]
    assert contents(store) == contents(reference)


def test_weights_alone_are_removed_and_made_again(reference, tmp_path):
    """Who saves disk removes the weights, and not what stands beside them."""
    store = tmp_path / "store"
    shutil.copytree(reference, store)
    plan = plan_study(tiny_study(), Store(store))
    (Store(store).job_folder("train", plan.trainings["broadcast", 0]) / "model.safetensors").unlink()
    key, exam = plan.looks["broadcast", 0, "attention"]
    shutil.rmtree(Store(store).result_folder(key, exam))
    assert [task.state for task in jobs_done(tiny_study(), store).tasks.values()] == ["done", "done"]
    assert contents(store) == contents(reference)


def assert_as_in(reference: Path, store: Path) -> None:
    """The results of the first arm, to the bit."""
    found = contents(store)
    assert len(found) == 3
    assert found.items() <= contents(reference).items()


def command(folder: Path, orders: Path, *more: str) -> InProcess:
    """`vitscope study` in a process of its own, in which a model obeys the orders."""
    (folder / "tiny.yaml").write_text(FILE)
    words = [
        "-m",
        "vitscope.cli.app",
        "study",
        folder / "tiny.yaml",
        "--store",
        folder / "store",
        "--trust-code",
    ]
    words += ["--out", folder / "out", "--only", "plain", *more]
    return InProcess(*words, environment={FRAGILE: str(orders)})


@pytest.fixture
def orders(tmp_path: Path) -> Path:
    folder = tmp_path / "orders"
    folder.mkdir()
    return folder


def test_a_study_that_is_killed_goes_on(reference, tmp_path, orders):
    """In the middle of a training, then in the middle of an exam; the numbers are the same to the bit."""
    (orders / "train").write_text("6")  # in the second epoch of the first training
    assert command(tmp_path, orders, "--engine", "here").finish().returncode == -9
    assert (orders / "train.obeyed").exists()
    assert contents(tmp_path / "store") == {}
    (orders / "exam").write_text("2")
    assert command(tmp_path, orders, "--engine", "here").finish().returncode == -9
    assert (orders / "exam.obeyed").exists()
    went_on = command(tmp_path, orders, "--engine", "here").finish()
    assert went_on.returncode == 0, went_on.stderr
    assert_as_in(reference, tmp_path / "store")
    ours, theirs = (StudyResult.load(folder / "out").table() for folder in (tmp_path, reference.parent))
    theirs = theirs[theirs["arm"] == "plain"].reset_index(drop=True)
    timed = theirs["quantity"].isin(["seconds", "images_per_second"])
    assert ours[~timed].equals(theirs[~timed])


def test_a_worker_is_killed_then_ctrl_c_and_it_goes_on(reference, tmp_path, orders):
    (orders / "train").write_text("6")
    (orders / "wait").write_text("2")
    local = ("--engine", "local", "--workers", "1")
    study = command(tmp_path, orders, *local)
    waiting = orders / "wait.pid"
    wait_for(lambda: waiting.exists() and waiting.read_text().endswith("\n"))
    study.send(signal.SIGINT)
    stopped = study.finish()
    assert stopped.returncode == 130
    assert "the same command goes on with it" in stopped.stderr
    assert stopped.stderr.count("was ended by signal 9") == 1  # in its training
    assert stopped.stderr.count("it is tried again") == 1
    assert "train plain, seed 0: " in stopped.stderr
    assert not alive(int(waiting.read_text()))
    went_on = command(tmp_path, orders, *local).finish()
    assert went_on.returncode == 0, went_on.stderr
    assert "train plain, seed 0" not in went_on.stderr
    assert_as_in(reference, tmp_path / "store")


def test_a_plan_with_its_cost(reference, tmp_path, orders):
    told = command(tmp_path, orders, "--dry-run", "--budget", "90min").finish()
    assert told.returncode == 0, told.stderr
    assert "3 jobs to do: about" in told.stdout
    assert re.search(r"before its first job, each worker takes about [\d.]+ (s|min) to start", told.stdout)
    assert re.search(
        r"plain +0 +to train +0 of 3 done, missing: prediction, attention, train_loss", told.stdout
    )
    assert "a few steps" in told.stdout
    assert not (tmp_path / "store").exists()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"arguments": {"embed_dm": 3}}, "arm plain: .*embed_dm"),
        ({"operations": ("smooth",)}, "arm plain: smooth"),
    ],
    ids=str,
)
def test_what_cannot_be_built_is_refused_before_a_job_begins(tmp_path, changed, said):
    study = tiny_study(arms=(dataclasses.replace(arms()[0], **changed),), looks=LOOKS[:1], comparisons=())
    with pytest.raises(BadArgument, match=said):
        plan_request(StudyRequest(study, tmp_path / "store"))
    assert not (tmp_path / "store").exists()
