import pytest

from tests.studies import functions
from vitscope.core.errors import VitscopeError
from vitscope.studies import Job, run_jobs


def test_a_function_of_this_process_stays_in_it(tmp_path):
    def local(out):
        return 7

    job = Job(local, {}, tmp_path / "a")
    with pytest.raises(VitscopeError, match="put the function at the top of a module, or use workers=0"):
        run_jobs([job], workers=1)
    assert run_jobs([job])[0].result == 7


def test_functions_among_the_arguments_too(tmp_path):
    job = Job(functions.apply, {"function": lambda x: x + 1, "value": 1}, tmp_path / "a")
    with pytest.raises(VitscopeError, match="another process cannot import"):
        run_jobs([job], workers=1)
    assert run_jobs([job])[0].result == 2
