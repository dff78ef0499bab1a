import numpy as np
import pytest

from tests.exams.landscape_cases import images, linear, nudged
from vitscope.curvature.loss import Penalty
from vitscope.curvature.parameters import moved_parameters
from vitscope.engine.loss.landscape_axes import choose_axes, find_near
from vitscope.engine.loss.landscape_passes import HeldLoss


def axes(directions, span=None, points=5):
    model = linear()
    moved = moved_parameters(model, (3, 4, 4))
    near = find_near({m.name: m.parameter for m in moved}, None, [nudged(model, 0.2, s) for s in (1, 2, 3)])
    loss = HeldLoss(model, images(), None, 6, None, "kept", 0)
    return near, choose_axes(model, directions, "filter", moved, near, loss, Penalty(), span, points, 0)


def test_random_and_steepest_directions_reach_equally_far_on_all_sides() -> None:
    for directions in ("random", "hessian"):
        _, found = axes(directions, span=0.5)
        np.testing.assert_allclose(found.x, [-0.5, -0.25, 0.0, 0.25, 0.5])
        np.testing.assert_allclose(found.y, found.x)
        assert np.isfinite(found.eigenvalues).all() == (directions == "hessian")
    np.testing.assert_allclose(axes("random")[1].x[[0, -1]], [-1.0, 1.0])


def test_the_plane_of_other_models_reaches_beyond_them() -> None:
    near, found = axes("pca")
    marks = [one.mark(found.directions) for one in near]
    for values, grid in (([m.x for m in marks], found.x), ([m.y for m in marks], found.y)):
        low, high = min(0.0, *values), max(0.0, *values)
        assert grid[0] == pytest.approx(low - 0.25 * (high - low))
        assert grid[-1] == pytest.approx(high + 0.25 * (high - low))
        assert len(grid) == 5
    assert 0.0 < found.explained[1] <= found.explained[0] < 1.0
    np.testing.assert_allclose(axes("pca", span=2.0)[1].y, [-2, -1, 0, 1, 2])
