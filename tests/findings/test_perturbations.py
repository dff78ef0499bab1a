import numpy as np
import pytest

from vitscope import plots
from vitscope.core.statistics import Estimate
from vitscope.drawing.figures import new_panel
from vitscope.findings.noise import CLEAN, GAUSSIAN, SHOT, NoiseResult, Perturbation
from vitscope.results.condition_rows import QUANTITIES, ConditionTable


@pytest.fixture
def result() -> NoiseResult:
    accuracy = np.array([0.9, 0.85, 0.8])
    value = np.repeat(accuracy[:, None], len(QUANTITIES), 1)
    drop = 0.9 - accuracy
    return NoiseResult(
        model="m",
        data="d",
        n=50,
        seed=0,
        perturbations=(Perturbation(CLEAN, 0.0), Perturbation(SHOT, 255.0), Perturbation(GAUSSIAN, 5.0)),
        draws=2,
        scores=ConditionTable(50, value, value - 0.02, value + 0.03, Estimate(drop, drop, drop)),
        draw_accuracy=accuracy[:, None] + np.array([-0.01, 0.01]),
        draw_low=accuracy - 0.05,
        draw_high=accuracy + 0.05,
        headlines=(),
    )


def test_points_and_single_draws(result: NoiseResult) -> None:
    ax = plots.noise(result, new_panel())
    assert [tick.get_text() for tick in ax.get_xticklabels()] == ["clean", "shot noise", "Gaussian\nnoise 5"]
    np.testing.assert_allclose(ax.containers[0].lines[0].get_ydata(), [90.0, 85.0, 80.0])
    (dots,) = [line for line in ax.lines if line.get_marker() == "."]
    np.testing.assert_allclose(dots.get_ydata(), [84.0, 86.0, 79.0, 81.0])


def test_several_models_stand_side_by_side(result: NoiseResult) -> None:
    ax = plots.plot_perturbations([result, result], new_panel())
    first, second = (container.lines[0].get_xdata() for container in ax.containers)
    assert (np.asarray(second) > np.asarray(first)).all()
    assert ax.get_legend() is not None
