from pathlib import Path

from vitscope import exams
from vitscope.core.names import EXAM_NAMES, FUNCTIONS_ALONE, exam_names


def test_names_are_known_before_exams_are_imported() -> None:
    assert sorted(exams.EXAMS) == EXAM_NAMES


def test_functions_alone_are_no_exams() -> None:
    assert {*exams.EXAMS, *FUNCTIONS_ALONE} == set(exams._functions)
    assert not FUNCTIONS_ALONE & set(exams.EXAMS)


def test_a_name_does_not_depend_on_what_a_class_is_called(tmp_path: Path) -> None:
    room = tmp_path / "exams" / "features"
    room.mkdir(parents=True)
    (room / "__init__.py").touch()
    (room / "variance.py").write_text("class SpatialVariance(FeatureMoments):\n    result = VarianceResult\n")
    (room / "hessian_density.py").write_text("def hessian_density(model, data): ...\n")
    assert exam_names(tmp_path) == ["variance"]
