"""The lesion exam against models operated on one by one, and its counts against loops over images."""

from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from vitscope.core.statistics import paired_interval
from vitscope.data import ImageData, batches
from vitscope.exams import lesion
from vitscope.exams.features.lesion import LesionOutcomes
from vitscope.findings.lesion import LesionResult
from vitscope.results import Result


def by_surgery(model: nn.Module, unit: str, images: Tensor) -> Tensor:
    operated = deepcopy(model).eval()
    vs.surgery.lesion(operated, unit, part="branch")
    with torch.no_grad():
        return operated(images).argmax(1)


@torch.no_grad()
def expected_table(model: nn.Module, images: Tensor, labels: Tensor) -> dict[tuple[str, str | None], float]:
    images = images.double()
    right = (model(images).argmax(1) == labels).double().mean()
    drops = {
        unit: right - (by_surgery(model, unit, images) == labels).double().mean()
        for unit in [f"blocks.{i}.{part}" for i in range(2) for part in ("attn", "mlp")]
    }
    return {("intact accuracy", None): right, **{("drop", unit): drop for unit, drop in drops.items()}}


@pytest.mark.parametrize("name", ["vit_mini", "resnet_mini"])
def test_equals_operating_on_a_copy_unit_by_unit(name: str, fashion: ImageData) -> None:
    model = vs.create_model(name, pretrained=True).eval()
    result = lesion(model, fashion, limit=60, batch_size=25)
    ((images, labels, _),) = list(batches(fashion, model, limit=60, batch_size=60))
    with torch.no_grad():
        right = model(images).argmax(1) == labels
    assert result.n == 60
    assert result.accuracy.value == pytest.approx(float(right.double().mean()), abs=1e-12)
    assert result.lost.sum() > 0
    for i, unit in list(enumerate(result.units))[1::3]:
        still = by_surgery(model, unit.name, images) == labels
        assert result.lost[i] == int((right & ~still).sum()), unit.name
        assert result.gained[i] == int((~right & still).sum()), unit.name
        assert result.value[i] == pytest.approx((int(right.sum()) - int(still.sum())) / 60)


@pytest.mark.parametrize("name", ["resnet26", "convnext_atto"])
def test_the_spatial_convolution_alone_equals_operating_on_a_copy(name: str) -> None:
    torch.manual_seed(0)
    model = vs.create_model(name, num_classes=5, img_size=32).eval()
    images, labels = torch.rand(12, 3, 32, 32), torch.arange(12) % 5
    result = lesion(model, (images, labels), batch_size=5, part="convolution")
    units = {unit.name: (i, result.removed[i]) for i, unit in enumerate(result.units)}
    assert "convolution" in result.removed
    assert set(result.table()["removed"].dropna()) == set(result.removed)
    for unit in [*units][::3]:
        i, part = units[unit]
        operated = deepcopy(model)
        vs.surgery.lesion(operated, unit, part=part)
        with torch.no_grad():
            right, still = model(images).argmax(1) == labels, operated(images).argmax(1) == labels
        assert (result.lost[i], result.gained[i]) == (
            int((right & ~still).sum()),
            int((~right & still).sum()),
        )


def test_units_that_cannot_be_removed_are_listed(fashion: ImageData) -> None:
    result = lesion(vs.create_model("resnet_mini"), fashion, limit=10)
    kept = result.kept_table().set_index("unit")["reason"].to_dict()
    assert kept["conv1"] == kept["fc"] == "everything passes through it"
    names = [unit.name for unit in result.units]
    assert names == [f"layer{stage}.{block}" for stage in (1, 2, 3, 4) for block in (0, 1)]
    assert result.position == ("first", "last") * 4
    assert {"conv first", "conv last"} <= {group.name for group in result.groups}


