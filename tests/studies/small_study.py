"""A small study with real results: two arms of a tiny vision transformer, three seeds, as their weights begin."""

import functools
from collections.abc import Mapping
from typing import Any

import timm
import torch

import vitscope as vs
from vitscope.claims.verdict import Rule
from vitscope.results import Result
from vitscope.studies.study import Arm, Comparison, Look, Study

SEEDS = (0, 1, 2)
EXAMS = ("prediction", "fourier", "attention", "hessian")
TINY = dict(img_size=28, patch_size=7, in_chans=1, embed_dim=24, depth=2, num_heads=2, num_classes=10)


def comparison(quantity: str, rule: Rule, against: str | None = "plain", name: str = "") -> Comparison:
    return Comparison(name or quantity, f"{quantity} moves", "broadcast", against, quantity, rule)


def a_study(*comparisons: Comparison, seeds: tuple[int, ...] = SEEDS) -> Study:
    arms = (
        Arm("plain", "vit_tiny_patch16_224", seeds=seeds),
        Arm("broadcast", "vit_tiny_patch16_224", operations=({"broadcast_context": {}},), seeds=seeds),
    )
    looks = tuple(Look(exam) for exam in EXAMS)
    return Study("small", "Does it do anything?", arms, looks, comparisons)


@functools.cache
def results() -> Mapping[tuple[str, int], Mapping[str, Result]]:
    """Of both arms and all seeds; nothing is trained."""
    found: dict[tuple[str, int], Mapping[str, Result]] = {}
    data = vs.load_data("fashion", split="test")
    for arm in ("plain", "broadcast"):
        for seed in SEEDS:
            torch.manual_seed(seed)
            model = timm.create_model("vit_tiny_patch16_224", **TINY)
            if arm == "broadcast":
                vs.surgery.broadcast_context(model, example=(1, 28, 28))
            options: dict[str, Any] = {"hessian": {"batches": 3, "k": 2, "tol": 0.3}}
            found[arm, seed] = vs.diagnose(
                model, data, EXAMS, limit=60, batch_size=30, options=options, name=arm, mean=0.5, std=0.5
            )
    return found


def training() -> dict[tuple[str, int], dict[str, Any]]:
    """What trainings record; made up."""
    found = {}
    for place, arm in enumerate(("plain", "broadcast")):
        for seed in SEEDS:
            rows = [
                {"epoch": e, "train_loss": 2.0 / e + 0.1 * seed, "nll": 1.0 / e, "accuracy": 1 - 0.5 / e}
                | {
                    "low": 0.9 - 0.5 / e,
                    "high": 1.0,
                    "lr": 0.1,
                    "images_per_second": 100.0 + seed,
                    "seconds": 9.0 * e,
                }
                for e in (1, 2, 3)
            ]
            found[arm, seed] = {**rows[-1], "seconds": 27.0, "parameters": 1000 + place, "rows": rows}
    return found
