"""A card: one statement of the papers, what would show it, and the rule that decides, all written down before a run.

A card names models (`vit`, `cnn` ...), exams and augmentation by what they are for; a scale (`studies.scales`) says
what stands for these names on a machine of some size. The two together are a study. A card's hash is kept with its
results: one that was changed since makes them void.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any, Literal

import vitscope.claims
from vitscope.core.arguments import check_fields, names_checked
from vitscope.core.arguments.yaml_files import read_yaml
from vitscope.core.errors import BadArgument, VitscopeError, did_you_mean
from vitscope.studies.scales import SCALE_NAMES, Scale, ScaleName, Setting
from vitscope.studies.study import Study

CARDS = Path(os.fspath(vitscope.claims.__path__[0])) / "cards"
_DIGITS = 16


@names_checked
@dataclass(frozen=True)
class ClaimCard:
    """One statement of the papers.

    Attributes:
        claim: Its row in the papers' list: a letter and a number.
        title: In a few words.
        statement: What the papers say.
        definition: What is measured.
        published: What the papers found, and where.
        paper: Whose setting it is studied in: "hdv" (How Do Vision Transformers Work?) or "ua" (Uniform Attention).
        arms: As in a study's file, with models of the scale; `changes` is weak or strong, for the scale's augmentation.
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
        usual: dict[str, Any] = {one.name: one.default for one in fields(self)}
        said = {name: value for name, value in asdict(self).items() if value != usual[name]}
        text = json.dumps(said, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def list_cards(claims: Sequence[str] = ()) -> list[ClaimCard]:
    """The cards of these claims, or of sections ("C"); all, if none are named; in the order of the papers' list."""
    known = sorted((path.stem for path in CARDS.glob("*.yaml")), key=_order)
    chosen: list[str] = []
    for claim in claims:
        found = [name for name in known if name.lower() == claim.lower() or name[0] == claim.upper()]
        if not found:
            raise BadArgument(f"no claim '{claim}'; {did_you_mean(claim, known)}")
        chosen += [name for name in found if name not in chosen]
    return [_card(name) for name in (chosen or known)]


def _order(name: str) -> tuple[str, int, str]:
    digits = "".join(c for c in name if c.isdigit())
    return name[0], int(digits), name


@cache
def _card(claim: str) -> ClaimCard:
    path = CARDS / f"{claim}.yaml"
    said = read_yaml(path, f"the card {path.name}", "title: Locality")
    for key in ("exams", "comparisons", "scales"):
        if key in said:
            said[key] = tuple(said[key])
    return ClaimCard(claim=claim, **said)


def card_study(card: ClaimCard, scale: Scale, seeds: int | None = None) -> Study:
    """The study that a card is at a scale.

    Raises:
        VitscopeError: The card cannot be studied at this scale.
    """
    if scale.name not in card.scales:
        raise VitscopeError(
            f"{card.claim} can be studied at scale {' or '.join(card.scales)} only, not at {scale.name}"
        )
    setting = scale.setting(card.claim, card.setting or card.paper)
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


def _arm(name: str, said: Mapping[str, Any], card: ClaimCard, setting: Setting) -> dict[str, Any]:
    """An arm of a card as a study's file has it."""
    arm = dict(said)
    if "from" in arm:
        return arm
    where = f"card {card.claim}: arm {name}"
    model = setting.model(arm["model"], where)
    arm["model"] = model["model"]
    arm["arguments"] = {**model.get("arguments", {}), **arm.get("arguments", {})}
    operations = [*model.get("operations", ()), *arm.get("operations", ())]
    if operations:
        arm["operations"] = operations
    if "fraction" in arm:
        arm["fraction"] = setting.fraction * arm["fraction"]
    if "checkpoint_every" in model:
        arm["checkpoint_every"] = model["checkpoint_every"]
    changes = dict(model.get("changes", {}))
    for operation in operations:
        for word in operation:
            changes |= model.get("with", {}).get(word, {})
    if "changes" in arm:
        changes |= setting.augmentation(arm["changes"], where)
    arm.pop("changes", None)
    if changes:
        arm["changes"] = changes
    return arm


def throughputs(card: ClaimCard, scale: Scale) -> dict[str, float]:
    """Images per second of the arms' trainings as the papers have it, of models that are not operated on."""
    setting = scale.setting(card.claim, card.setting or card.paper)
    models = {
        name: setting.model(arm["model"], card.claim)
        for name, arm in card.arms.items()
        if "model" in arm and "operations" not in arm
    }
    return {name: model["throughput"] for name, model in models.items() if "throughput" in model}