def test_counts_and_groups_equal_loops_over_images() -> None:
    generator = np.random.default_rng(0)
    right = generator.random((1 + 4, 57)) < 0.7
    outcomes = LesionOutcomes(4)
    for piece in np.array_split(right, 3, axis=1):
        outcomes.update(torch.from_numpy(piece))
    found = outcomes.compute()
    assert (found["n"], found["right"]) == (57, int(right[0].sum()))
    for k in range(4):
        assert found["changed"][k] == sum(
            int(a) - int(b) for a, b in zip(right[0], right[k + 1], strict=True)
        )
    weights = np.array([0.5, 0.5, 0.0, -1.0])  # a group of two less another unit
    per_image = np.array(
        [sum(w * (int(right[0, i]) - int(right[k + 1, i])) for k, w in enumerate(weights)) for i in range(57)]
    )
    assert weights @ found["changed"] == pytest.approx(per_image.sum())
    assert weights @ found["products"] @ weights == pytest.approx((per_image**2).sum())


def test_interval_is_that_of_agresti_and_min() -> None:
    both, lost, gained, neither = 70, 12, 3, 15
    n = both + lost + gained + neither
    b, c, m = lost + 0.5, gained + 0.5, n + 2
    error = np.sqrt((b + c) - (b - c) ** 2 / m) / m
    low, high = paired_interval(lost - gained, lost + gained, n)
    z = 1.959963984540054
    np.testing.assert_allclose([low, high], [(b - c) / m - z * error, (b - c) / m + z * error], rtol=1e-12)
    low, high = paired_interval(0, 0, 100)
    assert -0.03 < low < 0 < high < 0.03  # nothing lost in 100 is not certainty


def test_interval_covers_the_truth_nineteen_times_out_of_twenty() -> None:
    generator = np.random.default_rng(1)
    draws = generator.multinomial(200, [0.85, 0.06, 0.02, 0.07], size=4000)
    lost, gained = draws[:, 1], draws[:, 2]
    low, high = paired_interval(lost - gained, lost + gained, 200)
    assert 0.94 < np.mean((low <= 0.04) & (high >= 0.04)) < 0.97


def test_groups_and_differences_in_the_table(fashion: ImageData) -> None:
    table = lesion(vs.create_model("vit_mini", pretrained=True), fashion, limit=60).table()
    units = table[table["unit"].notna()]
    whole = table[table["unit"].isna()].set_index("quantity")
    chosen = units[(units["kind"] == "mlp") & (units["position"] == "first")]
    assert len(chosen) == 2
    assert whole.loc["drop mlp first", "value"] == pytest.approx(chosen["value"].mean())
    difference = whole.loc["drop mlp first", "value"] - whole.loc["drop msa first", "value"]
    assert whole.loc["drop mlp first minus msa first", "value"] == pytest.approx(difference)
    assert (whole["low"] <= whole["value"]).all()
    assert (whole["high"] >= whole["value"]).all()


def test_a_model_without_a_unit_to_remove(fashion: ImageData, tmp_path: Path) -> None:
    plain = nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 10)
    )
    data = (torch.randn(8, 3, 16, 16), torch.zeros(8, dtype=torch.long))
    result = vs.diagnose(plain, data, ["lesion"], out=tmp_path)["lesion"]
    assert isinstance(result, LesionResult)
    assert len(result.table()) == 0
    assert len(result.kept_table()) > 0
    assert not (tmp_path / "figures" / "lesion.png").exists()  # there is nothing to draw


def test_kept_and_loaded(small_vit: nn.Module, fashion: ImageData, tmp_path: Path) -> None:
    result = lesion(small_vit, fashion, limit=20)
    result.save(tmp_path)
    again = Result.load(tmp_path)
    assert isinstance(again, LesionResult)
    assert again.groups == result.groups
    assert again.kept == result.kept
    assert again.table().equals(result.table())
    assert (tmp_path / "lesion_kept.csv").read_text().startswith("unit,kind,stage,depth,reason")


def test_the_model_is_left_as_it_was(small_vit: nn.Module, fashion: ImageData) -> None:
    small_vit.train()
    before = {name: value.clone() for name, value in small_vit.state_dict().items()}
    lesion(small_vit, fashion, limit=10)
    assert small_vit.training
    torch.testing.assert_close(dict(small_vit.state_dict()), before, rtol=0, atol=0)
    assert not any(module._forward_hooks for module in small_vit.modules())
