import pytest
import torch

from tests.curvature.networks import small_vit
from vitscope.curvature.directions import random_directions
from vitscope.curvature.filter_parameters import moved_parameters
from vitscope.curvature.penalty import Penalty
from vitscope.curvature.plane import Plane, PlanePenalty


@pytest.mark.parametrize("convention", ["half_square", "norm"])
@pytest.mark.parametrize("decay_all", [True, False])
def test_the_value_at_a_place_is_that_of_the_moved_weights(convention, decay_all) -> None:
    model, penalty = small_vit(), Penalty(0.3, convention, decay_all)
    moved = moved_parameters(model, (3, 8, 8))
    tensors, directions = [m.parameter for m in moved], random_directions(moved)
    found = PlanePenalty(model, penalty, tensors, directions)
    chosen = [p for p in model.parameters() if decay_all or convention == "norm" or p.ndim > 1]
    if not (decay_all or convention == "norm"):
        spared = {id(model.pos_embed), id(model.cls_token)}  # timm spares them
        chosen = [p for p in chosen if id(p) not in spared]

    def by_hand() -> float:
        norms = torch.stack([p.detach().norm() for p in chosen])
        return float(0.3 * norms.sum() if convention == "norm" else 0.15 * norms.square().sum())

    assert found() == pytest.approx(by_hand(), rel=1e-12)
    with Plane(tensors, directions) as plane:
        plane.move(0.5, -2.0)
        assert found(0.5, -2.0) == pytest.approx(by_hand(), rel=1e-12)


def test_without_weight_decay_it_is_nothing() -> None:
    model = small_vit()
    moved = moved_parameters(model, (3, 8, 8))
    found = PlanePenalty(model, Penalty(0.0), [m.parameter for m in moved], random_directions(moved))
    assert found(1.0, 1.0) == 0.0
