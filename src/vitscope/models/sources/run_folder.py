"""A model in a run folder: `config.json` says how to build it and how to prepare images for it.

`model.safetensors` holds its weights.
"""

import dataclasses
import json
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from torch import Tensor, nn

from vitscope.core.arguments import checked
from vitscope.core.arguments.checking import problem_with
from vitscope.core.arguments.files import reason
from vitscope.core.arguments.kinds import shown
from vitscope.core.errors import BadResult, VitscopeError
from vitscope.core.interface import class_count, declare, interface_of
from vitscope.data import DataConfig, data_config
from vitscope.models.checkpoints import find_checkpoint, load_weights, read_weights, weight_bytes
from vitscope.models.origin import origin, set_input
from vitscope.models.sources import timm as from_timm
from vitscope.models.sources import vqa as from_vqa
from vitscope.models.sources.dense import backbone_of
from vitscope.models.trust import allow_model
from vitscope.models.weight_budget import within_weights
from vitscope.results import atomic_write
from vitscope.results.manifest import write_listed
from vitscope.results.plain_files import read_plain


class _Named(TypedDict):
    """How the model is made."""

    name: str | None
    arguments: dict[str, Any]


class _Said(TypedDict, total=False):
    """What was declared about the model."""

    output: str | int
    mean: list[float]
    std: list[float]


class _Config(TypedDict):
    """What `config.json` holds; see `save_model`."""

    schema: int
    model: _Named
    data: dict[str, Any]
    classes: list[str]
    surgery: NotRequired[list[dict[str, Any]]]
    interface: NotRequired[_Said]


SCHEMA = 1
CONFIG = "config.json"
WEIGHTS = "model.safetensors"
_redo: list[Callable[..., nn.Module]] = []


def redo_operations_with(replay: Callable[..., nn.Module]) -> None:
    """Say how the operations of a saved model are done again; surgery, which builds on models, does."""
    _redo.append(replay)


def redo_operations(model: nn.Module, entries: Sequence[Mapping[str, Any]]) -> nn.Module:
    """Do to a model what a record says that was done to one built like it."""
    if not _redo:
        raise BadResult(
            "the model was operated on; open it with vitscope.create_model, or import vitscope.surgery"
        )
    return _redo[-1](model, entries)


@checked
def save_model(
    model: nn.Module,
    folder: str | os.PathLike[str],
    classes: Sequence[str] | None = None,
    data: DataConfig | None = None,
    weights: Mapping[str, Tensor] | None = None,
) -> None:
    """Write the model into a run folder, which `create_model` and every verb of the command line read.

    Args:
        model: Says how it was built and operated on. One that was not made by `create_model` can be read again by
            `load_run_weights` only.
        folder: The run folder; is made if need be. A model that is there is replaced.
        classes: What its outputs stand for; default: what the model calls them, else their numbers.
        data: How images are prepared; default: the model's own way.
        weights: Default: the model's own.
    """
    folder, made = Path(folder), origin(model)
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "schema": SCHEMA,
        "model": {
            "name": made.name if made else None,
            "arguments": dict(made.arguments) if made else {},
            "class": type(model).__name__,
        },
        "surgery": getattr(model, "vitscope_surgery", []),
        "data": (data or data_config(model)).to_dict(),
        "interface": interface_of(model).to_dict(),
        "classes": class_names(model) if classes is None else list(classes),
    }
    atomic_write(folder / CONFIG, json.dumps(config, indent=2) + "\n")
    write_listed(folder, {WEIGHTS: weight_bytes(weights or model.state_dict())})


def class_names(model: nn.Module) -> list[str]:
    """What the model calls its classes, else their numbers; empty where it does not say how many there are."""
    named = (getattr(model, "pretrained_cfg", None) or {}).get("label_names") or ()
    count = class_count(model)
    if named and count in (None, len(named)):
        return [str(name) for name in named]
    return [str(i) for i in range(count or 0)]


