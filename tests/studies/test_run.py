import os

import pytest

from tests.studies import functions
from vitscope.core.errors import VitscopeError
from vitscope.studies import Job, make_runner, run_jobs


@pytest.mark.parametrize("workers", [0, 2])
def test_outcomes_in_order(tmp_path, workers):
    jobs = [Job(functions.add, {"a": i, "b": 10}, tmp_path / str(i)) for i in range(3)]
    assert [outcome.result["sum"] for outcome in run_jobs(jobs, workers=workers)] == [10, 11, 12]
    pids = {(tmp_path / str(i) / "calls.txt").read_text().strip() for i in range(3)}
    assert (pids == {str(os.getpid())}) == (workers == 0)
    before = [(tmp_path / str(i) / "calls.txt").read_text() for i in range(3)]
    run_jobs(jobs, workers=2 - workers)  # elsewhere the next time: nothing is done again
    assert [(tmp_path / str(i) / "calls.txt").read_text() for i in range(3)] == before


def test_unknown_places():
    with pytest.raises(VitscopeError, match="workers is -1"):
        make_runner(-1)
    with pytest.raises(VitscopeError, match="expected 'local' without one, or 'ray'"):
        make_runner(1, "slurm")
    with pytest.raises(VitscopeError, match="expected 'local' without one, or 'ray'"):
        make_runner(1, address="auto")
