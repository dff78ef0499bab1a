"""Let a function compare its arguments with its own signature before it begins, and a package be called like one."""

import functools
import inspect
import sys
import typing
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from vitscope.core.arguments.checking import check
from vitscope.core.arguments.files import files_in_words
from vitscope.core.arguments.kinds import alternatives, base_of, conditions_of, plain
from vitscope.core.arguments.vocabulary import BY_NAME, TAKEN_BY, FieldsOf
from vitscope.core.errors import BadArgument, alike

P = ParamSpec("P")
R = TypeVar("R")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """The function with its arguments looked at first; trouble with files comes in words, too."""
    look = reader(function)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = look(args, kwargs)
        with files_in_words():
            return function(*bound.args, **bound.kwargs)

    call.__signature__ = readable(signature_of(function))  # type: ignore[attr-defined]
    return call


def names_checked(kind: type[R]) -> type[R]:
    """The dataclass with unknown, missing and surplus arguments refused in words; their values are its own affair."""
    make: Any = kind.__init__
    signature = inspect.signature(make)

    @functools.wraps(make)
    def begin(*args: Any, **kwargs: Any) -> None:
        bind(make, signature, args, kwargs)
        make(*args, **kwargs)

    begin.__signature__ = readable(signature)  # type: ignore[attr-defined]
    kind.__init__ = begin  # type: ignore[method-assign]
    return kind


def readable(signature: inspect.Signature) -> inspect.Signature:
    """The signature with plain types, for `help`; what is checked is in the function's own."""
    parameters = [one.replace(annotation=plain(one.annotation)) for one in signature.parameters.values()]
    return signature.replace(parameters=parameters, return_annotation=plain(signature.return_annotation))


def reader(
    function: Callable[..., Any], also: Sequence[str] = ()
) -> Callable[[Any, Any], inspect.BoundArguments]:
    """What makes arguments of a call into those that the function's signature declares, or refuses them.

    `also` are arguments that somebody around the function takes; they are named where an unknown one is refused.
    """
    signature = signature_of(function)
    hints: dict[str, Any] = {}

    def look(args: Any, kwargs: Any) -> inspect.BoundArguments:
        if not hints:
            hints.update(argument_hints(function))
        bound = bind(function, signature, args, kwargs, also)
        for name, value in bound.arguments.items():
            bound.arguments[name] = _checked(signature.parameters[name], value, hints.get(name, Any))
        return bound

    return look


def signature_of(function: Callable[..., Any]) -> inspect.Signature:
    """A function's signature, with the fields of a dataclass in the place of an argument that is `FieldsOf` it."""
    signature = inspect.signature(function)
    spread: list[inspect.Parameter] = []
    for one in signature.parameters.values():
        taken = one.KEYWORD_ONLY if one.kind is one.VAR_KEYWORD else one.kind
        spread += [field.replace(kind=taken) for field in _fields(one).values()] or [one]
    return signature.replace(parameters=spread)


def argument_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of the arguments in `signature_of` a function."""
    hints = hints_of(function)
    for name, one in inspect.signature(function).parameters.items():
        if (fields := _fields(one)) and (spread := _fields_of(one)):
            hints.pop(name, None)
            hints |= {key: hint for key, hint in hints_of(spread.kind).items() if key in fields}
    return hints


def gathered(function: Callable[..., Any], bound: inspect.BoundArguments) -> inspect.BoundArguments:
    """What `reader` has read, as the function itself takes it: arguments that are `FieldsOf` a dataclass as one."""
    own, given = inspect.signature(function), dict(bound.arguments)
    for name, one in own.parameters.items():
        spread = _fields_of(one)
        if spread is not None and one.kind is not one.VAR_KEYWORD:
            given[name] = spread.kind(**{field: given.pop(field) for field in _fields(one) if field in given})
    if given.keys() == bound.arguments.keys():
        return bound
    return inspect.BoundArguments(own, {name: given[name] for name in own.parameters if name in given})


def check_fields(options: Any, prefix: str = "") -> None:
    """In a frozen dataclass's `__post_init__`: every value as its type wants it; else refuses it."""
    for name, hint in hints_of(type(options)).items():
        object.__setattr__(options, name, check(getattr(options, name), hint, f"{prefix}{name}"))


