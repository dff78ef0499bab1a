"""Whose numbers these are: a run folder is about one model, and images that it was trained on are told.

Exams of another model do not go into a folder, where a page would take them for its own.
"""

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vitscope.core.errors import BadResult, VitscopeError, warn
from vitscope.data.folder import without_splits
from vitscope.data.images import HELD_OUT
from vitscope.engine.cache_key import weights_hash
from vitscope.engine.facts import training_facts
from vitscope.models.checkpoints import read_weights
from vitscope.models.origin import name_of, run_of
from vitscope.models.sources.run_folder import CONFIG, WEIGHTS
from vitscope.results import Run


def refuse_other_model(folder: Path, model: nn.Module, exams: Collection[str]) -> None:
    """Refuse a folder that is about another model.

    Args:
        folder: A run folder, or one that will be.
        model: That is about to be examined.
        exams: That will be done; if the folder holds no others, nothing of another model is left in it.

    Raises:
        VitscopeError: It holds the weights of another model, or exams of another that would stay.
    """
    home = run_of(model)
    own = home is not None and Path(home).resolve() == folder.resolve()
    if not own and (folder / CONFIG).exists() and (folder / WEIGHTS).exists():
        _refuse_other_weights(folder, model, home)
    staying = sorted({path.parent.name for path in folder.glob("exams/*/result.json")} - {*exams})
    before = _examined_before(folder) if staying else None
    if before is None or _is_of(before, model):
        return
    named = ", ".join(staying)
    if own:
        warn(
            f"{named} in {folder} {'is' if len(staying) == 1 else 'are'} of the weights that it held before; do that "
            f"again: vitscope diagnose {folder} --out {folder} --exams {' '.join(staying)}"
        )
        return
    raise VitscopeError(
        f"{folder} holds exams of another model ({before.get('name') or 'without a name'}: {named}), which a page "
        "would show as those of this one; give another --out (in Python out=), or remove that folder"
    )


def tell_of_trained_images(model: nn.Module, data: Any) -> None:
    """Warn where a model is about to be measured on images of which it was trained on most."""
    home = run_of(model)
    trained = training_facts(Path(home)) if home is not None and without_splits(data) else None
    if trained is not None and trained["data"] == data.spec and data.split != HELD_OUT:
        warn(
            f"{home} was trained on most of these images: {data.spec} has no folders train and test; for those that it "
            f"has not seen: split='{HELD_OUT}'"
        )


def _refuse_other_weights(folder: Path, model: nn.Module, home: str | None) -> None:
    """A folder that holds a model keeps the record of how that was made, and is for exams of it alone."""
    own, kept = model.state_dict(), read_weights(folder / WEIGHTS, folder)
    if own.keys() != kept.keys() or not all(torch.equal(own[name].cpu(), kept[name]) for name in kept):
        raise VitscopeError(
            f"{folder} holds a model of its own, which {home or name_of(model)} is not; give another --out (in Python "
            f"out=), or examine that model: vitscope diagnose {folder} --out {folder}"
        )


def _examined_before(folder: Path) -> dict[str, Any] | None:
    """What was written down about the model of the latest exams in a folder; None if that is not known."""
    try:
        record = Run.open(folder).record
    except BadResult:
        return None  # whoever begins to write there says what is wrong
    models = [one.get("model") or {} for one in (record, *reversed(record.get("earlier", [])))]
    return next((model for model in models if "weights_sha256" in model), None)


def _is_of(before: dict[str, Any], model: nn.Module) -> bool:
    """Whether what was written down is about this model: its weights, and what was done to it."""
    done = json.dumps(getattr(model, "vitscope_surgery", []), default=str)
    same = done == json.dumps(before.get("surgery") or [])
    return same and before["weights_sha256"] == weights_hash(model)
