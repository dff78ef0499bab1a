import hashlib
import json
import shutil
from pathlib import Path

import pytest

from tests.report.older import COMMAND, age
from vitscope.core.errors import BadResult
from vitscope.report.subject import Outdated, read_results
from vitscope.results import Run


@pytest.fixture
def run(runs: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(runs / "vit", tmp_path / "run"))


def test_a_result_of_another_form_is_set_aside(run: Path) -> None:
    age(run, "maps", "layers")
    age(run, "prediction", "n")
    results, outdated = read_results(Run.open(run))
    assert set(results) == {"fourier", "attention"}
    assert outdated == [
        Outdated("maps", "Attention maps", COMMAND),
        Outdated("prediction", "Predictions", COMMAND),
    ]


def test_without_a_command_of_its_own_the_run_tells_it(run: Path) -> None:
    record = run / "run.json"
    record.write_text(json.dumps({**json.loads(record.read_text()), "command": "vitscope demo"}))
    age(run, "maps", "layers", command="")
    assert [one.command for one in read_results(Run.open(run))[1]] == ["vitscope demo"]


def test_what_is_damaged_is_not_outdated(run: Path) -> None:
    age(run, "maps", "layers")
    path = run / "exams" / "maps" / "result.json"
    path.write_text(path.read_text().replace("<old>", "<new>"))
    with pytest.raises(BadResult, match="does not match its checksum"):
        read_results(Run.open(run))


def test_an_unknown_exam_is_refused(run: Path) -> None:
    shutil.move(run / "exams" / "maps", run / "exams" / "horoscope")
    path = run / "exams" / "horoscope" / "result.json"
    path.write_text(path.read_text().replace('"exam": "maps"', '"exam": "horoscope"'))
    age(run, "horoscope", "layers")
    with pytest.raises(BadResult, match="holds a result of 'horoscope'"):
        read_results(Run.open(run))


def test_a_result_of_an_older_definition_is_set_aside(run: Path) -> None:
    """Feature maps were once the sums before an activation: such numbers must not stand beside today's."""
    path = run / "exams" / "fourier" / "result.json"
    content = json.loads(path.read_text())
    del content["version"], content["sha256"]
    content["provenance"]["command"] = COMMAND
    content["sha256"] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    path.write_text(json.dumps(content))
    results, outdated = read_results(Run.open(run))
    assert "fourier" not in results
    assert outdated == [Outdated("fourier", "Fourier analysis", COMMAND)]
