from pathlib import Path

import numpy as np
import pytest
import torch

from tests.exams.landscape_cases import images, linear, nudged, tiny_vit, write_run
from vitscope.core.errors import BadResult, VitscopeError
from vitscope.curvature.loss import Penalty
from vitscope.curvature.parameters import moved_parameters
from vitscope.curvature.plane import flat
from vitscope.engine.held_loss import HeldLoss
from vitscope.engine.landscape_axes import checkpoint_series, choose_axes, difference, find_near


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


def test_checkpoints_come_first_then_other_models(tmp_path: Path) -> None:
    model, start, other = tiny_vit(), nudged(tiny_vit(), 0.2, 1), nudged(tiny_vit(), 0.2, 2)
    run = write_run(tmp_path / "run", {"init": (0.0, start), "last": (1.0, model)})
    tensors = {"head.weight": model.head.weight, "head.bias": model.head.bias}
    found = find_near(tensors, run, [other, run])
    assert [(near.name, near.epoch) for near in found] == [
        ("init", 0.0),
        ("last", 1.0),
        ("vit_mini", None),
        ("run", None),
    ]
    expected = [start.head.weight - model.head.weight, start.head.bias - model.head.bias]
    torch.testing.assert_close(found[0].difference, expected)
    assert flat(found[1].difference).abs().max() == 0.0
    torch.testing.assert_close(found[2].difference[0], other.head.weight - model.head.weight)


def test_a_mark_is_the_nearest_point() -> None:
    model = linear()
    other = nudged(model, 0.3, 1)
    near = find_near({"1.weight": model[1].weight}, None, [other])[0]
    first, second = torch.zeros(2, 3, 48).double()
    first[0, 0], second[1, 5] = 1.0, 1.0
    mark = near.mark([[first], [second]])
    step = (other[1].weight - model[1].weight).detach()
    assert (mark.x, mark.y) == pytest.approx((step[0, 0].item(), step[1, 5].item()))
    rest = (step.square().sum() - step[0, 0] ** 2 - step[1, 5] ** 2).sqrt() / step.norm()
    assert mark.off == pytest.approx(rest.item())


def test_weights_of_another_shape_are_refused() -> None:
    own = {"w": torch.zeros(2, 3)}
    with pytest.raises(VitscopeError, match=r"it does not fit the model: 'w' is \(3, 2\), expected \(2, 3\)"):
        difference(own, {"w": torch.zeros(3, 2)}, "it")


def test_one_checkpoint_per_moment_in_the_order_of_the_training(tmp_path: Path) -> None:
    model = tiny_vit()
    moments = {"init": 0.0, "warmup": 0.5, "epoch-001": 1.0, "epoch-002": 2.0, "best": 1.0, "last": 2}
    run = write_run(tmp_path / "run", {name: (epoch, model) for name, epoch in moments.items()})
    names = [checkpoint.name for checkpoint in checkpoint_series(run)]
    assert names == ["init", "warmup", "epoch-001", "epoch-002"]
    chosen = checkpoint_series(run, ["last", "init"])
    assert [(checkpoint.name, checkpoint.epoch) for checkpoint in chosen] == [("init", 0.0), ("last", 2)]
    with pytest.raises(BadResult, match="has no checkpoint 'epoch-009'; it has init, warmup"):
        checkpoint_series(run, ["epoch-009"])


def test_a_run_without_any_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadResult, match="kept no checkpoints; train with: vitscope train"):
        checkpoint_series(tmp_path)
