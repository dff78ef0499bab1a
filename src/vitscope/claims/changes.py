"""Claims about what a kind of unit does to feature maps: D1 and D3.

D1: MSAs lower the high frequencies of feature maps, the early ones excepted, convolutions and MLPs raise them. D3: MSAs
lower the variance of feature maps over space, convolutions and MLPs raise it.

Decided by the mean change across the units of a kind (`unit_mean.py`). The paper does not say how many MSAs are early:
here it is those in the first third of the depth. They are left out of D1, and their mean change is told beside it.
"""

from vitscope.claims.verdict import Rule, Verdict
from vitscope.results import Result
from vitscope.results.unit_changes import changes_of
from vitscope.results.unit_mean import UnitMean

EARLY = 1 / 3
PLURAL = {"msa": "MSAs", "mlp": "MLPs", "conv": "Convs"}
_MEASURED = {"fourier": ("D1", "high frequencies"), "variance": ("D3", "spatial variance")}
_LOWERS = {"msa": True, "mlp": False, "conv": False}


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
