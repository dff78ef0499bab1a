"""Every figure refuses what is no result of its exam, in words."""

import inspect
from typing import Any

import numpy as np
import pytest

import vitscope as vs
from tests.fuzz.refusals import check_message
from vitscope.core.errors import BadArgument
from vitscope.core.statistics import Estimate
from vitscope.exams.loss.trajectory import trajectory_of_model
from vitscope.findings.trajectory import TrajectoryResult
from vitscope.findings.variance import VarianceResult

_OTHER = ("variance", "plot_variance", "plot_variance_change")


def functions() -> dict[str, Any]:
    found = {name: getattr(vs.plots, name) for name in vs.plots.__all__}
    return {name: one for name, one in found.items() if callable(one) and not isinstance(one, type)}


def another(name: str) -> Any:
    """A real result, of an exam that the figure is not about."""
    if name not in _OTHER:
        none = np.zeros(0)
        fields: dict[str, Any] = dict.fromkeys(("value", "low", "high"), none)
        fields |= dict.fromkeys(("change", "kind_change"), Estimate(none, none, none))
        return VarianceResult(model="m", data="d", n=0, seed=0, units=(), kinds=(), **fields)
    return trajectory_of_model(vs.create_model("vit_mini"))


@pytest.mark.parametrize("name", sorted(functions()))
def test_what_is_no_result_of_the_exam_is_refused(name: str) -> None:
    function = functions()[name]
    needed = [key for key, one in inspect.signature(function).parameters.items() if one.default is one.empty]
    wrong = [None, 3, object(), [3], [None]]
    if "result" in needed or "results" in needed:
        found = another(name)
        wrong += [found] if name != "save_figures" else []
        wrong += [[found]] if "results" in needed else []
        assert isinstance(found, VarianceResult | TrajectoryResult)
    for value in wrong:
        with pytest.raises(BadArgument) as refused:
            function(*[value] * len(needed))
        check_message(str(refused.value), (name, value))
        assert "expected" in str(refused.value)


OF_SEVERAL = sorted(
    name for name, one in functions().items() if "results" in inspect.signature(one).parameters
)


@pytest.mark.parametrize("name", OF_SEVERAL)
def test_no_results_are_refused(name: str) -> None:
    with pytest.raises(BadArgument, match="results"):
        functions()[name]([])


def test_what_is_no_colour_is_refused(variance_result: VarianceResult) -> None:
    with pytest.raises(BadArgument, match="colour is 'nocolour'"):
        vs.plots.plot_variance(variance_result, colour="nocolour")
