import pytest

from tests.exam_lists import EXAMS, README, ROOT, rooms, with_rows
from vitscope.exams import EXAMS as REGISTERED
from vitscope.findings import MODULES, result_types

OURS = {exam for exam, kind in result_types().items() if kind.__module__.startswith("vitscope.")}


def test_the_readme_lists_every_exam():
    assert with_rows(README.read_text()) == README.read_text(), "run: python -m tests.exam_lists"


def test_every_exam_has_a_page_a_finding_and_a_test():
    listed = [exam for exams in rooms().values() for exam in exams]
    assert set(REGISTERED) <= set(listed)
    files = {path.stem: path for path in EXAMS.glob("*/[a-z]*.py")}
    assert set(files) == OURS, "a file in a room is an exam, under its user's name"
    assert {module.__name__.rpartition(".")[2] for module in MODULES} == OURS
    for exam, path in files.items():
        assert (ROOT / "tests/exams" / path.parent.name / f"test_{exam}.py").exists(), exam


@pytest.mark.parametrize("room", sorted({path.parent.name for path in EXAMS.glob("*/[a-z]*.py")}))
def test_rooms_are_those_of_the_pages(room):
    assert rooms()[room]
