import json
import math
import subprocess
import sys
import threading

import pytest

from tests.studies import functions
from vitscope.core.errors import BadResult, VitscopeError
from vitscope.studies import Job, Outcome, address, execute, find_function, outcome_of

ADD = "tests.studies.functions:add"


def test_a_job_is_done_once(tmp_path):
    job = Job(ADD, {"a": 1, "b": 2.5}, tmp_path / "x")
    assert outcome_of(job) is None
    first = execute(job)
    assert first.result == {"sum": 3.5}
    assert first.seconds >= 0
    assert execute(job) == outcome_of(job) == first
    assert len((tmp_path / "x" / "calls.txt").read_text().split()) == 1


def test_a_function_and_its_address_are_the_same_job(tmp_path):
    assert address(functions.add) == ADD
    assert find_function(ADD) is functions.add
    execute(Job(functions.add, {"a": 1, "b": 1}, tmp_path))
    assert execute(Job(ADD, {"a": 1, "b": 1}, tmp_path)).result == {"sum": 2}
    assert len((tmp_path / "calls.txt").read_text().split()) == 1


def test_the_file_makes_the_job_again_in_another_process(tmp_path):
    path = Job(functions.apply, {"function": functions.double, "value": 4}, tmp_path).write()
    assert "tests.studies.functions:double" in path.read_text()
    subprocess.run([sys.executable, "-m", "vitscope.studies", str(path), "--trust-code"], check=True)
    assert outcome_of(Job.read(path)).result == 8


def test_a_folder_of_another_job_is_refused(tmp_path):
    execute(Job(ADD, {"a": 1, "b": 2}, tmp_path))
    with pytest.raises(BadResult, match="b was 2 and is 3 now; give the same, or another folder"):
        execute(Job(ADD, {"a": 1, "b": 3}, tmp_path))


def test_damage_is_noticed(tmp_path):
    job = Job(ADD, {"a": 1, "b": 2}, tmp_path)
    execute(job)
    whole = (job.folder / "result.json").read_text()
    (job.folder / "result.json").write_text(whole[:-10])
    with pytest.raises(BadResult, match="damaged"):
        outcome_of(job)
    (job.folder / "job.json").write_text("{}")
    with pytest.raises(BadResult, match="is no job"):
        Job.read(job.folder / "job.json")


@pytest.mark.parametrize("value", [object(), math.nan, {1, 2}])
def test_arguments_are_plain(tmp_path, value):
    with pytest.raises(VitscopeError, match="plain finite values"):
        Job(ADD, {"a": value}, tmp_path).describe()


def test_results_are_plain(tmp_path):
    job = Job(functions.nothing_plain, {}, tmp_path)
    with pytest.raises(VitscopeError, match="JSON cannot hold"):
        execute(job)
    assert outcome_of(job) is None


@pytest.mark.parametrize("name", ["nowhere.at.all:add", "tests.studies.functions:subtract", "add", ""])
def test_unknown_functions(name):
    with pytest.raises(VitscopeError, match=r"expected package\.module:name"):
        find_function(name)


def test_whoever_comes_second_waits_and_gets_the_same(tmp_path):
    job = Job(functions.hold, {}, tmp_path)
    process = subprocess.Popen([sys.executable, "-m", "vitscope.studies", str(job.write()), "--trust-code"])
    while not (tmp_path / "pid.txt").exists():
        assert process.poll() is None
    seen: list[Outcome] = []
    thread = threading.Thread(target=lambda: seen.append(execute(job)))
    thread.start()
    (tmp_path / "go").touch()
    thread.join(900)
    assert process.wait(900) == 0
    assert [outcome.result for outcome in seen] == [process.pid]
    assert json.loads((job.folder / "result.json").read_text())["result"] == process.pid
