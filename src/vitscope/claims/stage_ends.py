"""The claim that the variance of a CNN's feature maps peaks at the ends of stages: D3.

With l the variance after the last unit of a stage and o the mean of those after its others, the excess of a stage is

    2 (l - o) / (l + o)

the difference relative to the mean of the two, which changes its sign if the two are exchanged. Decided by the mean
over stages (`unit_mean.py`).
"""

import math
from collections.abc import Sequence

import numpy as np

from vitscope.claims.verdict import Rule, Verdict
from vitscope.results import Result
from vitscope.results.unit_mean import mean_over_units


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
    stages = [
        stage for _, stage in levels.groupby("stage") if len(stage) > 1 and stage["value"].notna().all()
    ]
    found = [
        end_excess(*(stage[column].to_numpy() for column in ("value", "low", "high"))) for stage in stages
    ]
    known = [one for one in found if not math.isnan(one[0])]
    if not known:
        return []
    mean = mean_over_units(*(100 * np.array(known)).T)
    peaks = sum(stage["value"].iloc[-1] == stage["value"].max() for stage in stages)
    return [
        Verdict(
            claim="D3",
            statement="variance peaks at stage ends",
            model=model,
            statistic="variance after the last unit of a stage minus that after its others, relative, mean over stages",
            value=mean.value,
            low=mean.low,
            high=mean.high,
            unit="%",
            over=f"{result.n} images",
            rule=Rule("above"),
            evidence=f"highest after the last unit in {peaks} of {len(stages)} stages; "
            f"{mean.spread('stage', '+.1f')} %",
        )
    ]
