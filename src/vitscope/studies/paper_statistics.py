"""Numbers of one trained model that the papers' claims are about and that no single row of a table holds.

Each is declared under the name that cards and studies write (`fourier.late_msa_change`); see `studies.quantities`.
"""

import math
from collections.abc import Mapping

import numpy as np

from vitscope.claims.features import EARLY, end_excess
from vitscope.core import pd
from vitscope.findings.covariance import CovarianceResult
from vitscope.findings.landscape import LandscapeResult
from vitscope.findings.lesion import LesionResult
from vitscope.findings.passes import PassesResult
from vitscope.results import Result
from vitscope.results.unit_changes import changes_of, mean_over_units
from vitscope.studies.quantities import statistic

Ends = tuple[float, float, float]  # value, low, high
_HALF = 0.5


@statistic("fourier.late_msa_change")
def late_msa_change(results: Mapping[str, Result]) -> Ends | None:
    """D1: mean change of high frequencies across MSAs beyond the first third of the depth."""
    found = changes_of(results["fourier"].summary(), "msa", beyond=EARLY)
    return None if found is None else found.mean.estimate


@statistic("variance.stage_end_excess")
def stage_end_excess(results: Mapping[str, Result]) -> Ends | None:
    """D3: variance after the last convolution of a stage over the others', relative, mean over stages."""
    table = results["variance"].summary()
    levels = table[(table["quantity"] == "variance") & (table["kind"] == "conv")]
    stages = [stage for _, stage in levels.groupby("stage") if len(stage) > 1]
    found = [end_excess(*stage[["value", "low", "high"]].to_numpy().T) for stage in stages]
    known = np.array([one for one in found if not math.isnan(one[0])])
    return mean_over_units(*known.T).estimate if len(known) else None


@statistic("lesion.conv_first_minus_last")
def conv_first_minus_last(results: Mapping[str, Result]) -> Ends | None:
    """D5: accuracy lost without a convolution at the beginning of a stage minus without one at its end."""
    return _contrast(results, "conv first", "conv last")


@statistic("lesion.mlp_first_minus_msa_first")
def mlp_first_minus_msa_first(results: Mapping[str, Result]) -> Ends | None:
    """D5: at the beginning of a stage, without an MLP minus without an MSA."""
    return _contrast(results, "mlp first", "msa first")


@statistic("lesion.msa_last_minus_mlp_last")
def msa_last_minus_mlp_last(results: Mapping[str, Result]) -> Ends | None:
    """D5: at the end of a stage, without an MSA minus without an MLP."""
    return _contrast(results, "msa last", "mlp last")


def _contrast(results: Mapping[str, Result], more: str, less: str) -> Ends | None:
    result = results["lesion"]
    assert isinstance(result, LesionResult)
    found = [one for one in result.contrasts if (one.more, one.less) == (more, less)]
    return found[0].estimate if found else None


@statistic("attention.entropy_share")
def entropy_share(results: Mapping[str, Result]) -> Ends | None:
    """E1: entropy of attention over that of uniform attention, mean over layers."""
    table = results["attention"].summary()
    entropy, bound = _layers(table, "entropy"), _layers(table, "entropy_bound")["value"]
    share = entropy[["value", "low", "high"]].div(bound.loc[entropy.index], axis=0)
    return mean_over_units(*share.to_numpy().T).estimate if len(share) else None


@statistic("attention.upper_minus_lower_class_entropy")
def upper_minus_lower_class_entropy(results: Mapping[str, Result]) -> Ends | None:
    """E1: entropy of the class token's attention in the upper half of the layers minus in the lower half."""
    rows = _layers(results["attention"].table(), "class_entropy")
    return _gain(rows[rows["value"].notna()])


@statistic("attention.last_class_entropy")
def last_class_entropy(results: Mapping[str, Result]) -> Ends | None:
    """E5: entropy of the class token's attention in the last layer."""
    rows = _layers(results["attention"].table(), "class_entropy")
    known = rows[rows["value"].notna()][["value", "low", "high"]].to_numpy()
    return tuple(known[-1].tolist()) if len(known) else None


@statistic("cb_scale.mean_gain")
def mean_gain(results: Mapping[str, Result]) -> Ends | None:
    """E3: mean scale of CB_S in the upper half of the layers minus in the lower half."""
    return _gain(_layers(results["cb_scale"].table(), "mean"))


@statistic("cb_scale.ratio_gain")
def ratio_gain(results: Mapping[str, Result]) -> Ends | None:
    """E3: the same of the ratio of the quantiles over channels."""
    return _gain(_layers(results["cb_scale"].table(), "ratio"))


@statistic("covariance.reach_gained")
def reach_gained(results: Mapping[str, Result]) -> Ends | None:
    """D8: how much further points are tied together at the end of the first stage than after the stem, in pixels."""
    result = results["covariance"]
    assert isinstance(result, CovarianceResult)
    table = result.table()
    grid = {unit.name: unit.map_shape[1:] for unit in result.units if unit.map_shape is not None}
    names = [name for name in grid if grid[name] == next(iter(grid.values()))]
    if len(names) < 2:
        return None
    last, first = (table[table["unit"] == name] for name in (names[-1], names[0]))
    reaches = {end: _reach(last, end) - _reach(first, other) for end, other in _OPPOSITE.items()}
    return reaches["value"], reaches["low"], reaches["high"]


