"""What was done to a model, so that it can be done again when the model is loaded, and undone.

A surgery function is written as a plan followed by its execution and returns what it did:

    @operation
    def squeeze_excite(model: nn.Module, ratio: int = 4, *, example: Any = None) -> Done: ...

Users see a function that works in place and returns the model, once it is seen that what was done acts (`proof`); else
the model is what it was. The model remembers the call in `model.vitscope_surgery`, a list of plain values that goes
into the run folder's `config.json`.
"""

import functools
import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec

from torch import nn

from vitscope.anatomy.watch.example import example_shapes, refuse_wrapped
from vitscope.core.arguments import check, checked
from vitscope.core.arguments.calling import bind, hints_of, readable
from vitscope.core.errors import BadArgument, BadResult, VitscopeError, warn
from vitscope.surgery.tools.graft import ungraft
from vitscope.surgery.tools.proof import NotProved, Snapshot, prove

P = ParamSpec("P")
Operation = Callable[..., nn.Module]
OPERATIONS: dict[str, Operation] = {}


class CannotOperate(VitscopeError):
    """The operation does not apply to this model; the message says why and what would."""


class NoEffectWarning(UserWarning):
    """An operation found nothing to change; the model is what it was."""


@dataclass(frozen=True)
class Done:
    """What an operation did.

    Args:
        options: Arguments (plain values: numbers, strings, lists) with which the call does exactly the same on
            a fresh copy of the model: names of units in the place of "upper". The example's shape is added to them.
        places: Where the model was changed; empty: nowhere.
        grafts: Paths of what was grafted, if nothing else was changed: such an operation can be undone.
        why_none: What to tell the user if `places` is empty.
    """

    options: Mapping[str, Any]
    places: Sequence[str]
    grafts: Sequence[str] = field(default=())
    why_none: str = "nothing in it fits"


def operation(
    function: Callable[Concatenate[nn.Module, P], Done],
) -> Callable[Concatenate[nn.Module, P], nn.Module]:
    """Make a surgery function out of one that returns what it did: check what it is given by its signature, see that
    it acts, record it, warn if it was nothing.

    The model is run on the function's `example`, if it has such an argument.
    """
    name = function.__name__
    run: Callable[..., Done] = function

    @functools.wraps(function)
    def operate(*args: Any, **kwargs: Any) -> nn.Module:
        arguments = _arguments(function, args, kwargs)
        model: nn.Module = arguments.pop("model")
        refuse_wrapped(model)
        _refuse_sharded(model)
        before = Snapshot(model)
        try:
            done = run(model, **arguments)
            if done.places:
                example = arguments.get("example")
                prove(model, before, example)
                shown = {} if example is None else {"example": example_shapes(model, example)}
                options = _plain({**done.options, **shown})
                entry = {"operation": name, "options": options, "places": list(done.places)}
                if done.grafts:
                    entry["grafts"] = list(done.grafts)
                model.vitscope_surgery = [*record(model), entry]  # type: ignore[assignment]
                return model
        except BaseException as error:
            before.restore()
            if isinstance(error, NotProved):
                raise CannotOperate(
                    f"{name} does not act on this {type(model).__name__} as it should: {error}; it was taken back, "
                    "choose other layers or another operation"
                ) from error
            raise
        message = f"{name} changed nothing in this {type(model).__name__}: {done.why_none}"
        warn(message, NoEffectWarning)
        return model

    operate.__annotations__["return"] = nn.Module
    taken = inspect.signature(function).replace(return_annotation=nn.Module)
    operate.__signature__ = readable(taken)  # type: ignore[attr-defined]
    OPERATIONS[name] = operate
    return operate


def checked_call(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of an operation as it takes them; no model is needed to refuse what it does not take."""
    if "model" in options:
        raise BadArgument(f"{name}(): no argument 'model' among its options")
    function = inspect.unwrap(OPERATIONS[name])
    bound = bind(function, inspect.signature(function), (None,), options).arguments
    hints = hints_of(function)
    return {key: check(bound[key], hints.get(key, Any), key) for key in options}


def _arguments(function: Callable[..., Any], args: Any, kwargs: Any) -> dict[str, Any]:
    """All that an operation is given, by name, as its signature wants it."""
    signature = inspect.signature(function)
    hints, given = hints_of(function), bind(function, signature, args, kwargs).arguments
    defaults = {name: parameter.default for name, parameter in signature.parameters.items()}
    return {
        name: value if value is defaults[name] else check(value, hints.get(name, Any), name)
        for name, value in given.items()
    }


@checked
def record(model: nn.Module) -> list[dict[str, Any]]:
    """Every operation the model went through, in order, as plain values."""
    return list(getattr(model, "vitscope_surgery", []))


def replay(model: nn.Module, entries: Sequence[Mapping[str, Any]]) -> nn.Module:
    """Do again what a record says, on a model built like the one it was made on.

    Raises:
        BadResult: The record is damaged, of a newer vitscope, or of another model.
    """
    check(model, nn.Module, "model")
    if not isinstance(entries, list | tuple):
        raise _damaged(entries)
    for entry in entries:
        if not isinstance(entry, Mapping):
            raise _damaged(entry)
        name, options = entry.get("operation"), entry.get("options")
        if not isinstance(name, str) or not isinstance(options, Mapping):
            raise _damaged(entry)
        if name not in OPERATIONS:
            raise BadResult(
                f"the model was operated on by '{name}', which this vitscope does not know: pip install -U vitscope"
            )
        with warnings.catch_warnings():
            warnings.simplefilter("error", NoEffectWarning)
            try:
                model = OPERATIONS[name](model, **checked_call(name, options))
            except BadArgument as error:
                raise BadResult(
                    f"the record of what was done to the model is damaged: '{name}', {error}; copy the folder again"
                ) from error
            except (NoEffectWarning, VitscopeError) as error:
                raise BadResult(
                    f"'{name}' cannot be done again on this {type(model).__name__}: {error}; "
                    "the record was made on a model of another shape"
                ) from error
    return model


def _damaged(seen: Any) -> BadResult:
    return BadResult(
        f"the record of what was done to the model is damaged ({str(seen)[:60]}); copy the folder again"
    )


@checked
def undo(model: nn.Module) -> nn.Module:
    """Take back the last operation, if all it did was to put something in; weights it had learned go with it."""
    _refuse_sharded(model)
    entries = record(model)
    if not entries:
        raise CannotOperate(f"this {type(model).__name__} was not operated on; there is nothing to undo")
    last = entries[-1]
    if not last.get("grafts"):
        raise CannotOperate(
            f"{last['operation']} replaced modules and cannot be undone; build the model again, or operate on a copy"
        )
    for path in reversed(last["grafts"]):
        ungraft(model, path)
    model.vitscope_surgery = entries[:-1]  # type: ignore[assignment]
    return model


def _refuse_sharded(model: nn.Module) -> None:
    """What shards a model keeps lists of its weights, which neither know of new ones nor let old ones go."""
    for path, module in model.named_modules():
        if {"FSDPModule", "FullyShardedDataParallel"} & {cls.__name__ for cls in type(module).__mro__}:
            what = f"its module '{path}'" if path else f"this {type(model).__name__}"
            raise CannotOperate(
                f"{what} is sharded over processes; operate, and undo, before fully_shard, or on a model that is built "
                "again from its run folder"
            )


def _plain(value: Any) -> Any:
    """Lists, dicts, strings and numbers; anything else would not come back from JSON."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise TypeError(f"a surgery record holds plain values, not a {type(value).__name__}")
