import dataclasses
import json
import math
import os
import signal
import time

import pytest
import torch

import vitscope as vs
from tests.processes import Job, run
from tests.surgery.measures import by_counts, margins, tiny
from vitscope.core.errors import BadResult
from vitscope.studies.build_up import BuildUp, build_up
from vitscope.surgery import CannotOperate, record

HEADS = (1, 1, 1, 1)
# what Fig. 12 left of the paper tells, in images of 100 that are right
PAPER = {"0-0-0-0": 50, "0-0-0-1": 55, "0-0-0-2": 60, "0-0-1-2": 65, "0-0-2-2": 62, "0-1-1-2": 70}


def test_the_rule_gives_alternet(tmp_path, capfd):
    """The table in closed form: of nested sets of right images, k of 100 differ."""
    found = build_up(tiny((3, 4, 6, 4)), by_counts, budget=4, heads=HEADS, out=tmp_path, right=PAPER)
    assert found.msa == (0, 1, 1, 2)
    assert found.complete
    assert [step.kept for step in found.steps] == [True, True, True, True, False, True]
    assert [step.stage for step in found.steps] == [None, 4, 4, 3, 3, 2]
    assert [step.unit for step in found.steps[1:]] == [
        "stages.3.blocks.3", "stages.3.blocks.1", "stages.2.blocks.5", "stages.2.blocks.3", "stages.1.blocks.3",
    ]  # fmt: skip
    for step, score, change in zip(found.steps[1:], (55, 60, 65, 62, 70), (5, 5, 5, -3, 5), strict=True):
        share = abs(change) / 100
        half = 1.984216951566 * math.sqrt(share * (1 - share) / 99)  # Student's quantile, 99 degrees
        seen = (step.score, step.difference, step.difference_low, step.difference_high, step.n)
        assert seen == pytest.approx(
            (score / 100, change / 100, change / 100 - half, change / 100 + half, 100)
        )
    assert BuildUp.load(tmp_path).steps[1:] == found.steps[1:]
    best = vs.create_model(tmp_path)
    assert record(best)[0]["options"]["msa"] == [0, 1, 1, 2]
    assert sum(p.numel() for p in best.parameters()) == found.best.parameters
    told = capfd.readouterr().err
    assert "msa 0, 0, 2, 2 (stage 3, stages.2.blocks.3)" in told
    assert told.count("not kept") == 1


def test_keep_only_what_is_significant_or_gains_enough(tmp_path):
    """5 of 100 is significant (the interval begins at 0.7 %), 3 of 100 is not; a gain of 5 % is not more than 5 %."""
    right = {
        "0-0-0-0": 50,
        "0-0-0-1": 53,
        "0-0-1-0": 55,
        "0-1-1-0": 58,
        "1-0-1-0": 58,
        "0-1-0-0": 56,
        "1-1-0-0": 60,
    }
    right["1-0-0-0"] = 50
    options = dict(budget=2, heads=HEADS, out=tmp_path, right=right, progress=False)
    assert build_up(tiny(), by_counts, significant=True, **options).msa == (0, 0, 1, 0)
    # the same candidates again, decided on by another rule: those that are done are not done again
    assert build_up(tiny(), by_counts, min_gain=0.05, **options).msa == (0, 1, 0, 0)
    calls = [path.read_text() for path in tmp_path.glob("candidates/*/calls.txt")]
    assert calls == ["called\n"] * len(calls)


@pytest.mark.slow
def test_workers_do_the_fall_back_at_the_same_time_and_find_the_same(tmp_path):
    right = {"0-0-0-0": 50, "0-0-0-1": 60, "0-0-1-0": 0, "0-0-1-1": 55}
    options = dict(budget=2, heads=HEADS, right=right, progress=False)
    model = tiny((1, 1, 2, 2))
    here = build_up(model, by_counts, out=tmp_path / "here", **options)
    there = build_up(model, by_counts, out=tmp_path / "there", workers=2, **options)
    assert here.msa == there.msa == (0, 0, 0, 1)

    def plain(found):
        return [dataclasses.replace(step, seconds=0.0) for step in found.steps[1:]]

    assert plain(here) == plain(there)
    tried = {path.name for path in (tmp_path / "here" / "candidates").iterdir()}
    assert tried == {"0-0-0-0", "0-0-0-1", "0-0-1-1"}
    begun = {path.name for path in (tmp_path / "there" / "candidates").iterdir()}
    assert begun == tried | {"0-0-1-0"}  # what would have come had 0-0-0-1 not been kept


