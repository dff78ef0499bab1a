"""A candidate of a build-up search, as a job: build it, let it be trained and measured, save it.

The search's folder holds `base`, the model that every candidate is made from, and a run folder for each candidate:
`candidates/0-1-1-2` has no MSA block in the first stage, one in the second, and so on.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vitscope.core.tensors import seeded
from vitscope.models import create_model, read_config, save_model
from vitscope.studies.job import Function, find_function
from vitscope.surgery.alternate import alternate

BASE = "base"


def candidate_folder(search: Path, msa: Sequence[int]) -> Path:
    """Where the candidate with these counts goes."""
    return search / "candidates" / "-".join(map(str, msa))


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
