"""Claims about features and predictions that exams of one model can decide: D1, D3, D5 and F1.

D1: MSAs lower the high frequencies of feature maps (the first ones excepted), convolutions and MLPs raise them.
D3: MSAs lower the variance of feature maps over space, convolutions and MLPs raise it; in a CNN it peaks at the
ends of stages. D5: at the beginning of a stage it hurts most to lose an MLP, at its end an MSA; a convolution hurts
more at the beginning than at the end. F1: strong augmentation makes predictions under-confident.
"""

from collections.abc import Mapping
from typing import Literal

import pandas as pd

from vitscope.claims.verdict import Verdict, judge_signs
from vitscope.exams.cka import CkaResult
from vitscope.results import Result, directions

_MEASURED = {"fourier": ("D1", "high frequencies"), "variance": ("D3", "spatial variance")}
BLOCK = 0.05  # a difference in CKA that is taken for a block structure
_PLURAL = {"msa": "MSAs", "mlp": "MLPs", "conv": "Convs"}
_EXPECTED: dict[str, Literal["falls", "rises"]] = {"msa": "falls", "mlp": "rises", "conv": "rises"}


def feature_verdicts(model: str, results: Mapping[str, Result]) -> list[Verdict]:
    """Every claim that `results` (by exam name) can decide."""
    verdicts = []
    for exam, (claim, what) in _MEASURED.items():
        if exam in results:
            verdicts += _changes(model, results[exam].summary(), claim, what)
    if "variance" in results:
        verdicts += _peaks(model, results["variance"].summary())
    if "lesion" in results:
        verdicts += _lesions(model, results["lesion"].table())
    if "cka" in results:
        verdicts += _blocks(model, results["cka"])
    if "prediction" in results:
        verdicts += _confidence(model, results["prediction"].summary())
    return verdicts


def _changes(model: str, table: pd.DataFrame, claim: str, what: str) -> list[Verdict]:
    changes = table[table["quantity"] == "change"]
    counts = directions(table).set_index("kind").to_dict("index")
    verdicts = []
    for kind, expected in _EXPECTED.items():
        if kind not in counts:
            continue
        found = counts[kind]
        mean = changes[changes["unit"].isna() & (changes["kind"] == kind)].iloc[0]
        verdicts.append(
            Verdict(
                claim,
                f"{_PLURAL[kind]} {'lower' if expected == 'falls' else 'raise'} {what}",
                model,
                f"{found[expected]} of {found['units']} do; mean change {mean['value']:+.3g} "
                f"[{mean['low']:+.3g}, {mean['high']:+.3g}]",
                judge_signs(found["falls"], found["rises"], found["units"], expected),
            )
        )
    return verdicts


def _peaks(model: str, table: pd.DataFrame) -> list[Verdict]:
    """In each stage of a CNN with more than one unit, is the last one's variance the highest?"""
    levels = table[(table["quantity"] == "variance") & (table["kind"] == "conv")]
    if not len(levels) or (table["kind"] == "msa").any():
        return []
    stages = [
        stage for _, stage in levels.groupby("stage") if len(stage) > 1 and stage["value"].notna().all()
    ]
    if not stages:
        return []
    peaks = sum(stage["value"].iloc[-1] == stage["value"].max() for stage in stages)
    return [
        Verdict(
            "D3",
            "variance peaks at stage ends",
            model,
            f"in {peaks} of {len(stages)} stages",
            judge_signs(len(stages) - peaks, peaks, len(stages), "rises"),
        )
    ]


def _lesions(model: str, table: pd.DataFrame) -> list[Verdict]:
    """By the differences between groups of units, image by image, that the lesion exam gives."""
    statements = {
        "drop mlp first minus msa first": "at the beginning of a stage an MLP hurts more than an MSA",
        "drop msa last minus mlp last": "at the end of a stage an MSA hurts more than an MLP",
        "drop conv first minus conv last": "Convs hurt more at the beginning of a stage than at its end",
    }
    rows = table[table["quantity"].isin(statements)].set_index("quantity")
    found = rows[["value", "low", "high"]].to_dict("index")
    return [
        Verdict(
            "D5",
            statements[str(quantity)],
            model,
            f"the drop differs by {row['value']:+.1%} [{row['low']:+.1%}, {row['high']:+.1%}]",
            judge_signs(int(row["high"] < 0), int(row["low"] > 0), 1, "rises"),
        )
        for quantity, row in found.items()
    ]


def _blocks(model: str, result: Result) -> list[Verdict]:
    """Are units of one stage more alike than others at the same distance? In a plain ViT, of one quarter."""
    assert isinstance(result, CkaResult)
    rows = result.summary().set_index("quantity")[["value", "low", "high"]].to_dict("index")
    score = rows.get("block_contrast")
    if score is None:
        return []
    several = result.stages > 1
    clear, absent = score["low"] > BLOCK, score["high"] < BLOCK
    statement = "stages are blocks of similar units" if several else "no blocks of similar units"
    known = score["low"] == score["low"]  # one batch gives no interval
    found = f"block contrast {score['value']:+.3f}"
    found += f" [{score['low']:+.3f}, {score['high']:+.3f}]" if known else " without an interval"
    judgement = judge_signs(int(absent), int(clear), 1, "rises" if several else "falls")
    return [Verdict("D4", statement, model, found, judgement)]


def _confidence(model: str, table: pd.DataFrame) -> list[Verdict]:
    rows = table.set_index("quantity")[["value", "low", "high"]].to_dict("index")
    accuracy, confidence = rows["accuracy"], rows["confidence"]
    under, over = accuracy["low"] > confidence["high"], accuracy["high"] < confidence["low"]
    judgement = judge_signs(int(over), int(under), 1, "rises")
    return [
        Verdict(
            "F1",
            "strong augmentation: under-confident",
            model,
            f"accuracy {accuracy['value']:.1%}, mean confidence {confidence['value']:.1%}",
            judgement,
        )
    ]
