"""Claims about features that exams of one model can decide: D1 and D3 (see `changes.py`, `stage_ends.py`), D4 and D5.

D4: stages are blocks of similar units, in a plain ViT there are none. D5: at the beginning of a stage it hurts most to
lose an MLP, at its end an MSA; a convolution hurts more at the beginning than at the end.
"""

from collections.abc import Mapping

from vitscope.claims.changes import change_verdicts
from vitscope.claims.stage_ends import peak_verdicts
from vitscope.claims.verdict import Rule, Verdict
from vitscope.findings.cka import CkaResult
from vitscope.findings.lesion import LesionResult
from vitscope.results import Result

BLOCK = 0.05  # a difference in CKA that is taken for a block structure


def feature_verdicts(model: str, results: Mapping[str, Result]) -> list[Verdict]:
    """Every claim that `results` (by exam name) can decide."""
    verdicts = []
    for exam in ("fourier", "variance"):
        if exam in results:
            verdicts += change_verdicts(model, results[exam])
    if "variance" in results:
        verdicts += peak_verdicts(model, results["variance"])
    if "lesion" in results:
        verdicts += _lesions(model, results["lesion"])
    if "cka" in results:
        verdicts += _blocks(model, results["cka"])
    return verdicts


def _lesions(model: str, result: Result) -> list[Verdict]:
    """By the differences between groups of units, image by image, that the lesion exam gives."""
    assert isinstance(result, LesionResult)
    statements = {
        ("mlp first", "msa first"): "at the beginning of a stage an MLP hurts more than an MSA",
        ("msa last", "mlp last"): "at the end of a stage an MSA hurts more than an MLP",
        ("conv first", "conv last"): "Convs hurt more at the beginning of a stage than at its end",
    }
    units = {group.name: group.units for group in result.groups}
    return [
        Verdict(
            claim="D5",
            statement=statements[one.more, one.less],
            model=model,
            statistic=f"accuracy lost without one {_place(one.more)} minus without one {_place(one.less)}, mean over "
            "these units",
            value=100 * one.value,
            low=100 * one.low,
            high=100 * one.high,
            unit="points",
            over=f"{result.n} images",
            rule=Rule("above"),
            scope=f"{units[one.more]} and {units[one.less]} units: speaks for these only",
        )
        for one in result.contrasts
        if (one.more, one.less) in statements
    ]


def _place(group: str) -> str:
    """`msa last` in words."""
    kind, position = group.split()
    name = kind.upper() if kind in ("msa", "mlp") else kind.capitalize()
    return f"{name} {'at the beginning' if position == 'first' else 'at the end'}"


def _blocks(model: str, result: Result) -> list[Verdict]:
    """Are units of one stage more alike than others at the same distance? In a plain ViT, of one quarter."""
    assert isinstance(result, CkaResult)
    rows = result.summary().set_index("quantity")[["value", "low", "high"]].to_dict("index")
    score = rows.get("block_contrast")
    if score is None:
        return []
    several = result.stages > 1
    return [
        Verdict(
            claim="D4",
            statement="stages are blocks of similar units" if several else "no blocks of similar units",
            model=model,
            statistic=f"CKA inside a {'stage' if several else 'quarter of the depth'} minus between them, at equal "
            "distance (block contrast)",
            value=score["value"],
            low=score["low"],
            high=score["high"],
            unit="",
            over=f"{result.batches} batch{'es' if result.batches != 1 else ''}",
            rule=Rule("above" if several else "below", BLOCK),
        )
    ]
