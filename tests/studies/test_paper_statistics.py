"""Numbers that claims are about, against a few plain lines on the tables they come from."""

import math
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from tests.studies.claim_results import of_cb_s, of_cnn, of_dropout, of_pit, of_vit
from vitscope.results import Result
from vitscope.studies import paper_statistics  # noqa: F401 declares them
from vitscope.studies.quantities import STATISTICS, NotMeasured, measure


def ends(quantity: str, results: Mapping[str, Result]) -> tuple[float, float, float]:
    found = measure(quantity, results)
    return found.value, found.low, found.high


def mean_of(rows: list[dict]) -> list[float]:
    """Value, low and high, each averaged over the rows."""
    return [sum(row[end] for row in rows) / len(rows) for end in ("value", "low", "high")]


def records(result: Result, quantity: str) -> list[dict]:
    table = result.table()
    return table[table["quantity"] == quantity].to_dict("records")


def test_late_msas_are_those_beyond_a_third_of_the_depth() -> None:
    rows = [
        row
        for row in records(of_vit()["fourier"], "change")
        if isinstance(row["unit"], str) and row["kind"] == "msa" and row["depth"] > 1 / 3
    ]
    assert [row["unit"] for row in rows] == [f"blocks.{k}.attn" for k in (2, 3, 4, 5)]
    assert ends("fourier.late_msa_change", of_vit()) == pytest.approx(mean_of(rows))


def test_excess_of_stage_ends() -> None:
    by_stage: dict[int, list[float]] = {}
    for row in records(of_cnn()["variance"], "variance"):
        if row["kind"] == "conv":
            by_stage.setdefault(row["stage"], []).append(row["value"])
    excess = []
    for levels in by_stage.values():
        last, others = levels[-1], sum(levels[:-1]) / len(levels[:-1])
        excess.append((last - others) / ((last + others) / 2))
    value, low, high = ends("variance.stage_end_excess", of_cnn())
    assert len(excess) == 4
    assert value == pytest.approx(sum(excess) / 4)
    assert value != 0
    assert low < value < high


@pytest.mark.parametrize(
    ("quantity", "results", "more", "less"),
    [
        ("conv_first_minus_last", of_cnn, ("conv", "first"), ("conv", "last")),
        ("mlp_first_minus_msa_first", of_pit, ("mlp", "first"), ("msa", "first")),
        ("msa_last_minus_mlp_last", of_pit, ("msa", "last"), ("mlp", "last")),
    ],
)
def test_lesions_by_place(quantity, results, more, less) -> None:
    rows = [row for row in records(results()["lesion"], "drop") if isinstance(row["unit"], str)]

    def drop(kind: str, place: str) -> float:
        found = [row["value"] for row in rows if (row["kind"], row["position"]) == (kind, place)]
        return sum(found) / len(found)

    value, low, high = ends(f"lesion.{quantity}", results())
    assert value == pytest.approx(drop(*more) - drop(*less))
    assert value != 0
    assert low < value < high


def test_entropies() -> None:
    rows = records(of_vit()["attention"], "entropy")
    layers = [row for row in rows if not isinstance(row["head"], int)]
    assert len(layers) == 6
    bound = math.log(17)  # 16 patches and the class token
    share = [end / bound for end in mean_of(layers)]
    assert ends("attention.entropy_share", of_vit()) == pytest.approx(share)


def test_entropies_of_the_class_token_in_the_upper_half_minus_the_lower() -> None:
    rows = records(of_vit()["attention"], "class_entropy")
    layers = [row for row in rows if not isinstance(row["head"], int)]
    value = (sum(row["value"] for row in layers[3:]) - sum(row["value"] for row in layers[:3])) / 3
    half = math.sqrt(sum(((row["high"] - row["low"]) / 2) ** 2 for row in layers)) / 3
    found = ends("attention.upper_minus_lower_class_entropy", of_vit())
    assert found == pytest.approx((value, value - half, value + half))


def test_entropy_of_the_class_token_in_the_last_layer() -> None:
    rows = [row for row in records(of_vit()["attention"], "class_entropy") if row["unit"] == "blocks.5.attn"]
    (layer,) = [row for row in rows if not isinstance(row["head"], int)]
    heads = [row["value"] for row in rows if isinstance(row["head"], int)]
    assert ends("attention.last_class_entropy", of_vit()) == (layer["value"], layer["low"], layer["high"])
    assert layer["value"] == pytest.approx(sum(heads) / 2)


