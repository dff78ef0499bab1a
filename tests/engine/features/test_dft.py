"""What the transform must have beyond its values, which `tests/oracles/test_fft.py` compares with an FFT."""

import math

import numpy as np
import pytest
import torch

from vitscope.engine.features import dft
from vitscope.engine.features.dft import half_diagonal, half_plane, log_amplitudes


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
        monkeypatch.setattr(dft, "DENSE", points)
        found.append(log_amplitudes(feature))
    for one_by_one, at_once in zip(*found, strict=True):
        assert (one_by_one is None) == (shape[2] == shape[3] and at_once is None)
        if one_by_one is not None:
            torch.testing.assert_close(one_by_one, at_once, atol=1e-4, rtol=1e-4)


def test_half_precision_is_transformed_in_single() -> None:
    feature = torch.randn(2, 8, 14, 14).half()
    for low, high in zip(log_amplitudes(feature)[:2], log_amplitudes(feature.float())[:2], strict=True):
        torch.testing.assert_close(low, high)
