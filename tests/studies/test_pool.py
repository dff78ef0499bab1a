"""Several studies in one pool of jobs: each job once, the same numbers as one by one, summed up early."""

import dataclasses
import re
import shutil
import signal
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.processes import Job as InProcess
from tests.processes import alive, wait_for
from tests.studies import two_studies
from tests.studies.fragile import FRAGILE
from tests.studies.tiny_study import JOBS, LOOKS, arms, contents, tiny_study
from vitscope.core import pd
from vitscope.results.study_result import FILE, PAGE, StudyResult
from vitscope.studies.cost import Cost, affordable
from vitscope.studies.design import Look
from vitscope.studies.pool import Pool, Pooled, do_studies
from vitscope.studies.run import StudyRequest
from vitscope.studies.study import Study


def with_seeds(study: Study) -> Callable[[int], Study]:
    return partial(Study.with_seeds, study)


def part(name: str, *names: str) -> Study:
    """Some arms of the tiny study, under another name."""
    return dataclasses.replace(tiny_study().only(names), name=name)


def numbers(folder: Path) -> pd.DataFrame:
    """Those of a study that are not times."""
    table = StudyResult.load(folder).table()
    return table[~table["quantity"].isin(["seconds", "images_per_second"])].reset_index(drop=True)


def test_what_two_studies_share_is_done_once_and_gives_the_same_numbers(
    reference: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By two workers; the reference is the larger of them, done alone and in one process."""
    first, second = part("first", "local"), tiny_study()
    pooled = [Pooled(one.name, with_seeds(one), tmp_path / one.name) for one in (first, second)]
    do_studies(pooled, 1, StudyRequest("", tmp_path / "store", "local", 2))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == JOBS, lines
    assert max(Counter(re.sub("; .*", "", re.sub(r": [0-9.]+ s", "", line)) for line in lines).values()) == 1
    assert f"{JOBS} of {JOBS} jobs done" in lines[-1]
    assert sum("first, tiny: train first plain, seed 0" in line for line in lines) == 1
    records = list((tmp_path / "store").glob("*/*/job/result.json"))
    assert len(records) == JOBS
    assert contents(tmp_path / "store") == contents(reference)
    pd.testing.assert_frame_equal(numbers(tmp_path / "tiny"), numbers(reference.parent / "out"))
    assert set(StudyResult.load(tmp_path / "first").table()["arm"]) == {"plain", "local"}
    assert (tmp_path / "first" / PAGE).exists()


def test_a_study_is_summed_up_while_another_goes_on_and_ctrl_c_leaves_it(
    reference: Path, tmp_path: Path
) -> None:
    """An exam of one of them, whichever comes to it first, waits for ever: the other is finished all the same."""
    orders = tmp_path / "orders"
    orders.mkdir()
    (orders / "wait").write_text("2")
    records = [tmp_path / name / FILE for name in two_studies.NAMES]
    pool = InProcess("-m", "tests.studies.two_studies", tmp_path, environment={FRAGILE: str(orders)})
    waiting = orders / "wait.pid"
    wait_for(lambda: any(record.exists() for record in records) or not pool.running)
    wait_for(lambda: waiting.exists() and waiting.read_text().endswith("\n"))
    assert pool.running, pool.shown
    pool.send(signal.SIGINT)
    assert pool.finish().returncode != 0
    assert not alive(int(waiting.read_text()))
    assert sum(record.exists() for record in records) == 1
    two_studies.main(tmp_path, "here")  # what is missing, in this process
    assert all(record.exists() for record in records)
    assert contents(tmp_path / "store").items() <= contents(reference).items()
    assert len(contents(tmp_path / "store")) == 4


def test_what_is_there_is_summed_up_without_a_job(reference: Path, tmp_path: Path) -> None:
    """As after Ctrl-C between the last job and its tables; and as many seeds as are there, if no more fit in."""
    study = tiny_study(arms=arms(seeds=(0, 1)))
    before = contents(reference)
    pooled = [
        Pooled("mine", with_seeds(study), tmp_path / "mine"),
        Pooled("known", with_seeds(study), tmp_path / "known", there=2),
    ]
    request = StudyRequest("", reference, "here", progress=False)
    do_studies(pooled, 2, request, seconds=1e-3)
    assert contents(reference) == before
    found = StudyResult.load(tmp_path / "mine")
    assert found.missing == ()
    assert {arm["name"]: list(arm["seeds"]) for arm in found.study["arms"]} == {
        **{"plain": [0], "broadcast": [0], "local": [0]}
    }
    assert not (tmp_path / "known").exists()


def test_a_failure_is_said_of_every_study_that_it_concerns(reference: Path, tmp_path: Path) -> None:
    shutil.copytree(reference, tmp_path / "store")
    many = Look("hessian", split="train", options={"batches": 1000})  # there are not so many images
    failing = [
        dataclasses.replace(part(name, *names), looks=(LOOKS[0], dataclasses.replace(many, arms=("plain",))))
        for name, names in (("first", ("plain",)), ("second", ("plain", "broadcast")))
    ]
    pooled = [
        Pooled(one.name, with_seeds(one), tmp_path / one.name) for one in (*failing, part("third", "local"))
    ]
    request = StudyRequest("", tmp_path / "store", "here", retries=0, progress=False)
    with pytest.warns(UserWarning, match="hessian") as said:
        do_studies(pooled, 1, request)
    warned = [str(one.message) for one in said if "hessian" in str(one.message)]
    assert [line[: line.index(" (")] for line in warned] == [
        f"{name}: examine plain, seed 0" for name in ("first", "second")
    ]
    assert StudyResult.load(tmp_path / "first").missing == ("plain, seed 0: no hessian",)
    notes = StudyResult.load(tmp_path / "second").tables["arms"].set_index("arm")["note"]
    assert "batches" in notes["plain"]
    assert pd.isna(notes["broadcast"])
    assert StudyResult.load(tmp_path / "third").missing == ()


def test_a_budget_goes_to_the_first_seed_of_all_studies_first(tmp_path: Path) -> None:
    studies = {"first": part("first", "plain"), "second": part("second", "plain", "broadcast")}
    pooled = [Pooled(name, with_seeds(one), tmp_path / name) for name, one in studies.items()]
    packages = Pool(pooled, 2, StudyRequest("", tmp_path / "store")).packages()
    seconds = {"train": 100.0, "operate": 1.0, "examine": 10.0}
    costs = {node.key: Cost(seconds[node.kind], 0, "measured") for one in packages for node in one}

    def chosen(budget: float) -> list[tuple[str, str, int]]:
        nodes = affordable(packages, costs, budget, workers=1)
        return [(node.study, node.arm, node.seed) for node in nodes if node.kind == "train"]

    assert chosen(119) == []
    assert chosen(120) == [("first", "plain", 0)]  # with two passes
    assert chosen(230) == [("first", "plain", 0), ("second", "broadcast", 0)]  # plain is there
    assert chosen(350) == [*chosen(230), ("first", "plain", 1)]
    assert chosen(460) == [*chosen(350), ("second", "broadcast", 1)]