def copy_model(source: Path, folder: Path) -> None:
    """Put the model of one run folder into another one as well, if it is whole."""
    read_weights(source / WEIGHTS, source)
    atomic_write(folder / CONFIG, (source / CONFIG).read_bytes())
    write_listed(folder, {WEIGHTS: (source / WEIGHTS).read_bytes()})


def read_config(folder: Path) -> dict[str, Any]:
    """The checked content of a run folder's `config.json`."""
    path = folder / CONFIG
    try:
        config = json.loads(read_plain(path))
    except FileNotFoundError as error:
        raise BadResult(
            f"{folder} holds no model (no {CONFIG}); expected a run folder, as `vitscope train` writes it"
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise BadResult(
            f"{path} is damaged ({reason(error)}); train again, or copy the folder again"
        ) from error
    if not isinstance(config, dict) or not isinstance(config.get("schema"), int):
        raise BadResult(f"{path} is no model configuration: expected an object with a 'schema' number")
    if config["schema"] > SCHEMA:
        raise BadResult(
            f"{path} has schema {config['schema']}, this vitscope reads {SCHEMA}: pip install -U vitscope"
        )
    if problem := problem_with(config, _Config):
        raise BadResult(f"{path} is damaged ({problem}); train again, or copy the folder again")
    return config


def check_model(folder: Path, trust_code: bool) -> dict[str, Any]:
    """The configuration of a folder whose model can be built; a function that it names has to be trusted."""
    config = read_config(folder)
    name, arguments = config["model"]["name"], config["model"]["arguments"]
    if name is None:
        raise BadResult(
            f"{folder} holds the weights of a {config['model'].get('class')} that was built in Python; "
            "build it the same way, then: vitscope.models.load_run_weights(model, folder)"
        )
    allow_model(name, arguments, folder / CONFIG, trust_code)
    backbone = backbone_of(name)  # of a dense model: what it stands on
    known = from_timm.has(backbone) or from_vqa.has(backbone)
    if ":" not in backbone and (Path(backbone).name != backbone or not known):
        raise BadResult(
            f"{folder / CONFIG} is damaged: it names a folder, {shown(name)}, where a model's name is expected; "
            "copy the folder again"
        )
    return config


def load_model(
    folder: Path,
    create: Callable[..., nn.Module],
    checkpoint: str | None = None,
    trust_code: bool = False,
    **changes: Any,
) -> nn.Module:
    """Build the model of a run folder with `create`, load its weights; `changes` override its arguments.

    A function that the folder names is called only if the user trusts it.
    """
    config = check_model(folder, trust_code)
    name, arguments = config["model"]["name"], config["model"]["arguments"]
    weights = _weights_file(folder, checkpoint)
    with within_weights(weights, folder, folder / CONFIG):
        model = create(name, trust_code=trust_code, **{**arguments, **changes})
    try:
        prepared = dataclasses.asdict(DataConfig.from_dict(config["data"]))
    except VitscopeError as error:
        raise BadResult(
            f"{folder / CONFIG} is damaged ({error}); train again, or copy the folder again"
        ) from error
    set_input(model, **prepared, label_names=tuple(config["classes"]))
    declare(model, **config.get("interface", {}))
    if config.get("surgery"):
        redo_operations(model, config["surgery"])
    load_run_weights(model, folder, checkpoint)
    model.vitscope_run = str(folder)  # type: ignore[assignment]
    return model


def model_damage(folder: Path) -> str | None:
    """What keeps the model of a run folder from being read; None if nothing does."""
    try:
        read_config(folder)
        read_weights(folder / WEIGHTS, folder)
    except VitscopeError as error:
        return str(error)
    return None


def load_run_weights(model: nn.Module, folder: Path, checkpoint: str | None = None) -> None:
    """Load a run folder's weights, or those of a checkpoint, into a model that was built already."""
    folder = Path(folder)
    path = _weights_file(folder, checkpoint)
    load_weights(model, read_weights(path, folder), str(path))


def _weights_file(folder: Path, checkpoint: str | None) -> Path:
    return find_checkpoint(folder, checkpoint) if checkpoint else folder / WEIGHTS
