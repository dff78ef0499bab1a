"""Operate on a model as the command line does: `vs.operate(model, "alternate budget=4", "smooth")`.

Operations as they are written: "alternate budget=4 heads=3,6,12,24", or {"alternate": {"budget": 4}}.

A value is read by the type of its argument. Words without a key are the first arguments: "extend msa".
"""

import dataclasses
import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from vitscope.core.arguments import Classes, Seed, Side, check, checked, describe, read_list
from vitscope.core.arguments.calling import hints_of
from vitscope.core.errors import BadArgument, VitscopeError, alike, did_you_mean
from vitscope.core.interface import declare, declared
from vitscope.core.tensors import seeded
from vitscope.data import data_config
from vitscope.models import create_model, name_of, save_model
from vitscope.models.create import random_weights
from vitscope.results import Run
from vitscope.results.plain_files import probe
from vitscope.surgery.ensemble import deep_ensemble as average
from vitscope.surgery.tools.choose import Example
from vitscope.surgery.tools.compare import Before, Comparison
from vitscope.surgery.tools.proof import Snapshot
from vitscope.surgery.tools.record import OPERATIONS, checked_call, record


@dataclass(frozen=True, eq=False)
class Operated:
    """A model and what was done to it."""

    model: nn.Module
    done: tuple[dict[str, Any], ...]  # what its record got: operation, options, places
    comparison: Comparison  # parameters, FLOPs and outputs, before and after
    members: int = 1  # how many models it is an average of

    @property
    def changed(self) -> bool:
        """Whether the model is another one than it was."""
        return bool(self.done) or self.members > 1


@checked
def operate(
    model: nn.Module | str | os.PathLike[str],
    *operations: str | Mapping[str, Any],
    deep_ensemble: Sequence[nn.Module | str | os.PathLike[str]] = (),
    out: str | os.PathLike[str] | None = None,
    pretrained: bool = False,
    num_classes: Classes | None = None,
    img_size: Side | None = None,
    output: int | str | None = None,
    seed: Seed = 0,
    example: Example = None,
    trust_code: bool = False,
    **arguments: Any,
) -> Operated:
    """Do several operations in order.

        vs.operate("resnet50", "alternate budget=4", "smooth").model
        vs.operate("resnet50", "alternate", budget=4).model
        vs.operate(model, {"alternate": {"budget": 4}, "smooth": {}}, out="runs/a")

    All are checked before the model is built; if one is refused the model is what it was.

    Args:
        model: A model, which is changed in place; or a name or run folder, of which one is made, in evaluation mode.
        *operations: Each as it is typed on the command line, or a dict of arguments by name of operation.
        deep_ensemble: Further models, names or run folders to average with (`vs.surgery.deep_ensemble`); operations
            are then done to the average.
        out: A run folder to write, which `vs.create_model` reads.
        pretrained: For a name: start from the weights that come with it.
        num_classes: For a name: size of the head, if not its own.
        img_size: For a name: side of the images, if not its own.
        output: Which output holds the class scores, where that cannot be decided; kept with the model.
        seed: Decides new weights.
        example: As for `vs.anatomy`; for operations that are given none.
        trust_code: Run code that a run folder or a model of Hugging Face names (see `create_model`).
        **arguments: Those of the operation, if there is one and it is named by a word alone.
    """
    if arguments:
        operations = (_with_arguments(operations, arguments),)
    plans = [plan for said in operations for plan in plan_operations(said)]
    if not plans and not deep_ensemble:
        raise BadArgument(f"no operation is named; there are: {', '.join(OPERATIONS)}")
    folder = None if out is None else Path(out)
    if folder is not None and (folder / "config.json").exists():
        raise VitscopeError(f"{folder} holds a model already; give another out=")
    if folder is not None:
        probe(folder)
    settings: dict[str, Any] = {"pretrained": pretrained, "num_classes": num_classes, "img_size": img_size}
    for name, value in settings.items():
        if isinstance(model, nn.Module) and value:
            raise BadArgument(f"{name} is {value} for a model that is built already; give the model's name")
    with seeded(seed):
        made = [
            one if isinstance(one, nn.Module) else create_model(one, trust_code=trust_code, **settings).eval()
            for one in (model, *deep_ensemble)
        ]
        operated = _operate(made, plans, output, example)
    if folder is not None and operated.changed:
        names = [name_of(m) if isinstance(m, nn.Module) else os.fspath(m) for m in (model, *deep_ensemble)]
        options = {
            "model": names[0],
            "operations": [{name: dict(given)} for name, given in plans],
            "deep_ensemble": names[1:],
            "out": str(folder),
            **settings,
            "random_weights": any(
                not isinstance(one, nn.Module) and bool(random_weights(one, pretrained))
                for one in (model, *deep_ensemble)
            ),
            "output": output,
        }
        _save(operated, folder, options, seed)
    return operated


Plan = tuple[str, dict[str, Any]]  # name of an operation, and its options as it takes them


