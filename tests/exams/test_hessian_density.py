import numpy as np
import pytest

from tests.curvature.networks import batch, known_hessian, small_vit
from vitscope.errors import VitscopeError
from vitscope.exams.hessian_density import HessianDensityResult, hessian_density
from vitscope.results import Result

BATCHES = 8


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
    error = (found.trace_high - found.trace_low) / 2
    assert found.trace == pytest.approx(eigenvalues.sum(), abs=2 * error)
    assert 0 < error < 0.5 * np.abs(eigenvalues).sum()


def test_density_and_negative_share(found: HessianDensityResult, eigenvalues: np.ndarray) -> None:
    z = (found.grid[:, None] - eigenvalues) / found.width
    exact = np.exp(-0.5 * z**2).mean(1) / (found.width * np.sqrt(2 * np.pi))
    inside = (found.low - 1e-3 <= exact) & (exact <= found.high + 1e-3)
    assert inside.mean() > 0.9
    assert found.value.sum() * (found.grid[1] - found.grid[0]) == pytest.approx(1.0, rel=0.01)
    exact_share = (eigenvalues < -found.width).mean()
    assert found.negative == pytest.approx(exact_share, abs=(found.negative_high - found.negative_low))


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
