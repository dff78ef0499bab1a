"""Claims about what a kind of unit does to feature maps: D1 and D3.

D1: MSAs lower the high frequencies of feature maps, the early ones excepted, convolutions and MLPs raise them. D3: MSAs
lower the variance of feature maps over space, convolutions and MLPs raise it.

Decided by the mean change across the units of a kind (`unit_mean.py`). The paper does not say how many MSAs are early:
here it is those in the first third of the depth. They are left out of D1, and their mean change is told beside it.
"""

from dataclasses import dataclass

import pandas as pd

from vitscope.results.unit_mean import UnitMean, mean_over_units
from vitscope.claims.verdict import Rule, Verdict
from vitscope.results import Result

EARLY = 1 / 3
PLURAL = {"msa": "MSAs", "mlp": "MLPs", "conv": "Convs"}
_MEASURED = {"fourier": ("D1", "high frequencies"), "variance": ("D3", "spatial variance")}
_LOWERS = {"msa": True, "mlp": False, "conv": False}


@dataclass(frozen=True)
class Changes:
    """The mean change across the units of a kind, and across how many of them it certainly falls or rises."""

    mean: UnitMean
    falls: int
    rises: int

    @property
    def counts(self) -> str:
        """Across how many units, in words."""
        return f"{self.falls} of {self.mean.units} clearly fall, {self.rises} clearly rise"

    @property
    def spread(self) -> str:
        """The counts, and between what the single units lie."""
        between = f", from {self.mean.least:+.3g} to {self.mean.most:+.3g}" if self.mean.units > 1 else ""
        return f"{self.counts}{between}"


def changes_of(table: pd.DataFrame, kind: str, beyond: float = 0.0, until: float = 2.0) -> Changes | None:
    """The changes across units of a kind whose depth is in [beyond, until), from a result's table."""
    known = table[(table["quantity"] == "change") & (table["kind"] == kind) & table["value"].notna()]
    own = known["unit"].notna()
    units = known[own & (known["depth"] >= beyond) & (known["depth"] < until)]
    if units.empty:
        return None
    # The interval of the mean over images was measured for all units of the kind together.
    whole = known[~own] if len(units) == own.sum() else known[:0]
    measured = (float(whole["low"].iloc[0]), float(whole["high"].iloc[0])) if len(whole) else None
    value, low, high = (units[column].to_numpy() for column in ("value", "low", "high"))
    mean = mean_over_units(value, low, high, measured)
    return Changes(mean, int((units["high"] < 0).sum()), int((units["low"] > 0).sum()))


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
        mean, name = found.mean, PLURAL[kind]
        verdicts.append(
            Verdict(
                claim=claim,
                statement=f"{name} {'lower' if lowers else 'raise'} {what}",
                model=model,
                statistic=f"mean change of {what} across {name}"
                + (
                    " beyond the first third of the depth (the paper excepts early ones)" if excepting else ""
                ),
                value=mean.value,
                low=mean.low,
                high=mean.high,
                unit="",
                over=f"{result.n} images",
                rule=Rule("below" if lowers else "above"),
                evidence=found.spread + (f"; early ones {_brief(early.mean)}" if early else ""),
            )
        )
    return verdicts


def _brief(mean: UnitMean) -> str:
    return f"{mean.value:+.3g} [{mean.low:+.3g}, {mean.high:+.3g}]"
