"""What the transform must have beyond its values, which `tests/oracles/test_fft.py` compares with an FFT."""

import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from tests.exams.attention_by_hand import vit_maps
from vitscope.engine.exam import Batch, Subject
from vitscope.exams.features import fourier as fourier_file
from vitscope.exams.features.fourier import (
    FourierAccumulator,
    half_diagonal,
    half_plane,
    log_amplitudes,
    rings,
    spectrum,
)
from vitscope.findings.fourier import FourierResult
from vitscope.results import Result, UnitRow

EMPTY = torch.zeros(0)


def reference(feature: torch.Tensor) -> np.ndarray:
    """Rings, then the diagonal, both from frequency 0 on, sum by sum in float64."""
    x = feature.numpy().astype(np.float64)
    height, width = x.shape[2:]
    side = min(height, width)
    y_place, x_place = np.indices((height, width))

    def log_amplitude(fy: float, fx: float) -> np.ndarray:
        wave = np.exp(-1j * (fy * y_place + fx * x_place))
        return np.log(np.abs((x * wave).sum(axis=(2, 3))) + 1e-6).mean(axis=1)

    by_ring: dict[int, list[np.ndarray]] = {}
    for ky in range(height):
        for kx in range(width):
            if (2 * ky % height, 2 * kx % width) != (0, 0):  # those have a real coefficient
                turns = [k / n - (k / n > 0.5) for k, n in ((ky, height), (kx, width))]
                ring = max(1, round(math.hypot(*turns) * side))
                by_ring.setdefault(ring, []).append(log_amplitude(*(2 * math.pi * t for t in turns)))
    zero = log_amplitude(0.0, 0.0)
    radial = [zero] + [np.mean(by_ring[ring], axis=0) for ring in sorted(by_ring)]
    diagonal = [log_amplitude(f, f) for f in 2 * math.pi * np.arange((side + 1) // 2) / side]
    return np.stack(radial + diagonal, 1) - zero[:, None]


def expected_table(model: nn.Module, images: Tensor, _: Tensor) -> dict[tuple[str, str], np.ndarray]:
    found = {unit: reference(x).mean(0) for unit, x in vit_maps(model, images.double()).items()}
    rows = {("radial_log_amplitude", unit): rows[:-2] for unit, rows in found.items()}
    return rows | {("delta_log_amplitude", unit): rows[-2:] for unit, rows in found.items()}


def subject(*shapes: tuple[int, int, int]) -> Subject:
    rows = [UnitRow(f"u{i}", "msa", 0, i / 4, shape) for i, shape in enumerate(shapes)]
    return Subject("m", "d", tuple(rows))


def finish(subject: Subject, *batches: list[torch.Tensor]) -> FourierResult:
    accumulator = FourierAccumulator(subject)
    for maps in batches:
        values = tuple(spectrum(m) for m in maps)
        accumulator.update(Batch(EMPTY, EMPTY, torch.arange(len(maps[0])), values))
    result = accumulator.finish()
    assert isinstance(result, FourierResult)
    return result


@pytest.mark.any_order
@pytest.mark.parametrize(
    "shape",
    [(2, 3, 8, 8), (2, 4, 7, 7), (1, 3, 6, 9), (2, 3, 9, 4), (1, 5, 14, 14), (1, 2, 11, 16), (2, 2, 1, 1)],
)
@pytest.mark.parametrize("offset", [0.0, 30.0])
def test_function_against_the_definition(shape: tuple[int, ...], offset: float) -> None:
    feature = torch.randn(shape, generator=torch.Generator().manual_seed(0)) + offset
    np.testing.assert_allclose(spectrum(feature).numpy(), reference(feature), atol=3e-4)


@pytest.mark.any_order
@pytest.mark.parametrize("side", [4, 12])
def test_function_does_not_care_about_the_memory_layout(side: int) -> None:
    feature = torch.randn(2, side**2, 6).transpose(1, 2).unflatten(2, (side, side))
    assert not feature.is_contiguous()
    torch.testing.assert_close(spectrum(feature), spectrum(feature.contiguous()))


def test_rings_are_labelled_with_what_they_hold() -> None:
    frequency, share = rings(4, 4)
    # (0,1) (1,0) at pi/2 and (1,1) (1,-1) at pi/sqrt(2) are nearest to pi/2; (1,2) (2,1) at pi sqrt(5)/2 to pi
    np.testing.assert_allclose(frequency, np.pi / 2 * np.array([(2 + 2 * math.sqrt(2)) / 4, math.sqrt(5)]))
    np.testing.assert_allclose(share.sum(0), 1.0)
    assert share.shape == (6, 2)
    assert rings(2, 2)[0].size == 0
    assert (np.diff(rings(9, 14)[0]) > 0).all()
    assert rings(9, 14)[0].max() < math.pi * math.sqrt(2)


def test_noise_is_flat() -> None:
    """White noise has the same mean log amplitude at every frequency, frequency 0 excepted."""
    noise = torch.randn(400, 8, 6, 6, generator=torch.Generator().manual_seed(0))
    found = spectrum(noise).double()
    columns = [i for i in range(found.shape[1]) if i not in (0, len(rings(6, 6)[0]) + 1)]
    means = found[:, columns].mean(0)
    assert float(means.max() - means.min()) < 0.06
    assert float(means.mean()) == pytest.approx(math.log(2) / 2, abs=0.06)


@pytest.mark.any_order
def test_a_constant_channel_has_no_high_frequency() -> None:
    found = spectrum(torch.full((1, 2, 14, 14), 3.7))[0]
    expected = math.log(1e-6) - math.log(3.7 * 196 + 1e-6)
    np.testing.assert_allclose(found[found != 0].numpy(), expected, atol=1e-2)
    assert int((found == 0).sum()) == 2


def test_a_dead_channel_counts_as_flat() -> None:
    assert spectrum(torch.zeros(1, 2, 8, 8)).abs().max() == 0


@pytest.mark.parametrize("side", [8, 12])
def test_a_wave_stands_at_its_frequency(side: int) -> None:
    y, x = np.mgrid[:side, :side]
    n_rings = len(rings(side, side)[0])
    for k in range(1, side // 2):
        wave = torch.tensor(1.0 + np.cos(2 * math.pi * k * (x + y) / side))[None, None].float()
        found = spectrum(wave)[0]
        diagonal = found[n_rings + 1 :]
        assert int(diagonal[1:].argmax()) + 1 == k
        assert float(diagonal[k]) == pytest.approx(math.log(0.5), abs=1e-4)  # half the amplitude of the mean
        assert int(found[1 : n_rings + 1].argmax()) + 1 == round(k * math.sqrt(2))


def test_mean_of_logs_not_log_of_means() -> None:
    board = torch.randn(1, 1, 8, 8) + 1.0
    one, scaled = spectrum(board)[0], spectrum(torch.cat([board, 100 * board]))
    torch.testing.assert_close(scaled[1], one, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(spectrum(torch.cat([board, 100 * board], 1))[0], one, atol=1e-4, rtol=1e-4)


def test_smoothing_lowers_high_frequencies() -> None:
    feature = torch.randn(16, 8, 8, 8)
    smooth = torch.nn.functional.avg_pool2d(torch.nn.functional.pad(feature, (0, 2, 0, 2), "circular"), 3, 1)
    result = finish(subject((8, 8, 8), (8, 8, 8)), [feature, smooth])
    assert result.change.high[1] < 0
    assert result.kinds == ("msa",)
    assert result.kind_change.value[0] == pytest.approx(result.change.value[1])


def test_accumulates_rows_for_maps_of_different_size() -> None:
    a, b, c = torch.randn(20, 4, 8, 8), torch.randn(20, 4, 8, 8), torch.randn(20, 6, 5, 5)
    shapes = ((4, 8, 8), (4, 8, 8), (6, 5, 5))
    result = finish(subject(*shapes), [a[:12], b[:12], c[:12]], [a[12:], b[12:], c[12:]])
    expected = [reference(m) for m in (a, b, c)]
    ends = [4, 4, 3]  # frequencies of the diagonals
    diagonal = np.concatenate([e.mean(0)[-end:] for e, end in zip(expected, ends, strict=True)])
    radial = np.concatenate([e.mean(0)[:-end] for e, end in zip(expected, ends, strict=True)])
    np.testing.assert_allclose(result.value, diagonal, atol=3e-4)
    np.testing.assert_allclose(result.ring.value, radial, atol=3e-4)
    np.testing.assert_array_equal(result.row_unit, [0] * 4 + [1] * 4 + [2] * 3)
    np.testing.assert_allclose(result.ring_frequency[result.ring_unit == 2][1:], rings(5, 5)[0])
    np.testing.assert_array_equal(result.highest, [3, 7, 10])
    difference = expected[1][:, -1] - expected[0][:, -1]
    assert result.change.value[1] == pytest.approx(difference.mean(), abs=3e-4)
    half = 2.0930241 * difference.std(ddof=1) / math.sqrt(20)  # t quantile with 19 degrees of freedom
    assert result.change.high[1] - result.change.value[1] == pytest.approx(half, rel=1e-3)
    assert np.isnan(result.change.value[[0, 2]]).all()  # the first unit, and another grid
    assert (result.low[1:4] < result.value[1:4]).all()


def test_summary_is_the_highest_frequency_of_maps_that_have_one(tmp_path: Path) -> None:
    shapes = ((4, 8, 8), (4, 8, 8), (4, 2, 2))
    result = finish(subject(*shapes), [torch.randn(5, *shape) for shape in shapes])
    summary = result.summary()
    assert summary["unit"].tolist() == ["u0", "u1", "u0", "u1", None]
    assert summary["kind"].iloc[-1] == "msa"
    np.testing.assert_allclose(summary["frequency"][:4], 0.75 * math.pi)
    table = result.table()
    assert set(table["quantity"]) == {"delta_log_amplitude", "radial_log_amplitude", "change"}
    rows = table[(table["quantity"] == "radial_log_amplitude") & (table["unit"] == "u0")]
    np.testing.assert_allclose(rows["frequency"], np.append(0.0, rings(8, 8)[0]))
    result.save(tmp_path)
    back = Result.load(tmp_path)
    assert isinstance(back, FourierResult)
    np.testing.assert_array_equal(back.frequency, result.frequency)


@pytest.mark.parametrize("side", [6, 10])
def test_function_can_be_differentiated(side: int) -> None:
    with torch.inference_mode():
        spectrum(torch.randn(1, 2, side, side))  # fills the cache of waves
    feature = torch.randn(1, 2, side, side, requires_grad=True)
    spectrum(feature).sum().backward()
    assert feature.grad is not None
    assert feature.grad.isfinite().all()


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
def test_half_diagonal_ends_at_the_last_frequency_below_pi(height: int, width: int, last: float) -> None:
    found = half_diagonal(height, width)
    assert found[0] == 0
    assert found[-1] == pytest.approx(last * math.pi)


def test_half_plane_is_wrapped() -> None:
    plane = half_plane(5, 8)
    assert np.abs(plane).max() <= math.pi
    assert len(plane) == (5 * 8 - 2) / 2  # 0 and (0, pi) are their own negatives


@pytest.mark.any_order
@pytest.mark.parametrize("shape", [(2, 6, 7, 7), (3, 4, 8, 5), (2, 3, 12, 12)])
def test_both_ways_are_the_same(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    feature = torch.randn(shape) + 2.0
    found = []
    for points in (0, 1000):
        monkeypatch.setattr(fourier_file, "DENSE", points)
        found.append(log_amplitudes(feature))
    for one_by_one, at_once in zip(*found, strict=True):
        assert (one_by_one is None) == (shape[2] == shape[3] and at_once is None)
        if one_by_one is not None:
            torch.testing.assert_close(one_by_one, at_once, atol=1e-4, rtol=1e-4)


def test_half_precision_is_transformed_in_single() -> None:
    feature = torch.randn(2, 8, 14, 14).half()
    for low, high in zip(log_amplitudes(feature)[:2], log_amplitudes(feature.float())[:2], strict=True):
        torch.testing.assert_close(low, high)
