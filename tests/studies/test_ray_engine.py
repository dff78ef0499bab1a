import importlib.util

import pytest

from tests.studies import functions
from vitscope.core.errors import VitscopeError
from vitscope.studies import Job, run_jobs

HAS_RAY = importlib.util.find_spec("ray") is not None


@pytest.mark.skipif(HAS_RAY, reason="Ray is installed")
def test_without_ray_it_says_what_to_do(tmp_path):
    with pytest.raises(VitscopeError, match="pip install ray, or use workers=N"):
        run_jobs([Job(functions.add, {"a": 1, "b": 2}, tmp_path)], backend="ray")


@pytest.mark.skipif(not HAS_RAY, reason="needs Ray")
def test_jobs_run_on_a_cluster(tmp_path):
    jobs = [Job(functions.add, {"a": i, "b": 10}, tmp_path / str(i)) for i in range(2)]
    assert [outcome.result["sum"] for outcome in run_jobs(jobs, 2, "ray")] == [10, 11]
