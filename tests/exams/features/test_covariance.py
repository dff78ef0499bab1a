"""The covariance exam against the closed form of one convolution, numpy, and maps of known reach."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import vitscope as vs
from tests.exams.attention_by_hand import vit_maps
from tests.exams.every_exam import OPTIONS
from vitscope.core.errors import VitscopeError
from vitscope.exams import covariance
from vitscope.exams.features.covariance import GROUP, _correlation, _jackknife, centre_covariance, distances
from vitscope.findings.covariance import CovarianceResult
from vitscope.results import Result

DRAWS = OPTIONS["covariance"]["draws"]
DATA = (torch.zeros(4, 3, 13, 17), torch.zeros(4, dtype=torch.long))


class Convolutions(nn.Module):
    """Convolutions one after the other, each of them a residual unit if it is not the first."""

    def __init__(self, *kernels: Tensor) -> None:
        super().__init__()
        layers = []
        for kernel in kernels:
            out, given, size, _ = kernel.shape
            layers.append(nn.Conv2d(given, out, size, padding=size // 2, bias=False))
            layers[-1].weight = nn.Parameter(kernel)
        self.layers = nn.ModuleList(layers)
        self.head = nn.Linear(out, 2)

    def forward(self, x: Tensor) -> Tensor:
        x = self.layers[0](x)
        for layer in self.layers[1:]:
            x = x + layer(x)
        return self.head(x.mean((2, 3)))


def autocorrelation(kernel: np.ndarray) -> dict[tuple[int, int], float]:
    """By displacement, sum over taps of k(t) k(t + d), averaged over output channels."""
    size = kernel.shape[-1]
    found = {}
    for dy in range(-size + 1, size):
        for dx in range(-size + 1, size):
            total = 0.0
            for y in range(max(0, -dy), min(size, size - dy)):
                for x in range(max(0, -dx), min(size, size - dx)):
                    total += float((kernel[:, :, y, x] * kernel[:, :, y + dy, x + dx]).sum())
            found[dy, dx] = total / kernel.shape[0]
    return found


def expected_table(model: nn.Module, _: Tensor, __: Tensor) -> dict[tuple[str, str], list[float]]:
    groups = [
        torch.randn(8, 3, 32, 32, generator=torch.Generator().manual_seed(g)) for g in range(DRAWS // 8)
    ]
    maps = [vit_maps(model, noise.double()) for noise in groups]
    y, x = np.divmod(np.arange(16), 4)
    ring, found = np.maximum(np.abs(y - 2), np.abs(x - 2)), {}
    for unit in maps[0]:
        points = [own[unit].flatten(2).numpy() for own in maps]  # (images, channels, points)
        mean = sum(np.einsum("ncp,ncq->pq", p - p.mean(0), p - p.mean(0)) for p in points)
        correlation = mean[10] / np.sqrt(mean[10, 10] * np.diag(mean))
        found["correlation", unit] = [correlation[ring == radius].mean() for radius in range(3)]
    return found


def test_one_convolution_is_its_kernels_autocorrelation() -> None:
    kernel = torch.randn(16, 3, 3, 3, generator=torch.Generator().manual_seed(1)) + 0.3
    result = covariance(Convolutions(kernel), DATA, draws=4096)
    assert (result.n, [u.map_shape for u in result.units]) == (4096, [(16, 13, 17)])
    expected = np.zeros((13, 17))
    for (dy, dx), value in autocorrelation(kernel.double().numpy()).items():
        expected[6 + dy, 8 + dx] = value
    error = np.abs(result.covariance_map(0) - expected) / expected[6, 8]
    assert error.max() < 0.03
    assert np.abs(expected).max() == expected[6, 8]
    far = (result.row_unit == 0) & (result.radius >= 3)
    assert (np.abs(result.value[far]) < 0.01).all()  # three points away nothing is shared
    near = result.radius == 1
    ring = [expected[6 + dy, 8 + dx] for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]
    assert result.value[near][0] == pytest.approx(np.mean(ring) / expected[6, 8], abs=0.01)
    assert result.low[near][0] < np.mean(ring) / expected[6, 8] < result.high[near][0]


def test_a_deeper_unit_reaches_further() -> None:
    generator = torch.Generator().manual_seed(2)
    kernels = [torch.rand(4, given, 3, 3, generator=generator) for given in (3, 4, 4)]
    table = covariance(Convolutions(*kernels), DATA, draws=256).table()
    by_unit = [rows.set_index("radius")["value"] for _, rows in table.groupby("unit", sort=False)]
    assert len(by_unit) == 3
    for shallow, deep in pairwise(by_unit):
        assert deep[1] > shallow[1]
        assert deep[3] > shallow[3] + 0.1


def test_centre_covariance_equals_numpy() -> None:
    feature = torch.randn(6, 5, 4, 3)
    found = centre_covariance(feature, group=3).numpy()
    for g in range(2):
        maps = feature[3 * g : 3 * g + 3].double().numpy()
        for p in range(12):
            y, x = divmod(p, 3)
            pairs = [
                np.cov(maps[:, c, y, x], maps[:, c, 2, 1]) for c in range(5)
            ]  # the centre is row 2, column 1
            assert found[g, 0, p] == pytest.approx(np.mean([m[0, 1] for m in pairs]), rel=1e-4, abs=1e-6)
            assert found[g, 1, p] == pytest.approx(np.mean([m[0, 0] for m in pairs]), rel=1e-4)


def test_distances_of_even_and_odd_maps() -> None:
    np.testing.assert_array_equal(distances(3, 4).reshape(3, 4), [[2, 1, 1, 1], [2, 1, 0, 1], [2, 1, 1, 1]])
    np.testing.assert_array_equal(distances(1, 1), [0])


def test_jackknife_of_a_mean_is_the_standard_error() -> None:
    groups = np.random.default_rng(0).normal(size=(40, 3))
    value, half = _jackknife(lambda mean: mean, groups)
    np.testing.assert_allclose(value, groups.mean(0))
    np.testing.assert_allclose(half, 2.022691 * groups.std(0, ddof=1) / np.sqrt(40), rtol=1e-3)


def test_tokens_and_windows(small_vit: nn.Module) -> None:
    data = (torch.zeros(2, 3, 32, 32), torch.zeros(2, dtype=torch.long))
    result = covariance(small_vit, data, draws=64)
    assert [u.kind for u in result.units] == ["stem", "msa", "mlp", "msa", "mlp"]
    assert (result.stride == 4.0).all()
    at_centre = result.radius == 0
    np.testing.assert_allclose(result.value[at_centre], 1.0, rtol=1e-5)
    assert (result.high >= result.low).all()
    assert list(result.summary()["pixels"]) == [4.0] * 5


def test_the_seed_decides() -> None:
    model = Convolutions(torch.randn(4, 3, 3, 3, generator=torch.Generator().manual_seed(3)))
    first, other = (covariance(model, DATA, draws=64, seed=seed) for seed in (0, 1))
    assert (first.value != other.value).any()
    assert covariance(model, DATA, limit=40).n == 40
    assert covariance(model, DATA, limit=4).n == 2 * GROUP


def test_kept_and_loaded(tmp_path: Path) -> None:
    model = Convolutions(torch.randn(4, 3, 3, 3))
    vs.diagnose(model, DATA, ["covariance"], limit=16, out=tmp_path)
    folder = tmp_path / "exams" / "covariance"
    again = Result.load(folder)
    assert isinstance(again, CovarianceResult)
    assert again.correlation_map(0).shape == (13, 17)
    assert again.correlation_map(0)[6, 8] == pytest.approx(1.0)
    assert len((folder / "covariance_map.csv").read_text().splitlines()) == 1 + 13 * 17
    assert (tmp_path / "figures" / "covariance_maps.png").exists()


def test_too_few_draws_are_refused() -> None:
    with pytest.raises(VitscopeError, match="draws is 8"):
        covariance(Convolutions(torch.randn(4, 3, 3, 3)), DATA, draws=8)


def test_points_that_are_the_centre_but_for_rounding_have_correlation_one() -> None:
    covariance, variance = [0.3, 0.3 * (1 + 2e-8), -0.3 * (1 + 2e-8)], [0.3, 0.3, 0.3]
    found = _correlation(np.array([covariance, variance]), np.zeros(3, dtype=np.int64))
    np.testing.assert_array_equal(found, [1.0, 1.0, -1.0])
