"""A card: one statement of the papers, what would show it, and the rule that decides, all written down before a run.

A card names models (`vit`, `cnn` ...), exams and augmentation by what they are for; a scale says what stands for these
names on a machine of some size: `smoke` (seconds), `cpu` (hours of one core), `paper` (the papers' models, data and
epochs). The two together are a study. A card's hash is kept with its results: one that was changed since makes them
void.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal

import vitscope.claims
from vitscope.core.arguments import check_fields, names_checked
from vitscope.core.arguments.files import read_yaml
from vitscope.core.errors import BadArgument, VitscopeError, did_you_mean
from vitscope.studies.study import Study
from vitscope.studies.study_file import typed

CARDS = Path(os.fspath(vitscope.claims.__path__[0])) / "cards"
SCALES = CARDS.with_name("scales")
ScaleName = Literal["smoke", "cpu", "paper"]
SCALE_NAMES: tuple[ScaleName, ...] = ("smoke", "cpu", "paper")
_DIGITS = 16


@names_checked
@dataclass(frozen=True)
class Card:
    """One statement of the papers.

    Attributes:
        claim: Its row in the papers' list: a letter and a number.
        title: In a few words.
        statement: What the papers say.
        definition: What is measured.
        published: What the papers found, and where.
        paper: Whose setting it is studied in: "hdv" (How Do Vision Transformers Work?) or "ua" (Uniform Attention).
        arms: As in a study's file, with models of the scale; `changes: strong` stands for the scale's augmentation.
        exams: Of the scale, by label.
        comparisons: As in a study's file.
        scales: At which it can be studied.
        setting: Of the scale, if not that of the paper.
    """

    claim: str
    title: str
    statement: str
    definition: str
    published: str
    paper: Literal["hdv", "ua"]
    arms: Mapping[str, Mapping[str, Any]]
    exams: tuple[str, ...]
    comparisons: tuple[Mapping[str, Any], ...]
    scales: tuple[ScaleName, ...] = SCALE_NAMES
    setting: str | None = None

    def __post_init__(self) -> None:
        check_fields(self, f"card {self.claim}: ")

    @property
    def digest(self) -> str:
        """Stands for everything that the card says; what it leaves out does not count."""
        usual = {one.name: one.default for one in fields(self)}
        said = {name: value for name, value in asdict(self).items() if value != usual[name]}
        text = json.dumps(said, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


@names_checked
@dataclass(frozen=True)
class Setting:
    """What the names on a card stand for: data, recipe and models.

    Attributes:
        data: What `load_data` takes.
        models: By the names that cards use: model (or the name of one that it is `like`), arguments, operations.
        fraction: Part of the training images; an arm's own is a part of that.
        recipe: A name or a YAML file.
        changes: Of the recipe.
        strong: What `changes: strong` adds to that.
        checkpoint_every: Epochs between kept checkpoints.
    """

    data: str
    models: Mapping[str, Mapping[str, Any]]
    fraction: float = 1.0
    recipe: str = "mini"
    changes: Mapping[str, Any] = field(default_factory=dict)
    strong: Mapping[str, Any] = field(default_factory=dict)
    checkpoint_every: int | None = None


@names_checked
@dataclass(frozen=True)
class Scale:
    """What studies of the claims are made of on a machine of some size.

    Attributes:
        name: How it is called.
        about: In a line.
        seeds: Trainings of every arm.
        settings: By paper, or by another name that a card gives.
        exams: Options by label, as in a study's file.
        verdicts: Whether what comes out decides anything.
        limits: In what models and trainings fall short of the papers', for those who read that something fails.
    """

    name: str
    about: str
    seeds: int
    settings: Mapping[str, Setting]
    exams: Mapping[str, Any]
    verdicts: bool = True
    limits: str = ""


def list_cards(claims: Sequence[str] = ()) -> list[Card]:
    """The cards of these claims, or of sections ("C"); all, if none are named; in the order of the papers' list."""
    known = sorted((path.stem for path in CARDS.glob("*.yaml")), key=_order)
    chosen: list[str] = []
    for claim in claims:
        found = [name for name in known if name == claim.upper() or name == claim or name[0] == claim.upper()]
        if not found:
            raise BadArgument(f"no claim '{claim}'; {did_you_mean(claim, known)}")
        chosen += [name for name in found if name not in chosen]
    return [_card(name) for name in (chosen or known)]