TRAINING = """
from tests.surgery.measures import tiny
from vitscope.studies.build_up import build_up
build_up(tiny((1, 1, 2, 2)), data="fashion", fraction=0.03, epochs=1, budget=2, heads=(1, 1, 1, 1), out={out!r})
"""


def steps_of(folder) -> int:
    file = folder / "build_up.json"
    return len(json.loads(file.read_text())["result"]["steps"]) if file.exists() else 0


def test_killed_and_started_again_it_goes_on(tmp_path):
    """Real trainings on 150 images: the table is that of a search nobody disturbed, and nothing is done twice."""
    folder = tmp_path / "killed"
    script = TRAINING.format(out=str(folder))
    (tmp_path / "search.py").write_text(script)
    job = Job(tmp_path / "search.py")
    while steps_of(folder) < 1:
        assert job.running, job.shown
        time.sleep(0.05)
    job.send(signal.SIGKILL)
    job.finish()
    done = {path: os.stat(path).st_mtime_ns for path in folder.glob("candidates/*/job/result.json")}
    assert len(done) >= 1
    again = run(tmp_path / "search.py")
    assert again.returncode == 0, again.stderr
    found = BuildUp.load(folder)
    assert found.complete
    assert len(found.steps) == 3
    assert {path: os.stat(path).st_mtime_ns for path in done} == done
    calm = build_up(
        tiny((1, 1, 2, 2)),
        data="fashion",
        fraction=0.03,
        epochs=1,
        budget=2,
        heads=HEADS,
        out=tmp_path / "calm",
        progress=False,
    )
    columns = [
        "unit",
        "msa",
        "score",
        "difference",
        "difference_low",
        "difference_high",
        "kept",
        "n",
        "parameters",
    ]
    assert found.table()[columns].to_csv() == calm.table()[columns].to_csv()
    assert 0 < found.steps[0].n < 150


def test_by_name_with_the_extra_block(tmp_path):
    found = build_up(
        "preresnet_mini", margins, budget=1, heads=HEADS, extra_block=True, out=tmp_path, progress=False
    )
    assert found.steps[1].unit == "stages.3.blocks.2"
    again = build_up(
        "preresnet_mini", margins, budget=2, heads=HEADS, extra_block=True, out=tmp_path, progress=False
    )
    assert again.steps[: len(found.steps)][1:] == found.steps[1:]  # a larger budget goes on from there
    model = vs.create_model(tmp_path)
    assert record(model)[0]["options"]["extra_block"] is True


def test_refusals(tmp_path):
    with pytest.raises(CannotOperate, match="was built in Python"):
        build_up(torch.nn.Conv2d(3, 3, 3), by_counts, budget=1, out=tmp_path / "b", right=PAPER)
    with pytest.raises(CannotOperate, match="no conv blocks"):
        build_up("vit_mini", by_counts, budget=1, out=tmp_path / "c", right=PAPER)
    right = {"0-0-0-0": 1, "0-0-0-1": 2}
    options = dict(budget=1, heads=HEADS, out=tmp_path / "d", progress=False)
    build_up(tiny(), by_counts, right=right, **options)
    with pytest.raises(BadResult, match="holds the result of another job: 0-0-0-0 was 1 and is 3 now"):
        build_up(tiny(), by_counts, right={**right, "0-0-0-0": 3}, **options)
    with pytest.raises(BadResult, match="began with another model"):
        build_up(vs.create_model("preresnet_mini"), by_counts, right=right, **options)