def hints_of(function: Callable[..., Any]) -> dict[str, Any]:
    """The types of a function's arguments; names that only the type checker knows stand for anything."""
    missing: dict[str, Any] = {}
    while True:
        try:
            hints = typing.get_type_hints(function, localns=missing or None, include_extras=True)
            return {name: with_meaning(name, hint) for name, hint in hints.items()}
        except NameError as error:
            if error.name is None or error.name in missing:
                return {}
            missing[error.name] = Any


def with_meaning(name: str, hint: Any) -> Any:
    """The type with the condition that this name carries everywhere, where the type itself states none."""
    if name not in BY_NAME:
        return hint
    meant = BY_NAME[name]
    choices = [meant if one is base_of(meant) else one for one in alternatives(hint)]
    return typing.Union[tuple(choices)]  # noqa: UP007 - known only when this runs


def bind(
    function: Callable[..., Any],
    signature: inspect.Signature,
    args: Any,
    kwargs: Any,
    also: Sequence[str] = (),
) -> inspect.BoundArguments:
    """The arguments by name; an unknown, missing or surplus one is said in words."""
    try:
        return signature.bind(*args, **kwargs)
    except TypeError as error:
        raise BadArgument(
            f"{_called(function)}(): {_why_not_bound(signature, args, kwargs, also, error)}"
        ) from None


def _fields_of(parameter: inspect.Parameter) -> FieldsOf | None:
    return next((one for one in conditions_of(parameter.annotation) if isinstance(one, FieldsOf)), None)


def _fields(parameter: inspect.Parameter) -> dict[str, inspect.Parameter]:
    """The arguments that a parameter stands for as `FieldsOf` a dataclass; none for any other."""
    spread = _fields_of(parameter)
    own = inspect.signature(spread.kind).parameters.items() if spread is not None else ()
    return {name: one for name, one in own if spread is not None and name not in spread.but}


def _called(function: Callable[..., Any]) -> str:
    """What a user calls it: a class by its own name, not by that of its `__init__`."""
    name, _, last = function.__qualname__.rpartition(".")
    return name if last == "__init__" else function.__name__


def _why_not_bound(
    signature: inspect.Signature, args: Any, kwargs: Any, also: Sequence[str], error: TypeError
) -> str:
    own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
    takes = [one.name for one in own if one.name not in ("self", "cls")] + [*also]
    listed = f"it takes {', '.join(takes)}"
    for name in kwargs:
        if name not in signature.parameters:
            near = alike(name, takes)
            others = f"; {TAKEN_BY[name]}" if name in TAKEN_BY else ""
            return f"no argument '{name}'; " + (f"did you mean '{near[0]}'?" if near else listed + others)
    needed = [one.name for one in own if one.default is one.empty and one.kind is not one.VAR_POSITIONAL]
    absent = [name for name in needed[len(args) :] if name not in kwargs]
    return f"'{absent[0]}' is missing; {listed}" if absent else f"{error}; {listed}"


def _checked(parameter: inspect.Parameter, value: Any, hint: Any) -> Any:
    if parameter.kind is parameter.VAR_POSITIONAL:
        return tuple(check(one, hint, parameter.name) for one in value)
    if parameter.kind is parameter.VAR_KEYWORD:
        return {name: check(one, hint, name) for name, one in value.items()}
    if value is parameter.default:
        return value
    return check(value, hint, parameter.name)


def make_callable(module_name: str, function: Callable[..., Any]) -> None:
    """Let a package be called like the function it is named after, as in `vs.anatomy(model)`."""

    class CallableModule(ModuleType):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    module = sys.modules[module_name]
    module.__class__ = CallableModule
    module.__signature__ = signature = inspect.signature(function)  # type: ignore[attr-defined]
    module.__doc__ = f"{function.__name__}{signature}\n\n{inspect.getdoc(function)}"
