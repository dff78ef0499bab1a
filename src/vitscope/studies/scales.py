"""A scale: what the names on cards stand for on a machine of some size.

    smoke   seconds, to see that it runs
    cpu     hours of one core
    paper   the papers' models, data and epochs

A card says `model: vit` and `changes: weak`; the setting of its paper at a scale says which model that is, trained on
what and how, and what weak augmentation leaves out.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

import vitscope.claims
from vitscope.core.arguments import Count, Positive, check_fields, names_checked
from vitscope.core.arguments.yaml_files import read_yaml
from vitscope.core.errors import BadArgument, did_you_mean
from vitscope.studies.study_file import typed

SCALES = Path(os.fspath(vitscope.claims.__path__[0])) / "scales"
ScaleName = Literal["smoke", "cpu", "paper"]
SCALE_NAMES: tuple[ScaleName, ...] = ("smoke", "cpu", "paper")
AUGMENTATIONS = ("weak", "strong")  # what an arm of a card may say under `changes`

_Named = Mapping[str, Any]
_MODEL: dict[str, Any] = {
    "model": str,
    "like": str,
    "arguments": _Named,
    "operations": tuple[_Named, ...],
    "changes": _Named,
    "with": Mapping[str, _Named],
    "checkpoint_every": Count,
    "throughput": Positive,
}


@names_checked
@dataclass(frozen=True)
class Setting:
    """What the names on a card stand for: data, recipe and models.

    Attributes:
        data: What `load_data` takes.
        models: By the names that cards use; see `Setting.model`.
        fraction: Part of the training images; an arm's own is a part of that.
        recipe: A name or a YAML file.
        changes: Of the recipe, for all arms.
        weak: What `changes: weak` on a card adds to that.
        strong: What `changes: strong` adds. Arms that say neither are trained as the setting's others.
        checkpoint_every: Epochs between kept checkpoints.
    """

    data: str
    models: Mapping[str, _Named]
    fraction: float = 1.0
    recipe: str = "mini"
    changes: _Named = field(default_factory=dict)
    weak: _Named = field(default_factory=dict)
    strong: _Named = field(default_factory=dict)
    checkpoint_every: int | None = None

    def model(self, name: str, where: str) -> dict[str, Any]:
        """A model by the name that cards use; what it does not say itself is as in the one that it is `like`.

        It says: model and arguments, as `create_model` takes them; operations and changes, before those of an arm;
        `with`: changes for arms with an operation; checkpoint_every; throughput: images per second of its training,
        as published.
        """
        if name not in self.models:
            raise BadArgument(f"{where}: no model '{name}'; {did_you_mean(name, self.models)}")
        stated = typed(self.models[name], _MODEL, f"{where}: model {name}")
        if "like" not in stated:
            return stated
        base = self.model(stated.pop("like"), where)
        if {"arguments", "operations"} & stated.keys():
            base.pop("throughput", None)  # which is another model's
        arguments = {**base.get("arguments", {}), **stated.get("arguments", {})}
        return {**base, **stated, "arguments": arguments}

    def augmentation(self, name: str, where: str) -> _Named:
        """The changes that a card means by weak or strong."""
        if name not in AUGMENTATIONS:
            raise BadArgument(f"{where}: changes is '{name}'; expected {' or '.join(AUGMENTATIONS)}")
        if self.weak == self.strong:
            raise BadArgument(f"{where}: the scale does not say how weak and strong augmentation differ")
        return self.weak if name == "weak" else self.strong


@names_checked
@dataclass(frozen=True)
class PublishedData:
    """What is known of images that are not on this machine.

    Attributes:
        classes: How many there are.
        test: Images that models are examined on.
        train: Images that they are trained on.
        prepare: What to do to have them.
        task: What they are for; of vqa, images are questions and classes answers.
    """

    classes: Count
    test: Count
    train: int = 0
    prepare: str = ""
    task: Literal["classification", "segmentation", "detection", "vqa"] = "classification"

    def __post_init__(self) -> None:
        check_fields(self, "data: ")


@names_checked
@dataclass(frozen=True)
class StandInModel:
    """What a dry run builds in the place of a model that is not on this machine.

    Attributes:
        model: One of the same shape, without its weights.
        arguments: Of `create_model`.
        prepare: What to do to have the model itself.
    """

    model: str
    arguments: _Named = field(default_factory=dict)
    prepare: str = ""

    def __post_init__(self) -> None:
        check_fields(self, "models: ")


@names_checked
@dataclass(frozen=True)
class Scale:
    """What studies of the claims are made of on a machine of some size.

    Attributes:
        name: How it is called.
        about: In a line.
        seeds: Trainings of every arm.
        settings: By paper, or by another name.
        exams: Options by label, as in a study's file.
        verdicts: Whether what comes out decides anything.
        limits: In what models and trainings fall short of the papers', for those who read that something fails.
        own: Claims that have a setting of their own, such as those that a paper studied with other models.
        data: Of data that a user has to bring along, what it costs to train on it can be told from.
        models: Of models that are fetched, what has their cost.
    """

    name: str
    about: str
    seeds: int
    settings: Mapping[str, Setting]
    exams: _Named
    verdicts: bool = True
    limits: str = ""
    own: Mapping[str, str] = field(default_factory=dict)
    data: Mapping[str, PublishedData] = field(default_factory=dict)
    models: Mapping[str, StandInModel] = field(default_factory=dict)

    def setting(self, claim: str, usual: str) -> Setting:
        """The setting of a claim whose card asks for the `usual` one."""
        return self.settings[self.own.get(claim, usual)]


@cache
def read_scale(name: str) -> Scale:
    """A scale by its name."""
    path = SCALES / f"{name}.yaml"
    if not path.exists():
        raise BadArgument(f"no scale '{name}'; {did_you_mean(name, SCALE_NAMES)}")
    said = read_yaml(path, f"the scale {path.name}", "seeds: 3")
    settings = said.pop("settings")
    data = {key: PublishedData(**value) for key, value in said.pop("data", {}).items()}
    models = {key: StandInModel(**value) for key, value in said.pop("models", {}).items()}
    made = {key: Setting(**_whole(key, settings)) for key in settings}
    return Scale(name=name, settings=made, data=data, models=models, **said)


def _whole(name: str, settings: Mapping[str, _Named]) -> dict[str, Any]:
    """What a setting says, after what the one says that it is `like`; models are added to its models."""
    said = dict(settings[name])
    if "like" not in said:
        return said
    base = _whole(said.pop("like"), settings)
    models = {**base["models"], **said.get("models", {})}
    return {**base, **said, "models": models}
