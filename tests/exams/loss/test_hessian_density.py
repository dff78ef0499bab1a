import numpy as np
import pytest

from tests.curvature.networks import batch, known_hessian, small_vit
from vitscope.core.errors import VitscopeError
from vitscope.exams.loss.hessian_density import _result as summarised
from vitscope.exams.loss.hessian_density import hessian_density
from vitscope.findings.hessian_density import HessianDensityResult
from vitscope.results import Result

BATCHES = 8
ABOUT = {
    "model": "m",
    "data": "d",
    "n": 8,
    "seed": 0,
    "batch_size": 1,
    "weight_decay": 0.0,
    "convention": "half_square",
    "decay_all": True,
    "params": "all that learn",
    "parameters": 300,
    "augmentation": "none",
}


@pytest.fixture(scope="module")
def found() -> HessianDensityResult:
    images, targets = batch(6)
    images, labels = (
        images.repeat(BATCHES, 1, 1, 1),
        targets.argmax(1).repeat(BATCHES),
    )  # the same batch every time
    options = {"steps": 30, "batch_size": 6, "batches": BATCHES, "weight_decay": 0.1, "recipe": None}
    return hessian_density(small_vit(), (images, labels), **options)


@pytest.fixture(scope="module")
def eigenvalues() -> np.ndarray:
    return np.linalg.eigvalsh(known_hessian(small_vit, hard=True)) + 0.1


def test_trace(found: HessianDensityResult, eigenvalues: np.ndarray) -> None:
    error = (found.trace.high - found.trace.low) / 2
    assert found.trace.value == pytest.approx(eigenvalues.sum(), abs=2 * error)
    assert 0 < error < 0.5 * np.abs(eigenvalues).sum()


def test_density_and_negative_share(found: HessianDensityResult, eigenvalues: np.ndarray) -> None:
    z = (found.grid[:, None] - eigenvalues) / found.width
    exact = np.exp(-0.5 * z**2).mean(1) / (found.width * np.sqrt(2 * np.pi))
    inside = (found.low - 1e-3 <= exact) & (exact <= found.high + 1e-3)
    assert inside.mean() > 0.9
    assert found.value.sum() * (found.grid[1] - found.grid[0]) == pytest.approx(1.0, rel=0.01)
    exact_share = (eigenvalues < -found.width).mean()
    assert 0.0 <= found.negative.low <= exact_share <= found.negative.high <= 1.0
    assert found.negative.low < found.negative.value < found.negative.high


def gauss(values: np.ndarray, probe: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights by the textbook: Lanczos in the basis of the eigenvectors, orthogonalised in full."""
    basis = [probe / np.linalg.norm(probe)]
    for _ in range(steps - 1):
        new, before = values * basis[-1], np.array(basis)
        for _ in range(2):
            new = new - before.T @ (before @ new)
        basis.append(new / np.linalg.norm(new))
    nodes, vectors = np.linalg.eigh(np.array(basis) @ (values * np.array(basis)).T)
    return nodes, vectors[0] ** 2


def test_the_share_of_negative_eigenvalues_is_covered() -> None:
    """A spectrum with a cluster near 0, as wide networks have: a node there stands for both of its sides."""
    generator = np.random.default_rng(1)
    values = np.concatenate([[40.0, -9.0], generator.normal(0.0, 0.2, 180), generator.normal(0.2, 2.0, 118)])
    turned = np.linalg.qr(generator.normal(size=(300, 300)))[0]
    covered: list[bool] = []
    off: dict[int, list[float]] = {10: [], 20: [], 40: []}
    for _ in range(40):
        for steps, errors in off.items():
            probes = turned @ generator.choice([-1.0, 1.0], (300, BATCHES))
            nodes, weights = map(np.stack, zip(*(gauss(values, p, steps) for p in probes.T), strict=True))
            result = summarised({"nodes": nodes, "weights": weights}, ABOUT)
            truth = float((values < -result.width).mean())
            errors.append(abs(result.negative.value - truth))
            covered.append(0.0 <= result.negative.low <= truth <= result.negative.high <= 1.0)
    assert np.mean(covered) >= 0.95
    assert np.mean(off[40]) < np.mean(off[20]) < np.mean(off[10])


def test_few_negative_eigenvalues_are_covered() -> None:
    """Two of 100: what a probe finds of them is skewed like χ²(2), and probes that find little agree about it."""
    generator = np.random.default_rng(0)
    values = np.concatenate([[-0.8, -0.5], generator.uniform(0.02, 1.0, 98)])
    turned = np.linalg.qr(generator.normal(size=(100, 100)))[0]
    missed = {"too low": 0, "too high": 0}
    for _ in range(100):
        probes = turned @ generator.choice([-1.0, 1.0], (100, 4))
        nodes, weights = map(np.stack, zip(*(gauss(values, p, 20) for p in probes.T), strict=True))
        result = summarised({"nodes": nodes, "weights": weights}, {**ABOUT, "parameters": 100})
        missed["too low"] += result.negative.high < 0.02
        missed["too high"] += result.negative.low > 0.02
    assert sum(missed.values()) <= 0.05 * 100, missed


def test_a_share_that_batches_differ_in_is_covered() -> None:
    """Shares of batches spread like a lognormal: most are small, and a few make up much of their mean."""
    generator, size, share = np.random.default_rng(1), 200, 0.05
    turned = np.linalg.qr(generator.normal(size=(size, size)))[0]
    missed = {"too low": 0, "too high": 0}
    for _ in range(80):
        found = []
        for signs in generator.choice([-1.0, 1.0], (BATCHES, size)):
            below = min(size, generator.poisson(size * share * np.exp(1.2 * generator.normal() - 0.72)))
            spectrum = [generator.uniform(-1.0, -0.2, below), generator.uniform(0.1, 1.0, size - below)]
            found.append(gauss(np.concatenate(spectrum), turned @ signs, 12))
        nodes, weights = map(np.stack, zip(*found, strict=True))
        result = summarised({"nodes": nodes, "weights": weights}, {**ABOUT, "parameters": size})
        missed["too low"] += result.negative.high < share
        missed["too high"] += result.negative.low > share
        assert 0.0 <= result.negative.low <= result.negative.value <= result.negative.high <= 1.0
    assert sum(missed.values()) <= 0.05 * 80, missed


def test_table_and_files(found: HessianDensityResult, tmp_path) -> None:
    table = found.table()
    assert table["quantity"].tolist()[:3] == ["trace", "negative", "density"]
    np.testing.assert_array_equal(table["eigenvalue"][2:], found.grid)
    assert found.summary()["n"].tolist() == [6 * BATCHES, 6 * BATCHES]
    found.save(tmp_path)
    np.testing.assert_array_equal(Result.load(tmp_path).value, found.value)  # type: ignore[attr-defined]


def test_too_few_steps() -> None:
    images, targets = batch(6)
    with pytest.raises(VitscopeError, match="steps is 1; expected at least 2"):
        hessian_density(small_vit(), (images, targets.argmax(1)), steps=1)
