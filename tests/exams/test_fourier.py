import math
from pathlib import Path

import numpy as np
import pytest
import torch

from vitscope.exams.base import Batch, Subject
from vitscope.exams.fourier import FourierAccumulator, FourierResult, frequencies, half_diagonal
from vitscope.results import Result, UnitRow

EMPTY = torch.zeros(0)


def reference(feature: torch.Tensor) -> np.ndarray:
    """The definition, sum by sum, in float64."""
    x = feature.numpy().astype(np.float64)
    height, width = x.shape[2:]
    place = np.add.outer(np.arange(height), np.arange(width))
    side, columns = min(height, width), []
    for k in range((side + 1) // 2):
        wave = np.exp(-1j * math.pi * k / (side / 2) * place)
        amplitude = np.abs((x * wave).sum(axis=(2, 3)))
        columns.append(np.log(amplitude + 1e-6).mean(axis=1))
    log = np.stack(columns, 1)
    return log - log[:, :1]


def subject(*shapes: tuple[int, int, int]) -> Subject:
    rows = [UnitRow(f"u{i}", "msa", 0, i / 4, shape) for i, shape in enumerate(shapes)]
    return Subject("m", "d", tuple(rows))


def finish(subject: Subject, *batches: list[torch.Tensor]) -> FourierResult:
    accumulator = FourierAccumulator(subject)
    for maps in batches:
        values = tuple(half_diagonal(m) for m in maps)
        accumulator.update(Batch(EMPTY, EMPTY, torch.arange(len(maps[0])), values))
    result = accumulator.finish()
    assert isinstance(result, FourierResult)
    return result


@pytest.mark.parametrize(
    ("height", "width", "last"),
    [
        (8, 8, 6 / 8),
        (7, 7, 6 / 7),
        (14, 14, 12 / 14),
        (4, 4, 0.5),
        (2, 2, 0),
        (1, 1, 0),
        (6, 9, 4 / 6),
        (9, 4, 0.5),
    ],
)
def test_frequencies_end_at_the_last_one_below_pi(height: int, width: int, last: float) -> None:
    found = frequencies(height, width)
    assert found[0] == 0
    assert found[-1] == pytest.approx(last * math.pi)
    assert np.all(found < math.pi)


@pytest.mark.parametrize(
    "shape", [(3, 5, 8, 8), (2, 4, 7, 7), (2, 3, 6, 9), (2, 3, 9, 4), (1, 16, 56, 56), (2, 2, 1, 1)]
)
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_function_against_the_definition(shape: tuple[int, ...], offset: float) -> None:
    feature = torch.randn(shape, generator=torch.Generator().manual_seed(0)) + offset
    np.testing.assert_allclose(half_diagonal(feature).numpy(), reference(feature), atol=3e-4)


def test_function_does_not_care_about_the_memory_layout() -> None:
    feature = torch.randn(2, 16, 6).transpose(1, 2).unflatten(2, (4, 4))
    assert not feature.is_contiguous()
    torch.testing.assert_close(half_diagonal(feature), half_diagonal(feature.contiguous()))


def test_a_constant_channel_has_no_high_frequency() -> None:
    feature = torch.full((1, 2, 14, 14), 3.7)
    expected = math.log(1e-6) - math.log(3.7 * 196 + 1e-6)
    np.testing.assert_allclose(half_diagonal(feature)[0, 1:].numpy(), expected, atol=1e-2)


def test_a_dead_channel_counts_as_flat() -> None:
    assert half_diagonal(torch.zeros(1, 2, 8, 8)).abs().max() == 0


def test_a_wave_stands_at_its_frequency() -> None:
    y, x = np.mgrid[:8, :8]
    for k in range(1, 4):
        wave = torch.tensor(1.0 + np.cos(2 * math.pi * k * (x + y) / 8))[None, None].float()
        found = half_diagonal(wave)[0]
        assert int(found[1:].argmax()) + 1 == k
        assert float(found[k]) == pytest.approx(math.log(0.5), abs=1e-4)  # half the amplitude of the mean


def test_mean_of_logs_not_log_of_means() -> None:
    board = torch.randn(1, 1, 8, 8) + 1.0
    two = torch.cat([board, 100 * board])
    one, scaled = half_diagonal(board)[0], half_diagonal(two)
    torch.testing.assert_close(scaled[1], one, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(
        half_diagonal(torch.cat([board, 100 * board], 1))[0], one, atol=1e-4, rtol=1e-4
    )


def test_smoothing_lowers_high_frequencies() -> None:
    feature = torch.randn(16, 8, 8, 8)
    smooth = torch.nn.functional.avg_pool2d(torch.nn.functional.pad(feature, (0, 2, 0, 2), "circular"), 3, 1)
    result = finish(subject((8, 8, 8), (8, 8, 8)), [feature, smooth])
    assert result.change_high[1] < 0


def test_accumulates_rows_for_maps_of_different_size() -> None:
    a, b, c = torch.randn(20, 4, 8, 8), torch.randn(20, 4, 8, 8), torch.randn(20, 6, 5, 5)
    shapes = ((4, 8, 8), (4, 8, 8), (6, 5, 5))
    result = finish(subject(*shapes), [a[:12], b[:12], c[:12]], [a[12:], b[12:], c[12:]])
    expected = [reference(m) for m in (a, b, c)]
    np.testing.assert_allclose(result.value, np.concatenate([e.mean(0) for e in expected]), atol=3e-4)
    np.testing.assert_array_equal(result.row_unit, [0] * 4 + [1] * 4 + [2] * 3)
    np.testing.assert_array_equal(result.highest, [3, 7, 10])
    difference = expected[1][:, -1] - expected[0][:, -1]
    assert result.change[1] == pytest.approx(difference.mean(), abs=3e-4)
    half = 2.0930241 * difference.std(ddof=1) / math.sqrt(20)  # t quantile with 19 degrees of freedom
    assert result.change_high[1] - result.change[1] == pytest.approx(half, rel=1e-3)
    assert np.isnan(result.change[[0, 2]]).all()  # the first unit, and another grid
    assert (result.low[1:4] < result.value[1:4]).all()


def test_merged_accumulators_are_one() -> None:
    maps = torch.randn(12, 4, 6, 6)
    whole = finish(subject((4, 6, 6)), [maps])
    parts = [FourierAccumulator(subject((4, 6, 6))) for _ in range(2)]
    for part, piece in zip(parts, (maps[:5], maps[5:]), strict=True):
        part.update(Batch(EMPTY, EMPTY, torch.arange(len(piece)), (half_diagonal(piece),)))
    parts[0].merge_state(parts[1])
    merged = parts[0].finish()
    assert isinstance(merged, FourierResult)
    np.testing.assert_allclose(merged.value, whole.value, atol=1e-12)
    np.testing.assert_allclose(merged.high, whole.high, atol=1e-9)


def test_summary_is_the_highest_frequency_of_maps_that_have_one(tmp_path: Path) -> None:
    shapes = ((4, 8, 8), (4, 8, 8), (4, 2, 2))
    result = finish(subject(*shapes), [torch.randn(5, *shape) for shape in shapes])
    summary = result.summary()
    assert summary["unit"].tolist() == ["u0", "u1", "u0", "u1"]
    np.testing.assert_allclose(summary["frequency"], 0.75 * math.pi)
    assert result.table()["frequency"].max() == pytest.approx(0.75 * math.pi)
    result.save(tmp_path)
    back = Result.load(tmp_path)
    assert isinstance(back, FourierResult)
    np.testing.assert_array_equal(back.frequency, result.frequency)


def test_function_can_be_differentiated() -> None:
    with torch.inference_mode():
        half_diagonal(torch.randn(1, 2, 6, 6))  # fills the cache of waves
    feature = torch.randn(1, 2, 6, 6, requires_grad=True)
    half_diagonal(feature).sum().backward()
    assert feature.grad is not None
