import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tests.processes import run
from vitscope.core import distributed

WORK = """
import json, os, sys
from pathlib import Path
import torch
from vitscope.core import distributed
from vitscope.engine.exam import Batch, Subject
from vitscope.exams.prediction.prediction import PredictionAccumulator

with distributed.process_group():
    rank, world = distributed.rank(), distributed.world_size()
    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(101, 10, generator=generator), torch.randint(10, (101,), generator=generator)
    mine = torch.tensor(list(distributed.shard(101)))
    accumulator = PredictionAccumulator(Subject("m", "d"))
    if rank < 2:  # the third process has no data
        mine = torch.arange(rank, 101, 2)
        accumulator.update(Batch(logits[mine], labels[mine], mine))
    result = accumulator.finish()
    found = {
        "rank": rank,
        "world": world,
        "main": distributed.is_main(),
        "shard": list(distributed.shard(7)),
        "gathered": distributed.gather({"rank": rank, "text": "ä" * rank}),
        "told": distributed.broadcast(["from", rank]),
        "n": result.n,
        "numbers": [result.value.tolist(), result.low.tolist(), result.high.tolist()],
    }
    distributed.barrier()
    Path(sys.argv[1], f"{rank}.json").write_text(json.dumps(found))
assert not distributed.is_active()
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, object]]:
    """What each of three real processes found."""
    folder = tmp_path_factory.mktemp("job")
    (folder / "work.py").write_text(WORK)
    done = run(folder / "work.py", folder, processes=3)
    assert done.returncode == 0, done.stderr
    return [json.loads(Path(folder, f"{rank}.json").read_text()) for rank in range(3)]


def test_every_process_knows_who_it_is(job: list[dict[str, object]]) -> None:
    assert [(f["rank"], f["world"], f["main"]) for f in job] == [(0, 3, True), (1, 3, False), (2, 3, False)]


def test_shards_are_exact(job: list[dict[str, object]]) -> None:
    assert [f["shard"] for f in job] == [[0, 3, 6], [1, 4], [2, 5]]


def test_values_of_different_length_are_gathered_everywhere(job: list[dict[str, object]]) -> None:
    expected = [{"rank": r, "text": "ä" * r} for r in range(3)]
    assert all(f["gathered"] == expected for f in job)
    assert all(f["told"] == ["from", 0] for f in job)


def test_accumulators_merge_to_the_digits_of_one_process(job: list[dict[str, object]]) -> None:
    import torch

    from vitscope.engine.exam import Batch, Subject
    from vitscope.exams.prediction.prediction import PredictionAccumulator, PredictionResult

    generator = torch.Generator().manual_seed(0)
    logits, labels = torch.randn(101, 10, generator=generator), torch.randint(10, (101,), generator=generator)
    alone = PredictionAccumulator(Subject("m", "d"))
    alone.update(Batch(logits, labels, torch.arange(101)))
    result = alone.finish()
    assert isinstance(result, PredictionResult)
    for found in job:
        assert found["n"] == 101
        expected = np.stack([result.value, result.low, result.high])
        np.testing.assert_allclose(np.array(found["numbers"]), expected, rtol=1e-12)
        assert found["numbers"] == job[0]["numbers"]


def test_alone() -> None:
    with distributed.process_group():
        assert not distributed.is_active()
        assert (distributed.rank(), distributed.world_size(), distributed.is_main()) == (0, 1, True)
        assert list(distributed.shard(3)) == [0, 1, 2]
        assert distributed.gather("x") == ["x"]
        assert distributed.broadcast(5) == 5
        assert distributed.cpu_group() is None
        distributed.barrier()


EXAM_WORK = """
import sys
import torch, vitscope as vs
from tests.exams.factories import small_transformer
from vitscope.core import distributed
from vitscope.engine.resuming import PartialResults
from vitscope.results.codec import encode

torch.set_num_threads(1)
PartialResults.SECONDS = -1.0  # both processes write into the run folder after every batch
folder, limits, exams = sys.argv[1], [int(n) for n in sys.argv[2].split(",")], sys.argv[3:]
subject = small_transformer()
shown = []
subject.register_forward_hook(lambda *_: shown.append(1))
with distributed.process_group():
    data = vs.load_data("fashion", split="test")
    for limit in limits:
        results = vs.diagnose(subject, data, exams, limit=limit, batch_size=8)
        told = distributed.gather({exam: encode(result) for exam, result in results.items()})
        assert all(other == told[0] for other in told), "processes disagree"
        for exam, result in results.items() if distributed.is_main() else ():
            result.save(f"{folder}/{limit}/{exam}")
    for _ in range(2):
        shown.clear()
        vs.diagnose(subject, data, ["prediction"], limit=limits[0], batch_size=8, out=f"{folder}/run")
    assert not shown, "what is done was done again"
"""
# Six batches for two processes, the last of them of one image; and one batch, so that one process has none.
LIMITS = (41, 6)
EXAMS = [
    "prediction",
    "noise",
]  # one that shares the pass, one with its own; exams/tester.py does all on tensors


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results by limit, and a run folder, made by two real processes."""
    folder = tmp_path_factory.mktemp("exams")
    (folder / "work.py").write_text(EXAM_WORK)
    done = run(folder / "work.py", folder, ",".join(map(str, LIMITS)), *EXAMS, processes=2)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("limit", LIMITS)
def test_two_processes_find_what_one_does(two_processes: Path, limit: int) -> None:
    import torch

    import vitscope as vs
    from tests.exams.factories import small_transformer
    from vitscope.results import Result

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    alone = vs.diagnose(
        small_transformer(), vs.load_data("fashion", split="test"), EXAMS, limit=limit, batch_size=8
    )
    torch.set_num_threads(threads)
    together = {exam: Result.load(two_processes / str(limit) / exam) for exam in alone}
    for exam, result in alone.items():
        assert together[exam].n == result.n, exam
        for name, table in result.tables().items():
            pd.testing.assert_frame_equal(
                together[exam].tables()[name],
                table,
                check_exact=False,
                rtol=1e-6,
                atol=1e-9,
                obj=f"{exam}: {name}",
            )
            for column in table.select_dtypes(include="integer"):
                assert (together[exam].tables()[name][column] == table[column]).all(), (exam, column)


def test_two_processes_keep_one_run(two_processes: Path) -> None:
    from vitscope.results import Run

    run = Run.open(two_processes / "run")
    assert run.state == "done"
    assert run.results()["prediction"].n == LIMITS[0]
    assert not (run.path / "parts").exists()
