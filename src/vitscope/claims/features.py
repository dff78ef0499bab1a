"""Claims about features that exams of one model can decide: D1, D3, D4 and D5.

D1: MSAs lower the high frequencies of feature maps, the early ones excepted, convolutions and MLPs raise them. D3: the
same of the variance of feature maps over space. Decided by the mean change across the units of a kind
(`mean_over_units`). The paper does not say how many MSAs are early: here it is those in the first third of the depth.
They are left out of D1, and their mean change is told beside it.

D3 also says that the variance of a CNN's feature maps peaks at the ends of stages. With l the variance after the last
unit of a stage and o the mean of those after its others, the excess of a stage is

    2 (l - o) / (l + o)

the difference relative to the mean of the two, which changes its sign if the two are exchanged. Decided by the mean
over stages.

D4: stages are blocks of similar units, in a plain ViT there are none. D5: at the beginning of a stage it hurts most to
lose an MLP, at its end an MSA; a convolution hurts more at the beginning than at the end.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from vitscope.claims.verdict import Rule, Verdict
from vitscope.core.statistics import Estimate
from vitscope.findings.cka import CkaResult
from vitscope.findings.lesion import LesionResult
from vitscope.results import Result
from vitscope.results.unit_changes import UnitMean, changes_of, mean_over_units

BLOCK = 0.05  # a difference in CKA that is taken for a block structure
EARLY = 1 / 3
PLURAL = {"msa": "MSAs", "mlp": "MLPs", "conv": "Convs"}
_MEASURED = {"fourier": ("D1", "high frequencies"), "variance": ("D3", "spatial variance")}
_LOWERS = {"msa": True, "mlp": False, "conv": False}


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
            "D5",
            statements[one.more, one.less],
            model,
            f"accuracy lost without one {_place(one.more)} minus without one {_place(one.less)}, mean over these units",
            one.estimate.scaled(100),
            unit="points",
            over=f"{result.n} images",
            rule=Rule("above"),
            scope=f"{units[one.more]} and {units[one.less]} units: speaks for these only",
        )
        for one in result.contrasts
        if (one.more, one.less) in statements
    ]


def _place(group: str) -> str:
    """The group "msa last" in words: "MSA at the end"."""
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
            "D4",
            "stages are blocks of similar units" if several else "no blocks of similar units",
            model,
            f"CKA inside a {'stage' if several else 'quarter of the depth'} minus between them, at equal "
            "distance (block contrast)",
            Estimate(score["value"], score["low"], score["high"]),
            unit="",
            over=f"{result.batches} batch{'es' if result.batches != 1 else ''}",
            rule=Rule("above" if several else "below", BLOCK),
        )
    ]


def change_verdicts(model: str, result: Result) -> list[Verdict]:
    """D1 of a Fourier analysis, D3 of a variance."""
    claim, what = _MEASURED[result.exam]
    table = result.summary()
    verdicts = []
    for kind, lowers in _LOWERS.items():
        excepting = claim == "D1" and kind == "msa"
        found = changes_of(table, kind, beyond=EARLY if excepting else 0.0)
        if found is None:
            continue
        early = changes_of(table, kind, until=EARLY) if excepting else None
        name, late = PLURAL[kind], " beyond the first third of the depth (the paper excepts early ones)"
        verdicts.append(
            Verdict(
                claim,
                f"{name} {'lower' if lowers else 'raise'} {what}",
                model,
                f"mean change of {what} across {name}{late if excepting else ''}",
                found.mean.estimate,
                unit="",
                over=f"{result.n} images",
                rule=Rule("below" if lowers else "above"),
                evidence=found.spread + (f"; early ones {_brief(early.mean)}" if early else ""),
            )
        )
    return verdicts


def _brief(mean: UnitMean) -> str:
    value, low, high = mean.estimate
    return f"{value:+.3g} [{low:+.3g}, {high:+.3g}]"


def end_excess(
    value: Sequence[float] | np.ndarray, low: Sequence[float] | np.ndarray, high: Sequence[float] | np.ndarray
) -> tuple[float, float, float]:
    """The excess of one stage of two or more units, and its interval over images.

    The interval is as if units had seen different images; they have seen the same, so it is rather too wide.
    """
    level, half = np.asarray(value), (np.asarray(high) - np.asarray(low)) / 2
    last, others = float(level[-1]), float(level[:-1].mean())
    if last + others == 0:
        return math.nan, math.nan, math.nan
    excess = 2 * (last - others) / (last + others)
    reach = math.hypot(others * float(half[-1]), last * float(half[:-1].mean())) * 4 / (last + others) ** 2
    return excess, excess - reach, excess + reach


def peak_verdicts(model: str, result: Result) -> list[Verdict]:
    """Of a CNN, from the variance after each unit; nothing is said of models with attention."""
    table = result.summary()
    levels = table[(table["quantity"] == "variance") & (table["kind"] == "conv")]
    if not len(levels) or (table["kind"] == "msa").any():
        return []
    several = (stage for _, stage in levels.groupby("stage") if len(stage) > 1)
    stages = [stage for stage in several if stage["value"].notna().all()]
    found = [end_excess(*stage[["value", "low", "high"]].to_numpy().T) for stage in stages]
    known = [one for one in found if not math.isnan(one[0])]
    if not known:
        return []
    mean = mean_over_units(*(100 * np.array(known)).T)
    peaks = sum(stage["value"].iloc[-1] == stage["value"].max() for stage in stages)
    return [
        Verdict(
            "D3",
            "variance peaks at stage ends",
            model,
            "variance after the last unit of a stage minus that after its others, relative, mean over stages",
            mean.estimate,
            unit="%",
            over=f"{result.n} images",
            rule=Rule("above"),
            evidence=f"highest after the last unit in {peaks} of {len(stages)} stages; "
            f"{mean.spread('stage', '+.1f')} %",
        )
    ]
