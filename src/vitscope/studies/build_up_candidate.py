"""The models of a build-up search: the base, and a candidate as a job (build, measure and save it).

The search's folder holds `base`, the model that every candidate is made from, and a run folder for each candidate:
`candidates/0-1-1-2` has no MSA block in the first stage, one in the second, and so on.
"""

import copy
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from vitscope.anatomy.structure.dissect import dissect
from vitscope.core.errors import BadResult
from vitscope.core.tensors import seeded
from vitscope.models import Origin, create_model, origin, read_config, save_model
from vitscope.models.trust import names_code
from vitscope.studies.job import Function, find_function
from vitscope.surgery.alternate import alternate
from vitscope.surgery.tools.record import CannotOperate
from vitscope.surgery.tools.replaceable import conv_stages

BASE = "base"


def candidate_folder(search: Path, msa: Sequence[int]) -> Path:
    """Where the candidate with these counts goes."""
    return search / "candidates" / "-".join(map(str, msa))


def keep_base(
    model: str | os.PathLike[str] | nn.Module,
    folder: Path,
    extra_block: bool,
    example: Any,
    seed: int,
    trust_code: bool,
) -> tuple[nn.Module, bool]:
    """The model that all candidates are made from, kept in the folder, and whether code that it names is the user's."""
    if isinstance(model, nn.Module) and origin(model) is None:
        raise CannotOperate(
            f"a candidate is built by name, but this {type(model).__name__} was built in Python; "
            "give vs.create_model('package.module:factory')"
        )
    with seeded(seed):
        base = (
            copy.deepcopy(model)
            if isinstance(model, nn.Module)
            else create_model(model, trust_code=trust_code)
        )
        stages = conv_stages(dissect(base, example))
        if not any(stage.replaceable for stage in stages):
            raise CannotOperate(
                f"{type(base).__name__} has no conv blocks that an MSA block could take the place of "
                "(vitscope anatomy shows what it has)"
            )
        if extra_block:
            alternate(base, msa=[0] * len(stages), extra_block=True, example=example)
    made = origin(base)
    assert made is not None
    kept = folder / BASE
    if not (kept / "model.safetensors").exists():  # which is written last
        save_model(base, kept)
    trusted = trust_code or (names_code(made.name) and _describes(read_config(kept), made))
    state, before = base.state_dict(), create_model(kept, trust_code=trusted).state_dict()
    if state.keys() != before.keys() or not all(torch.equal(state[k].cpu(), before[k].cpu()) for k in state):
        raise BadResult(
            f"{folder} holds a search that began with another model, or other weights; give the same, or another out"
        )
    return base, trusted


def _describes(config: dict[str, Any], made: Origin) -> bool:
    """Whether a folder names the very call that the user's model was made by."""
    told = config["model"]
    arguments = json.loads(json.dumps(dict(made.arguments)))
    return (told.get("name"), told.get("arguments")) == (made.name, arguments)


def run_candidate(
    out: Path,
    msa: Sequence[int],
    surgery: Mapping[str, Any],
    measure: str | Function,
    options: Mapping[str, Any],
    seed: int,
    trust_code: bool = False,
) -> dict[str, Any]:
    """Make, measure and save one candidate.

    Args:
        out: Its folder, as `candidate_folder` gives it.
        msa: MSA blocks per stage.
        surgery: The other arguments of `alternate`.
        measure: `measure(model, out=out, seed=seed, **options)` trains the model in place, if it is to be trained, and
            returns one number per image, larger is better.
        options: Goes to `measure`.
        seed: Of the new weights, and for `measure`.
        trust_code: The search has found that the base is the model that the user gave.

    Returns:
        "scores", one per image, and "parameters".
    """
    with seeded(seed):
        model = create_model(out.parent.parent / BASE, trust_code=trust_code)
        if any(msa):
            alternate(model, msa=msa, **surgery)
        scores = find_function(measure)(model, out=out, seed=seed, **options)
    trained = (out / "config.json").exists()  # a training writes the names of its classes there
    save_model(model, out, read_config(out)["classes"] if trained else None)
    return {
        "scores": [float(score) for score in scores],
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
    }
