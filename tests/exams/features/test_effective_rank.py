from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.cases import AT_32, Case
from tests.exams.attention_by_hand import vit_maps
from vitscope import plots
from vitscope.anatomy import Tap, anatomy
from vitscope.drawing.figures import new_panel
from vitscope.engine.exam import Batch, Subject
from vitscope.exams.features.effective_rank import EffectiveRankAccumulator, effective_rank, rank_and_cosine
from vitscope.findings.effective_rank import QUANTITIES, EffectiveRankResult
from vitscope.results import Result, UnitRow

EMPTY = torch.zeros(0)
SHAPES = [(3, 5, 8, 8), (2, 64, 3, 4), (1, 1, 1, 2), (2, 7, 7, 1), (2, 40, 16, 16)]


def by_hand(feature: np.ndarray) -> tuple[float, float]:
    """Of one map (C, H, W): singular values by LAPACK's SVD, and all cosines."""
    x = feature.reshape(len(feature), -1).T.astype(np.float64)
    s = np.linalg.svd(x, compute_uv=False)
    q = s[s > 0] / s.sum()
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    cosines = (unit @ unit.T)[~np.eye(len(x), dtype=bool)]
    return float(np.exp(-(q * np.log(q)).sum())), float(cosines.mean())


def expected_table(model: nn.Module, images: Tensor, _: Tensor) -> dict[tuple[str, str], float]:
    found = {}
    for unit, maps in vit_maps(model, images.double()).items():
        rank, cosine = np.mean([by_hand(one) for one in maps.numpy()], axis=0)
        found |= {("effective_rank", unit): rank, ("cosine", unit): cosine}
    return found


@pytest.mark.any_order
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("offset", "scale"), [(0.0, 1.0), (10.0, 1.0), (0.0, 1e-12)])
def test_function_against_float64(shape: tuple[int, ...], offset: float, scale: float) -> None:
    feature = scale * (torch.randn(shape, generator=torch.Generator().manual_seed(0)) + offset)
    expected = np.array([by_hand(one) for one in feature.numpy()])
    np.testing.assert_allclose(rank_and_cosine(feature).numpy(), expected, rtol=1e-6, atol=1e-9)


def test_closed_forms() -> None:
    even = torch.eye(9)[:6].T.reshape(1, 9, 2, 3)  # six points in directions of their own
    assert rank_and_cosine(even)[0].tolist() == pytest.approx([6.0, 0.0], abs=1e-7)
    alike = torch.randn(5)[None, :, None, None] * torch.rand(1, 1, 4, 4).add(0.1)
    assert rank_and_cosine(alike)[0].tolist() == pytest.approx([1.0, 1.0], abs=1e-5)
    opposite = torch.tensor([1.0, -1.0]).reshape(1, 1, 1, 2)
    assert rank_and_cosine(opposite)[0].tolist() == pytest.approx([1.0, -1.0])
    assert rank_and_cosine(torch.zeros(1, 3, 2, 2))[0].tolist() == [0.0, 0.0]


def test_a_point_without_a_norm_is_like_no_other() -> None:
    feature = torch.ones(1, 3, 1, 3)
    feature[..., 2] = 0.0
    assert rank_and_cosine(feature)[0, 1].item() == pytest.approx(2 / 6)


@pytest.mark.parametrize("case", [AT_32[0], next(c for c in AT_32 if "vit" in c.name)], ids=lambda c: c.name)
def test_a_model_equals_its_maps_by_hand(case: Case) -> None:
    model, images = case.model(), case.images(5)
    parts = anatomy(model, case.size)
    with torch.no_grad(), Tap(model, parts, parts.mapped, features=True) as tap:
        model(images)
    result = effective_rank(model, images, batch_size=2)
    assert result.n == 5
    for i, unit in enumerate(result.units):
        if np.isfinite(result.value[i, 1]):
            found = np.array([by_hand(one) for one in tap.features[unit.name].numpy()])
            np.testing.assert_allclose(result.value[i], found.mean(0), rtol=2e-4, atol=2e-5)
            half = 2.7764451 * found.std(0, ddof=1) / np.sqrt(5)  # t quantile with 4 degrees of freedom
            np.testing.assert_allclose(
                (result.high - result.value)[i, 0], half[0], rtol=1e-2, atol=1e-5 * result.bound[i]
            )


