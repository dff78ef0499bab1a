"""Claims about attention: D6, E1 and E2.

D6: attention that is applied again and again removes every frequency but 0. E1: attention in vision transformers is
dense, and Context Broadcasting lowers its entropy. E2: Context Broadcasting leaves the distance it reaches as it was.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd

from vitscope.claims.verdict import Verdict, judge_signs
from vitscope.results import Result

DENSE = 0.5  # share of its bound that the entropy of dense attention exceeds; the paper's ViTs reach 0.83
SIMILAR = 0.1  # relative change of the distance that still counts as none


def attention_verdicts(model: str, results: Mapping[str, Result]) -> list[Verdict]:
    """Every claim about a single model that `results` (by exam name) can decide."""
    verdicts = []
    if "attention" in results:
        verdicts += _dense(model, results["attention"].summary())
    if "low_pass" in results:
        verdicts += _low_pass(model, results["low_pass"].summary())
    return verdicts


def broadcast_verdicts(model: str, plain: Result, broadcast: Result) -> list[Verdict]:
    """What Context Broadcasting did, from the `attention` results of a model without and with it.

    Layers are compared by name; they have to be the same.
    """
    tables = [result.summary() for result in (plain, broadcast)]
    return [*_entropy_falls(model, *tables), *_distance_stays(model, *tables)]


def _dense(model: str, table: pd.DataFrame) -> list[Verdict]:
    entropy, bound = _of(table, "entropy"), _of(table, "entropy_bound")["value"]
    if not len(entropy):
        return []
    above, below = (
        int((entropy["low"] > DENSE * bound).sum()),
        int((entropy["high"] < DENSE * bound).sum()),
    )
    found = (
        f"{above} of {len(entropy)} layers; mean {entropy['value'].mean():.2f} of at most {bound.max():.2f}"
    )
    statement = "attention is dense: entropy above half its bound"
    return [Verdict("E1", statement, model, found, judge_signs(below, above, len(entropy), "rises"))]


def _low_pass(model: str, table: pd.DataFrame) -> list[Verdict]:
    rate = _of(table, "rate")
    if not len(rate):
        return []
    below, above = int((rate["high"] < 1).sum()), int((rate["low"] >= 1).sum())
    found = f"{below} of {len(rate)} layers; {rate['value'].min():.2f} to {rate['value'].max():.2f} per application"
    statement = "repeated attention removes all frequencies but 0"
    return [Verdict("D6", statement, model, found, judge_signs(below, above, len(rate), "falls"))]


def _entropy_falls(model: str, plain: pd.DataFrame, broadcast: pd.DataFrame) -> list[Verdict]:
    before, after = _matched(plain, broadcast, "entropy")
    if not len(before):
        return []
    falls, rises = int((after["high"] < before["low"]).sum()), int((after["low"] > before["high"]).sum())
    change = (after["value"] - before["value"]).to_numpy()
    lower, upper = change[: len(change) // 2], change[len(change) // 2 :]
    halves = [
        f"{np.mean(half):+.2f} in the {name} half"
        for half, name in ((lower, "lower"), (upper, "upper"))
        if len(half)
    ]
    found = f"{falls} of {len(before)} layers; {', '.join(halves)}"
    statement = "Context Broadcasting lowers the entropy"
    return [Verdict("E1", statement, model, found, judge_signs(falls, rises, len(before), "falls"))]


def _distance_stays(model: str, plain: pd.DataFrame, broadcast: pd.DataFrame) -> list[Verdict]:
    before, after = _matched(plain, broadcast, "distance")
    known = (before["value"] > 0) & after["value"].notna()
    change = (after["value"] / before["value"] - 1)[known].to_numpy()
    if not len(change):
        return []
    alike = int((np.abs(change) <= SIMILAR).sum())
    found = f"within {SIMILAR:.0%} in {alike} of {len(change)} layers; mean change {change.mean():+.1%}"
    statement = "Context Broadcasting leaves the distance similar"
    return [
        Verdict("E2", statement, model, found, judge_signs(len(change) - alike, alike, len(change), "rises"))
    ]


def _of(table: pd.DataFrame, quantity: str) -> pd.DataFrame:
    return table[table["quantity"] == quantity].set_index("unit")


def _matched(
    plain: pd.DataFrame, broadcast: pd.DataFrame, quantity: str
) -> tuple[pd.DataFrame, pd.DataFrame]:
    before, after = _of(plain, quantity), _of(broadcast, quantity)
    shared = [unit for unit in before.index if unit in after.index]
    return before.loc[shared], after.loc[shared]