@pytest.mark.parametrize(("quantity", "column"), [("mean_gain", "mean"), ("ratio_gain", "ratio")])
def test_scales_gain_from_the_lower_to_the_upper_half(quantity: str, column: str) -> None:
    """Of five layers the middle one belongs to neither half."""
    rows = records(of_cb_s()["cb_scale"], column)
    assert len(rows) == 5
    value = (rows[3]["value"] + rows[4]["value"]) / 2 - (rows[0]["value"] + rows[1]["value"]) / 2
    halves = [(rows[k]["high"] - rows[k]["low"]) / 2 for k in (0, 1, 3, 4)]
    half = math.sqrt(sum(one**2 for one in halves)) / 2
    assert ends(f"cb_scale.{quantity}", of_cb_s()) == pytest.approx((value, value - half, value + half))


def test_reach_is_where_the_correlation_falls_to_one_half() -> None:
    def reach(unit: str) -> float:
        rows = [row for row in records(of_cnn()["covariance"], "correlation") if row["unit"] == unit]
        pixels, level = [row["pixels"] for row in rows], [row["value"] for row in rows]
        fine = np.linspace(0, pixels[-1], 100_001)
        return float(fine[np.flatnonzero(np.interp(fine, pixels, level) < 0.5)[0]])

    value, low, high = ends("covariance.reach_gained", of_cnn())
    assert value == pytest.approx(reach("layer1.1") - reach("conv1"), abs=2e-3)
    assert low <= value <= high


def test_passes() -> None:
    rows = {row["passes"]: row for row in records(of_dropout()["passes"], "nll")}
    one, every = rows[1], rows[5]
    assert one["value"] != every["value"]
    right = {row["passes"]: row for row in records(of_dropout()["passes"], "accuracy")}[5]
    assert ends("passes.accuracy_of_all", of_dropout()) == (right["value"], right["low"], right["high"])
    assert ends("passes.nll_of_one", of_dropout()) == (one["value"], one["low"], one["high"])
    assert ends("passes.nll_of_all", of_dropout()) == (every["value"], every["low"], every["high"])
    value, low, high = ends("passes.nll_gained", of_dropout())
    assert value == pytest.approx(every["value"] - one["value"])
    half = math.hypot(one["high"] - one["low"], every["high"] - every["low"]) / 2
    assert (low, high) == pytest.approx((value - half, value + half))


def test_loss_along_the_edge_of_a_landscape() -> None:
    result = of_vit()["landscape"]
    rise = {(row["x"], row["y"]): row["value"] for row in records(result, "rise")}
    l2 = {(row["x"], row["y"]): row["value"] for row in records(result, "l2")}
    edge = [place for place in rise if 1.0 in map(abs, place)]
    assert len(edge) == 8
    expected = sum(rise[place] + l2[place] - l2[0.0, 0.0] for place in edge) / 8
    value, low, high = ends("landscape.loss_rise", of_vit())
    assert value == pytest.approx(expected, rel=1e-6)
    assert low <= value <= high


@pytest.mark.parametrize("column", ["data_std", "model_std"])
def test_uncertainty_at_the_ends_of_stages(column: str) -> None:
    last = {
        row["stage"]: row for row in records(of_dropout()["uncertainty"], column) if row["kind"] == "conv"
    }
    assert len(last) == 4
    assert ends(f"uncertainty.stage_end_{column}", of_dropout()) == pytest.approx(mean_of([*last.values()]))


def test_a_model_without_such_units_has_no_such_number() -> None:
    with pytest.raises(NotMeasured, match=r"lesion\.msa_last_minus_mlp_last is not defined for"):
        measure("lesion.msa_last_minus_mlp_last", of_cnn())


def test_every_statistic_is_looked_at_here() -> None:
    text = Path(__file__).read_text()
    ours = [name for name, found in STATISTICS.items() if found.__module__.endswith("paper_statistics")]
    assert len(ours) == 18
    assert [
        name
        for name in ours
        if name.partition(".")[2].removesuffix("_data_std").removesuffix("_model_std") not in text
    ] == []
