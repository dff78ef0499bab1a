"""Every exam that is registered goes through the tester; a new one does so without a line here."""

from pathlib import Path

import pytest

from tests.exams import tester
from tests.processes import run
from vitscope.exams import EXAMS, Procedure
from vitscope.findings.prediction import SCALED_QUANTITIES
from vitscope.results import Result
from vitscope.results.condition_rows import AP_QUANTITIES

STREAMING = [name for name, exam in EXAMS.items() if isinstance(exam, type)]
KEEPING = [name for name, exam in EXAMS.items() if isinstance(exam, Procedure) and exam.resumable]
KNOWN = [name for name in EXAMS if tester.reference(name)]

CONDITIONS = {"miou", *AP_QUANTITIES}  # of other tasks
OVER_DRAWS = {"accuracy_over_draws", "miou_over_draws", "box_ap_over_draws"}
ELSEWHERE = {  # quantities that take other options, another model or another task than the tester's
    "prediction": set(SCALED_QUANTITIES),
    "cb_scale": {"mean", "ratio"},
    "trajectory": {"distance", "detour", "r", "theta", "largest theta"},
    "corruption": {*CONDITIONS, "mce", "relative_mce"},
    "noise": CONDITIONS | OVER_DRAWS,
    "blur": CONDITIONS | OVER_DRAWS,
    "frequency_noise": CONDITIONS,
    "occlusion": CONDITIONS,
    "adversarial": {*CONDITIONS, "nll", "ece"},
    "shape_bias": {"crossover"},
}
OF_THE_MODEL = {"lesion"}  # of which a model has some: they follow from the kinds of its units

every = pytest.mark.parametrize("exam", list(EXAMS))


@pytest.mark.parametrize("exam", KNOWN)
def test_values_are_those_of_obvious_code(exam: str) -> None:
    tester.check_value(exam)


@every
def test_numbers_are_between_their_ends(exam: str) -> None:
    tester.check_intervals(exam)


@pytest.mark.parametrize("exam", STREAMING)
def test_parts_merge_to_the_whole(exam: str) -> None:
    tester.check_merging(exam)


@pytest.mark.parametrize("exam", STREAMING)
def test_memory_does_not_grow_with_images(exam: str) -> None:
    tester.check_memory(exam)


@pytest.mark.parametrize("exam", KEEPING)
def test_what_is_kept_does_not_grow_with_images(exam: str, tmp_path: Path) -> None:
    tester.check_parts(exam, tmp_path)


@pytest.mark.parametrize("exam", [*STREAMING, *KEEPING])
def test_an_interrupted_exam_goes_on(exam: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vitscope.engine.resuming.PartialResults.SECONDS", -1.0)  # kept after every batch
    tester.check_resuming(exam, tmp_path)


@every
def test_quantities_are_those_that_the_result_declares(exam: str) -> None:
    result = tester.whole(exam)
    found = {*result.table()["quantity"], *result.summary()["quantity"]}
    declared = set(result.measures)
    assert found <= declared
    assert exam in OF_THE_MODEL or found == declared - ELSEWHERE.get(exam, set())


@every
def test_other_batches_find_the_same(exam: str) -> None:
    tester.check_odd_batches(exam)


@every
def test_no_images_are_refused_or_give_nothing(exam: str) -> None:
    tester.check_empty(exam)


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What two processes have found, all exams in one job."""
    folder = tmp_path_factory.mktemp("together")
    done = run(Path(tester.__file__), folder, processes=2)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(("exam", "size"), tester.shared())
def test_two_processes_find_what_one_finds(exam: str, size: int, together: Path) -> None:
    alone = tester.whole(exam) if size == tester.BATCH else tester.run(exam, batch_size=size)
    tester.assert_same(Result.load(together / str(size) / exam), alone)