def _order(name: str) -> tuple[str, int, str]:
    digits = "".join(c for c in name if c.isdigit())
    return name[0], int(digits), name


@cache
def _card(claim: str) -> Card:
    path = CARDS / f"{claim}.yaml"
    said = read_yaml(path, f"the card {path.name}", "title: Locality")
    listed = {key: tuple(said[key]) for key in ("exams", "comparisons", "scales") if key in said}
    return Card(claim=claim, **{**said, **listed})


@cache
def read_scale(name: str) -> Scale:
    """A scale by its name."""
    path = SCALES / f"{name}.yaml"
    if not path.exists():
        raise BadArgument(f"no scale '{name}'; {did_you_mean(name, SCALE_NAMES)}")
    said = read_yaml(path, f"the scale {path.name}", "seeds: 3")
    settings = {key: Setting(**value) for key, value in said.pop("settings").items()}
    return Scale(name=name, settings=settings, **said)


def card_study(card: Card, scale: Scale, seeds: int | None = None) -> Study:
    """The study that a card is at a scale.

    Raises:
        VitscopeError: The card cannot be studied at this scale.
    """
    if scale.name not in card.scales:
        raise VitscopeError(
            f"{card.claim} can be studied at scale {' or '.join(card.scales)} only, not at {scale.name}"
        )
    setting = scale.settings[card.setting or card.paper]
    shared = {
        "data": setting.data,
        "fraction": setting.fraction,
        "recipe": setting.recipe,
        "seeds": seeds or scale.seeds,
    }
    if setting.checkpoint_every is not None:
        shared["checkpoint_every"] = setting.checkpoint_every
    content = {
        "name": f"{card.claim}-{scale.name}",
        "question": card.statement,
        **shared,
        "changes": dict(setting.changes),
        "arms": {name: _arm(name, arm, card, setting) for name, arm in card.arms.items()},
        "exams": {label: dict(scale.exams[label] or {}) for label in card.exams},
        "comparisons": [
            {"name": f"{card.claim}.{number}", **one} for number, one in enumerate(card.comparisons, start=1)
        ],
    }
    return Study.from_plain(content, f"card {card.claim} at scale {scale.name}")


def _arm(name: str, said: Mapping[str, Any], card: Card, setting: Setting) -> dict[str, Any]:
    """An arm of a card as a study's file has it."""
    arm = dict(said)
    if "from" in arm:
        return arm
    where = f"card {card.claim}: arm {name}"
    model = _model(arm["model"], setting, where)
    arm["model"] = model["model"]
    arm["arguments"] = {**model.get("arguments", {}), **arm.get("arguments", {})}
    operations = [*model.get("operations", ()), *arm.get("operations", ())]
    if operations:
        arm["operations"] = operations
    if "fraction" in arm:
        arm["fraction"] = setting.fraction * arm["fraction"]
    changes = {**model.get("changes", {})}
    if arm.get("changes") == "strong":
        changes |= setting.strong
    if changes:
        arm["changes"] = changes
    return arm


def _model(name: str, setting: Setting, where: str) -> dict[str, Any]:
    """A model of a setting; what it does not say itself is as in the one that it is `like`."""
    if name not in setting.models:
        raise BadArgument(f"{where}: no model '{name}'; {did_you_mean(name, setting.models)}")
    said = typed(setting.models[name], _MODEL, where)
    if "like" not in said:
        return said
    base = _model(said.pop("like"), setting, where)
    arguments = {**base.get("arguments", {}), **said.get("arguments", {})}
    return {**base, **said, "arguments": arguments}


_MODEL: dict[str, Any] = {
    "model": str,
    "like": str,
    "arguments": Mapping[str, Any],
    "operations": tuple[Mapping[str, Any], ...],
    "changes": Mapping[str, Any],
}
