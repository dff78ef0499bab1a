import pandas as pd
import pytest

import vitscope as vs
from vitscope.core.errors import VitscopeError
from vitscope.core.exam_names import EXAM_NAMES
from vitscope.engine.exam import Accumulator, Procedure
from vitscope.exams import EXAMS, find_exams


def test_every_exam_is_there_under_its_name_in_order() -> None:
    assert list(EXAMS)[:3] == ["prediction", "fourier", "variance"]
    for name, exam in EXAMS.items():
        assert isinstance(exam, Procedure) or issubclass(exam, Accumulator)
        assert exam.result.exam == name
        about = exam.result.about
        assert all([about.title, about.shows, about.papers, about.misleads])


def test_names_are_found_once_each_in_the_order_given() -> None:
    assert find_exams(["variance", "fourier", "variance"]) == [EXAMS["variance"], EXAMS["fourier"]]
    assert find_exams() == [e for e in EXAMS.values() if isinstance(e, type) and e.by_default]
    assert EXAMS["effective_rank"] not in find_exams()


def test_all_are_those_that_do_not_take_long() -> None:
    found = find_exams(["lesion", "all"])
    assert found[0] is EXAMS["lesion"]
    assert set(map(id, found)) == {
        id(exam)
        for exam in EXAMS.values()
        if not (isinstance(exam, Procedure) and (exam.costly or exam.evaluation))
    }


def test_names_are_known_before_exams_are_imported() -> None:
    assert sorted(EXAMS) == EXAM_NAMES


@pytest.mark.parametrize("exam", ["variance", "noise"])
def test_data_may_be_a_name(exam: str) -> None:
    model = vs.create_model("vit_mini")
    found = getattr(vs.exams, exam)(model, "fashion", limit=4)
    pd.testing.assert_frame_equal(
        found.table(), getattr(vs.exams, exam)(model, vs.load_data("fashion"), limit=4).table()
    )
    with pytest.raises(VitscopeError, match=r"no data set 'fashon'; .* did you mean 'fashion'\?"):
        getattr(vs.exams, exam)(model, "fashon")


def test_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(VitscopeError, match="no exam 'palmistry'; there are: prediction, fourier, variance"):
        find_exams(["palmistry"])
    with pytest.raises(VitscopeError, match=r"no exam 'furrier'; did you mean fourier\?$"):
        find_exams(["furrier"])
    with pytest.raises(AttributeError, match=r"no exam 'furrier'; did you mean fourier\?$"):
        _ = vs.exams.furrier
    with pytest.raises(AttributeError, match="no exam 'palmistry'") as refused:
        _ = vs.exams.palmistry
    assert "log_log_slope" not in str(refused.value)
    with pytest.raises(VitscopeError, match="no exam was named"):
        find_exams([])