_OPPOSITE = {"value": "value", "low": "high", "high": "low"}


def _reach(rows: pd.DataFrame, end: str) -> float:
    """The distance in pixels at which the correlation has fallen to one half, between the points it is known at."""
    ordered = rows.sort_values("pixels")
    pixels, level = ordered["pixels"].to_numpy(float), ordered[end].to_numpy(float)
    below = np.flatnonzero(level < _HALF)
    if not len(below):
        return float(pixels[-1])
    place = int(below[0])
    if place == 0:
        return float(pixels[0])
    share = (level[place - 1] - _HALF) / (level[place - 1] - level[place])
    return float(pixels[place - 1] + share * (pixels[place] - pixels[place - 1]))


@statistic("passes.nll_of_one")
def nll_of_one(results: Mapping[str, Result]) -> Ends | None:
    """F9: NLL of one pass with dropout on."""
    rows = _passes(results)
    return _row(rows[rows["passes"] == 1])


@statistic("passes.nll_of_all")
def nll_of_all(results: Mapping[str, Result]) -> Ends | None:
    """F9: NLL of the average over the most passes."""
    rows = _passes(results)
    return _row(rows[rows["passes"] == rows["passes"].max()])


@statistic("passes.nll_gained")
def nll_gained(results: Mapping[str, Result]) -> Ends | None:
    """F9: NLL of the most passes minus that of one, as if the two had seen different images."""
    one, every = nll_of_one(results), nll_of_all(results)
    if one is None or every is None:
        return None
    half = math.hypot(one[2] - one[1], every[2] - every[1]) / 2
    return every[0] - one[0], every[0] - one[0] - half, every[0] - one[0] + half


def _passes(results: Mapping[str, Result]) -> pd.DataFrame:
    result = results["passes"]
    assert isinstance(result, PassesResult)
    return result.of("nll")


def _row(rows: pd.DataFrame) -> Ends | None:
    if not len(rows):
        return None
    value, low, high = rows.iloc[0][["value", "low", "high"]].to_numpy(float).tolist()
    return value, low, high


def _layers(table: pd.DataFrame, quantity: str) -> pd.DataFrame:
    """The rows of whole layers, by unit, in the order of depth."""
    rows = table[(table["quantity"] == quantity) & table["unit"].notna()]
    rows = rows[rows["head"].isna()] if "head" in rows else rows
    return rows.set_index("unit")


def _gain(rows: pd.DataFrame) -> Ends | None:
    """Mean over the upper half of the layers minus over the lower half, as if layers erred independently."""
    numbers = rows[["value", "low", "high"]].to_numpy(float)
    middle = len(numbers) // 2
    if not middle:
        return None
    lower, upper = numbers[:middle], numbers[-middle:]
    value = float(upper[:, 0].mean() - lower[:, 0].mean())
    halves = np.concatenate([part[:, 2] - part[:, 1] for part in (lower, upper)]) / 2
    half = float(np.sqrt((halves**2).sum())) / middle
    return value, value - half, value + half


@statistic("landscape.loss_rise")
def loss_rise(results: Mapping[str, Result]) -> Ends | None:
    """C3: NLL + l2 along the edge of the grid minus at its centre; l2 does not depend on images."""
    result = results["landscape"]
    assert isinstance(result, LandscapeResult)
    edge = result.edge
    with np.errstate(invalid="ignore"):
        value, low, high = (float(np.mean(part[edge])) for part in result.of("rise"))
        more = float(np.mean(result.l2[edge])) - result.centre.l2
    return value + more, low + more, high + more


@statistic("uncertainty.stage_end_data_std")
def stage_end_data_std(results: Mapping[str, Result]) -> Ends | None:
    """D7: spread over points of what the last unit of a stage puts out, mean over stages."""
    return _stage_ends(results["uncertainty"].table(), "data_std")


@statistic("uncertainty.stage_end_model_std")
def stage_end_model_std(results: Mapping[str, Result]) -> Ends | None:
    """D7: the same of the spread over passes."""
    return _stage_ends(results["uncertainty"].table(), "model_std")


def _stage_ends(table: pd.DataFrame, quantity: str) -> Ends | None:
    rows = _layers(table, quantity)
    units = rows[rows["value"].notna() & rows["kind"].isin(["conv", "msa", "mlp"])]
    ends = units.groupby("stage").tail(1)[["value", "low", "high"]].to_numpy(float)
    return mean_over_units(*ends.T).estimate if len(ends) else None


@statistic("passes.accuracy_of_all")
def accuracy_of_all(results: Mapping[str, Result]) -> Ends | None:
    """F9: accuracy of the average over the most passes."""
    result = results["passes"]
    assert isinstance(result, PassesResult)
    rows = result.of("accuracy")
    return _row(rows[rows["passes"] == rows["passes"].max()])
