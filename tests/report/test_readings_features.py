from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from vitscope.core.statistics import Estimate
from vitscope.findings.variance import VarianceResult
from vitscope.report.sections import reading
from vitscope.results import Run, UnitRow

UNITS = (
    UnitRow("stem", "stem", 0, 0.0, (8, 8, 8)),
    UnitRow("a.attn", "msa", 0, 0.3, (8, 8, 8)),
    UnitRow("a.mlp", "mlp", 0, 0.6, (8, 8, 8)),
    UnitRow("b.mlp", "mlp", 0, 1.0, (8, 8, 8)),
)


def test_variance_gives_mean_changes_and_names_the_largest() -> None:
    value = np.array([1.0, 0.8, 1.2, 1.25])
    change = np.array([np.nan, -0.2, 0.4, 0.05])
    result = VarianceResult(
        model="m",
        data="d",
        n=10,
        seed=0,
        units=UNITS,
        value=value,
        low=value - 0.1,
        high=value + 0.1,
        change=Estimate(change, change - 0.1, change + 0.1),
        kinds=("msa", "mlp"),
        kind_change=Estimate(np.array([-0.2, 0.225]), np.array([-0.3, 0.2]), np.array([-0.1, 0.25])),
    )
    assert reading(result) == (
        "On average the variance over space changes by -0.2 [-0.3, -0.1] across MSAs (1 of 1 clearly fall, 0 clearly "
        "rise); +0.225 [+0.2, +0.25] across MLPs (0 of 2 clearly fall, 1 clearly rise). "
        "The largest change is 0.4 [0.3, 0.5] across a.mlp (mlp)."
    )


def test_attention_names_the_most_focused_layer(runs: Path) -> None:
    result = Run.open(runs / "vit").results()["attention"]
    rows = result.summary().query("quantity == 'entropy'").set_index("unit")["value"]
    bound = result.summary().query("quantity == 'entropy_bound'").set_index("unit")["value"]
    text = reading(result)
    assert f"{100 * (rows / bound).mean():.0f} % of the largest possible entropy" in text
    assert f"most focused in {rows.idxmin()} (" in text
    assert f"most spread in {rows.idxmax()} (" in text


def test_similarity_without_an_interval_is_read_without_one(runs: Path) -> None:
    result = Run.open(runs / "resnet").results()["cka"]  # a single batch
    text = reading(result)
    pairs = result.table().query("quantity == 'cka'")
    least = pairs.loc[pairs["value"].idxmin()]
    assert text.endswith(
        f"Least alike are {least['unit']} and {least['other_unit']}, with a CKA of {least['value']:.3g}."
    )


def test_maps_name_the_heads(runs: Path) -> None:
    result = Run.open(runs / "vit").results()["maps"]
    area = result.table().query("quantity == 'area' and head != 'rollout' and unit == 'blocks.5.attn'")
    widest = area.loc[area["value"].idxmax()]
    text = reading(result)
    assert text.startswith("In blocks.5.attn, heads mark ")
    assert f"to {100 * widest['value']:.0f} % (head {widest['head']}) of the map" in text
    empty = replace(result, units=(), layers=(), rollout=None, rollout_units=())  # type: ignore[type-var]
    assert reading(empty) == ""


def test_maps_compare_the_last_layer_with_the_first(runs: Path) -> None:
    result: Any = Run.open(runs / "vit").results()["maps"]
    first, last = (100 * result.layers[place].area.mean() for place in (0, -1))
    text = reading(result)
    assert text.startswith(f"In {result.units[-1].name}, heads mark ")
    assert text.endswith(f"On average it is {last:.0f} %, and {first:.0f} % in {result.units[0].name}.")
    single = replace(result, units=result.units[-1:], layers=result.layers[-1:])
    assert "On average" not in reading(single)
