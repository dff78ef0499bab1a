"""Directions, the plane they span, and the l2 term on it."""

import numpy as np
import pytest
import torch
from torch import nn

from tests.curvature.networks import batch, conv_net, dense_hessian, largest, small_vit
from vitscope.core.errors import VitscopeError
from vitscope.curvature.loss import CrossEntropy, Penalty
from vitscope.curvature.parameters import Moved, moved_parameters
from vitscope.curvature.plane import (
    Plane,
    PlanePenalty,
    coordinates,
    eigen_directions,
    flat,
    principal_directions,
    random_directions,
    shaped,
)


@pytest.fixture(scope="module")
def moved() -> list[Moved]:
    return moved_parameters(conv_net(), (3, 8, 8))


def test_every_filter_has_the_norm_of_the_weights(moved: list[Moved]) -> None:
    for direction in random_directions(moved):
        for m, d in zip(moved, direction, strict=True):
            own, drawn = (t.detach().numpy().reshape(len(t), -1) for t in (m.parameter, d))
            np.testing.assert_allclose(np.linalg.norm(drawn, axis=1), np.linalg.norm(own, axis=1), rtol=1e-12)
            aligned = (own * drawn).sum(1) / (own**2).sum(1)
            assert np.abs(aligned).max() < 0.9  # a direction of its own


def test_a_filter_of_zeros_is_not_moved() -> None:
    model = conv_net()
    with torch.no_grad():
        model[8].weight[1] = 0.0
    head = random_directions(moved_parameters(model, (3, 8, 8)))[0][-1]
    assert head[1].abs().max() == 0.0
    assert head[0].abs().min() > 0.0


def test_the_published_form_is_over_the_first_axis(moved: list[Moved]) -> None:
    plain = torch.Generator().manual_seed(5)
    for direction in random_directions(moved, seed=5, normalisation="dim0"):
        for m, d in zip(moved, direction, strict=True):
            w = m.parameter.detach().numpy()
            drawn = torch.randn(m.parameter.shape, generator=plain).double().numpy()
            ratio = np.sqrt((w**2).sum(0, keepdims=True)) / np.sqrt((drawn**2).sum(0, keepdims=True))
            np.testing.assert_allclose(d.numpy(), ratio * drawn, rtol=1e-9)
    with pytest.raises(VitscopeError, match="normalisation is 'none'; expected filter or dim0"):
        random_directions(moved, normalisation="none")  # type: ignore[arg-type]


def test_the_draw_depends_on_the_seed_alone(moved: list[Moved]) -> None:
    single = conv_net().float().to(memory_format=torch.channels_last)
    again = random_directions(moved_parameters(single, (3, 8, 8)), seed=3)
    for one, other in zip(random_directions(moved, seed=3), again, strict=True):
        for a, b in zip(one, other, strict=True):
            torch.testing.assert_close(a.float(), b, rtol=1e-5, atol=1e-6)
    assert again[0][0].is_contiguous(memory_format=torch.channels_last)
    assert not torch.equal(random_directions(moved, seed=4)[0][0], random_directions(moved, seed=3)[0][0])


def test_principal_directions_are_right_singular_vectors() -> None:
    generator = torch.Generator().manual_seed(0)
    scale = torch.tensor([3.0, 2.0, 1.0, 0.5]).double()[:, None]
    rows = scale * torch.randn(4, 50, generator=generator, dtype=torch.float64)
    like = [torch.zeros(4, 5).double(), torch.zeros(30).double()]
    found = principal_directions([shaped(row, like) for row in rows])
    _, singular, right = np.linalg.svd(rows.numpy(), full_matrices=False)
    for place, direction in enumerate(found.directions):
        vector = flat(direction).numpy()
        expected = right[place] * np.sign(right[place] @ rows[0].numpy())
        np.testing.assert_allclose(vector, expected, atol=1e-10)
        assert found.explained[place] == pytest.approx(singular[place] ** 2 / (singular**2).sum())


