"""An exam that shares the pass over the data, done alone: the function that `vs.exams.fourier(model, data)` calls."""

import inspect
from textwrap import fill
from typing import Any

from torch import nn

from vitscope.anatomy.taps.capture import Stream
from vitscope.engine.exam import Accumulator
from vitscope.engine.one_pass import examine
from vitscope.engine.takes_interface import Asked, AskedUnnamed, TakesInterface, takes_interface
from vitscope.results import Result


def single_exam(exam: type[Accumulator], what: str, **meanings: str) -> TakesInterface[..., Any]:
    """The function that does one exam alone.

    Args:
        exam: Its `OPTIONS` are arguments of the function.
        what: What it examines.
        meanings: Of its options, for `help` and for the command line.
    """
    name, signature = exam.result.exam, _signature_of(exam)
    assert meanings.keys() <= exam.OPTIONS.keys(), f"{name} takes {list(exam.OPTIONS)}, not {list(meanings)}"

    def function(*args: Any, **kwargs: Any) -> Result:
        given = signature.bind(*args, **kwargs).arguments
        options = {option: given.pop(option) for option in exam.OPTIONS if option in given}
        model, data, request = (given.pop(argument) for argument in ("model", "data", "request"))
        return examine(model, data, [exam.with_options(**options)], **vars(request), **given)[name]

    function.__name__ = function.__qualname__ = name
    function.__module__ = exam.__module__
    function.__doc__ = _docstring(what, meanings)
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__annotations__ = {one.name: one.annotation for one in signature.parameters.values()}
    function.__annotations__["return"] = exam.result
    return takes_interface(function)


def _signature_of(exam: type[Accumulator]) -> inspect.Signature:
    asked = AskedUnnamed if exam.needs_maps or exam.needs_attention else Asked
    place, needed = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.empty
    said: list[tuple[str, Any, Any]] = [
        ("model", nn.Module, needed),
        ("data", Any, needed),
        ("request", asked, needed),
        *([("stream", Stream, "read")] if exam.needs_maps else []),
        *((option, hint, getattr(exam, option)) for option, hint in exam.OPTIONS.items()),
    ]
    parameters = [
        inspect.Parameter(name, place, default=value, annotation=hint) for name, hint, value in said
    ]
    return inspect.Signature(parameters, return_annotation=exam.result)


def _docstring(what: str, meanings: dict[str, str]) -> str:
    others = "other arguments" if meanings else "arguments"
    paragraphs = [f"Examine {what}; `examine` documents the {others}."]
    if meanings:
        told = (
            fill(f"{option}: {meaning}", 120, initial_indent=" " * 4, subsequent_indent=" " * 8)
            for option, meaning in meanings.items()
        )
        paragraphs.append("\n".join(["Args:", *told]))
    return "\n\n".join(paragraphs)
