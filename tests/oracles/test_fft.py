"""The half diagonal against numpy's FFT in float64, and against the published recipe."""

import numpy as np
import pytest
import torch

from vitscope.exams.fourier import frequencies, half_diagonal


@pytest.mark.parametrize("side", [2, 3, 4, 7, 8, 14, 28, 32, 33])
def test_diagonal_of_the_fft(side: int) -> None:
    feature = torch.randn(3, 5, side, side, generator=torch.Generator().manual_seed(side)) + 0.5
    spectrum = np.log(np.abs(np.fft.fft2(feature.double().numpy())) + 1e-6).mean(1)
    diagonal = np.diagonal(spectrum, axis1=1, axis2=2)[:, : len(frequencies(side, side))]
    expected = diagonal - diagonal[:, :1]
    np.testing.assert_allclose(half_diagonal(feature).numpy(), expected, atol=3e-4)


@pytest.mark.parametrize("side", [4, 8, 14])
def test_centred_spectrum_of_even_maps(side: int) -> None:
    """The figure of the paper takes the diagonal of the centred spectrum from its middle to its end."""
    feature = torch.randn(4, 6, side, side, generator=torch.Generator().manual_seed(side))
    log = (torch.fft.fftshift(torch.fft.fft2(feature.double()), dim=(2, 3)).abs() + 1e-6).log().mean(1)
    diagonal = torch.diagonal(log, dim1=1, dim2=2)[:, side // 2 :]
    torch.testing.assert_close(half_diagonal(feature).double(), diagonal - diagonal[:, :1], atol=3e-4, rtol=0)
    shifted = np.fft.fftshift(np.fft.fftfreq(side))[side // 2 :] * 2 * np.pi
    np.testing.assert_allclose(frequencies(side, side), shifted, rtol=1e-12)
