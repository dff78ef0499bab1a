"""Wrong arguments to the functions of the library, generated from their types: refused by ours, before any work."""

import functools
import inspect
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import vitscope as vs
from tests.fuzz.profiles import few, many
from tests.fuzz.refusals import check_message
from tests.fuzz.wrong_values import allowed, wrong_objects
from vitscope.core.arguments.calling import hints_of
from vitscope.core.errors import VitscopeError
from vitscope.training import TrainOptions

_NOT_EXAMS = ("find_exams", "procedure", "examine", "log_log_slope")


@functools.cache
def functions() -> dict[str, Callable[..., Any]]:
    """What a user calls, by name."""
    names = [
        "anatomy",
        "compare",
        "create_model",
        "declare",
        "diagnose",
        "evaluate",
        "list_models",
        "load_data",
    ]
    names += ["prescribe", "report", "save_model", "study", "survey", "train"]
    found = {name: getattr(vs, name) for name in names}
    for name in names:  # a package of that name can be called, too
        found[name] = getattr(found[name], name) if isinstance(found[name], ModuleType) else found[name]
    for name in vs.exams.__all__:
        value = getattr(vs.exams, name)
        if callable(value) and not isinstance(value, type) and name not in _NOT_EXAMS:
            found[f"exams.{name}"] = value
    return found


@functools.cache
def model() -> nn.Module:
    return vs.create_model("vit_mini")


@st.composite
def wrong_calls(draw: st.DrawFn) -> tuple[str, str, Any]:
    """A function, one of its arguments, and a value that its type does not allow."""
    name = draw(st.sampled_from(sorted(functions())))
    function = functions()[name]
    declared = hints_of(inspect.unwrap(function)) | (hints_of(TrainOptions) if name == "train" else {})
    hints = {key: hint for key, hint in declared.items() if key != "return"}
    hints = {key: hint for key, hint in hints.items() if not allowed(object(), hint)}
    argument = draw(st.sampled_from(sorted(hints)))
    return name, argument, draw(wrong_objects(hints[argument]))


def _refused(call: tuple[str, str, Any]) -> None:
    name, argument, value = call
    function = functions()[name]
    parameters = inspect.signature(function).parameters.items()
    needed = [key for key, one in parameters if one.default is one.empty and one.kind != one.VAR_KEYWORD]
    arguments = {**{key: _right(key) for key in needed}, argument: value}
    with pytest.raises(VitscopeError) as refused:
        function(**arguments)
    check_message(str(refused.value), call)
    assert argument in str(refused.value), f"{call} is refused without its name: {refused.value}"


def _right(name: str) -> Any:
    values = {"model": model, "data": lambda: "fashion", "models": lambda: "vit_mini"}
    return values.get(name, lambda: "vit_mini")()


@few(300)
@given(call=wrong_calls())
def test_wrong_arguments_are_refused(call: tuple[str, str, Any]) -> None:
    _refused(call)


@pytest.mark.slow
@many(10_000)
@given(call=wrong_calls())
def test_many_wrong_arguments_are_refused(call: tuple[str, str, Any]) -> None:
    _refused(call)


def _hands_on(name: str) -> bool:
    """Whether a function hands arguments that it does not know on to another one."""
    return any(
        one.kind is one.VAR_KEYWORD for one in inspect.signature(functions()[name]).parameters.values()
    )


@pytest.mark.parametrize("name", sorted(name for name in functions() if not _hands_on(name)))
def test_an_unknown_argument_is_refused_with_the_nearest(name: str) -> None:
    function = functions()[name]
    last = [*inspect.signature(function).parameters][-1]
    with pytest.raises(VitscopeError, match=f"no argument '{last}x'; did you mean '"):
        function(**{f"{last}x": 1})


def test_signatures_are_for_people() -> None:
    for name in ("anatomy", "report"):
        package = getattr(vs, name)
        assert inspect.signature(package) == inspect.signature(functions()[name])
        assert inspect.getdoc(package).startswith(f"{name}(")  # type: ignore[union-attr]
    operations = {f"surgery.{name}": one for name, one in vs.surgery.OPERATIONS.items()}
    shown = {**functions(), **operations, "operate": vs.operate, "TrainOptions": TrainOptions, "Tap": vs.Tap}
    for name, function in shown.items():
        said = str(inspect.signature(function))
        assert inspect.getdoc(function), name
        assert "Annotated" not in said, name
        assert "*args" not in said, name
    assert "k: int = 5, batch_size: int = 16" in str(inspect.signature(vs.exams.hessian))
