from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.exams.attention_by_hand import vit_maps
from vitscope.core.errors import VitscopeError
from vitscope.engine.exam import Batch, Subject
from vitscope.exams.features.variance import VarianceAccumulator, spatial_variance
from vitscope.findings.variance import VarianceResult
from vitscope.results import Result, UnitRow

EMPTY = torch.zeros(0)


def reference(feature: torch.Tensor) -> np.ndarray:
    x = feature.numpy().astype(np.float64)
    return x.reshape(*x.shape[:2], -1).var(axis=2, ddof=1).mean(axis=1)


def expected_table(model: nn.Module, images: Tensor, _: Tensor) -> dict[tuple[str, str], float]:
    maps = vit_maps(model, images.double())
    return {("variance", unit): reference(feature).mean() for unit, feature in maps.items()}


def subject(*shapes: tuple[int, int, int]) -> Subject:
    rows = [UnitRow(f"u{i}", "msa", 0, i / 4, shape) for i, shape in enumerate(shapes)]
    return Subject("m", "d", tuple(rows))


def finish(subject: Subject, *batches: list[torch.Tensor]) -> VarianceResult:
    accumulator = VarianceAccumulator(subject)
    start = 0
    for maps in batches:
        values = tuple(spatial_variance(m) for m in maps)
        indices = torch.arange(start, start + len(maps[0]))
        accumulator.update(Batch(EMPTY, EMPTY, indices, values))
        start += len(maps[0])
    result = accumulator.finish()
    assert isinstance(result, VarianceResult)
    return result


@pytest.mark.any_order
@pytest.mark.parametrize("shape", [(3, 5, 8, 8), (2, 4, 7, 5), (1, 1, 1, 2), (4, 64, 56, 56)])
@pytest.mark.parametrize("offset", [0.0, 100.0])
def test_function_against_float64(shape: tuple[int, ...], offset: float) -> None:
    feature = torch.randn(shape, generator=torch.Generator().manual_seed(0)) + offset
    np.testing.assert_allclose(spatial_variance(feature)[:, 0].numpy(), reference(feature), rtol=2e-5)


@pytest.mark.any_order
def test_function_does_not_care_about_the_memory_layout() -> None:
    tokens = torch.randn(2, 16, 6)
    feature = tokens.transpose(1, 2).unflatten(2, (4, 4))
    assert not feature.is_contiguous()
    torch.testing.assert_close(spatial_variance(feature), spatial_variance(feature.contiguous()))


def test_closed_form() -> None:
    board = torch.tensor([[1.0, -1.0], [-1.0, 1.0]]).expand(1, 3, 2, 2)
    assert spatial_variance(board).item() == pytest.approx(4 / 3)
    assert spatial_variance(torch.full((1, 3, 4, 4), 7.0)).item() == 0.0


def test_a_single_point_has_no_variance() -> None:
    assert torch.isnan(spatial_variance(torch.ones(2, 3, 1, 1))).all()
    result = finish(subject((3, 2, 2), (3, 1, 1)), [torch.randn(4, 3, 2, 2), torch.randn(4, 3, 1, 1)])
    assert np.isfinite(result.value[0])
    assert np.isnan(result.value[1])
    assert result.kinds == ()


def test_accumulates_mean_change_and_intervals_over_images() -> None:
    generator = torch.Generator().manual_seed(1)
    first = torch.randn(30, 4, 6, 6, generator=generator)
    second = first * 0.5 + 0.1 * torch.randn(30, 4, 6, 6, generator=generator)
    result = finish(subject((4, 6, 6), (4, 6, 6)), [first[:20], second[:20]], [first[20:], second[20:]])
    a, b = reference(first), reference(second)
    np.testing.assert_allclose(result.value, [a.mean(), b.mean()], rtol=1e-5)
    assert np.isnan(result.change.value[0])
    assert result.change.value[1] == pytest.approx((b - a).mean(), rel=1e-5)
    half = 2.0452296 * (b - a).std(ddof=1) / np.sqrt(30)  # t quantile with 29 degrees of freedom
    assert result.change.high[1] - result.change.value[1] == pytest.approx(half, rel=1e-3)
    paired, level = result.change.high[1] - result.change.low[1], result.high[0] - result.low[0]
    assert paired < level
    assert result.n == 30


def test_the_change_of_a_kind_is_paired_by_image() -> None:
    generator = torch.Generator().manual_seed(2)
    maps = [torch.randn(25, 3, 4, 4, generator=generator) * (1 + i) for i in range(5)]
    kinds = ("stem", "msa", "mlp", "msa", "mlp")
    rows = tuple(UnitRow(f"u{i}", kind, 0, i / 5, (3, 4, 4)) for i, kind in enumerate(kinds))
    result = finish(Subject("m", "d", rows), [m[:10] for m in maps], [m[10:] for m in maps])
    v = np.stack([reference(m) for m in maps])
    msa = ((v[1] - v[0]) + (v[3] - v[2])) / 2
    assert result.kinds == ("msa", "mlp")
    assert result.kind_change.value[0] == pytest.approx(msa.mean(), rel=1e-5)
    half = 2.0638986 * msa.std(ddof=1) / np.sqrt(25)  # t quantile with 24 degrees of freedom
    assert result.kind_change.high[0] - result.kind_change.value[0] == pytest.approx(half, rel=1e-3)


def test_features_that_are_not_finite_are_named() -> None:
    maps = torch.randn(4, 3, 2, 2)
    maps[2, 1, 0, 0] = torch.inf
    with pytest.raises(VitscopeError, match="'u1' are not finite for image 2"):
        finish(subject((3, 2, 2), (3, 2, 2)), [torch.randn(4, 3, 2, 2), maps])


def test_table_and_disk(tmp_path: Path) -> None:
    result = finish(subject((3, 2, 2), (3, 2, 2)), [torch.randn(4, 3, 2, 2), torch.randn(4, 3, 2, 2)])
    table = result.table()
    assert table["quantity"].tolist() == ["variance", "variance", "change", "change", "change"]
    of_kind = table.iloc[-1]
    assert (of_kind["unit"], of_kind["kind"]) == (None, "msa")
    assert of_kind["value"] == result.change.value[1]
    assert (table["low"][:2] < table["value"][:2]).all()
    result.save(tmp_path)
    back = Result.load(tmp_path)
    assert isinstance(back, VarianceResult)
    np.testing.assert_array_equal(back.value, result.value)
