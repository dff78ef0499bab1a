"""Claims about attention: D6, E1 and E2.

D6: attention that is applied again and again removes every frequency but 0. E1: attention in vision transformers is
dense, and Context Broadcasting lowers its entropy. E2: Context Broadcasting leaves the distance it reaches as it was.

Each is decided by a mean over layers (`mean_over_units`). That a distance stays as it was needs its interval inside a
margin: an interval that contains 0 alone would let few images prove anything.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from vitscope.claims.verdict import ONE_TRAINING, Rule, Verdict
from vitscope.core import pd
from vitscope.results import Result
from vitscope.results.paired import check_same_images
from vitscope.results.unit_changes import mean_over_units

DENSE = 0.5  # share of its bound that the entropy of dense attention exceeds; the paper's ViTs reach 0.83
SIMILAR = 10  # per cent by which the distance may change and still counts as similar


def attention_verdicts(model: str, results: Mapping[str, Result]) -> list[Verdict]:
    """Every claim about a single model that `results` (by exam name) can decide."""
    verdicts = []
    if "attention" in results:
        verdicts += _dense(model, results["attention"])
    if "low_pass" in results:
        verdicts += _low_pass(model, results["low_pass"])
    return verdicts


def broadcast_verdicts(model: str, plain: Result, broadcast: Result) -> list[Verdict]:
    """What Context Broadcasting did, from the `attention` results of a model without and with it.

    Layers are compared by name; they have to be the same, and so have the images.
    """
    check_same_images(plain, broadcast)
    return [*_entropy_falls(model, plain, broadcast), *_distance_stays(model, plain, broadcast)]


def _dense(model: str, result: Result) -> list[Verdict]:
    table = result.summary()
    entropy, bound = _of(table, "entropy"), _of(table, "entropy_bound")["value"]
    if not len(entropy):
        return []
    share = entropy[["value", "low", "high"]].div(bound.loc[entropy.index], axis=0)
    above = int((share["low"] > DENSE).sum())
    return [
        Verdict(
            "E1",
            "attention is dense: entropy above half its bound",
            model,
            "entropy of attention over its bound, mean over layers",
            mean_over_units(*share.to_numpy().T).estimate,
            unit="",
            over=f"{result.n} images",
            rule=Rule("above", DENSE),
            evidence=f"{above} of {len(share)} layers clearly above; mean {entropy['value'].mean():.2f} of at most "
            f"{bound.max():.2f} nats",
        )
    ]


def _low_pass(model: str, result: Result) -> list[Verdict]:
    rate = _of(result.summary(), "rate")
    if not len(rate):
        return []
    return [
        Verdict(
            "D6",
            "repeated attention removes all frequencies but 0",
            model,
            "factor by which they shrink per application, mean over layers",
            mean_over_units(*rate[["value", "low", "high"]].to_numpy().T).estimate,
            unit="",
            over=f"{result.n} images",
            rule=Rule("below", 1.0),
            evidence=f"{rate['value'].min():.2f} to {rate['value'].max():.2f} in single layers",
        )
    ]


def _entropy_falls(model: str, plain: Result, broadcast: Result) -> list[Verdict]:
    before, after = _matched(plain, broadcast, "entropy")
    if not len(before):
        return []
    change = (after["value"] - before["value"]).to_numpy()
    reach = np.hypot(_half(after), _half(before))
    middle = len(change) // 2
    halves = [
        f"{half.mean():+.2f} in the {name} half"
        for half, name in ((change[:middle], "lower"), (change[middle:], "upper"))
        if len(half)
    ]
    falls = int((change + reach < 0).sum())
    return [
        Verdict(
            "E1",
            "Context Broadcasting lowers the entropy",
            model,
            "entropy of attention with minus without it, mean over layers",
            mean_over_units(change, change - reach, change + reach).estimate,
            unit="nats",
            over=f"{plain.n} images",
            rule=Rule("below"),
            evidence=f"{', '.join(halves)}; {falls} of {len(change)} layers clearly fall",
            scope=ONE_TRAINING,
        )
    ]


def _distance_stays(model: str, plain: Result, broadcast: Result) -> list[Verdict]:
    before, after = _matched(plain, broadcast, "distance")
    known = (before["value"] > 0) & after["value"].notna()
    before, after = before[known], after[known]
    if not len(before):
        return []
    ratio = (after["value"] / before["value"]).to_numpy()
    change = 100 * (ratio - 1)
    reach = 100 / before["value"].to_numpy() * np.hypot(_half(after), ratio * _half(before))
    return [
        Verdict(
            "E2",
            "Context Broadcasting leaves the distance similar",
            model,
            "relative change of the distance that attention reaches, mean over layers",
            mean_over_units(change, change - reach, change + reach).estimate,
            unit="%",
            over=f"{plain.n} images",
            rule=Rule("within", SIMILAR),
            evidence=f"{change.min():+.1f} to {change.max():+.1f} % in single layers",
            scope=ONE_TRAINING,
        )
    ]


def _half(rows: pd.DataFrame) -> np.ndarray:
    """Half the width of each interval over images; of two models, added up as if they had seen different ones."""
    return (rows["high"] - rows["low"]).to_numpy() / 2


def _of(table: pd.DataFrame, quantity: str) -> pd.DataFrame:
    return table[table["quantity"] == quantity].set_index("unit")


def _matched(plain: Result, broadcast: Result, quantity: str) -> tuple[pd.DataFrame, pd.DataFrame]:
    before, after = (_of(result.summary(), quantity) for result in (plain, broadcast))
    shared = [unit for unit in before.index if unit in after.index]
    return before.loc[shared], after.loc[shared]
