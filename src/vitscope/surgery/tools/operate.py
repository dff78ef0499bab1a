"""Operate on a model as the command line does: `vs.operate(model, "alternate budget=4", "smooth")`."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from vitscope.core.arguments import Classes, Seed, Side, checked
from vitscope.core.errors import BadArgument, VitscopeError
from vitscope.core.interface import declare, declared
from vitscope.core.random_draws import seeded
from vitscope.data import data_config
from vitscope.models import create_model, name_of, save_model
from vitscope.results import Run
from vitscope.results.writable import probe
from vitscope.surgery.ensemble import deep_ensemble as average
from vitscope.surgery.tools.compare import Before, Comparison
from vitscope.surgery.tools.operation_text import Plan, plan_operations
from vitscope.surgery.tools.record import OPERATIONS, record
from vitscope.surgery.tools.snapshot import Snapshot
from vitscope.surgery.tools.vocabulary import Example


@dataclass(frozen=True, eq=False)
class Operated:
    """A model and what was done to it.

    Attributes:
        model: Operated on.
        done: What its record got: operation, options, places.
        comparison: Parameters, FLOPs and outputs, before and after.
        members: How many models it is an average of.
    """

    model: nn.Module
    done: tuple[dict[str, Any], ...]
    comparison: Comparison
    members: int = 1

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
) -> Operated:
    """Do several operations in order.

        vs.operate("resnet50", "alternate budget=4", "smooth").model
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
    """
    plans = [plan for said in operations for plan in plan_operations(said)]
    if not plans and not deep_ensemble:
        raise BadArgument(f"no operation is named; there are: {', '.join(OPERATIONS)}")
    folder = None if out is None else Path(out)
    if folder is not None and (folder / "config.json").exists():
        raise VitscopeError(f"{folder} holds a model already; give another out")
    if folder is not None:
        probe(folder)
    settings: dict[str, Any] = {"pretrained": pretrained, "num_classes": num_classes, "img_size": img_size}
    if isinstance(model, nn.Module):
        _refuse_for_a_module(**settings)
    with seeded(seed):
        made = [
            one if isinstance(one, nn.Module) else create_model(one, trust_code=trust_code, **settings).eval()
            for one in (model, *deep_ensemble)
        ]
        operated = _operate(made, plans, output, example)
    if folder is not None and operated.changed:
        options = {
            "model": name_of(model) if isinstance(model, nn.Module) else os.fspath(model),
            "operations": [{name: dict(given)} for name, given in plans],
            "deep_ensemble": [
                name_of(one) if isinstance(one, nn.Module) else os.fspath(one) for one in deep_ensemble
            ],
            "out": str(folder),
            **settings,
            "output": output,
        }
        _save(operated, folder, options, seed)
    return operated


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


def _refuse_for_a_module(**given: Any) -> None:
    for name, value in given.items():
        if value:
            raise BadArgument(f"{name} is {value} for a model that is built already; give the model's name")


def _save(operated: Operated, folder: Path, options: Mapping[str, Any], seed: int) -> None:
    model, comparison = operated.model, operated.comparison
    config = data_config(model)
    facts = {
        "name": options["model"],
        "parameters": comparison.parameters[1],
        "input_size": config.input_size,
    }
    with Run.start(folder, options=options, seed=seed, device="cpu", model=facts) as run:
        save_model(model, folder, data=config)
        run.note(surgery=record(model), comparison=dataclasses.asdict(comparison))
