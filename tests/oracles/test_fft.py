"""Amplitudes against numpy's FFT in float64, and the half diagonal against the published recipe."""

import numpy as np
import pytest
import torch

from vitscope.exams.features.fourier import half_diagonal, half_plane, log_amplitudes, on_diagonal


@pytest.mark.parametrize("side", [2, 3, 4, 7, 8, 14, 28, 32, 33])
def test_diagonal_of_the_fft(side: int) -> None:
    feature = torch.randn(3, 5, side, side, generator=torch.Generator().manual_seed(side)) + 0.5
    spectrum = np.log(np.abs(np.fft.fft2(feature.double().numpy())) + 1e-6).mean(1)
    diagonal = np.diagonal(spectrum, axis1=1, axis2=2)[:, : len(half_diagonal(side, side))]
    zero, plane, _ = log_amplitudes(feature)
    found = plane[:, on_diagonal(side)]
    np.testing.assert_allclose(torch.cat([zero, found], 1).numpy(), diagonal, atol=1e-4)


@pytest.mark.parametrize("shape", [(8, 8), (7, 7), (4, 6), (5, 12), (14, 14), (9, 16), (33, 2), (56, 56)])
@pytest.mark.parametrize("last", [False, True])
def test_half_plane_of_the_fft(shape: tuple[int, int], last: bool) -> None:
    """Every frequency of the FFT is there once, or as its negative, or is its own negative."""
    feature = torch.randn(2, 5, *shape, generator=torch.Generator().manual_seed(0)) - 0.5
    feature = feature.contiguous(memory_format=torch.channels_last) if last else feature
    spectrum = np.log(np.abs(np.fft.fft2(feature.double().numpy())) + 1e-6).mean(1)
    turns = half_plane(*shape) / (2 * np.pi) * shape
    ky, kx = (np.rint(turns).astype(int) % shape).T
    np.testing.assert_allclose(turns % shape, np.stack([ky, kx], 1), atol=1e-9)
    np.testing.assert_allclose(log_amplitudes(feature)[1].numpy(), spectrum[:, ky, kx], atol=1e-4)
    negative = zip((-ky) % shape[0], (-kx) % shape[1], strict=True)
    met = {*zip(ky.tolist(), kx.tolist(), strict=True), *((int(a), int(b)) for a, b in negative)}
    assert len(met) == 2 * len(ky)
    rest = {(y, x) for y in range(shape[0]) for x in range(shape[1])} - met
    assert all(2 * y % shape[0] == 0 and 2 * x % shape[1] == 0 for y, x in rest)


@pytest.mark.any_order
@pytest.mark.parametrize("side", [4, 8, 14])
def test_centred_spectrum_of_even_maps(side: int) -> None:
    """The figure of the paper takes the diagonal of the centred spectrum from its middle to its end."""
    feature = torch.randn(4, 6, side, side, generator=torch.Generator().manual_seed(side))
    log = (torch.fft.fftshift(torch.fft.fft2(feature.double()), dim=(2, 3)).abs() + 1e-6).log().mean(1)
    diagonal = torch.diagonal(log, dim1=1, dim2=2)[:, side // 2 :]
    zero, plane, _ = log_amplitudes(feature)
    found = plane[:, on_diagonal(side)]
    torch.testing.assert_close(torch.cat([zero, found], 1).double(), diagonal, atol=1e-4, rtol=0)
    shifted = np.fft.fftshift(np.fft.fftfreq(side))[side // 2 :] * 2 * np.pi
    np.testing.assert_allclose(half_diagonal(side, side), shifted, rtol=1e-12)
