from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import gaussian_kde

from vitscope import plots
from vitscope.core.statistics import Estimate
from vitscope.drawing.figures import new_panel
from vitscope.drawing.style import styled
from vitscope.exams.loss.hessian_training import log_log_slope
from vitscope.findings.hessian import HessianResult
from vitscope.findings.hessian_density import HessianDensityResult
from vitscope.findings.hessian_training import HessianTrainingResult
from vitscope.results.loss_numbers import summed_up

ABOUT = {"data": "d", "n": 64, "seed": 0, "batch_size": 16, "weight_decay": 0.05, "convention": "half_square"}
ABOUT |= {"decay_all": True, "params": "all that learn", "parameters": 1000, "augmentation": "hdv"}


def spectrum(name: str = "m", negative: bool = True) -> HessianResult:
    values = np.random.default_rng(0).uniform(10, 50, (4, 5)) * np.where(np.arange(5) < 2 * negative, -1, 1)
    return HessianResult(
        **ABOUT,
        **summed_up(values, 0),
        model=name,
        eigenvalues=values,
        residuals=np.full((4, 5), 1e-4),
        converged=np.ones((4, 5), dtype=bool),
        products=np.full(4, 20),
        nll=np.ones(4),
        l2=np.ones(4),
        mode="lanczos",
        tol=1e-3,
    )


def density() -> HessianDensityResult:
    grid = np.linspace(-10, 50, 301)
    value = np.exp(-0.5 * grid**2)
    return HessianDensityResult(
        **ABOUT,
        model="m",
        grid=grid,
        value=value,
        low=0.5 * value,
        high=2 * value,
        nodes=np.zeros((2, 3)),
        weights=np.full((2, 3), 1 / 3),
        width=0.6,
        trace=Estimate(12.0, 10.0, 14.0),
        negative=Estimate(0.1, 0.0, 0.2),
    )


def drawn(draw, *args, **kwargs):
    with styled():
        return draw(*args, ax=new_panel(), **kwargs)


def test_a_density_per_sign_that_integrates_to_one() -> None:
    ax = drawn(plots.plot_hessian, spectrum())
    x, y = ax.lines[0].get_data()
    assert np.trapezoid(y, x) == pytest.approx(1.0, abs=0.01)
    below = x < 0
    assert np.trapezoid(y[below], x[below]) == pytest.approx(spectrum().nep, abs=0.01)
    convex = drawn(plots.plot_hessian, spectrum(negative=False))
    assert convex.lines[0].get_xdata().min() >= 0.0


def test_each_side_is_the_density_that_scipy_estimates_of_it_and_its_mirror_image() -> None:
    result = spectrum()
    ax = drawn(plots.plot_hessian, result)
    x, y = ax.lines[0].get_data()
    values = result.eigenvalues.ravel()
    for sign in (-1, 1):
        side = values[np.sign(values) == sign]
        mirrored = np.concatenate([side, -side])
        spread = min(side.std(), np.diff(np.percentile(side, [25, 75]))[0] / 1.349)
        width = 0.9 * spread * len(side) ** -0.2
        expected = gaussian_kde(mirrored, width / mirrored.std(ddof=1))
        drawn_there = x * sign > 0
        np.testing.assert_allclose(
            y[drawn_there], expected(x[drawn_there]) * len(mirrored) / len(values), rtol=0, atol=1e-12
        )


def test_marks_and_legend_of_several_models() -> None:
    results = [spectrum("first"), spectrum("second", negative=False)]
    ax = drawn(plots.plot_hessian_spectra, results)
    labels = [text.get_text() for text in ax.get_legend().get_texts()]
    assert labels[0].startswith("first: NEP 40 % [")
    assert labels[1].startswith("second: NEP 0 % [")
    marks = [np.sort(line.get_xdata()) for line in ax.lines if line.get_marker() == "|"]
    np.testing.assert_array_equal(marks[0], np.sort(results[0].eigenvalues.ravel()))
    assert (np.array(ax.get_yticks()) >= 0).all()
    top = 5 * ax.get_ylim()[1]
    ax.set_ylim(top=top)  # as beside a model with a higher density
    assert 0.7 * top < max(tick for tick in ax.get_yticks() if tick <= top)


def test_what_did_not_converge_is_crossed_and_counted() -> None:
    converged = np.ones((4, 5), dtype=bool)
    converged[1, 3] = False
    result = replace(spectrum(), converged=converged)
    ax = drawn(plots.plot_hessian, result)
    crosses = next(line for line in ax.lines if line.get_marker() == "x")
    assert crosses.get_xdata().tolist() == [result.eigenvalues[1, 3]]
    assert "1 of 20 not converged" in ax.get_legend().get_texts()[0].get_text()


def test_equal_and_single_eigenvalues_can_be_drawn() -> None:
    drawn(plots.plot_hessian, replace(spectrum(), eigenvalues=np.full((4, 5), 7.0)))
    drawn(plots.plot_hessian, replace(spectrum(), eigenvalues=np.zeros((4, 5))))
    one = np.array([[-3.0]])
    drawn(plots.plot_hessian, replace(spectrum(), eigenvalues=one, converged=np.array([[True]])))


def test_density_of_all_eigenvalues() -> None:
    ax = drawn(plots.plot_hessian_density, density())
    assert ax.get_yscale() == "log"
    assert [text.get_text() for text in ax.texts] == ["trace 12 [10, 14]"]
    y = ax.lines[0].get_ydata()
    assert np.nanmin(y) > 1 / (1000 * 0.6)


def test_over_training() -> None:
    spectra = (spectrum(), spectrum(negative=False))
    common = {"model": "run", "data": "d", "n": 64, "seed": 0}
    result = HessianTrainingResult(**common, checkpoints=("init", "last"), epochs=(0.0, 3.0), spectra=spectra)
    ax = drawn(plots.plot_hessian_training, result)
    np.testing.assert_allclose(ax.lines[0].get_ydata(), [0.4, 0.0])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["NEP", "APE"]


def test_power_law() -> None:
    sizes = [1.0, 2.0, 4.0]
    results = [replace(spectrum(), eigenvalues=spectrum().eigenvalues * size**-0.5) for size in sizes]
    results = [replace(r, **summed_up(r.eigenvalues, 0)) for r in results]
    ax = drawn(plots.plot_hessian_slope, sizes, results, log_log_slope(sizes, results))
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_legend().get_texts()[0].get_text().startswith("slope -0.50 [")
    fit = next(line for line in ax.lines if line.get_linestyle() == "--")
    np.testing.assert_allclose(fit.get_ydata(), [results[0].ape, results[2].ape], rtol=1e-6)