def test_the_plane_of_two_others_goes_through_both() -> None:
    generator = torch.Generator().manual_seed(0)
    rows = [[torch.randn(6, 4, generator=generator), torch.randn(5, generator=generator)] for _ in range(2)]
    plane = principal_directions(rows)
    assert sum(plane.explained) == pytest.approx(1.0)
    for row in rows:
        place, off = coordinates(row, plane.directions)
        assert off < 1e-5
        back = sum(c * flat(d) for c, d in zip(place, plane.directions, strict=True))
        torch.testing.assert_close(back, flat(row), rtol=1e-4, atol=1e-5)


def test_coordinates_along_oblique_directions_are_those_of_least_squares() -> None:
    generator = torch.Generator().manual_seed(0)
    a, b, other = torch.randn(3, 20, generator=generator, dtype=torch.float64)
    place, off = coordinates([other], [[a], [a + 0.3 * b]])
    basis = np.stack([a.numpy(), (a + 0.3 * b).numpy()], axis=1)
    expected, residual, *_ = np.linalg.lstsq(basis, other.numpy(), rcond=None)
    np.testing.assert_allclose(place, expected, rtol=1e-9)
    assert off == pytest.approx(float(np.sqrt(residual[0])) / float(other.norm()))
    assert coordinates([torch.zeros(20).double()], [[a], [b]]) == ((0.0, 0.0), 0.0)


def test_what_spans_no_plane_is_refused() -> None:
    one = [torch.ones(3)]
    with pytest.raises(VitscopeError, match="needs two other models beside the centre, there are 1"):
        principal_directions([one])
    with pytest.raises(VitscopeError, match="the 2 models lie on one line through the centre"):
        principal_directions([one, [2.0 * one[0]]])


def test_eigenvectors_are_those_of_the_dense_hessian_over_what_is_moved() -> None:
    model, (images, targets) = small_vit(), batch()
    moved = moved_parameters(model, (3, 8, 8))
    directions, found = eigen_directions(
        model, CrossEntropy(images, targets), moved, Penalty(0.1, decay_all=True)
    )
    dense = dense_hessian(model, images, targets, {m.name: m.parameter for m in moved})
    dense += 0.1 * np.eye(len(dense))
    np.testing.assert_allclose(found.values, largest(dense, 2), rtol=1e-3)
    for value, direction in zip(found.values, directions, strict=True):
        v = flat(direction).numpy()
        assert np.linalg.norm(v) == pytest.approx(1.0)
        assert np.linalg.norm(dense @ v - value * v) <= 0.02 * abs(value)


def directions(tensors: list[torch.Tensor], count: int) -> list[list[torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [[torch.randn(t.shape, generator=generator) for t in tensors] for _ in range(count)]


def test_places_are_sums_and_do_not_depend_on_the_way() -> None:
    model = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 2))
    tensors = list(model.parameters())
    own = [t.detach().clone() for t in tensors]
    a, b = directions(tensors, 2)
    with Plane(tensors, [a, b]) as plane:
        plane.move(0.25, -0.75)
        direct = [t.detach().clone() for t in tensors]
        for t, w, x, y in zip(direct, own, a, b, strict=True):
            expected = w.double() + 0.25 * x.double() - 0.75 * y.double()
            torch.testing.assert_close(t.double(), expected, rtol=0, atol=1e-6)
        for place in ((1e4, 3.0), (-7.0,), (0.25, -0.75)):
            plane.move(*place)
        assert all(torch.equal(t, d) for t, d in zip(tensors, direct, strict=True))
        plane.move()
        assert all(torch.equal(t, w) for t, w in zip(tensors, own, strict=True))


def test_the_model_gets_its_own_tensors_back_also_after_an_interruption() -> None:
    model = nn.Linear(3, 4)
    tensors = list(model.parameters())
    places, own = [t.data_ptr() for t in tensors], [t.detach().clone() for t in tensors]

    def interrupted() -> None:
        with Plane(tensors, directions(tensors, 1)) as plane:
            plane.move(3.0)
            assert not torch.equal(model.weight, own[0])
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [t.data_ptr() for t in tensors] == places
    assert all(torch.equal(t, w) for t, w in zip(tensors, own, strict=True))


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