def subject(*shapes: tuple[int, int, int]) -> Subject:
    rows = [UnitRow(f"u{i}", "msa", 0, i / 4, shape) for i, shape in enumerate(shapes)]
    return Subject("m", "d", tuple(rows))


def finish(subject: Subject, *maps: torch.Tensor) -> EffectiveRankResult:
    accumulator = EffectiveRankAccumulator(subject)
    values = tuple(rank_and_cosine(m) for m in maps)
    accumulator.update(Batch(EMPTY, EMPTY, torch.arange(len(maps[0])), values))
    result = accumulator.finish()
    assert isinstance(result, EffectiveRankResult)
    return result


def test_changes_are_paired_and_only_where_the_bound_stays() -> None:
    generator = torch.Generator().manual_seed(0)
    first = torch.randn(8, 6, 4, 4, generator=generator)
    second = first + 3.0
    third = torch.randn(8, 6, 2, 2, generator=generator)
    result = finish(subject((6, 4, 4), (6, 4, 4), (6, 2, 2)), first, second, third)
    a, b = (np.array([by_hand(one) for one in maps.numpy()]) for maps in (first, second))
    np.testing.assert_allclose(result.change.value[1], (b - a).mean(0), rtol=1e-5)
    np.testing.assert_allclose(result.kind_change.value[0], (b - a).mean(0), rtol=1e-5)
    assert np.isnan(result.change.value[[0, 2]]).all()
    assert result.bound.tolist() == [6.0, 6.0, 4.0]


def test_a_single_point_has_no_cosine() -> None:
    result = finish(subject((3, 2, 2), (3, 1, 1)), torch.randn(4, 3, 2, 2), torch.randn(4, 3, 1, 1))
    assert np.isfinite(result.value[0]).all()
    assert result.value[1, 0] == pytest.approx(1.0)
    assert np.isnan(result.value[1, 1])


def test_table_and_disk(tmp_path: Path) -> None:
    result = finish(subject((3, 2, 2), (3, 2, 2)), torch.randn(4, 3, 2, 2), torch.randn(4, 3, 2, 2))
    table = result.table()
    assert set(table["quantity"]) == {*QUANTITIES, *(f"{q}_change" for q in QUANTITIES), "rank_bound"}
    result.save(tmp_path)
    back = Result.load(tmp_path)
    assert isinstance(back, EffectiveRankResult)
    np.testing.assert_array_equal(back.value, result.value)


def small() -> EffectiveRankResult:
    case = next(case for case in AT_32 if "vit" in case.name)
    return effective_rank(case.model(), case.images(3))


def test_shows_the_values_and_the_bound() -> None:
    found = small()
    rank, cosine = (draw(found, new_panel()) for draw in (plots.plot_effective_rank, plots.plot_token_cosine))
    np.testing.assert_array_equal(rank.lines[0].get_ydata(), found.value[:, 0])
    np.testing.assert_array_equal(rank.lines[-1].get_ydata(), found.bound)
    np.testing.assert_array_equal(cosine.lines[0].get_ydata(), found.value[:, 1])
    assert cosine.get_ylim()[1] == 1.0


def test_bars_are_the_changes() -> None:
    found = small()
    ax = plots.plot_token_cosine_change(found, new_panel())
    heights = sorted(bar.get_height() for bar in ax.patches)
    np.testing.assert_allclose(heights, sorted(found.change.value[np.isfinite(found.change.value[:, 1]), 1]))
