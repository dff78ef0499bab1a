from pathlib import Path

import pytest
import torch

from tests.exams.landscape_cases import linear, nudged, tiny_vit, write_run
from vitscope.core.errors import VitscopeError
from vitscope.curvature.plane import flat
from vitscope.engine.loss.landscape_axes import difference, find_near


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
