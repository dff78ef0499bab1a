"""Tables of studies that never ran, with numbers that are easy to find again on a page."""

from collections.abc import Sequence
from typing import Any

from vitscope.results.study_result import TABLES, StudyResult, as_table

UNITS = (("stem", "stem", 0.0), ("blocks.0.attn", "msa", 0.4), ("blocks.0.mlp", "mlp", 0.8))


def number(arm: str, seed: int | None, exam: str, quantity: str, value: float, **more: Any) -> dict[str, Any]:
    ends = {"low": value - 0.01, "high": value + 0.01, "n": 500, "seeds": 1 if seed is not None else 2}
    return {"arm": arm, "seed": seed, "exam": exam, "quantity": quantity, "value": value, **ends, **more}


def numbers(arms: Sequence[str]) -> list[dict[str, Any]]:
    """Two seeds and their mean: predictions, and a number of each unit."""
    rows = []
    for place, arm in enumerate(arms):
        for seed in (0, 1, None):
            shift = 0.1 * place + {0: -0.02, 1: 0.02, None: 0.0}[seed]
            rows.append(number(arm, seed, "prediction", "accuracy", 0.5 + shift))
            rows.append(number(arm, seed, "prediction", "nll", 1.5 - shift))
            for at, (unit, kind, depth) in enumerate(UNITS):
                where = {"unit": unit, "kind": kind, "stage": 0, "depth": depth}
                rows.append(number(arm, seed, "variance", "variance", 1.0 + at + shift, **where))
            rows.append(number(arm, seed, "variance", "change", 0.25 + shift, kind="msa"))
    return rows


def compared(name: str, verdict: str, **more: Any) -> dict[str, Any]:
    row = {"name": name, "statement": f"{name} is so", "of": "new", "against": "old", "verdict": verdict}
    row |= {"quantity": "prediction.accuracy", "value": 0.1, "low": 0.04, "high": 0.16, "seeds": 2, "n": 500}
    return {**row, "p": 0.01, "holm_p": 0.02, "rule": "above 0", **more}


def a_study(names: Sequence[str] = ("old", "new"), missing: Sequence[str] = (), **tables: Any) -> StudyResult:
    facts = {
        "data": "fashion",
        "fraction": 1.0,
        "asked": "0, 1",
        "done": 2,
        "trained": "here",
        "recipe": "mini",
    }
    sizes = {"parameters": 12_000, "flops": 3_000_000, "seconds": 90.0, "images_per_second": 250.0}
    curves = [
        {
            "arm": arm,
            "seed": seed,
            "epoch": epoch,
            "train_loss": 2 / epoch + seed,
            "accuracy": 0.5,
            "nll": 1.0,
        }
        for arm in names
        for seed in (0, 1)
        for epoch in (1, 2, 3)
    ]
    difference = {"arm": "new", "against": "old", "exam": "prediction", "quantity": "nll", "value": -0.1}
    difference |= {"low": -0.2, "high": -0.05, "seeds": 2, "n": 500, "p": 0.03}
    content = {
        "numbers": numbers(names),
        "comparisons": [compared("better", "holds")],
        "by_seed": [{"name": "better", "seed": seed, "value": 0.08 + 0.04 * seed} for seed in (0, 1)],
        "differences": [difference] if "new" in names else [],
        "curves": curves,
        "arms": [{"arm": arm, "model": f"vit_{arm}", **facts, **sizes} for arm in names],
        **tables,
    }
    looks = [{"label": exam, "exam": exam, "data": None} for exam in ("prediction", "variance")]
    study = {"looks": looks, "arms": [{"name": arm, "data": "fashion"} for arm in names]}
    found = {name: as_table(name, content[name]) for name in TABLES}
    return StudyResult("a-study", "Is it <better>?", study, found, tuple(missing))
