import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch

import vitscope as vs
from tests.curvature.networks import batch, small_vit
from vitscope.core.errors import BadResult, VitscopeError
from vitscope.exams.loss.hessian import hessian
from vitscope.exams.loss.hessian_training import hessian_training, log_log_slope
from vitscope.findings.hessian import HessianResult
from vitscope.findings.hessian_training import HessianTrainingResult
from vitscope.results import Result


@pytest.fixture(scope="module")
def spectrum() -> HessianResult:
    images, targets = batch(8)
    return hessian(small_vit(), (images, targets.argmax(1)), k=3, batch_size=4, batches=2)


def series(
    spectrum: HessianResult, sizes: list[float], exponent: float, batches: int, seed: int
) -> list[HessianResult]:
    generator = np.random.default_rng(seed)
    shape = generator.uniform(5, 15, (len(sizes), batches, 3)) * np.array([1, 1, -1])
    scale = np.array(sizes)[:, None, None] ** exponent
    return [dataclasses.replace(spectrum, eigenvalues=values, seed=seed) for values in shape * scale]


def test_an_exact_power_law_is_found(spectrum: HessianResult) -> None:
    sizes = [1.0, 2.0, 4.0, 8.0]
    same = np.array([[3.0, 2.0, -1.0], [4.0, -2.0, 1.0]])
    results = [dataclasses.replace(spectrum, eigenvalues=same * size**-0.5) for size in sizes]
    slope = log_log_slope(sizes, results)
    assert slope.value == pytest.approx(-0.5)
    assert np.exp(slope.intercept) == pytest.approx((3 + 2 + 4 + 1) / 4)
    assert slope.n == 4
    assert log_log_slope(sizes, results, "nep").value == pytest.approx(0.0, abs=1e-12)


def test_its_interval_holds_the_truth_most_of_the_time_and_shrinks_with_batches(
    spectrum: HessianResult,
) -> None:
    sizes = [3.0, 6.0, 12.0]
    slopes = [log_log_slope(sizes, series(spectrum, sizes, -0.7, 40, seed)) for seed in range(40)]
    held = [slope.low <= -0.7 <= slope.high for slope in slopes]
    assert np.mean(held) >= 0.85  # 95 % of 40 is 38; 33 or fewer happen once in 25,000 times
    many = log_log_slope(sizes, series(spectrum, sizes, -0.7, 640, 0))
    assert (many.high - many.low) == pytest.approx(np.mean([s.high - s.low for s in slopes]) / 4, rel=0.2)


def test_what_has_no_logarithm_is_refused(spectrum: HessianResult) -> None:
    convex = dataclasses.replace(spectrum, eigenvalues=np.ones((2, 3)), model="convex one")
    with pytest.raises(VitscopeError, match="the nep of convex one is 0"):
        log_log_slope([1.0, 2.0], [convex, convex], "nep")
    with pytest.raises(VitscopeError, match="expected two or more, a positive size for each"):
        log_log_slope([2.0, 2.0], [convex, convex])
    with pytest.raises(VitscopeError, match="1 sizes"):
        log_log_slope([1.0], [convex, convex])


def test_over_the_checkpoints_of_a_training(tmp_path: Path) -> None:
    data = vs.load_data("fashion", split="train").subset(np.arange(64))
    torch.manual_seed(0)
    model = vs.create_model("vit_mini", depth=1, embed_dim=12, num_heads=2, patch_size=8)
    run, held_out = tmp_path / "run", vs.load_data("fashion", split="test").subset(np.arange(32))
    options = {"epochs": 2, "batch_size": 32, "checkpoint_every": 1, "workers": 0, "progress": False}
    vs.train(model, data, "mini", run, held_out=held_out, **options)
    found = hessian_training(
        run, data, k=2, batch_size=4, batches=2, checkpoints=["init", "epoch-001", "last"]
    )
    assert found.checkpoints == ("init", "epoch-001", "last")
    assert found.epochs == (0.0, 1.0, 2.0)
    table = found.summary()
    assert table[table["quantity"] == "ape"]["checkpoint"].tolist() == ["init", "epoch-001", "last"]
    assert len({spectrum.eigenvalues[0, 0] for spectrum in found.spectra}) == 3
    found.save(tmp_path / "saved")
    loaded = Result.load(tmp_path / "saved")
    assert isinstance(loaded, HessianTrainingResult)
    np.testing.assert_array_equal(loaded.spectra[2].eigenvalues, found.spectra[2].eigenvalues)
    with pytest.raises(BadResult, match="kept no checkpoints"):
        hessian_training(tmp_path / "saved", data)
