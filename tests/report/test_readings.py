from pathlib import Path

import pytest

import vitscope.exams
from vitscope.report.sections import reading
from vitscope.results import Run
from vitscope.results.numbers import READINGS


def test_every_reading_is_of_an_exam_that_there_is() -> None:
    assert vitscope.exams.EXAMS
    known = set(vitscope.exams.EXAMS) | {"landscape_line", "hessian_density"}  # not for `diagnose`
    assert set(READINGS) <= known
    assert {"prediction", "fourier", "variance", "cka", "attention", "lesion", "hessian", "landscape"} <= set(
        READINGS
    )


@pytest.mark.parametrize("run", ["resnet", "vit"])
def test_every_result_with_rows_is_read_in_whole_sentences(runs: Path, run: str) -> None:
    for result in Run.open(runs / run).results().values():
        text = reading(result)
        if len(result.table()):
            assert text.endswith(".")
            assert text[0].isupper()
            assert "nan" not in text
        else:
            assert text == ""


def test_an_exam_without_a_reading_gets_its_first_numbers(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(READINGS, "prediction")
    assert reading(Run.open(runs / "vit").results()["prediction"]).startswith("Accuracy ")