def _operate(made: list[nn.Module], plans: list[Plan], output: int | str | None, example: Any) -> Operated:
    """The first model, or the average of all, operated on; or all as they were if something is refused."""
    untouched = [Snapshot(one) for one in made]
    try:
        for one in made:
            declare(one, output=output)
        with declared(made[0], output=output):
            before = Before(made[0], example)
        model = average(made).train(made[0].training) if len(made) > 1 else made[0]
        already = len(record(model))
        for name, options in plans:
            shown = {} if example is None else {"example": example}
            OPERATIONS[name](model, **{**shown, **options})
        return Operated(model, tuple(record(model)[already:]), before.compare(model), len(made))
    except BaseException:
        for snapshot in untouched:
            snapshot.restore()
        raise


def _save(operated: Operated, folder: Path, options: Mapping[str, Any], seed: int) -> None:
    model, comparison = operated.model, operated.comparison
    config = data_config(model)
    parameters = comparison.parameters[1]
    facts = {"name": options["model"], "parameters": parameters, "input_size": config.input_size}
    with Run.start(folder, options=options, seed=seed, device="cpu", model=facts) as run:
        save_model(model, folder, data=config)
        run.note(surgery=record(model), comparison=dataclasses.asdict(comparison))


NOT_WRITTEN = ("model", "example")


def _with_arguments(
    operations: Sequence[str | Mapping[str, Any]], arguments: dict[str, Any]
) -> Mapping[str, Any]:
    """The one operation that is named, with its arguments; refuses them where it is not clear whose they are."""
    first, said = next(iter(arguments)), [one for one in operations if isinstance(one, str)]
    own = inspect.signature(operate).parameters
    if near := alike(first, own, at_least=0.8):
        raise BadArgument(f"operate(): no argument '{first}'; did you mean '{near[0]}'?")
    if len(operations) != 1 or len(said) != 1 or len(said[0].split()) != 1:
        raise BadArgument(
            f"operate(): no argument '{first}'; one of an operation stands with it, as in 'localize kernel=5' or "
            "{'localize': {'kernel': 5}}"
        )
    return {said[0]: arguments}


def plan_operations(said: str | Mapping[str, Any]) -> list[Plan]:
    """What is asked for, checked; no model is needed."""
    if isinstance(said, str):
        return [read_operation(said)]
    plans = []
    for word, options in said.items():
        name = find_operation(check(word, str, "an operation"))
        given = {} if options is None else options
        if not isinstance(given, Mapping) or not all(isinstance(key, str) for key in given):
            raise BadArgument(
                f"{name} is {given!r}; expected a dict of its arguments, as in {_example(name)}"
            )
        plans.append((name, checked_call(name, given)))
    return plans


def read_operation(text: str, flag: str = "") -> Plan:
    """One operation out of "alternate msa=0,1,1,2" or "lesion blocks.3.attn"; errors call it by its name, or `flag`."""
    words = text.split()
    if not words:
        raise BadArgument(f"an operation without a name; there are: {', '.join(OPERATIONS)}")
    name = find_operation(words[0])
    function = inspect.unwrap(OPERATIONS[name])
    parameters = inspect.signature(function).parameters
    taken = {key: one for key, one in parameters.items() if key not in NOT_WRITTEN}
    return name, read_words(words[1:], taken, hints_of(function), flag or name)


def read_words(
    words: Sequence[str], taken: Mapping[str, inspect.Parameter], hints: Mapping[str, Any], called: str
) -> dict[str, Any]:
    """Arguments out of words, by the types of a function that errors call `called`.

    A word is "key=value", or a value for the next argument that is not for keywords alone.
    """
    by_place = [key for key, one in taken.items() if one.kind is not one.KEYWORD_ONLY]
    bare = [word for word in words if "=" not in word]
    if len(bare) > len(by_place):
        raise BadArgument(f"{called} takes {', '.join(taken)}; {len(bare)} words came without a name")
    pairs = list(zip(by_place, bare, strict=False))
    parted = (word.partition("=") for word in words)
    pairs += [(key.replace("-", "_"), value) for key, equals, value in parted if equals]
    options: dict[str, Any] = {}
    for key, value in pairs:
        if key not in taken:
            near = alike(key, taken)
            hint = f"did you mean '{near[0]}'?" if near else f"it takes {', '.join(taken)}"
            raise BadArgument(f"{called}: no argument '{key}'; {hint}")
        if key in options:
            raise BadArgument(f"{called} {key} is given twice; give it once")
        options[key] = read_list(value, hints.get(key, Any), f"{called} {key}")
    absent = [key for key, one in taken.items() if one.default is one.empty and key not in options]
    if absent:
        expected = ", ".join(filter(None, (absent[0], describe(hints.get(absent[0], Any)))))
        raise BadArgument(f"{called} needs {expected}: {called} {absent[0]}=...")
    return options


def find_operation(word: str) -> str:
    """The name of an operation, written with dashes or without."""
    name = word.removeprefix("--").replace("-", "_")
    if name not in OPERATIONS:
        raise BadArgument(f"no operation '{word}'; {did_you_mean(name, OPERATIONS)}")
    return name


def _example(name: str) -> str:
    taken = [key for key in inspect.signature(OPERATIONS[name]).parameters if key not in NOT_WRITTEN]
    return f"{{'{name}': {{'{taken[0]}': ...}}}}"
